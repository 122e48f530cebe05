//! Which numbered writes a cell has decided. Their sender, an inbox or a queue of the platform, delivers each until it
//! is decided, at any time and in any order.
//!
//! Invariants: a sender numbers its writes to one counter from 1 without gaps. So the decisions about any number of
//! them lie in few spans, and in one row. A write whose row may be deleted is never counted.
//!
//! If all writes go to another lead, the lead that a sender asks first records the lead to which it sent each number,
//! until that lead has struck the number out too. So a number is counted by one lead, and no other record of it is
//! needed.
//!
//! A key consists of a *lane*, drawn at random by its sender, and the number. A lane belongs to a period of 16 days,
//! and gets no numbers after it. Its row is kept for two periods more. A queue of the platform keeps a message for 14
//! days at most. An event that an inbox could not deliver by then becomes a dead letter. Source: Cloudflare Queues,
//! "Limits".

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::id::{CounterId, Datacenter};
use super::ledger::WriteKey;
use crate::order::in_order;

/// The fingerprint of a numbered write. Other drawn keys have 0.
pub const NUMBERED: u64 = 1;

/// The length of a period, milliseconds.
const PERIOD_MS: i64 = 16 * 86_400_000;

/// For how many periods after its own the row of a lane is kept: 32 days.
const KEPT_PERIODS: i64 = 2;

/// How long before the deletion of its row a write is refused, milliseconds: clocks may differ.
const MARGIN_MS: i64 = 86_400_000;

/// The most spans of a lane, each of about 6 bytes. That is how many gaps its numbers may have.
pub const SPANS_MAX: usize = 4_096;

/// The most counters of a lane, about 100 bytes each. The next counter begins another lane.
const COUNTERS_MAX: usize = 10_000;

/// How long after it was accepted an event may still be counted, milliseconds. Its lane began no later, and its row is
/// kept for that long.
pub const COUNTED_WITHIN_MS: i64 = (1 + KEPT_PERIODS) * PERIOD_MS - MARGIN_MS;

/// The bytes of a key that are the period. They are a part of the lane.
const PERIOD_BYTES: usize = 2;
const LANE_BYTES: usize = 10;

/// Returns the lane of a key, as a key whose number is 0, and the number.
pub fn lane_and_number(key: WriteKey) -> (WriteKey, u64) {
    let (mut lane, mut number) = (key, [0; 8]);
    for (to, from) in number[PERIOD_BYTES..]
        .iter_mut()
        .zip(&mut lane.0[LANE_BYTES..])
    {
        *to = std::mem::take(from);
    }
    (lane, u64::from_be_bytes(number))
}

/// When the row of a lane may be deleted, unix milliseconds. It is the row's slot of the ledger.
pub fn slot_of(key: WriteKey) -> i64 {
    let period = i64::from(u16::from_be_bytes([key.0[0], key.0[1]]));
    (period + 1 + KEPT_PERIODS) * PERIOD_MS
}

/// The newest slot whose rows are all deleted when a lane begins, unix milliseconds.
pub fn slot_gone_before(key: WriteKey) -> i64 {
    slot_of(key) - (1 + KEPT_PERIODS) * PERIOD_MS - MARGIN_MS
}

/// Whether the row of a lane may be deleted.
pub fn is_over(key: WriteKey, now_ms: i64) -> bool {
    now_ms >= slot_of(key) - MARGIN_MS
}

/// The numbers that a sender has given.
#[derive(Clone, Debug, Default)]
pub struct WriteNumbers {
    lane: Option<WriteKey>,
    given: HashMap<CounterId, u64>,
}

impl WriteNumbers {
    /// The lane of the next write to a counter, and the last number in it. If there is no lane of this period, one is
    /// drawn by `random`.
    pub fn lane(
        &mut self,
        counter: &CounterId,
        now_ms: i64,
        random: &mut dyn FnMut() -> u64,
    ) -> (WriteKey, u64) {
        let period = u16::try_from(now_ms.div_euclid(PERIOD_MS)).unwrap_or(0);
        let given = self.given.get(counter).copied();
        let is_full = self.given.len() >= COUNTERS_MAX && given.is_none();
        let period = period.to_be_bytes();
        let known = (self.lane).filter(|lane| lane.0.starts_with(&period) && !is_full);
        if let Some(lane) = known {
            return (lane, given.unwrap_or(0));
        }
        self.given.clear();
        let mut lane = [0; 16];
        lane[..PERIOD_BYTES].copy_from_slice(&period);
        lane[PERIOD_BYTES..LANE_BYTES].copy_from_slice(&random().to_be_bytes());
        self.lane = Some(WriteKey(lane));
        (WriteKey(lane), 0)
    }

    /// The key of the next write to a counter, in its [`WriteNumbers::lane`].
    pub fn next(
        &mut self,
        counter: &CounterId,
        now_ms: i64,
        random: &mut dyn FnMut() -> u64,
    ) -> WriteKey {
        let (mut key, given) = self.lane(counter, now_ms, random);
        let number = given + 1;
        match self.given.get_mut(counter) {
            Some(given) => *given = number,
            None => drop(self.given.insert(counter.clone(), number)),
        }
        key.0[LANE_BYTES..].copy_from_slice(&number.to_be_bytes()[PERIOD_BYTES..]);
        key
    }
}

/// The decision about a numbered write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Decision {
    /// It was counted.
    Counted,
    /// It was struck out, because all writes went to another lead. A claim with at most this number of moves never
    /// counts it here.
    Struck(u32),
    /// Its sender asked this lead first, and this lead sent it to that place, with that number of moves.
    Sent(WritePlace),
}

/// The lead that a numbered write goes to: its datacenter, `None` for that of the answering lead, and the number of
/// moves of the write by then.
pub type WritePlace = (Option<Datacenter>, u32);

/// The decisions about the numbers of a lane. A stored format.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Numbers {
    /// First and last number, and the decision about all of them; in order, and as few as possible.
    spans: Vec<(u64, u64, Decision)>,
}

impl Numbers {
    /// The decision about a number. Cost: O(log spans).
    pub fn get(&self, number: u64) -> Option<Decision> {
        let index = self.spans.partition_point(|(_, last, _)| *last < number);
        let (first, _, decided) = self.spans.get(index)?;
        (*first <= number).then(|| decided.clone())
    }

    /// Whether another number can be decided.
    pub fn has_room(&self) -> bool {
        // A number inside a span splits it into three.
        self.spans.len() + 2 <= SPANS_MAX
    }

    /// Records the decision about a number. Cost: O(spans).
    pub fn put(&mut self, number: u64, decided: Decision) {
        let index = self.spans.partition_point(|(_, last, _)| *last < number);
        let around = self.spans.get(index).cloned();
        let around = around.filter(|(first, _, _)| *first <= number);
        let mut parts = Vec::with_capacity(3);
        if let Some((first, _, before)) = around.as_ref().filter(|(first, _, _)| *first < number) {
            parts.push((*first, number - 1, before.clone()));
        }
        parts.push((number, number, decided));
        if let Some((_, last, before)) = around.as_ref().filter(|(_, last, _)| *last > number) {
            parts.push((number + 1, *last, before.clone()));
        }
        let replaced = index..index + usize::from(around.is_some());
        self.spans.splice(replaced, parts);
        self.join(index.saturating_sub(1));
    }

    /// Joins adjacent spans with one decision, from an index on: at most four.
    fn join(&mut self, from: usize) {
        let mut index = from;
        for _ in 0..4 {
            let (Some(one), Some(next)) = (self.spans.get(index), self.spans.get(index + 1)) else {
                return;
            };
            if one.1 + 1 == next.0 && one.2 == next.2 {
                let last = next.1;
                self.spans.remove(index + 1);
                if let Some(one) = self.spans.get_mut(index) {
                    one.1 = last;
                }
            } else {
                index += 1;
            }
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Adds counted numbers of another row. Beyond [`SPANS_MAX`] spans, the numbers between them are added too.
    pub fn add_all(&mut self, others: &Self) {
        let mut spans = std::mem::take(&mut self.spans);
        spans.extend(others.spans.iter().cloned());
        for span in in_order(spans, |(one, _, _), (other, _, _)| one.cmp(other)) {
            let is_full = self.spans.len() >= SPANS_MAX;
            match self.spans.last_mut() {
                Some((_, last, _)) if is_full || span.0 <= last.saturating_add(1) => {
                    *last = span.1.max(*last);
                }
                _ => self.spans.push(span),
            }
        }
    }

    /// Whether each of these numbers was counted, by the decisions of leads. Cost: O(spans of all × leads).
    pub fn are_counted(&self, by: &[&Self]) -> bool {
        self.spans.iter().all(|(first, last, _)| {
            let mut number = *first;
            while number <= *last {
                let counted = by.iter().find_map(|decided| decided.counted_up_to(number));
                let Some(counted) = counted else {
                    return false;
                };
                number = counted.saturating_add(1);
            }
            true
        })
    }

    /// The last number up to which all were counted, from this one on; `None` if this one was not.
    fn counted_up_to(&self, number: u64) -> Option<u64> {
        let index = self.spans.partition_point(|(_, last, _)| *last < number);
        let (first, last, decided) = self.spans.get(index)?;
        (*first <= number && *decided == Decision::Counted).then_some(*last)
    }

    /// The number of spans.
    pub fn spans(&self) -> usize {
        self.spans.len()
    }

    /// Whether at most one number was decided.
    pub fn are_new(&self) -> bool {
        matches!(self.spans.as_slice(), [] | [(_, 1, _)])
    }
}
