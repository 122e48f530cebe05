//! Laws: what is imported is joined to what a cell has, once or often, alone or with others; it counts no hit, is in no
//! window, and outlives a restart.

use crate::common;
use crate::common::rows;

use common::config;
use proptest::collection::vec;
use proptest::prelude::*;
use rows::Rows;
use tally_core::counter::cell::CellState;
use tally_core::counter::flush::{Changes, Element, Load, Refusal};
use tally_core::counter::grant::Grant;
use tally_core::counter::lane::BATCH_ENTRIES_MAX;
use tally_core::counter::lane::batchable::Batchable;
use tally_core::counter::nonces::Nonce;
use tally_core::counter::settings::{Settings, UniqueHash};
use tally_core::sketch::{HashId, Hll, Uniques, redis_hash, redis_token};

const NOW_MS: i64 = 1_777_593_630_000;

fn granted(unique_hash: UniqueHash) -> CellState {
    let mut cell = CellState::default();
    let grant = Grant {
        generation: 1,
        settings: Settings {
            unique_hash,
            ..Settings::default()
        },
        alone: true,
        ..Grant::default()
    };
    cell.take_grant(grant, NOW_MS);
    cell
}

const fn nonce(number: u64) -> Nonce {
    Nonce { lane: 1, number }
}

fn hll_of(elements: &[u16]) -> Hll {
    let mut hll = Hll::new();
    for element in elements {
        hll.insert(redis_token(&element.to_le_bytes()));
    }
    hll
}

/// The string of these elements, as it comes from Redis.
fn imported(elements: &[u16]) -> Load {
    let string = hll_of(elements).to_bytes();
    Load {
        hash: HashId::REDIS,
        imported: Uniques::from_hll(&Hll::from_bytes(&string).expect("a string")),
        ..Load::default()
    }
}

/// One increment for each element.
fn counted(elements: &[u16]) -> Load {
    let second = NOW_MS / 1_000;
    let element = |element: &u16| Element::by(HashId::REDIS, redis_hash(&element.to_le_bytes()));
    Load {
        added: elements.len().try_into().expect("a few"),
        tokens: elements.iter().map(|one| (second, element(one))).collect(),
        hash: HashId::REDIS,
        ..Load::default()
    }
}

fn elements() -> impl Strategy<Value = Vec<u16>> {
    prop_oneof![vec(any::<u16>(), 0..30), vec(any::<u16>(), 0..3_000)]
}

/// Only ever equal where both are, byte for byte.
fn bytes_of(cell: &CellState) -> Vec<u8> {
    let hll = cell.uniques().hll();
    hll.expect("elements of Redis's hash alone").to_bytes()
}

proptest! {
    #![proptest_config(config(81, 60))]

    #[test]
    fn an_import_is_a_union_and_again_it_is_nothing(
        own in elements(),
        others in vec(elements(), 1..4),
        joins in any::<bool>(),
        seconds in 0..200_i64,
    ) {
        let mut cell = granted(UniqueHash::Redis);
        let rows = Rows::default();
        let mut loads = vec![counted(&own)];
        for other in &others {
            let load = imported(other);
            let joined = joins && loads.last_mut().is_some_and(|last| last.absorb(&load));
            prop_assert_eq!(joined, joins);
            if !joined {
                loads.push(load);
            }
        }
        for (number, load) in (1..).zip(&loads) {
            prop_assert!(load.entries() < BATCH_ENTRIES_MAX);
            let now_ms = NOW_MS + seconds * 1_000;
            let (_, changes) = cell.apply(nonce(number), load, now_ms).expect("counted");
            rows.write(&cell, &changes, now_ms / 1_000);
        }
        let mut all = own.clone();
        all.extend(others.iter().flatten());
        let expected = hll_of(&all);
        prop_assert_eq!(bytes_of(&cell), expected.to_bytes());
        // To the digit what Redis says of them.
        let estimate = format!("{}", cell.uniques().estimate().estimate);
        prop_assert_eq!(estimate, expected.estimate().to_string());

        // The same flush, and the same string in a new one.
        let total = u128::try_from(own.len()).expect("a few");
        let before = cell.clone();
        let last = u64::try_from(loads.len()).expect("a few");
        let repeated = cell.apply(nonce(last), &loads[loads.len() - 1], NOW_MS + seconds * 1_000);
        let (outcome, changes) = repeated.expect("a repeat");
        prop_assert_eq!(outcome.added, total);
        prop_assert_eq!(changes, Changes::default());
        prop_assert_eq!(&cell, &before);
        let again = imported(&others[0]);
        let (outcome, changes) = cell.apply(nonce(99), &again, NOW_MS + seconds * 1_000).expect("counted");
        prop_assert_eq!(outcome.added, total);
        prop_assert_eq!(outcome.removed, 0);
        prop_assert!(!changes.all_time && changes.minutes.is_empty(), "{changes:?}");
        prop_assert_eq!(bytes_of(&cell), expected.to_bytes());

        // What was acknowledged is there after a restart.
        let restarted = rows.load();
        prop_assert_eq!(bytes_of(&restarted), expected.to_bytes());
    }
}

#[test]
fn an_import_is_in_no_window() {
    let mut cell = granted(UniqueHash::Redis);
    let (_, changes) = cell
        .apply(nonce(1), &imported(&[1, 2, 3]), NOW_MS)
        .expect("counted");
    assert!(changes.hot && changes.all_time);
    assert!(changes.minutes.is_empty() && changes.late_tokens.is_empty());
    assert!(changes.pages.is_empty());
    // An element that comes by itself is, whether it was imported before or not.
    let (_, changes) = cell
        .apply(nonce(2), &counted(&[3]), NOW_MS)
        .expect("counted");
    assert_eq!(changes.minutes.len(), 1);
}

#[test]
fn a_counter_of_the_other_hash_refuses_an_import_and_a_lane_does_not_mix_them() {
    let mut cell = granted(UniqueHash::Keyed);
    let before = cell.clone();
    let refused = cell.apply(nonce(1), &imported(&[1]), NOW_MS);
    assert_eq!(refused.err(), Some(Refusal::OtherHash(UniqueHash::Keyed)));
    assert_eq!(cell, before);
    let mut keyed = counted(&[1]);
    keyed.hash = HashId::default();
    let unchanged = keyed.clone();
    assert!(!keyed.absorb(&imported(&[1])));
    assert_eq!(keyed, unchanged);
}
