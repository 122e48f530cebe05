//! What may be read of a counter, given what clients sent and were told: the laws that `main.rs` lists.

use std::collections::BTreeSet;

use super::digits::{self, Held};
use super::oracle::{Clear, Clearing, Counter, Fate, Moment, Put, Way, Write};

/// What a view says of a counter.
#[derive(Clone, Debug)]
pub struct View<'a> {
    pub value: i128,
    pub is_exact: bool,
    pub as_of_ms: Option<i64>,
    pub begun: Moment,
    pub ended: Moment,
    /// What its reader has seen before, and asked to see again.
    pub held: Option<&'a Held>,
    /// Who looks, for a failure.
    pub what: &'a str,
}

impl Counter {
    /// Whether something may have taken a write away between its beginning and a moment.
    pub fn may_be_cleared(&self, write: &Write, by: Moment) -> bool {
        let slack_ms = |clearing: &Clearing| match clearing.is_loose {
            true => self.clocks_ms + 2_000,
            false => 0,
        };
        self.clearings.iter().any(|clearing| {
            let is_after = match clearing.fate {
                Fate::Refused => return false,
                // Decrements of that time are not kept.
                _ if clearing.is_loose && !write.adds => true,
                Fate::Acknowledged(done) => {
                    done > write.begun
                        || done.at_ms + slack_ms(clearing) > write.begun.at_ms && clearing.is_loose
                }
                Fate::Unknown | Fate::Ended(_) => true,
            };
            let is_due = match clearing.clear {
                Clear::Expiry(ttl_ms, true) => {
                    by.at_ms + self.clocks_ms + 1_000 >= write.begun.at_ms + ttl_ms
                }
                _ => true,
            };
            clearing.begun < by && is_after && is_due
        })
    }

    /// Whether a write may have been taken away by a moment.
    pub fn is_maybe_gone(&self, slot: usize, by: Moment) -> bool {
        self.may_be_cleared(&self.writes[slot], by)
    }

    /// Whether something has surely taken a write away between two moments.
    fn is_cleared(&self, counted: Moment, by: Moment) -> bool {
        self.clearings.iter().any(|clearing| {
            let is_done = matches!(clearing.fate, Fate::Acknowledged(done) if done < by);
            is_done && !clearing.is_loose && counted < clearing.begun
        })
    }

    /// The sets that a value may have been put to last.
    fn possible_sets(&self, view: &View) -> BTreeSet<usize> {
        let done = |clearing: &Clearing| match clearing.fate {
            Fate::Acknowledged(done) => Some(done),
            _ => None,
        };
        let surely = || {
            let ended = |clearing: &&Clearing| done(clearing).is_some_and(|at| at < view.begun);
            self.clearings.iter().filter(ended)
        };
        let may_be_last = |clearing: &&Clearing| {
            let is_over = |at: Moment| surely().any(|later| later.begun > at);
            let is_void = clearing.fate == Fate::Refused || clearing.begun > view.ended;
            let is_endless = matches!(clearing.clear, Clear::Expiry(..));
            !is_void && (is_endless || !done(clearing).is_some_and(is_over))
        };
        let number = |clearing: &Clearing| match clearing.clear {
            Clear::Set(number) => number,
            Clear::Delete | Clear::Expiry(..) => 0,
        };
        let last = self.clearings.iter().filter(may_be_last).map(number);
        let none = surely().next().is_none().then_some(0);
        last.chain(none).collect()
    }

    /// Holds a view against the laws. Returns what it holds.
    pub fn check(&mut self, view: &View) -> Held {
        let what = view.what;
        let held = match digits::decode(view.value, &self.signs()) {
            Ok(held) => held,
            // What a set is counted from may be newer than what a datacenter was known to hold.
            Err(_) if !view.is_exact && self.may_be_set(view.ended) => return Held::default(),
            Err(error) => panic!("{what}, exact: {}: {error}", view.is_exact),
        };
        self.check_set(view, &held);
        for slot in 0..self.writes.len() {
            let write = &self.writes[slot];
            if held.slots.contains(&slot) {
                self.check_has(view, write, &held);
                self.writes[slot].seen.get_or_insert(view.ended);
            } else {
                self.check_lacks(view, write);
            }
        }
        if view.is_exact
            && let Some(floor) = self.floor_of(view)
        {
            assert!(
                view.value >= floor,
                "{what}: {} is below the floor {floor}",
                view.value
            );
        }
        held
    }

    fn may_be_set(&self, by: Moment) -> bool {
        self.clearings.iter().any(|one| {
            matches!(one.clear, Clear::Set(_)) && one.begun < by && one.fate != Fate::Refused
        })
    }

    fn check_set(&self, view: &View, held: &Held) {
        let (what, set) = (view.what, held.set);
        if view.is_exact {
            let possible = self.possible_sets(view);
            assert!(
                possible.contains(&set),
                "{what}: it was put to set {set}, and may be of {possible:?}"
            );
        }
        let mut clearings = self.clearings.iter();
        let is_it = |one: &Clearing| one.clear == Clear::Set(set) && one.begun < view.ended;
        let is_known = set == 0 || clearings.any(|one| is_it(one) && one.fate != Fate::Refused);
        assert!(is_known, "{what}: set {set} was never done");
    }

    fn check_has(&self, view: &View, write: &Write, held: &Held) {
        let what = view.what;
        assert!(
            write.begun < view.ended,
            "{what}: before it was sent: {write:?}"
        );
        assert!(
            write.fate != Fate::Refused,
            "{what}: it was refused: {write:?}"
        );
        let both = write.rivals.iter().find(|rival| held.slots.contains(rival));
        assert_eq!(both, None, "{what}: both under one key: {write:?}");
        if !view.is_exact {
            return;
        }
        if let Fate::Ended(at) = write.fate {
            assert!(at > view.begun, "{what}: it had ended: {write:?}");
        }
        let acknowledged = match (write.way, write.fate) {
            (Way::Direct, Fate::Acknowledged(at)) => Some(at),
            _ => None,
        };
        let counted = acknowledged.into_iter().chain(write.seen).min();
        if let Some(counted) = counted {
            let is_cleared = self.is_cleared(counted, view.begun);
            assert!(!is_cleared, "{what}: it was taken away: {write:?}");
        }
    }

    fn check_lacks(&self, view: &View, write: &Write) {
        let acknowledged = match write.fate {
            Fate::Acknowledged(at) => Some(at),
            _ => None,
        };
        let is_before = |at: Moment| at < view.begun;
        let as_of_ms = view.as_of_ms.unwrap_or(i64::MIN);
        let is_older = |at: Moment| at.at_ms + self.clocks_ms < as_of_ms;
        let why = if view
            .held
            .is_some_and(|held| held.slots.contains(&write.slot))
        {
            "its reader had it"
        } else if view.is_exact && acknowledged.is_some_and(is_before) {
            "it was acknowledged before"
        } else if view.is_exact && write.seen.is_some_and(is_before) {
            "it was seen before"
        } else if write.way == Way::Direct && acknowledged.is_some_and(is_older) {
            "it is older than as_of"
        } else {
            return;
        };
        let is_gone = self.may_be_cleared(write, view.ended);
        assert!(
            is_gone,
            "{}: {why}, and is not in it: {write:?} {view:?}",
            view.what
        );
    }

    /// The floor that surely holds during a view.
    fn floor_of(&self, view: &View) -> Option<i128> {
        let is_settled = |put: &&Put| put.fate != Fate::Refused;
        let last = self.puts.iter().rfind(is_settled)?;
        let alone = self.puts.iter().filter(is_settled).all(|put| {
            matches!(put.fate, Fate::Acknowledged(at) if at < last.begun) || put.begun == last.begun
        });
        let is_done = matches!(last.fate, Fate::Acknowledged(at) if at < view.begun);
        let is_cleared = self.clearings.iter().any(|clearing| {
            !matches!(clearing.clear, Clear::Set(_)) && clearing.fate != Fate::Refused
        });
        last.floor.filter(|_| alone && is_done && !is_cleared)
    }
}
