//! Law: after any set and reset a counter's value is what it was set to, and what each cell counted that the operation
//! did not observe; whoever was away adds nothing until it is heard of, and then what it counted since.

use crate::common;

use common::config;
use proptest::collection::vec;
use proptest::prelude::*;
use tally_core::cluster::operation::{Cells, Operations, ReconciliationReport};
use tally_core::counter::id::Datacenter;
use tally_core::counter::merge::CellTotals;
use tally_core::counter::total::Value;
use tally_wire::messages::{decode, encode};

const PLACES: [&str; 3] = ["FRA", "IAD", "SYD"];
const NOW_MS: i64 = 1_777_593_630_400;

fn datacenter(place: usize) -> Datacenter {
    Datacenter::parse(PLACES[place]).expect("a datacenter")
}

fn value(number: i64) -> Value {
    let amount = Value::new(u128::from(number.unsigned_abs()), 0);
    if number < 0 { amount.negated() } else { amount }
}

fn number(value: Value) -> i128 {
    value.to_string().parse().expect("a small number")
}

#[derive(Clone, Debug)]
enum Step {
    Count {
        place: usize,
        shard: u8,
        added: u32,
        removed: u32,
    },
    Set {
        value: i64,
        away: [bool; 3],
    },
    Hear(usize),
    Tick(i64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let count = (
        0..3_usize,
        0..2_u8,
        0..100_u32,
        prop_oneof![2 => Just(0), 1 => 0..100_u32],
    );
    let step = prop_oneof![
        8 => count.prop_map(|(place, shard, added, removed)| Step::Count { place, shard, added, removed }),
        2 => (-1_000..1_000_i64, any::<[bool; 3]>()).prop_map(|(value, away)| Step::Set { value, away }),
        3 => (0..3_usize).prop_map(Step::Hear),
        3 => (0..1_500_i64).prop_map(Step::Tick),
    ];
    vec(step, 0..60)
}

/// What one datacenter holds, and what plain numbers say of it.
#[derive(Default)]
struct Place {
    cells: Vec<(u8, CellTotals)>,
    last_write_ms: i64,
    /// Its increments: (unix second, amount).
    added: Vec<(i64, u32)>,
    /// What it counted that no operation has observed.
    counted: i128,
    is_away: bool,
}

impl Place {
    fn count(&mut self, shard: u8, added: u32, removed: u32, now_ms: i64) {
        if !self.cells.iter().any(|(known, _)| *known == shard) {
            let totals = CellTotals {
                generation: 1,
                sequence: 0,
                added: 0.into(),
                removed: 0.into(),
            };
            self.cells.push((shard, totals));
        }
        let totals = self.cells.iter_mut().find(|(known, _)| *known == shard);
        let (_, totals) = totals.expect("the cell");
        totals.sequence += 1;
        totals.added = totals.added.plus(added.into());
        totals.removed = totals.removed.plus(removed.into());
        self.last_write_ms = now_ms;
        self.added.push((now_ms.div_euclid(1_000), added));
        self.counted += i128::from(added) - i128::from(removed);
    }

    fn since(&self, second: i64) -> u128 {
        let later = self.added.iter().filter(|(at, _)| *at >= second);
        later.map(|(_, amount)| u128::from(*amount)).sum()
    }

    fn report(&self, at_ms: i64) -> ReconciliationReport {
        ReconciliationReport {
            cells: self.cells.clone(),
            last_write_ms: self.last_write_ms,
            since: self.since(at_ms.div_euclid(1_000)),
        }
    }
}

fn value_of(operations: &Operations, places: &[Place]) -> i128 {
    let beyond =
        |(place, held): (usize, &Place)| operations.beyond(&datacenter(place), &held.cells);
    let sum = places.iter().enumerate().map(beyond);
    number(sum.fold(operations.base(), Value::plus))
}

proptest! {
    #![proptest_config(config(151, 512))]

    #[test]
    fn the_value_is_what_was_set_and_what_came_after(steps in steps()) {
        let mut operations = Operations::default();
        let mut places: Vec<Place> = PLACES.iter().map(|_| Place::default()).collect();
        let (mut base, mut at_ms, mut sets, mut now_ms) = (0_i128, 0_i64, 0_u64, NOW_MS);
        for step in steps {
            match step {
                Step::Tick(milliseconds) => now_ms += milliseconds,
                Step::Count { place, shard, added, removed } => places[place].count(shard, added, removed, now_ms),
                Step::Set { value: aim, away } => {
                    let seen = places.iter().zip(away).enumerate().map(|(place, (held, is_away))| {
                        (datacenter(place), (!is_away).then(|| held.cells.clone()))
                    });
                    operations.set(value(aim), seen.collect(), now_ms);
                    for (held, is_away) in places.iter_mut().zip(away) {
                        held.is_away = is_away;
                        held.counted = 0;
                    }
                    (base, at_ms, sets) = (i128::from(aim), now_ms, sets + 1);
                }
                Step::Hear(place) => {
                    let held = &mut places[place];
                    let is_news = operations.reconcile(&datacenter(place), &held.report(at_ms));
                    prop_assert_eq!(is_news, held.is_away, "settled once");
                    if held.is_away && held.last_write_ms >= at_ms {
                        base += i128::try_from(held.since(at_ms.div_euclid(1_000))).expect("few");
                    }
                    if held.is_away {
                        held.counted = 0;
                    }
                    held.is_away = false;
                }
            }
            let present = places.iter().filter(|held| !held.is_away);
            let expected = base + present.map(|held| held.counted).sum::<i128>();
            prop_assert_eq!(value_of(&operations, &places), expected);
            prop_assert_eq!(number(operations.base()), base);
            prop_assert_eq!((operations.number(), operations.at_ms()), (sets, at_ms));
            for (place, held) in places.iter().enumerate() {
                prop_assert_eq!(operations.is_reconciled(&datacenter(place)), !held.is_away);
                prop_assert_eq!(operations.unreconciled().contains(&datacenter(place)), held.is_away);
                // What the root tells the lead of the only datacenter.
                let own = held.cells.iter().fold(Value::default(), |sum, (_, totals)| {
                    sum.plus(Value::new(totals.added, totals.removed))
                });
                if !held.is_away {
                    let alone = operations.rest_of(&datacenter(place)).plus(own);
                    prop_assert_eq!(number(alone), base + held.counted);
                }
            }
            let stored = encode(&operations).expect("a row");
            prop_assert_eq!(decode::<Operations>(&stored), Ok(operations.clone()));
        }
    }

    #[test]
    fn a_second_reset_subtracts_nothing_twice(
        counts in vec((0..3_usize, 0..2_u8, 0..100_u32, 0..100_u32), 0..20), more in 0..100_u32,
    ) {
        let mut operations = Operations::default();
        let mut places: Vec<Place> = PLACES.iter().map(|_| Place::default()).collect();
        for (place, shard, added, removed) in counts {
            places[place].count(shard, added, removed, NOW_MS);
        }
        let seen = |places: &[Place]| -> Vec<(Datacenter, Option<Cells>)> {
            let each = places.iter().enumerate();
            each.map(|(place, held)| (datacenter(place), Some(held.cells.clone()))).collect()
        };
        let observed = seen(&places);
        places[0].count(0, more, 0, NOW_MS);
        // Both have observed the same, as concurrent ones would: what came meanwhile is kept.
        operations.set(Value::default(), observed.clone(), NOW_MS);
        prop_assert_eq!(value_of(&operations, &places), i128::from(more));
        operations.set(Value::default(), observed, NOW_MS);
        prop_assert_eq!(value_of(&operations, &places), i128::from(more));
        operations.set(Value::default(), seen(&places), NOW_MS);
        prop_assert_eq!(value_of(&operations, &places), 0);
    }
}

#[test]
fn nothing_was_set_where_there_was_no_operation() {
    let operations = Operations::default();
    assert_eq!((operations.number(), operations.at_ms()), (0, 0));
    assert_eq!(operations.base(), Value::default());
    let mut place = Place::default();
    place.count(1, 7, 2, NOW_MS);
    assert_eq!(number(operations.beyond(&datacenter(0), &place.cells)), 5);
    assert_eq!(number(operations.rest_of(&datacenter(0))), 0);
}

#[test]
fn what_an_unsettled_datacenter_counted_after_is_kept_by_whole_seconds() {
    let mut operations = Operations::default();
    let mut away = Place::default();
    away.count(0, 40, 0, NOW_MS - 1_000);
    operations.set(value(100), vec![(datacenter(1), None)], NOW_MS);
    away.count(0, 7, 0, NOW_MS + 1);
    away.count(1, 2, 9, NOW_MS + 5_000);
    assert_eq!(number(operations.beyond(&datacenter(1), &away.cells)), 0);
    assert!(operations.reconcile(&datacenter(1), &away.report(NOW_MS)));
    // Decrements carry no times, so those of the time in between are gone.
    assert_eq!(number(operations.base()), 109);
    assert_eq!(number(operations.beyond(&datacenter(1), &away.cells)), 0);
    assert!(
        !operations.reconcile(&datacenter(1), &away.report(NOW_MS)),
        "once"
    );
    away.count(1, 5, 6, NOW_MS + 6_000);
    assert_eq!(number(operations.beyond(&datacenter(1), &away.cells)), -1);
    // A window that says more than there is adds no more than there is.
    let mut operations = Operations::default();
    operations.set(value(0), vec![(datacenter(1), None)], NOW_MS);
    let report = ReconciliationReport {
        since: u128::MAX,
        ..away.report(NOW_MS)
    };
    operations.reconcile(&datacenter(1), &report);
    assert_eq!(number(operations.base()), 54);
}
