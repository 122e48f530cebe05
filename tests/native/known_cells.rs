//! Law: a value with what an isolate knows has each acknowledged write once, whatever of it the view includes, also
//! after a set.

use crate::common;

use common::config;
use proptest::collection::vec;
use proptest::prelude::*;
use tally_core::cluster::root::Root;
use tally_core::counter::id::{CounterId, Datacenter};
use tally_core::counter::merge::{CellTotals, Part};
use tally_core::counter::nonces::FlushEffect;
use tally_core::counter::total::Value;
use tally_core::sketch::Uniques;
use tally_wire::isolate::known_cells::{AcknowledgedWrite, KnownCells, lost};
use tally_wire::messages::{Flushed, GlobalSum};
use tally_wire::names::CellAddress;

const PLACES: [&str; 2] = ["FRA", "SYD"];
const SHARDS: u8 = 2;

fn datacenter(place: usize) -> Datacenter {
    Datacenter::parse(PLACES[place]).expect("a datacenter")
}

/// A write to a cell: its place, shard and amounts, and whether this isolate sent it.
#[derive(Clone, Copy, Debug)]
struct Count {
    place: usize,
    shard: u8,
    added: u8,
    removed: u8,
    is_own: bool,
}

fn counts() -> impl Strategy<Value = Vec<Count>> {
    let count = (0..2_usize, 0..SHARDS, 0..20_u8, 0..3_u8, any::<bool>());
    let count = count.prop_map(|(place, shard, added, removed, is_own)| Count {
        place,
        shard,
        added,
        removed,
        is_own,
    });
    vec(count, 1..40)
}

/// The totals of a cell after the first writes.
fn totals_of(counts: &[Count], place: usize, shard: u8) -> CellTotals {
    let own = counts
        .iter()
        .filter(|one| one.place == place && one.shard == shard);
    let mut totals = CellTotals {
        generation: 7,
        sequence: 0,
        added: 0.into(),
        removed: 0.into(),
    };
    for one in own {
        totals.sequence += 1;
        totals.added = totals.added.plus(one.added.into());
        totals.removed = totals.removed.plus(one.removed.into());
    }
    totals
}

/// The view of a reader that has seen so many writes of each datacenter; `None` where that did not answer.
fn view(counts: &[Count], seen: [Option<usize>; 2], set: Option<(i64, usize)>) -> GlobalSum {
    let mut root = Root {
        generation: 7,
        ..Root::create(None, 1)
    };
    let cells = |upto: usize, place| {
        let cells = 0..SHARDS;
        let cells = cells.map(|shard| (shard, totals_of(&counts[..upto], place, shard)));
        cells
            .filter(|(_, totals)| totals.sequence > 0)
            .collect::<Vec<_>>()
    };
    if let Some((value, at)) = set {
        let at = at.min(counts.len());
        let observed = (0..2).map(|place| (datacenter(place), Some(cells(at, place))));
        let value = Value::new(u128::from(value.unsigned_abs()), 0);
        root.set(value, observed.collect(), 1);
    }
    let part = |place: usize| {
        let part = seen[place].map(|upto| Part {
            cells: cells(upto.min(counts.len()), place),
            ..Part::default()
        });
        (datacenter(place), part)
    };
    GlobalSum {
        root,
        datacenters: (0..2).map(part).collect(),
        is_whole: true,
        uniques: Uniques::new(),
        window_uniques: Uniques::new(),
        is_drained: false,
    }
}

fn number(value: Value) -> i64 {
    value.to_string().parse().expect("a small number")
}

fn size(one: &Count) -> i64 {
    i64::from(one.added) - i64::from(one.removed)
}

fn known_of(counts: &[Count]) -> KnownCells {
    let mut known = KnownCells::default();
    for (at, one) in counts.iter().enumerate().filter(|(_, one)| one.is_own) {
        let totals = totals_of(&counts[..=at], one.place, one.shard);
        known.record((datacenter(one.place), one.shard), totals);
    }
    known
}

proptest! {
    #![proptest_config(config(46, 256))]

    #[test]
    fn a_value_has_each_write_once(
        counts in counts(),
        seen in [proptest::option::of(0..40_usize), proptest::option::of(0..40_usize)],
        set in proptest::option::of((0..1_000_i64, 0..40_usize)),
    ) {
        let known = known_of(&counts);
        let value = number(known.value_with(&view(&counts, seen, set)));
        // A cell is known up to its last own write, or as far as the view has it.
        let upto = |place: usize, shard: u8| {
            let own = |one: &Count| one.is_own && one.place == place && one.shard == shard;
            let own = counts.iter().rposition(own).map_or(0, |at| at + 1);
            own.max(seen[place].unwrap_or(0).min(counts.len()))
        };
        let from = set.map_or(0, |(_, at)| at.min(counts.len()));
        let mut expected = set.map_or(0, |(value, _)| value);
        for (at, one) in counts.iter().enumerate() {
            if at >= from && at < upto(one.place, one.shard) {
                expected += size(one);
            }
        }
        prop_assert_eq!(value, expected);
    }

    #[test]
    fn answers_hold_the_write_and_what_was_acknowledged_before(
        counts in counts(),
        seen in [proptest::option::of(0..40_usize), proptest::option::of(0..40_usize)],
        later in 0..5_u8,
    ) {
        let mut counts = counts;
        for one in &mut counts {
            one.removed = 0;
        }
        let last = Count { place: 0, shard: 1, added: 9, removed: 0, is_own: true };
        counts.push(Count { added: last.added + later, ..last });
        let known = known_of(&counts);
        let (cell, totals) = (
            CellAddress {
                counter: CounterId::parse("hits").expect("an id"),
                datacenter: datacenter(0),
                shard: 1,
            },
            totals_of(&counts, 0, 1),
        );
        let flushed = Flushed {
            generation: 7,
            outcome: FlushEffect {
                sequence: totals.sequence,
                added: totals.added,
                removed: totals.removed,
            },
            elsewhere: None,
            shards: SHARDS,
            linger_ms: 0,
            operations: 0,
            is_apart: false,
        };
        let write = AcknowledgedWrite {
            cell: &cell,
            flushed: &flushed,
            later: (later.into(), 0),
            own: Value::new(9_u128, 0_u128),
        };
        let own: i64 = counts.iter().filter(|one| one.is_own).map(size).sum();
        let all: i64 = counts.iter().map(size).sum();
        for sum in [None, Some(view(&counts, seen, None))] {
            let value = number(known.answer_to(&write, sum.as_ref()));
            prop_assert!(value >= own - i64::from(later), "{value} below {own}");
            prop_assert!(value <= all, "{value} above {all}");
        }
    }
}

#[test]
fn a_later_view_that_lacks_a_datacenter_loses_its_cells() {
    let count = |place| Count {
        place,
        shard: 0,
        added: 5,
        removed: 0,
        is_own: false,
    };
    let counts = [count(0), count(1), count(1)];
    let earlier = view(&counts, [Some(3), Some(3)], None);
    let later = view(&counts, [Some(3), Some(2)], None);
    let cells = lost(&earlier, &later);
    assert_eq!(cells.len(), 1);
    let mut known = KnownCells::default();
    for (cell, totals) in cells {
        known.record(cell, totals);
    }
    assert_eq!(number(known.value_with(&later)), 15);
    assert!(lost(&later, &earlier).is_empty());
}
