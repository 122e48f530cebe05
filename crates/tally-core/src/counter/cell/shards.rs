//! A lead and its shards: which shards count, which are sealed, and whose parts the lead keeps. A lead is sealed too
//! while its counter is about to end, so that no write is acknowledged that would end with it.
//!
//! Invariant: at every moment each shard's counts are in the lead's sum exactly once. Either the lead asks the shard,
//! or it keeps the shard's part and the shard counts nothing.

use super::{CellState, FlushEffect, Grant, Part, Question, Refusal};
use crate::counter::grant::ShardGrant;
use crate::counter::total::{Sum, Value};

impl CellState {
    /// The counter's value without this cell's totals, as (added, removed): the parts of its sealed shards, and the
    /// rest by the root. `None` if other cells count, or may count.
    pub fn elsewhere(&self) -> Option<(Sum, Sum)> {
        let grant = self.grant.filter(|grant| grant.alone)?;
        Some(self.sealed_and(grant.rest)?.totals())
    }

    /// The counter's value, if this cell decides by it: it is the home, and none of its shards counts. Queued events
    /// are not in it; they only add.
    pub fn value_at_home(&self) -> Option<Value> {
        let grant = self.grant.filter(|grant| grant.is_home)?;
        let others = self.sealed_and(grant.rest)?;
        Some(others.plus(Value::new(self.added, self.removed)))
    }

    /// The sum of all other shards and the rest; `None` while one of them counts.
    fn sealed_and(&self, rest: Value) -> Option<Value> {
        let all_sealed = (1..self.shards_ever()).all(|shard| self.sealed.contains_key(&shard));
        let parts = self.sealed.values().flatten();
        all_sealed.then(|| parts.fold(rest, |sum, part| sum.plus(part.value())))
    }

    /// [`CellState::elsewhere`] for the answer to a flush. `None` also if a repeated flush was counted a while ago:
    /// shards or queued events may have counted or the counter may have been set since, so its totals and the rest are
    /// of different moments.
    pub fn elsewhere_after(&self, outcome: &FlushEffect) -> Option<(Sum, Sum)> {
        let of_one_moment = outcome.sequence == self.sequence;
        self.elsewhere().filter(|_| of_one_moment)
    }

    /// The number of shards that writes of the datacenter spread over.
    pub fn spread(&self) -> u8 {
        let fixed = self.grant.and_then(|grant| grant.settings.shards);
        fixed.unwrap_or(self.spread).max(1)
    }

    /// Whether the lead chooses the number of shards.
    pub fn spreads_by_load(&self) -> bool {
        self.grant
            .is_some_and(|grant| grant.settings.shards.is_none())
    }

    /// Sets the number of shards that writes spread over. A lead records it before it sends any answer.
    pub fn spread_over(&mut self, shards: u8) {
        self.spread = shards;
        self.shards_ever = self.shards_ever.max(shards);
    }

    /// Shard: takes over the lead's number of shards that writes spread over.
    pub fn set_spread(&mut self, shards: u8) {
        self.spread = shards;
    }

    /// Records that a shard exists, before the shard gets its answer. True if that is new.
    fn record_shard(&mut self, shard: u8) -> bool {
        let known = self.shards_ever;
        self.shards_ever = known.max(shard.saturating_add(1));
        self.shards_ever != known
    }

    /// Seals this shard: it counts nothing until [`CellState::unseal`]. Returns its part for the lead to keep; `None`
    /// if it counts for no or another generation. Then no row changes, but a grant in flight is void all the same,
    /// because the lead treats this shard as one that never counts.
    pub fn seal(&mut self, generation: u64) -> Option<Part> {
        self.seals += 1;
        let part = self.answer(&Question::plain(generation))?;
        self.is_sealed = true;
        Some(part)
    }

    /// Whether the cell is sealed, so that it counts nothing.
    pub fn is_sealed(&self) -> bool {
        self.is_sealed
    }

    /// Makes any grant in flight void: the state has changed since it was given.
    pub fn void_grants(&mut self) {
        self.seals += 1;
    }

    /// Whether a generation has ended, as far as this cell knows.
    pub fn has_ended(&self, generation: u64) -> bool {
        self.closed_through >= generation
    }

    /// How often the cell was sealed, in memory only. It is read before a grant is requested.
    pub fn seals(&self) -> u64 {
        self.seals
    }

    /// Lets the cell count again, after the answer to its request. False, without any change, if it was sealed since
    /// the request: the answer is older than the seal. Then its grant must not be taken either, and the cell must send
    /// another request.
    #[must_use]
    pub fn unseal(&mut self, seals_at_request: u64) -> bool {
        let is_current = self.seals == seals_at_request;
        if is_current {
            self.is_sealed = false;
        }
        is_current
    }

    /// Takes over the stored state after a failed write. The counts that distinguish current answers from late ones are
    /// in memory only, and stay: those answers are still in flight.
    pub fn adopt(&mut self, stored: Self) {
        *self = Self {
            seals: self.seals,
            admissions: std::mem::take(&mut self.admissions),
            closed_through: self.closed_through,
            seconds_default: self.seconds_default,
            ended_nonces: std::mem::take(&mut self.ended_nonces),
            lately: std::mem::take(&mut self.lately),
            ended_keys: std::mem::take(&mut self.ended_keys),
            ..stored
        };
    }

    /// Lead: the shards that writes no longer spread over and that are not sealed yet, each with
    /// the number of its admissions so far.
    pub fn to_seal(&self) -> Vec<(u8, u64)> {
        let beyond = self.spread()..self.shards_ever();
        let unsealed = beyond.filter(|shard| !self.sealed.contains_key(shard));
        unsealed
            .map(|shard| (shard, self.admissions_of(shard)))
            .collect()
    }

    fn admissions_of(&self, shard: u8) -> u64 {
        self.admissions.get(&shard).copied().unwrap_or(0)
    }

    /// Lead: keeps a sealed shard's part in the sum from now on. False, without any change, if the shard was admitted
    /// again since it was asked to seal: the part lacks its later counts. Keeping a part raises the lead's sequence,
    /// because the lead's value may now include more than a reader of the earlier sequence has seen.
    pub fn keep_sealed(&mut self, shard: u8, part: Option<Part>, admissions: u64) -> bool {
        let is_current = self.admissions_of(shard) == admissions && shard >= self.spread();
        if is_current {
            self.sequence += u64::from(part.is_some());
            self.sealed.insert(shard, part);
        }
        is_current
    }

    /// Lead: the part of a shard. The outer option says whether it is sealed.
    pub fn sealed_part(&self, shard: u8) -> Option<Option<&Part>> {
        self.sealed.get(&shard).map(Option::as_ref)
    }

    /// Lead: lets a shard count, and asks it for each sum from now on. Both must be durable before the shard gets its
    /// answer.
    ///
    /// # Errors
    /// [`Refusal::Moved`] if writes do not spread to that shard.
    pub fn admit(&mut self, shard: u8) -> Result<ShardGrant, Refusal> {
        let spread = self.spread();
        if shard >= spread {
            return Err(Refusal::Moved(spread));
        }
        let grant = self.grant.ok_or(Refusal::NeedsGrant)?;
        *self.admissions.entry(shard).or_insert(0) += 1;
        let was_sealed = self.sealed.remove(&shard).is_some();
        let is_new = self.record_shard(shard);
        let last_write_ms = self.last_write_ms();
        Ok(ShardGrant {
            grant: Grant {
                alone: false,
                is_home: false,
                spread,
                last_write_ms,
                ..grant
            },
            was_sealed,
            is_new,
        })
    }
}
