//! How members go from all objects of one layout to all objects of the next while they are in use, as boards do it. One
//! owner orders each step. Its moves have numbers that rise, and the number of a move is its seal.
//!
//! Invariant: one layout is in use. The owner begins the next one in one commit, after all [`CopySource`]s are sealed
//! and what has changed until then is copied. The same commit records the debt: objects of the former layout are to
//! delete what they have. A move that fails before that commit is cancelled, and its targets are the debt. A source
//! answers no message of a move that was cancelled there, and a [`CopyTarget`] stores no message that comes after a
//! later one.
//!
//! Life: each source begins to note what changes ([`CopySource::track`]), and gives its members page by page
//! ([`CopySource::gives`]), then those that have changed. The owner seals all sources, and copies the last changes. A
//! source decides as any [`giver`] does: a copy is given under one number, as often as the owner asks.
//!
//! `tests/laws/copies.rs` goes through all interleavings of this code.

use serde::{Deserialize, Serialize};

use super::giver::{self, Given, GiverRequest};
use super::{Holding, IfNowhere, Sealed};

/// The moves of an owner. `L` is a layout. Stored.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CopyOwner<L> {
    /// The highest number that a layout has had.
    newest: u64,
    /// The layout to which members are being moved.
    moving: Option<L>,
    /// Ended or cancelled layouts whose objects may still have members. The owner makes them delete those.
    debts: Vec<L>,
}

/// What a source knows of moves. Stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CopySource {
    /// The move for which it notes changes, and the move that has sealed it; 0 for none.
    noting: u64,
    sealed: u64,
    /// No move up to this number may begin.
    cancelled: u64,
}

/// What a target knows of the move in which it receives members. In memory only: a crash cancels the move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CopyTarget {
    number: u64,
    /// The number of the last message with members that was stored.
    turn: u64,
}

/// What a target does with members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// It stores them.
    New,
    /// Nothing: it has stored these, or later ones.
    Known,
    /// It refuses: the move is over, or was begun before a crash.
    Lost,
}

impl<L> Default for CopyOwner<L> {
    fn default() -> Self {
        Self {
            newest: 0,
            moving: None,
            debts: Vec::new(),
        }
    }
}

impl<L: Copy + PartialEq> CopyOwner<L> {
    /// Begins a move to a layout of the next number.
    pub fn begin(&mut self, layout: impl FnOnce(u64) -> L) -> L {
        self.newest += 1;
        let to = layout(self.newest);
        self.moving = Some(to);
        to
    }

    /// The layout to which members are being moved.
    pub fn moving(&self) -> Option<L> {
        self.moving
    }

    /// Cancels a move, once all sources know it.
    pub fn cancel(&mut self, to: L) {
        if self.moving == Some(to) {
            self.moving = None;
            self.debts.push(to);
        }
    }

    /// Ends a move: its layout is in use. `from`: the former one, if it had objects of its own. Returns whether the
    /// move was still under way.
    pub fn arrive(&mut self, to: L, from: Option<L>) -> bool {
        let is_moving = self.moving == Some(to);
        if is_moving {
            self.moving = None;
            self.debts.extend(from);
        }
        is_moving
    }

    /// The layouts whose objects may still have members.
    pub fn debts(&self) -> &[L] {
        &self.debts
    }

    /// All objects of a layout have deleted what they had.
    pub fn paid(&mut self, layout: L) {
        self.debts.retain(|other| *other != layout);
    }

    /// Whether nothing is left to do.
    pub fn is_at_rest(&self) -> bool {
        self.moving.is_none() && self.debts.is_empty()
    }
}

impl CopySource {
    /// The giver of the move `noting`. It may have begun only if no later one was cancelled.
    fn holding(&self) -> Holding<u64, u64> {
        match self.noting {
            0 => Holding::Here {
                since: Some(self.cancelled),
            },
            number => Holding::Sealed(Sealed {
                to: number,
                version: Some(number),
                seal: number,
            }),
        }
    }

    fn asked(&self, number: u64, continued: Option<u64>) -> Given<u64> {
        let request = GiverRequest {
            to: number,
            version: number,
            // An owner makes one move at a time: a newer one is the proof that the one before is over.
            failed: Some(self.noting),
            continued,
        };
        giver::asked(&self.holding(), false, &request)
    }

    /// Begins to note changes for a move. [`Given::Seal`]: with an empty list. [`Given::Rows`]: it has begun before,
    /// and keeps its list. Anything else: the move is over.
    pub fn track(&mut self, number: u64) -> Given<u64> {
        let given = self.asked(number, None);
        if matches!(given, Given::Seal { .. }) {
            self.noting = number;
        }
        given
    }

    /// Whether it gives members to a move.
    pub fn gives(&self, number: u64) -> bool {
        matches!(self.asked(number, Some(number)), Given::Rows { .. })
    }

    /// Whether changes are noted.
    pub fn is_noting(&self) -> bool {
        self.noting > 0
    }

    /// Seals it for a move: no call has an effect any more. Returns whether it takes part in that move.
    pub fn seal(&mut self, number: u64) -> bool {
        let gives = self.gives(number);
        if gives {
            self.sealed = number;
        }
        gives
    }

    /// Whether no call has an effect.
    pub fn is_sealed(&self) -> bool {
        self.sealed > 0
    }

    /// All moves up to this number are cancelled: its members are in use again.
    pub fn cancel(&mut self, number: u64) {
        self.cancelled = self.cancelled.max(number);
        let returns = self.holding().if_nowhere(number.saturating_add(1));
        if matches!(returns, IfNowhere::Returns { .. }) {
            (self.noting, self.sealed) = (0, 0);
        }
    }

    /// Takes part in no move that has begun: what was copied is not valid any more.
    pub fn refuse(&mut self) {
        self.cancelled = self.cancelled.max(self.noting);
        self.noting = 0;
    }

    /// Its layout has ended.
    pub fn end(&mut self) {
        (self.noting, self.sealed) = (0, 0);
    }
}

impl CopyTarget {
    /// A target that begins without members.
    pub fn begin(number: u64) -> Self {
        Self { number, turn: 0 }
    }

    /// Whether it receives the members of a move.
    pub fn is_of(&self, number: u64) -> bool {
        self.number == number
    }

    /// Receives the members of a message.
    pub fn receive(&mut self, number: u64, turn: u64) -> Received {
        if self.number != number {
            return Received::Lost;
        }
        if turn <= self.turn {
            return Received::Known;
        }
        self.turn = turn;
        Received::New
    }

    /// Loses the move: its members could not be stored.
    pub fn lose(&mut self) {
        self.number = 0;
    }
}
