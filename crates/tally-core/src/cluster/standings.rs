//! The first of many counters in an order, and sums over all of them, kept up to date as single counters change.
//!
//! Invariant: a counter that is not among the first has a rank after their floor. An `as_of` that is not among the
//! oldest is not older than their ceiling. So both are right without a read of the other counters. When too few are
//! left, the owner reads them again.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::counter::id::CounterId;

/// A counter's rank, and its part of the sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Counters of a larger size come first, for any amounts.
    pub size: i32,
    /// The amount that it is ordered by.
    pub amount: i64,
    /// Unix milliseconds.
    pub as_of_ms: i64,
    /// Whether it is in the order; other counters only have the prefix.
    pub is_counted: bool,
}

/// A rank: the largest first, then the first name.
type Rank = (Reverse<(i32, i64)>, CounterId);

fn rank_of(counter: &CounterId, standing: &Standing) -> Rank {
    (Reverse((standing.size, standing.amount)), counter.clone())
}

/// The first counters of an order with the row of each, and the sums over all of them.
#[derive(Clone, Debug)]
pub struct Standings<R> {
    /// The number of counters in the order.
    pub counters: u64,
    /// The number of counters with the prefix.
    pub named: u64,
    /// The sum of all amounts.
    pub total: i128,
    first: BTreeMap<Rank, R>,
    /// The most first counters.
    first_max: usize,
    /// The rank up to which all counters are among the first; `None` if all are.
    floor: Option<Rank>,
    /// The number of counters with each of the oldest `as_of`.
    oldest: BTreeMap<i64, u64>,
    oldest_max: usize,
    /// The `as_of` before which all are among the oldest; `None` if all are.
    ceiling_ms: Option<i64>,
}

impl<R: Clone> Standings<R> {
    /// Standings without ranks, of counters whose oldest `as_of` is known. At most `oldest_max` different `as_of` are
    /// kept.
    pub fn new(
        (counters, named): (u64, u64),
        total: i128,
        oldest_ms: Option<i64>,
        oldest_max: usize,
    ) -> Self {
        let mut standings = Self {
            counters,
            named,
            total,
            first: BTreeMap::new(),
            first_max: 0,
            floor: None,
            oldest: BTreeMap::new(),
            oldest_max: oldest_max.max(1),
            ceiling_ms: None,
        };
        standings.set_oldest(oldest_ms, false);
        standings
    }

    /// Removes a counter that has left, or that is about to change. Cost: O(log n) of the kept counters.
    pub fn remove(&mut self, counter: &CounterId, standing: &Standing) {
        self.named = self.named.saturating_sub(1);
        self.total -= i128::from(standing.amount);
        let is_old = self.ceiling_ms.is_none_or(|from| standing.as_of_ms <= from);
        if is_old && let Some(times) = self.oldest.get_mut(&standing.as_of_ms) {
            *times -= 1;
            if *times == 0 {
                self.oldest.remove(&standing.as_of_ms);
            }
        }
        if standing.is_counted {
            self.counters = self.counters.saturating_sub(1);
            self.first.remove(&rank_of(counter, standing));
        }
    }

    /// Adds a counter that has come, or that has changed. Cost: as [`Standings::remove`].
    pub fn add(&mut self, counter: &CounterId, standing: &Standing, row: impl FnOnce() -> R) {
        self.named += 1;
        self.total += i128::from(standing.amount);
        if self.ceiling_ms.is_none_or(|from| standing.as_of_ms <= from) {
            *self.oldest.entry(standing.as_of_ms).or_default() += 1;
            while self.oldest.len() > self.oldest_max {
                self.oldest.pop_last();
                self.ceiling_ms = self.oldest.last_key_value().map(|(last, _)| *last);
            }
        }
        if !standing.is_counted {
            return;
        }
        self.counters += 1;
        let rank = rank_of(counter, standing);
        if self.first_max == 0 || self.floor.as_ref().is_some_and(|floor| *floor < rank) {
            return;
        }
        self.first.insert(rank, row());
        while self.first.len() > self.first_max {
            self.first.pop_last();
            self.floor = self.first.last_key_value().map(|(last, _)| last.clone());
        }
    }

    /// The first counters; `None` if they must be read again.
    pub fn first(&self, limit: usize) -> Option<Vec<R>> {
        let has_all = self.first_max > 0 && self.floor.is_none();
        if self.first.len() < limit && !has_all || limit > self.first_max {
            return None;
        }
        Some(self.first.values().take(limit).cloned().collect())
    }

    /// The most counters that are kept in their ranks.
    pub fn first_max(&self) -> usize {
        self.first_max
    }

    /// Sets the first counters after a read: all, or `limit`.
    pub fn set_first(&mut self, rows: Vec<(CounterId, Standing, R)>, limit: usize) {
        let has_all = rows.len() < limit;
        let ranked = |(counter, standing, row)| (rank_of(&counter, &standing), row);
        self.first = rows.into_iter().map(ranked).collect();
        self.first_max = limit;
        let last = self.first.last_key_value().filter(|_| !has_all);
        self.floor = last.map(|(last, _)| last.clone());
    }

    /// The oldest `as_of`; `None` if there are no counters.
    ///
    /// # Errors
    /// [`OldestUnknown`] if they must be read again.
    pub fn oldest_ms(&self) -> Result<Option<i64>, OldestUnknown> {
        match self.oldest.first_key_value() {
            Some((oldest, _)) => Ok(Some(*oldest)),
            None if self.named == 0 || self.ceiling_ms.is_none() => Ok(None),
            None => Err(OldestUnknown),
        }
    }

    /// Sets the oldest `as_of` after a read, one of each counter: all, or as many as are kept.
    pub fn set_oldest(&mut self, read: impl IntoIterator<Item = i64>, has_all: bool) {
        self.oldest.clear();
        for as_of_ms in read {
            *self.oldest.entry(as_of_ms).or_default() += 1;
        }
        let last = self.oldest.last_key_value().filter(|_| !has_all);
        self.ceiling_ms = last.map(|(last, _)| *last);
    }
}

/// Too many counters have changed since the oldest `as_of` were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OldestUnknown;
