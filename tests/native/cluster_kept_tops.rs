//! Law: a kept top that followed the writes of its rows has what its table has.

use crate::common;

use std::collections::BTreeMap;

use common::config;
use proptest::collection::vec;
use proptest::prelude::*;
use tally_core::cluster::kept_tops::{KeptTop, KeptTops, RowBefore, RowlessCounters, Written};
use tally_core::cluster::standings::Standings;
use tally_core::cluster::top_order::{KnownTotal, OrderBy, TopOrder, WindowStart};
use tally_core::cluster::total::CounterTotal;
use tally_core::counter::id::CounterId;
use tally_core::counter::total::Value;

/// The hour in which the window of the second order begins.
const FROM: i64 = 100;

/// A row of the table, with its count when the window began.
#[derive(Clone, Copy, Debug)]
struct Row {
    hour: i64,
    count: u32,
    count_before: u32,
    as_of_ms: i64,
}

impl Row {
    /// What it amounts to of all time, and in the window.
    fn amounts(self) -> [i64; 2] {
        let in_window = match self.hour >= FROM {
            true => self.count - self.count_before,
            false => 0,
        };
        [self.count.into(), in_window.into()]
    }

    /// The column as the table would be read.
    fn column(self) -> String {
        let Self {
            hour,
            count,
            as_of_ms,
            ..
        } = self;
        let [all, in_window] = self.amounts();
        format!("{hour} 0 0 0 {as_of_ms} {count} {all} {in_window}")
    }

    fn known(self) -> KnownTotal {
        let total = CounterTotal {
            value: Value::new(u128::from(self.count), 0),
            count: u128::from(self.count).into(),
            as_of_ms: self.as_of_ms,
            last_write_ms: self.as_of_ms,
        };
        KnownTotal {
            total,
            uniques: None,
        }
    }
}

type Table = BTreeMap<CounterId, Row>;

fn orders() -> [TopOrder; 2] {
    let windows = [None, Some(WindowStart::Hour(FROM))];
    windows.map(|since| TopOrder::new("page-", OrderBy::Count, since))
}

/// The names of an order with their amounts, as the table has them.
fn sorted(table: &Table, order: usize) -> Vec<(CounterId, i64)> {
    let rows = table.iter();
    let rows = rows.map(|(counter, row)| (counter.clone(), row.amounts()[order]));
    let mut rows: Vec<_> = rows.filter(|(_, amount)| *amount > 0).collect();
    rows.sort_by(|one, other| other.1.cmp(&one.1).then(one.0.cmp(&other.0)));
    rows
}

fn writes() -> impl Strategy<Value = Vec<(u8, Option<(i64, u32)>)>> {
    // By how many hours the clock advances, and what is counted; or the row leaves.
    let write = prop_oneof![
        6 => (0_i64..2, 0_u32..6).prop_map(Some),
        1 => Just(None),
    ];
    vec((0_u8..8, write), 0..120)
}

proptest! {
    #![proptest_config(config(920, 300))]

    #[test]
    fn kept_tops_follow_writes(writes in writes()) {
        let kept = KeptTops::default();
        for order in orders() {
            let mut standings = Standings::new((0, 0), 0, None, 4);
            standings.set_first(Vec::new(), 100);
            let rowless = RowlessCounters::Names(BTreeMap::new());
            kept.put(KeptTop::new(order, standings, Value::default(), rowless));
        }
        let (mut table, mut hour) = (Table::new(), FROM - 3);
        for (at_ms, (number, write)) in (0..).zip(writes) {
            let counter = CounterId::parse(format!("page-{number}")).unwrap();
            let before = table.get(&counter).copied();
            let column = before.map(Row::column);
            let Some((hours, counted)) = write else {
                kept.leaves(&counter, column.as_deref());
                table.remove(&counter);
                continue;
            };
            hour += hours;
            let count = before.map_or(0, |row| row.count);
            let begins = before.is_none_or(|row| row.hour < FROM);
            let row = Row {
                hour,
                count: count + counted,
                count_before: match before {
                    Some(row) if !begins => row.count_before,
                    _ => count,
                },
                as_of_ms: at_ms,
            };
            let written = Written { hour, known: row.known() };
            let read = column.as_deref().map(RowBefore::read);
            kept.written(&counter, read.as_ref(), &written);
            table.insert(counter, row);
            for (index, order) in orders().iter().enumerate() {
                let top = kept.take(order);
                // A window that begins before the stored hours is dropped.
                let Some(top) = top else { continue };
                let rows = sorted(&table, index);
                let total: i64 = rows.iter().map(|(_, amount)| *amount).sum();
                prop_assert_eq!(top.standings.total, i128::from(total));
                prop_assert_eq!(top.standings.named, u64::try_from(table.len()).unwrap());
                let first = top.standings.first(5).expect("all rows are among the first");
                let first: Vec<_> = first
                    .into_iter()
                    .map(|row| (row.counter, row.amount))
                    .collect();
                let narrow = |amount: i64| Value::new(u128::from(amount.unsigned_abs()), 0);
                let rows: Vec<_> = rows
                    .into_iter()
                    .take(5)
                    .map(|(counter, amount)| (counter, narrow(amount)))
                    .collect();
                prop_assert_eq!(first, rows);
                kept.put(top);
            }
        }
    }
}
