//! Writes and operations that are done only while the counter is what their client has seen, as `edge::write` and
//! `edge::manage`.
//!
//! Invariants: between what a client saw and what it does nothing else has changed the counter; who was told
//! that something had will never see its write counted.

use std::rc::Rc;

use tally::core::counter::id::Datacenter;
use tally::core::counter::ledger::{Keyed, KeyedOutcome, Keys, Recorded, WriteKey};
use tally::protocol::messages::{Condition, Done, Operate, Operated, Operation};
use tally::protocol::version::Version;

use super::client::{self, Wish, value_seen};
use super::datacenter;
use super::deeds::Deed;
use super::edge::Edge;
use super::network::{Answer, Message};
use super::oracle::Oracle;
use super::world::World;

/// As `edge::keyed`.
const ROUNDS_MAX: usize = 3;

/// Where all writes go, given a home if there is none, as `manage::home_for_good`.
async fn home_for_good(edge: &Edge) -> Option<Datacenter> {
    let known = edge.home.borrow().clone();
    if known.is_some() {
        return known;
    }
    let air = &edge.air;
    let operate = Operate {
        counter: air.name(),
        datacenter: datacenter(edge.datacenter),
        operation: Operation::SettleHome,
        key: None,
        condition: None,
    };
    match air.call(air.root(), Message::Operate(operate)).await {
        Ok(Answer::Operated(Operated::Done(Done { home, .. }))) => {
            edge.home.replace(home.clone());
            home
        }
        _ => None,
    }
}

/// Sends a write once that is counted only while the counter is what a version saw. `is_claimed`: its client may
/// send it again. True if the client has its last answer.
pub async fn send(edge: Rc<Edge>, wish: Wish, version: Version, is_claimed: bool) -> bool {
    let air = edge.air.clone();
    air.oracle.borrow_mut().wants_if(wish, &version);
    let Some(home) = home_for_good(&edge).await else {
        // It is refused before it is sent.
        return false;
    };
    let mut write = Keyed {
        condition: Some(version.at_home(&home)),
        ..client::new_keyed(&edge, wish)
    };
    let here = datacenter(edge.datacenter);
    let mut landed = Vec::new();
    for _ in 0..ROUNDS_MAX {
        let only = std::slice::from_ref(&write);
        landed = match is_claimed {
            true => client::count_keyed(&air, &here, only).await,
            false => client::count_unclaimed(&air, &home, only, Keys::Drawn).await,
        };
        match landed[0].1 {
            Ok(KeyedOutcome::NeedsView) => write.seen = Some(value_seen(&air).await),
            Ok(KeyedOutcome::NeedsHome) => {
                if !client::operate(edge.clone(), Operation::SettleHome, None).await {
                    break;
                }
            }
            _ => break,
        }
    }
    let (lead, outcome) = landed.pop().expect("an outcome");
    if outcome == Ok(KeyedOutcome::Changed) {
        edge.home.replace(None);
    }
    let mut oracle = air.oracle.borrow_mut();
    oracle.answers(wish.key, wish.fingerprint, &lead, &outcome)
}

impl World {
    /// A version that somebody has of a counter: a reader's, or that of a write.
    fn version_of(&self, counter: usize, pick: usize) -> Option<Version> {
        let readers = &self.readers[counter];
        let held = readers[pick % readers.len()].held();
        let written = self.written[counter].borrow();
        let written = written.get(pick % written.len().max(1)).cloned();
        if pick.is_multiple_of(3) {
            written.or(held)
        } else {
            held.or(written)
        }
    }

    /// Somebody writes who has seen the counter. One with a key names, when it is sent again, what it named first.
    pub(super) fn write_if(&mut self, counter: usize, number: u8, pick: usize, key: Option<u8>) {
        let known = key.and_then(|key| self.conditions.get(&(counter, key)).cloned());
        let Some(version) = known.or_else(|| self.version_of(counter, pick)) else {
            return;
        };
        let name = match key {
            Some(key) => {
                let kept = self.conditions.entry((counter, key));
                kept.or_insert_with(|| version.clone());
                let mut name = [key; 16];
                name[0] = 3;
                WriteKey(name)
            }
            None => self.airs[counter].oracle.borrow_mut().keys.draw(),
        };
        let amount = u128::from(name.0[15]) + 1;
        let delta = if amount.is_multiple_of(4) {
            (0, amount)
        } else {
            (amount * 100, 0)
        };
        let wish = Wish {
            key: name,
            fingerprint: 0,
            delta,
        };
        let sent = send(self.edge(counter, number), wish, version, key.is_some());
        self.begin(Some(number), async move {
            sent.await;
        });
    }

    /// An owner changes a counter that it has seen, as a whole.
    pub(super) fn operate_if(&mut self, counter: usize, number: u8, pick: usize, deed: Deed) {
        let Some(version) = self.version_of(counter, pick) else {
            return;
        };
        let edge = self.edge(counter, number);
        let operate = Operate {
            counter: edge.air.name(),
            datacenter: datacenter(edge.datacenter),
            operation: deed.operation(),
            key: None,
            condition: Some(Condition::Unchanged(version)),
        };
        let asked = edge.air.call(edge.air.root(), Message::Operate(operate));
        self.begin(Some(number), async move {
            let _ = asked.await;
        });
    }
}

impl Oracle {
    /// A client asks for a write that depends on what it has seen.
    fn wants_if(&mut self, wish: Wish, version: &Version) {
        self.keys.wants(wish.key, wish.fingerprint, wish.delta);
        self.keys.only_if(wish.key, version);
    }

    /// A client has been told this version by now.
    pub fn tells(&mut self, version: &Version) {
        let moment = self.moment();
        self.seen_by.insert(version.encode(), moment);
    }

    /// A lead has just counted a write: if it has a condition, that held.
    pub fn check_condition(&self, name: WriteKey, recorded: &Recorded) {
        if let Some(version) = self.keys.condition(name) {
            self.check_unchanged(version, recorded.generation, self.moment());
        }
    }

    /// Nothing has changed since a version was told but what that very moment brought.
    pub fn check_unchanged(&self, version: &Version, generation: u64, now: usize) {
        let newest = version.cells().iter().map(|cell| cell.generation).max();
        assert!(
            newest.is_none_or(|newest| newest == generation),
            "{version:?} is of another generation than {generation}"
        );
        let seen_by = self.seen_by.get(&version.encode()).copied().unwrap_or(0);
        for ((place, of), log) in &self.cells {
            if *of != generation {
                continue;
            }
            // By name: of a counter that nobody has counted a version names a cell of no datacenter of this world.
            let (of_datacenter, shard) = (datacenter(place / super::CELLS), place % super::CELLS);
            let is_it = |cell: &&tally::protocol::version::SeenCell| {
                cell.datacenter == of_datacenter && usize::from(cell.shard) == shard
            };
            let named = version.cells().iter().find(is_it);
            let mut before = (0, 0);
            for (sequence, (at, held)) in (1..).zip(log) {
                let is_news = match named {
                    Some(cell) => sequence > cell.sequence,
                    None => *at > seen_by,
                };
                assert!(
                    !is_news || *at >= now || *held == before,
                    "cell {place} has counted more by {at} than {version:?}, told by {seen_by}, says"
                );
                before = *held;
            }
        }
        self.check_not_operated(version, generation);
    }
}
