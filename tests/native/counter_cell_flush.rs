//! Law: a flush counts once, however often and in whatever order it comes; a refused flush changes
//! nothing.

use crate::common;

use std::collections::BTreeMap;

use common::config;
use proptest::collection::vec;
use proptest::prelude::*;
use tally_core::counter::cell::{CellState, STAMP_CLAMP_SECONDS};
use tally_core::counter::flush::{Changes, Element, Load, Refusal};
use tally_core::counter::grant::Grant;
use tally_core::counter::history::Resolution;
use tally_core::counter::merge::{Question, Range};
use tally_core::counter::nonces::{FlushEffect, LANES_MAX, NONCE_KEPT_MS, Nonce};
use tally_core::counter::settings::{Settings, Ttl, TtlMode, UniqueHash};
use tally_core::counter::total::{CellTotal, Value};
use tally_core::sketch::{Class, HashId, HashKey, Uniques};

const BEGIN_MS: i64 = 1_777_593_630_000;

fn granted() -> CellState {
    let mut cell = CellState::default();
    cell.take_grant(grant(None), BEGIN_MS);
    cell
}

fn grant(ttl: Option<Ttl>) -> Grant {
    Grant {
        generation: 1,
        settings: Settings {
            number: 1,
            shards: None,
            ttl,
            ..Settings::default()
        },
        last_write_ms: 0,
        alone: true,
        spread: 0,
        ..Grant::default()
    }
}

/// A load that touches everything: totals, stamps, the past, elements.
fn load(added: u128, removed: u128) -> Load {
    let second = BEGIN_MS / 1_000;
    Load {
        ttl_if_new: None,
        added,
        removed,
        live: vec![(second, added)],
        past: vec![(second - 100_000, 1)],
        tokens: vec![(second, Element::of(1))],
        past_tokens: vec![(0, Element::of(2))],
        hash: HashKey::from([7; 16]).id(),
        writes: 1,
        newest: 0,
        samples: Vec::new(),
        dimensions: Default::default(),
        imported: Uniques::new(),
    }
}

fn nonce(lane: u64, number: u64) -> Nonce {
    Nonce { lane, number }
}

/// Asserts that a flush is refused so and that nothing has changed, in memory or in the hot row.
fn assert_refused(cell: &mut CellState, nonce: Nonce, load: &Load, now_ms: i64, refusal: Refusal) {
    let (before, row) = (cell.clone(), cell.hot_row());
    assert_eq!(cell.apply(nonce, load, now_ms), Err(refusal));
    assert!(*cell == before, "{refusal:?} changed the cell");
    assert_eq!(cell.hot_row(), row, "{refusal:?} changed the hot row");
}

#[derive(Clone, Debug)]
enum Event {
    /// A lane's next flush.
    Flush {
        lane: u64,
        added: u64,
        removed: u64,
    },
    /// A copy of the flush at this place among all that were sent, now.
    Copy(prop::sample::Index),
    Tick(i64),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        3 => (0..4_u64, any::<u64>(), any::<u64>())
            .prop_map(|(lane, added, removed)| Event::Flush { lane, added, removed }),
        3 => any::<prop::sample::Index>().prop_map(Event::Copy),
        // 60 events of at most 900 ms stay within the time that nonces are kept.
        1 => (-300..900_i64).prop_map(Event::Tick),
    ]
}

proptest! {
    #![proptest_config(config(41, 256))]

    #[test]
    fn copies_change_nothing_whenever_they_come(events in vec(event(), 1..60)) {
        let mut cell = granted();
        let mut now_ms = BEGIN_MS;
        let mut sent: Vec<(Nonce, Load)> = Vec::new();
        let mut newest: BTreeMap<u64, (u64, FlushEffect)> = BTreeMap::new();
        let mut expected = FlushEffect { sequence: 0, added: 0.into(), removed: 0.into() };
        for event in events {
            match event {
                Event::Tick(milliseconds) => now_ms += milliseconds,
                Event::Flush { lane, added, removed } => {
                    let number = newest.get(&lane).map_or(1, |(number, _)| number + 1);
                    let load = load(added.into(), removed.into());
                    let (outcome, changes) = cell.apply(nonce(lane, number), &load, now_ms).expect("counted");
                    expected = FlushEffect {
                        sequence: expected.sequence + 1,
                        added: expected.added.plus(added.into()),
                        removed: expected.removed.plus(removed.into()),
                    };
                    prop_assert_eq!(outcome, expected);
                    prop_assert!(changes.hot);
                    newest.insert(lane, (number, outcome));
                    sent.push((nonce(lane, number), load));
                }
                Event::Copy(which) if !sent.is_empty() => {
                    let (copy, load) = which.get(&sent);
                    let before = cell.clone();
                    let result = cell.apply(*copy, load, now_ms);
                    let answer = match newest.get(&copy.lane) {
                        Some((number, outcome)) if *number == copy.number => Ok((*outcome, Changes::default())),
                        _ => Err(Refusal::Stray),
                    };
                    prop_assert_eq!(result, answer);
                    prop_assert!(cell == before, "a copy changed the cell");
                }
                Event::Copy(_) => {}
            }
        }
        let part = cell.answer(&Question::plain(1)).expect("it counts for this generation");
        let totals = part.cells[0].1;
        prop_assert_eq!(totals.sequence, expected.sequence);
        prop_assert_eq!(totals.added, expected.added);
        prop_assert_eq!(totals.removed, expected.removed);
    }

    #[test]
    fn stamps_are_clamped_to_the_cells_clock_and_the_past_is_not(
        offset in -20..20_i64, ago in 0..1_000_000_i64,
    ) {
        let mut cell = granted();
        let now = BEGIN_MS / 1_000;
        let load = Load {
            added: 5,
            live: vec![(now + offset, 2)],
            past: vec![(now - ago, 3)],
            ..Load::default()
        };
        cell.apply(nonce(1, 1), &load, BEGIN_MS).expect("counted");
        let clamped = now + offset.clamp(-STAMP_CLAMP_SECONDS, STAMP_CLAMP_SECONDS);
        let mut expected: BTreeMap<i64, u128> = BTreeMap::new();
        for (second, amount) in [(clamped, 2), (now - ago, 3)] {
            *expected.entry(Resolution::Hour.start_of(second)).or_insert(0) += amount;
        }
        let at = |second: i64| Question {
            generation: 1,
            window: Some((second, second)),
            uniques: None,
            history: Some(Range { step: Resolution::Hour, from: i64::MIN, to: i64::MAX }),
            totals_only: true,
            samples: None,
            breakdown: None,
            storage: false,
            step: None,
        };
        let part = cell.answer(&at(clamped)).expect("it counts");
        prop_assert_eq!(part.points, expected);
        let here = if clamped == now - ago { 5 } else { 2 };
        prop_assert_eq!((part.window.count, part.window.max_error), (here, 0));
    }
}

#[test]
fn no_total_keeps_a_cell_from_counting() {
    let mut cell = granted();
    let most = load(u128::MAX, u128::MAX);
    for number in 1..=3 {
        cell.apply(nonce(1, number), &most, BEGIN_MS)
            .expect("a total of 192 bits has room");
    }
    let (outcome, _) = cell
        .apply(nonce(1, 4), &load(1, 0), BEGIN_MS)
        .expect("another client counts on");
    let thrice = CellTotal::from(u128::MAX).plus(u128::MAX).plus(u128::MAX);
    assert_eq!(
        (outcome.sequence, outcome.added, outcome.removed),
        (4, thrice.plus(1), thrice)
    );
    let value = Value::new(outcome.added, outcome.removed);
    assert_eq!(value.to_string(), "1");
}

#[test]
fn without_a_grant_nothing_is_counted() {
    let flush = load(1, 0);
    let mut unborn = CellState::default();
    assert_refused(
        &mut unborn,
        nonce(1, 1),
        &flush,
        BEGIN_MS,
        Refusal::NeedsGrant,
    );

    let mut closed = granted();
    closed
        .apply(nonce(1, 1), &flush, BEGIN_MS)
        .expect("counted");
    closed.close(1);
    assert_refused(
        &mut closed,
        nonce(1, 2),
        &flush,
        BEGIN_MS,
        Refusal::NeedsGrant,
    );

    let mut lapsed = CellState::default();
    let ttl = Ttl {
        seconds: 60,
        mode: TtlMode::Fixed,
        set_at_ms: BEGIN_MS,
    };
    lapsed.take_grant(grant(Some(ttl)), BEGIN_MS);
    lapsed
        .apply(nonce(1, 1), &flush, BEGIN_MS + 59_999)
        .expect("counted");
    let end_ms = BEGIN_MS + 60_000;
    assert_refused(
        &mut lapsed,
        nonce(1, 2),
        &flush,
        end_ms,
        Refusal::NeedsGrant,
    );
    // A copy of what was counted is still answered: its sender must learn the outcome.
    let copy = lapsed.apply(nonce(1, 1), &flush, end_ms);
    assert_eq!(copy.map(|(outcome, _)| outcome.sequence), Ok(1));
}

#[test]
fn a_cell_refuses_lanes_that_it_could_not_remember() {
    let mut cell = granted();
    let flush = Load {
        added: 1,
        ..Load::default()
    };
    let lanes = u64::try_from(LANES_MAX).expect("4,096");
    for lane in 0..lanes {
        cell.apply(nonce(lane, 1), &flush, BEGIN_MS)
            .expect("there is room");
    }
    let late_ms = BEGIN_MS + NONCE_KEPT_MS;
    let refusal = Refusal::TooManyLanes;
    assert_refused(&mut cell, nonce(lanes, 1), &load(1, 0), late_ms, refusal);
    // Lanes that are known go on, and one that fell silent makes room.
    for (number, since_ms) in (2..).zip((5_000..=NONCE_KEPT_MS).step_by(5_000)) {
        cell.apply(nonce(0, number), &flush, BEGIN_MS + since_ms)
            .expect("known");
    }
    cell.apply(nonce(lanes, 1), &flush, late_ms + 1)
        .expect("all others fell silent");
}

#[test]
fn loads_join_whole_or_not_at_all() {
    let mut joined = load(1, 2);
    assert!(joined.absorb(&load(3, 4)));
    assert_eq!((joined.added, joined.removed), (4, 6));
    // Neighbours of one second become one stamp.
    assert_eq!(joined.live, [(BEGIN_MS / 1_000, 4)]);
    let tokens = [&joined.tokens, &joined.past_tokens].map(Vec::len);
    assert_eq!((joined.past.len(), tokens), (2, [2, 2]));
    for next in [load(u128::MAX, 0), load(0, u128::MAX)] {
        let before = joined.clone();
        assert!(!joined.absorb(&next));
        assert_eq!(joined, before);
    }
}

#[test]
fn elements_of_two_hashes_are_never_in_one_load() {
    let of = |key: u8| Load {
        hash: HashKey::from([key; 16]).id(),
        ..load(1, 0)
    };
    let mut joined = of(7);
    let before = joined.clone();
    assert!(!joined.absorb(&of(8)), "another key");
    assert_eq!(joined, before);
    // What has no elements joins any load, and takes what it joins.
    let plain = Load {
        added: 1,
        ..Load::default()
    };
    assert!(joined.absorb(&plain));
    assert_eq!(joined.hash, before.hash);
    let mut mere = plain;
    assert!(mere.absorb(&of(8)));
    assert_eq!(mere.hash, of(8).hash);
}

/// Whichever cell an element came to: a sender may not know yet how many shards there are.
#[test]
fn an_elements_class_is_that_of_its_lot_wherever_it_is_counted() {
    let mut cell = CellState::default();
    let grant = Grant {
        spread: 16,
        ..grant(None)
    };
    cell.take_grant(grant, BEGIN_MS);
    let hashes =
        (0..100_u64).map(|number| number.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ number << 40);
    let load = Load {
        tokens: hashes
            .map(|hashed| (BEGIN_MS / 1_000, Element::of(hashed)))
            .collect(),
        hash: HashKey::from([7; 16]).id(),
        ..load(1, 0)
    };
    cell.apply(nonce(1, 1), &load, BEGIN_MS).expect("counted");
    let uniques = cell.uniques();
    for (_, element) in load.tokens.iter().chain(&load.past_tokens) {
        let own = Class::of_shard(element.lot % 16, 16).expect("a class");
        let mut of_class = uniques.parts().filter(|(source, _)| source.class == own);
        let (_, sketch) = of_class.next().expect("its class");
        assert!(!sketch.clone().insert(element.token));
    }
    assert!(
        uniques
            .parts()
            .all(|(source, _)| source.class != Class::ALL)
    );
}

#[test]
fn a_counter_takes_elements_of_its_own_hash_alone() {
    for (own, taken, refused) in [
        (
            UniqueHash::Keyed,
            HashKey::from([7; 16]).id(),
            HashId::REDIS,
        ),
        (
            UniqueHash::Redis,
            HashId::REDIS,
            HashKey::from([7; 16]).id(),
        ),
    ] {
        let mut cell = CellState::default();
        let mut grant = grant(None);
        grant.settings.unique_hash = own;
        cell.take_grant(grant, BEGIN_MS);
        let of = |hash: HashId| Load { hash, ..load(1, 0) };
        assert_refused(
            &mut cell,
            nonce(1, 1),
            &of(refused),
            BEGIN_MS,
            Refusal::OtherHash(own),
        );
        assert!(cell.uniques().is_empty());
        // Without elements it does not matter.
        let mut plain = of(refused);
        (plain.tokens, plain.past_tokens) = (Vec::new(), Vec::new());
        cell.apply(nonce(1, 2), &plain, BEGIN_MS).expect("counted");
        cell.apply(nonce(1, 3), &of(taken), BEGIN_MS)
            .expect("counted");
        assert_eq!(cell.uniques().hashes(), [taken]);
    }
}
