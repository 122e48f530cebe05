//! Law: a flush counts at most once over all generations of its counter, whenever its copies come. Only
//! one of a lane that had seen no generation may count again, where the cell has crashed since and a
//! generation lives that began within two seconds of its sending. Nothing is refused for good that is sent now.

use crate::common;

use std::collections::BTreeMap;

use common::config;
use proptest::collection::vec;
use proptest::prelude::*;
use tally_core::counter::cell::CellState;
use tally_core::counter::flush::newest_at;
use tally_core::counter::flush::{Load, Refusal};
use tally_core::counter::grant::Grant;
use tally_core::counter::lane::Lane;
use tally_core::counter::nonces::{FlushEffect, LANES_MAX, Nonce, Nonces};
use tally_core::counter::settings::Settings;
use tally_core::sketch::Uniques;

const NOW_MS: i64 = 1_777_593_630_000;

const NOW: u64 = 1_777_593_630_000;

fn grant(generation: u64) -> Grant {
    Grant {
        generation,
        settings: Settings {
            number: 1,
            shards: None,
            ttl: None,
            ..Settings::default()
        },
        last_write_ms: 0,
        alone: true,
        spread: 0,
        ..Grant::default()
    }
}

fn living(generation: u64) -> CellState {
    let mut cell = CellState::default();
    cell.take_grant(grant(generation), NOW_MS);
    cell
}

fn load(newest: u64) -> Load {
    Load {
        added: 1,
        newest,
        ..Load::default()
    }
}

fn flush(cell: &mut CellState, number: u64, newest: u64) -> Result<u64, Refusal> {
    let nonce = Nonce { lane: 1, number };
    let counted = cell.apply(nonce, &load(newest), NOW_MS);
    counted.map(|(outcome, _)| outcome.sequence)
}

/// Memory is gone; what was on disk is there. Buckets and sketches are of no interest here.
fn crash(cell: &CellState) -> CellState {
    if cell.generation().is_none() {
        return CellState::default();
    }
    let none = BTreeMap::new();
    CellState::restore(cell.hot_row(), [], Uniques::new(), Uniques::new(), none)
}

/// What is on its way, or was.
#[derive(Clone, Debug)]
struct Sent {
    nonce: Nonce,
    load: Load,
    sent_ms: i64,
    /// Whether its lane had seen the newest generation that it may count in.
    has_seen: bool,
}

/// A cell, its root and its lanes. Every message may come again at any time.
struct World {
    cell: CellState,
    lanes: [Lane<(), ()>; 3],
    now_ms: i64,
    /// The newest generation that was ever granted.
    newest: u64,
    crashes: usize,
    sent: Vec<Sent>,
    /// Where each flush was counted, and how many crashes there had been.
    counted: BTreeMap<(u64, u64), (u64, usize)>,
}

#[derive(Clone, Debug)]
enum Event {
    /// A lane sends a write, and gets the answer to its first attempt or not.
    Send {
        lane: usize,
        is_answered: bool,
    },
    /// A copy of what was sent arrives.
    Copy(prop::sample::Index),
    /// The counter is deleted.
    End,
    Crash,
    Tick(i64),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (0..3_usize, any::<bool>()).prop_map(|(lane, is_answered)| Event::Send { lane, is_answered }),
        4 => any::<prop::sample::Index>().prop_map(Event::Copy),
        2 => Just(Event::End),
        1 => Just(Event::Crash),
        // 60 events of at most 900 ms stay within the time that nonces are kept.
        2 => (0..900_i64).prop_map(Event::Tick),
    ]
}

impl World {
    fn new() -> Self {
        Self {
            cell: CellState::default(),
            lanes: [Lane::new(1), Lane::new(2), Lane::new(3)],
            now_ms: NOW_MS,
            newest: 0,
            crashes: 0,
            sent: Vec::new(),
            counted: BTreeMap::new(),
        }
    }

    /// As the object's shell: where a grant is needed, the root makes a generation as `Root::create` does.
    fn deliver(&mut self, sent: &Sent) -> Result<FlushEffect, Refusal> {
        let before = self.cell.clone();
        let applied = match self.cell.apply(sent.nonce, &sent.load, self.now_ms) {
            Err(Refusal::NeedsGrant) => {
                let from_clock = u64::try_from(self.now_ms).expect("after 1970");
                self.newest = from_clock.max(self.newest + 1);
                self.cell.take_grant(grant(self.newest), self.now_ms);
                self.cell.apply(sent.nonce, &sent.load, self.now_ms)
            }
            applied => applied,
        };
        let (outcome, changes) = applied?;
        if changes.hot {
            self.record_counted(sent);
        } else {
            assert_eq!(self.cell, before, "a copy changed the cell");
        }
        Ok(outcome)
    }

    fn record_counted(&mut self, sent: &Sent) {
        let generation = self.cell.generation().expect("it counts");
        let name = (sent.nonce.lane, sent.nonce.number);
        let before = self.counted.insert(name, (generation, self.crashes));
        let Some((earlier, crashes)) = before else {
            return;
        };
        assert!(!sent.has_seen, "{sent:?} was counted in {earlier}");
        assert!(crashes < self.crashes, "{sent:?} was forgotten");
        let allowed = u64::try_from(sent.sent_ms + 2_000).expect("after 1970");
        assert!(earlier < generation && generation <= allowed, "{sent:?}");
    }

    /// As `lanes::send_in_turn`.
    fn send(&mut self, lane: usize, is_answered: bool) {
        let now_ms = self.now_ms;
        let lane = &mut self.lanes[lane];
        let ticket = lane.join(load(0), now_ms, None).expect("there is room");
        let (nonce, load) = lane
            .take_for(&ticket, now_ms)
            .expect("nothing is in flight");
        // A lane that has seen a generation names it.
        let has_seen = load.newest != newest_at(now_ms);
        let mut sent = Sent {
            nonce,
            load,
            sent_ms: now_ms,
            has_seen,
        };
        let number = usize::try_from(nonce.lane - 1).expect("three lanes");
        self.sent.push(sent.clone());
        let mut outcome = self.deliver(&sent);
        if !is_answered {
            self.now_ms += 500;
            outcome = self.deliver(&sent);
        } else if let Err(Refusal::Newer(generation)) = outcome {
            sent.load.newest = generation.max(newest_at(now_ms));
            sent.has_seen = false;
            self.sent.push(sent.clone());
            outcome = self.deliver(&sent);
        }
        let lane = &mut self.lanes[number];
        match outcome {
            Ok(_) => lane.set_generation(self.cell.generation().expect("it counts")),
            Err(Refusal::Newer(generation)) => lane.set_generation(generation),
            Err(Refusal::Stray) => {}
            Err(other) => assert_eq!(other, Refusal::Stray),
        }
        lane.complete(nonce.number, (), self.now_ms);
        assert!(!is_answered || outcome.is_ok(), "{sent:?}: {outcome:?}");
    }

    fn step(&mut self, event: &Event) {
        match event {
            Event::Send { lane, is_answered } => self.send(*lane, *is_answered),
            Event::Copy(which) if !self.sent.is_empty() => {
                let copy = which.get(&self.sent).clone();
                let _ = self.deliver(&copy);
            }
            Event::Copy(_) => {}
            Event::End => {
                self.cell.close(self.newest);
            }
            Event::Crash => {
                self.cell = crash(&self.cell);
                self.crashes += 1;
            }
            Event::Tick(milliseconds) => self.now_ms += milliseconds,
        }
    }
}

proptest! {
    #![proptest_config(config(43, 1_024))]

    #[test]
    fn a_flush_counts_at_most_once_over_all_generations(events in vec(event(), 1..60)) {
        let mut world = World::new();
        for event in &events {
            world.step(event);
        }
    }
}

#[test]
fn a_flush_counts_in_no_generation_that_is_newer_than_its_lane_has_seen() {
    let mut cell = living(NOW);
    let before = cell.clone();
    assert_eq!(flush(&mut cell, 1, NOW - 1), Err(Refusal::Newer(NOW)));
    assert!(cell == before, "a refusal changes nothing");
    assert_eq!(flush(&mut cell, 1, NOW), Ok(1));
    assert_eq!(flush(&mut cell, 2, 0), Ok(2), "whichever lives");
    assert_eq!(flush(&mut cell, 3, NOW + 1), Ok(3));
}

#[test]
fn a_copy_does_not_create_a_counter_again_that_was_deleted() {
    let mut cell = living(NOW);
    cell.close(NOW);
    assert_eq!(flush(&mut cell, 1, NOW), Err(Refusal::Newer(NOW + 1)));
    // Sent again, since its writes are of now: they may begin a generation.
    assert_eq!(flush(&mut cell, 1, NOW + 1), Err(Refusal::NeedsGrant));
}

#[test]
fn what_was_counted_before_an_end_is_a_stray_after_it_and_after_the_next() {
    let mut cell = living(1);
    assert_eq!(flush(&mut cell, 7, 0), Ok(1));
    for generation in [1, 2] {
        cell.close(generation);
        assert_eq!(flush(&mut cell, 7, 0), Err(Refusal::Stray), "while unborn");
        cell.take_grant(grant(generation + 1), NOW_MS);
        assert_eq!(flush(&mut cell, 7, 0), Err(Refusal::Stray));
        assert_eq!(flush(&mut cell, 6, 0), Err(Refusal::Stray), "older still");
    }
    // Replaced without having been told of the end.
    assert_eq!(flush(&mut cell, 8, 0), Ok(1), "what is new counts");
    cell.take_grant(grant(4), NOW_MS);
    assert_eq!(flush(&mut cell, 8, 0), Err(Refusal::Stray));
    // Storage failed, so that memory was read from it again.
    cell.adopt(crash(&cell));
    assert_eq!(flush(&mut cell, 8, 0), Err(Refusal::Stray));
    assert_eq!(flush(&mut cell, 9, 0), Ok(1));
}

#[test]
fn memory_of_former_generations_is_bounded_and_keeps_the_newest() {
    let outcome = FlushEffect {
        sequence: 1,
        added: 1.into(),
        removed: 0.into(),
    };
    let half = u64::try_from(LANES_MAX / 2).expect("2,048");
    let full = |lanes: std::ops::Range<u64>, number: u64| {
        let mut nonces = Nonces::default();
        for lane in lanes {
            nonces.remember(Nonce { lane, number }, outcome, NOW_MS);
        }
        nonces
    };
    let both = full(0..2 * half, 1).with_newer(full(half..3 * half, 2));
    let seen = |lane: u64, number: u64| both.has_seen(Nonce { lane, number });
    assert!(!seen(0, 1), "the oldest made room");
    assert!(seen(half, 2) && seen(half, 1), "a lane is there once");
    assert!(seen(3 * half - 1, 2) && !seen(3 * half - 1, 3));
    let known = (0..3 * half).filter(|lane| seen(*lane, 1)).count();
    assert_eq!(known, LANES_MAX);
}

#[test]
fn a_lane_sends_what_it_has_seen_and_before_that_what_may_begin_now() {
    let mut lane: Lane<(), ()> = Lane::new(1);
    let mut newest = |seen: Option<u64>| {
        if let Some(seen) = seen {
            lane.set_generation(seen);
        }
        let ticket = lane.join(load(9), NOW_MS, None).expect("there is room");
        let (_, load) = lane
            .take_for(&ticket, NOW_MS)
            .expect("nothing is in flight");
        lane.complete(ticket.batch, (), NOW_MS);
        load.newest
    };
    assert_eq!(newest(None), NOW + 2_000);
    assert_eq!(newest(Some(77)), 77);
    assert_eq!(newest(Some(78)), 78);
    // Never 0, which would be whichever lives.
    for clock_ms in [i64::MIN, -2_000, i64::MAX] {
        assert!(newest_at(clock_ms) > 0, "{clock_ms}");
    }
}

#[test]
fn an_old_copy_of_a_keyed_write_counts_in_no_newer_generation_and_asks_for_none() {
    let (before, after) = (NOW - 1, NOW + 1);
    let refused = |lives| Err(Refusal::Newer(lives));
    let mut cell = living(NOW);
    // Of a claim, or of the protocol before.
    assert_eq!(cell.check_newest(0, NOW_MS), Ok(()));
    assert_eq!(cell.check_newest(NOW, NOW_MS), Ok(()));
    assert_eq!(cell.check_newest(before, NOW_MS), refused(NOW));
    // A cell without a grant would ask for one, and the counter would begin now.
    assert!(cell.close(NOW));
    assert_eq!(cell.check_newest(0, NOW_MS), Ok(()));
    assert_eq!(cell.check_newest(NOW, NOW_MS), Ok(()));
    assert_eq!(cell.check_newest(NOW, NOW_MS + 1), refused(after));
    cell.take_grant(grant(after), NOW_MS);
    assert_eq!(cell.check_newest(NOW, NOW_MS), refused(after));
    assert_eq!(cell.check_newest(after, NOW_MS + 60_000), Ok(()));
}
