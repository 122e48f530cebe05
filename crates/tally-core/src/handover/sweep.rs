//! A sweep goes through all bundles that a place knows, some in each turn, and has those moved that belong elsewhere.
//! So a bundle moves too that no call needs.
//!
//! Invariant: a sweep ends only after a pass in which every bundle was where it belongs, or moved there. A bundle that
//! does not move delays no other: after the last one, the sweep begins again. If the layout changes, the sweep begins
//! anew, and the turn that was under way is not recorded. The progress is recorded after a turn, so a restart repeats
//! that turn.
//!
//! `tests/laws/sweep.rs` goes through all interleavings of this code.

use serde::{Deserialize, Serialize};

use super::Holding;

/// How fast a sweep goes.
#[derive(Clone, Copy, Debug)]
pub struct SweepPace {
    /// The most bundles of a turn.
    pub bundles_at_once: u32,
    /// How long the first turn waits, milliseconds: bundles that get calls move by themselves.
    pub begin_ms: i64,
    /// The time between two turns, milliseconds.
    pub next_ms: i64,
    /// The time before another pass, if a bundle did not move, milliseconds.
    pub again_ms: i64,
}

/// The progress of a sweep. `C` is a position among the bundles. Stored.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Sweep<C> {
    /// The position of the last bundle of the turn before.
    after: Option<C>,
    /// Whether a bundle before that did not move.
    has_left: bool,
    /// The time of the next turn, unix milliseconds.
    next_ms: i64,
}

/// What a turn did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SweepTurn<C> {
    /// The position of its last bundle; `None` if there was no bundle after the turn before.
    pub last: Option<C>,
    /// Whether a bundle did not move.
    pub has_left: bool,
}

/// What a place does about a bundle that its sweep comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SweepStep {
    /// Nothing.
    Stay,
    /// It belongs here, and is sealed for another place that may never take it: this place searches for it.
    Search,
    /// It belongs elsewhere: that place is asked to take it.
    Move,
}

impl<P, V> Holding<P, V> {
    /// What a place does about a bundle. `is_mine`: it belongs here.
    pub fn swept(&self, is_mine: bool) -> SweepStep {
        match self {
            _ if !is_mine => SweepStep::Move,
            Self::Sealed(_) => SweepStep::Search,
            Self::Nothing | Self::Here { .. } => SweepStep::Stay,
        }
    }
}

impl<C: Clone + PartialEq> Sweep<C> {
    /// A sweep that begins.
    pub fn begin(pace: &SweepPace, now_ms: i64) -> Self {
        Self::from_start(now_ms.saturating_add(pace.begin_ms))
    }

    fn from_start(next_ms: i64) -> Self {
        Self {
            after: None,
            has_left: false,
            next_ms,
        }
    }

    /// The position after which the next turn begins; `None` for the first bundle.
    pub fn after(&self) -> Option<&C> {
        self.after.as_ref()
    }

    /// The time of the next turn, unix milliseconds.
    pub fn next_ms(&self) -> i64 {
        self.next_ms
    }

    /// The sweep after a turn that began with `self`. `current` is the one that is under way now: if another one has
    /// begun meanwhile, the turn has no effect. `None` once all bundles are where they belong.
    pub fn turned(
        &self,
        current: Option<&Self>,
        turn: SweepTurn<C>,
        pace: &SweepPace,
        now_ms: i64,
    ) -> Option<Self> {
        if current != Some(self) {
            return current.cloned();
        }
        let has_left = self.has_left || turn.has_left;
        match (turn.last, has_left) {
            (None, false) => None,
            (None, true) => Some(Self::from_start(now_ms.saturating_add(pace.again_ms))),
            (after, has_left) => Some(Self {
                after,
                has_left,
                next_ms: now_ms.saturating_add(pace.next_ms),
            }),
        }
    }
}
