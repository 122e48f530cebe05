//! The laws of merging: a vector is a state-based CRDT, a summary is a plain sum.

use crate::common;
use crate::common::merging;

use std::collections::{BTreeMap, BTreeSet};

use common::config;
use merging::{datacenter, laws_of_merging};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use tally_core::counter::flush::Element;
use tally_core::counter::history::Count;
use tally_core::counter::merge::{CellFacts, CellTotals, Part, Vector};
use tally_core::counter::total::{CellTotal, Sum, Value};
use tally_core::sketch::{HashKey, Uniques, hash};

/// A message of a cell: (datacenter, shard, generation, sequence).
type CellMessage = (u8, u8, u64, u64);

fn totals((place, shard, generation, sequence): CellMessage) -> CellTotals {
    merging::totals(place, shard, generation, sequence)
}

fn vector(messages: &[CellMessage]) -> Vector {
    let mut vector = Vector::default();
    for &message in messages {
        vector.merge_cell((datacenter(message.0), message.1), totals(message));
    }
    vector
}

fn any_messages() -> impl Strategy<Value = Vec<CellMessage>> {
    vec((0..3_u8, 0..3_u8, 1..4_u64, 0..6_u64), 0..20)
}

laws_of_merging!(Vector, any_messages, vector, 11);

fn any_facts() -> impl Strategy<Value = CellFacts> {
    any::<i64>().prop_map(CellFacts::written)
}

fn signed(total: CellTotal) -> i128 {
    i128::try_from(Sum::from(total).low_bits()).expect("small")
}

proptest! {
    #![proptest_config(config(11, 256))]

    #[test]
    fn facts_join_in_any_order_and_any_number_of_times(one in any_facts(), two in any_facts(), three in any_facts()) {
        prop_assert_eq!(one.join(two), two.join(one));
        prop_assert_eq!(one.join(two).join(three), one.join(two.join(three)));
        prop_assert_eq!(one.join(two).join(two), one.join(two));
        prop_assert_eq!(one.join(CellFacts::default()), one);
    }

    #[test]
    fn the_value_is_that_of_the_newest_generation(messages in any_messages()) {
        let newest = messages.iter().map(|message| message.2).max();
        let mut cells: BTreeMap<(u8, u8), CellMessage> = BTreeMap::new();
        for &message in messages.iter().filter(|message| Some(message.2) == newest) {
            let known = cells.entry((message.0, message.1)).or_insert(message);
            *known = message.max(*known);
        }
        let value: i128 = cells
            .values()
            .map(|message| totals(*message))
            .map(|totals| signed(totals.added) - signed(totals.removed))
            .sum();
        prop_assert_eq!(vector(&messages).value().to_string(), value.to_string());
    }

    #[test]
    fn a_note_is_news_exactly_if_it_is_newer(messages in any_messages(), next in any_messages()) {
        for message in next {
            let mut known = vector(&messages);
            let before = known.clone();
            let of_cell = messages.iter().filter(|other| (other.0, other.1) == (message.0, message.1));
            let newest = of_cell.map(|other| (other.2, other.3)).max();
            let is_news = newest.is_none_or(|newest| newest < (message.2, message.3));
            prop_assert_eq!(known.merge_cell((datacenter(message.0), message.1), totals(message)), is_news);
            prop_assert_eq!(known != before, is_news);
        }
    }
}

/// A cell's share in plain numbers.
#[derive(Clone, Debug)]
struct Share {
    added: u64,
    removed: u64,
    last_write_ms: i64,
    elements: Vec<u8>,
    recent: Vec<u8>,
    window: Option<(u64, u64)>,
    points: BTreeMap<i64, u64>,
    kept_from: i64,
}

fn share() -> impl Strategy<Value = Share> {
    (
        any::<u64>(),
        any::<u64>(),
        -5..5_i64,
        vec(any::<u8>(), 0..6),
        vec(any::<u8>(), 0..6),
        proptest::option::of((any::<u64>(), any::<u64>())),
        btree_map(0..6_i64, any::<u64>(), 0..5),
        prop_oneof![Just(i64::MIN), -3..3_i64],
    )
        .prop_map(
            |(added, removed, last_write_ms, elements, recent, window, points, kept_from)| Share {
                added,
                removed,
                last_write_ms,
                elements,
                recent,
                window,
                points,
                kept_from,
            },
        )
}

fn uniques<'a>(elements: impl IntoIterator<Item = &'a u8>) -> Uniques {
    let key = HashKey::from([0; 16]);
    let mut uniques = Uniques::new();
    for element in elements {
        let element = Element::of(hash(&key, &[*element]));
        uniques.insert(element.source(key.id(), 4), element.token);
    }
    uniques
}

fn sum(shares: &[Share]) -> Part {
    let mut sum = Part::default();
    for share in shares {
        let totals = CellTotals {
            generation: 1,
            sequence: 1,
            added: u128::from(share.added).into(),
            removed: u128::from(share.removed).into(),
        };
        let window = share.window.unwrap_or_default();
        sum.add(Part {
            cells: vec![(0, totals)],
            facts: CellFacts::written(share.last_write_ms),
            uniques: uniques(&share.elements),
            window_uniques: uniques(&share.recent),
            window: Count {
                count: window.0.into(),
                max_error: window.1.into(),
            },
            points: share
                .points
                .iter()
                .map(|(&start, &count)| (start, count.into()))
                .collect(),
            kept_from: Some(share.kept_from),
            ..Part::default()
        });
    }
    // The order of cells says nothing.
    sum.cells
        .sort_by_key(|(_, totals)| Value::new(totals.added, totals.removed).totals());
    sum
}

proptest! {
    #![proptest_config(config(12, 256))]

    #[test]
    fn a_part_is_the_sum_of_its_cells(shares in vec(share(), 0..6)) {
        let sum = sum(&shares);
        let total = |of: fn(&Share) -> u64| shares.iter().map(|share| u128::from(of(share))).sum::<u128>();
        prop_assert_eq!(sum.added().to_string(), total(|share| share.added).to_string());
        prop_assert_eq!(sum.value(), Value::new(total(|share| share.added), total(|share| share.removed)));
        prop_assert_eq!(sum.window.count, total(|share| share.window.unwrap_or_default().0));
        prop_assert_eq!(sum.window.max_error, total(|share| share.window.unwrap_or_default().1));
        let newest = shares.iter().map(|share| share.last_write_ms).max();
        prop_assert_eq!(sum.facts.last_write_ms, newest.unwrap_or(i64::MIN));
        let kept_from = shares.iter().map(|share| share.kept_from).max();
        prop_assert_eq!(sum.kept_from, kept_from);
        let starts: BTreeSet<i64> = shares.iter().flat_map(|share| share.points.keys().copied()).collect();
        prop_assert_eq!(sum.points.keys().copied().collect::<BTreeSet<_>>(), starts);
        for (start, count) in &sum.points {
            let of_cells = shares.iter().filter_map(|share| share.points.get(start));
            prop_assert_eq!(*count, of_cells.map(|count| u128::from(*count)).sum::<u128>());
        }
        let all = uniques(shares.iter().flat_map(|share| &share.elements));
        prop_assert_eq!(&sum.uniques, &all);
        let recent = uniques(shares.iter().flat_map(|share| &share.recent));
        prop_assert_eq!(&sum.window_uniques, &recent);
    }

    #[test]
    fn sums_of_sums_are_sums_in_any_order(shares in vec(share(), 0..6), at in 0..6_usize) {
        let (left, right) = shares.split_at(at.min(shares.len()));
        let (mut one, mut other) = (sum(left), sum(right));
        one.add(sum(right));
        other.add(sum(left));
        let by_totals = |(_, totals): &(u8, CellTotals)| Value::new(totals.added, totals.removed).totals();
        one.cells.sort_by_key(by_totals);
        other.cells.sort_by_key(by_totals);
        prop_assert_eq!(&one, &sum(&shares));
        prop_assert_eq!(&other, &one);
    }
}
