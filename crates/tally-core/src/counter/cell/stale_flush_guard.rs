//! Which flushes and writes with drawn keys belong to a generation that has ended, so that a copy which the network
//! held back counts in no other.
//!
//! Invariant: if a lane has seen a generation, its flushes count in no newer one. If it has seen none, its flushes
//! count in no generation that began after they were sent, except within the seconds that
//! [`crate::counter::flush::newest_at`] allows. Those seconds are covered by memory: while the object lives it knows
//! what it has counted in generations that ended. One case is not covered. The network holds back a copy of a lane's
//! first flush. Within those seconds its retry is acknowledged, or the flush is refused and its writes count elsewhere.
//! The counter is then deleted and created again, and the object ends in between. Keyed writes whose keys only their
//! sender knows name one second (`DRAWN_AHEAD_MS` of `shared/keyed_calls.rs`), which is over when their first attempt
//! is given up. Their second attempt names a second of its own. So while the object lives it knows the keys that it
//! counted shortly before a generation ended.

use super::{CellState, Nonce, Nonces, Refusal};
use crate::counter::ledger::{EndedKeys, KeySource, WriteKey};

impl CellState {
    /// Lets a flush pass that may count in the generation that lives here, or in one that it would begin.
    /// A copy must not create a counter again that was deleted, so it is refused before a grant is asked for.
    ///
    /// # Errors
    /// [`Refusal::Stray`], [`Refusal::Newer`].
    pub(super) fn check_generation(&self, nonce: Nonce, newest: u64) -> Result<(), Refusal> {
        if self.ended_nonces.has_seen(nonce) {
            return Err(Refusal::Stray);
        }
        let oldest = self
            .generation()
            .unwrap_or_else(|| self.closed_through.saturating_add(1));
        is_within(oldest, newest)
    }

    /// Lets keyed writes pass that may count in the generation that lives here. The records of their keys end with
    /// the generation that counted them. So a copy that is older than `newest` asks for no grant either: that could
    /// create a counter again that was deleted.
    ///
    /// # Errors
    /// [`Refusal::Newer`].
    pub fn check_newest(&self, newest: u64, now_ms: i64) -> Result<(), Refusal> {
        let lives = self.generation().unwrap_or(0);
        let begins = match self.needs_grant(now_ms) {
            true => u64::try_from(now_ms).unwrap_or(0),
            false => 0,
        };
        is_within(lives.max(begins), newest)
    }

    /// What the next generation must know of the flushes of this one and of those before.
    pub(super) fn take_ended_nonces(&mut self) -> Nonces {
        let ended_nonces = std::mem::take(&mut self.ended_nonces);
        ended_nonces.with_newer(std::mem::take(&mut self.nonces))
    }

    /// What the next generation must know of the drawn keys of this one and of those before.
    pub(super) fn take_ended_keys(&mut self) -> EndedKeys {
        let ended_keys = std::mem::take(&mut self.ended_keys);
        ended_keys.with(std::mem::take(&mut self.lately))
    }

    /// Records that a write under a key was counted.
    pub(super) fn remember_key(&mut self, keys: KeySource, key: WriteKey, now_ms: i64) {
        if keys == KeySource::Drawn {
            self.lately.remember(key, now_ms);
        }
    }

    /// Whether a write under a key was counted in a generation that has ended.
    pub(super) fn has_ended_with(&self, keys: KeySource, key: WriteKey) -> bool {
        keys == KeySource::Drawn && self.ended_keys.has(key)
    }
}

/// Whether what may count up to a generation, 0 for any, may count in one.
fn is_within(generation: u64, newest: u64) -> Result<(), Refusal> {
    if newest == 0 || generation <= newest {
        Ok(())
    } else {
        Err(Refusal::Newer(generation))
    }
}
