//! What may be read of a counter, given what clients sent and were told: the laws that `main.rs` lists.

use std::collections::BTreeSet;

use super::digits::{self, Held};
use super::oracle::{Clear, Clearing, Counter, Moment, Outcome, Put, Way, Write};

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
            let is_after = match clearing.outcome {
                Outcome::Refused => return false,
                // Decrements of that time are not kept. Neither are lines of logs with times before.
                _ if clearing.is_loose && !write.adds => true,
                Outcome::Acknowledged(done) => {
                    done > write.begun
                        || done.at_ms + slack_ms(clearing) > write.dated_ms && clearing.is_loose
                }
                Outcome::Unknown | Outcome::Ended(_) => true,
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
        // A datacenter that tells later what it counted since a set may take it for that, by its clock of then.
        let slack_ms = self.clocks_ms + 2_000;
        let may_revive = |one: &Clearing| match one.outcome {
            Outcome::Refused => false,
            Outcome::Acknowledged(_) => one.is_loose,
            Outcome::Unknown | Outcome::Ended(_) => true,
        };
        let is_near = |one: &Clearing| counted.at_ms + slack_ms >= one.begun.at_ms;
        let sets = |one: &Clearing| matches!(one.clear, Clear::Set(_));
        let mut revivals = self.clearings.iter();
        if revivals.any(|one| sets(one) && may_revive(one) && is_near(one)) {
            return false;
        }
        self.clearings.iter().any(|clearing| {
            let is_done = matches!(clearing.outcome, Outcome::Acknowledged(done) if done < by);
            is_done && !clearing.is_loose && counted < clearing.begun
        })
    }

    /// The sets that a value may have been put to last.
    fn possible_sets(&self, view: &View) -> BTreeSet<usize> {
        let done = |clearing: &Clearing| match clearing.outcome {
            Outcome::Acknowledged(done) => Some(done),
            _ => None,
        };
        let surely = || {
            let ended = |clearing: &&Clearing| done(clearing).is_some_and(|at| at < view.begun);
            self.clearings.iter().filter(ended)
        };
        let may_be_last = |clearing: &&Clearing| {
            let is_over = |at: Moment| surely().any(|later| later.begun > at);
            let is_void = clearing.outcome == Outcome::Refused || clearing.begun > view.ended;
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
        let is_known =
            set == 0 || clearings.any(|one| is_it(one) && one.outcome != Outcome::Refused);
        assert!(is_known, "{what}: set {set} was never done");
    }

    fn check_has(&self, view: &View, write: &Write, held: &Held) {
        let what = view.what;
        assert!(
            write.begun < view.ended,
            "{what}: before it was sent: {write:?}"
        );
        assert!(
            write.outcome != Outcome::Refused,
            "{what}: it was refused: {write:?}"
        );
        let both = write.rivals.iter().find(|rival| held.slots.contains(rival));
        assert_eq!(both, None, "{what}: both under one key: {write:?}");
        if !view.is_exact {
            return;
        }
        if let Outcome::Ended(at) = write.outcome {
            assert!(at > view.begun, "{what}: it had ended: {write:?}");
        }
        let acknowledged = match (write.way, write.outcome) {
            (Way::Direct, Outcome::Acknowledged(at)) => Some(at),
            _ => None,
        };
        let counted = acknowledged.into_iter().chain(write.seen).min();
        if let Some(counted) = counted {
            let is_cleared = self.is_cleared(counted, view.begun);
            assert!(!is_cleared, "{what}: it was taken away: {write:?}");
        }
    }

    fn check_lacks(&self, view: &View, write: &Write) {
        let why = self.why_in(view, write);
        assert!(
            why.is_none(),
            "{}: {why:?}, and is not in it: {write:?} {view:?}",
            view.what
        );
    }

    /// Why a view must have a write, if it must.
    pub fn why_in(&self, view: &View, write: &Write) -> Option<&'static str> {
        let acknowledged = match write.outcome {
            Outcome::Acknowledged(at) => Some(at),
            _ => None,
        };
        let is_before = |at: Moment| at < view.begun;
        let as_of_ms = view.as_of_ms.unwrap_or(i64::MIN);
        let is_older = |at: Moment| at.at_ms + self.clocks_ms < as_of_ms;
        let is_held = |held: &Held| held.slots.contains(&write.slot);
        let why = if view.held.is_some_and(is_held) {
            "its reader had it"
        } else if view.is_exact && acknowledged.is_some_and(is_before) {
            "it was acknowledged before"
        } else if view.is_exact && write.seen.is_some_and(is_before) {
            "it was seen before"
        } else if write.way == Way::Direct && acknowledged.is_some_and(is_older) {
            "it is older than as_of"
        } else {
            return None;
        };
        (!self.may_be_cleared(write, view.ended)).then_some(why)
    }

    /// Whether a view may have a write.
    pub fn may_be_in(view: &View, write: &Write) -> bool {
        write.begun < view.ended && write.outcome != Outcome::Refused
    }

    /// Holds what was counted, which sets and resets leave, against the laws: of a window or a history that has all
    /// of the world, of isolates whose clocks are right.
    pub fn check_counted(&self, view: &View) {
        let what = view.what;
        let adds = vec![true; self.writes.len()];
        let counted = digits::decode(view.value, &adds);
        let counted = counted.unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(counted.set, 0, "{what}: more than all");
        let ends = |one: &&Clearing| !matches!(one.clear, Clear::Set(_));
        let mut ends = self.clearings.iter().filter(ends);
        let may_have_ended =
            ends.any(|one| one.outcome != Outcome::Refused && one.begun < view.ended);
        for write in &self.writes {
            if counted.slots.contains(&write.slot) {
                let may_be = write.adds && Self::may_be_in(view, write);
                assert!(may_be, "{what}: it has {write:?}");
            } else if view.is_exact && write.adds && !may_have_ended {
                let is_in = matches!(write.outcome, Outcome::Acknowledged(at) if at < view.begun);
                assert!(!is_in, "{what}: it lacks {write:?}");
            }
        }
    }

    /// Whether a list must have the counter, and whether it may.
    pub fn is_listed(&self, begun: Moment, ended: Moment) -> (bool, bool) {
        let is_done = |outcome: Outcome| matches!(outcome, Outcome::Acknowledged(at) if at < begun);
        let is_direct = |write: &&Write| write.way == Way::Direct;
        let mut writes = self.writes.iter().filter(is_direct);
        let is_made = writes.any(|write| is_done(write.outcome));
        let sets = |one: &Clearing| matches!(one.clear, Clear::Set(number) if number > 0);
        let mut clearings = self.clearings.iter();
        let is_set = clearings.any(|one| sets(one) && is_done(one.outcome));
        let is_put = self.puts.iter().any(|put| is_done(put.outcome));
        let is_imported = !self.imports.is_empty();
        let begins = self.writes.iter().map(|write| write.begun);
        let begins = begins.chain(self.clearings.iter().map(|one| one.begun));
        let mut begins = begins.chain(self.puts.iter().map(|put| put.begun));
        let must = (is_made || is_set || is_put) && !self.may_have_ended();
        (must, is_imported || begins.any(|at| at < ended))
    }

    /// The floor that surely holds during a view.
    fn floor_of(&self, view: &View) -> Option<i128> {
        let is_settled = |put: &&Put| put.outcome != Outcome::Refused;
        let last = self.puts.iter().rfind(is_settled)?;
        let alone = self.puts.iter().filter(is_settled).all(|put| {
            matches!(put.outcome, Outcome::Acknowledged(at) if at < last.begun)
                || put.begun == last.begun
        });
        let is_done = matches!(last.outcome, Outcome::Acknowledged(at) if at < view.begun);
        let is_cleared = self.clearings.iter().any(|clearing| {
            !matches!(clearing.clear, Clear::Set(_)) && clearing.outcome != Outcome::Refused
        });
        last.floor.filter(|_| alone && is_done && !is_cleared)
    }
}
