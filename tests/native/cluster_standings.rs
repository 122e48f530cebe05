//! Law: standings that followed changes tell what standings read anew tell.

use crate::common;

use std::collections::BTreeMap;

use common::config;
use proptest::collection::vec;
use proptest::prelude::*;
use tally_core::cluster::standings::{OldestUnknown, Standing, Standings};
use tally_core::counter::id::CounterId;

/// What one counter has, as a table would hold it.
#[derive(Clone, Copy, Debug)]
struct Row {
    amount: i64,
    as_of_ms: i64,
}

impl Row {
    fn standing(self) -> Standing {
        Standing {
            size: i32::from(self.amount >= 8) - i32::from(self.amount < 0),
            amount: self.amount,
            as_of_ms: self.as_of_ms,
            is_counted: self.amount > 0,
        }
    }
}

type Table = BTreeMap<CounterId, Row>;

/// The counted rows in their order.
fn sorted(table: &Table) -> Vec<(CounterId, Standing, i64)> {
    let rows = table
        .iter()
        .map(|(counter, row)| (counter.clone(), row.standing(), row.amount));
    let mut rows: Vec<_> = rows
        .filter(|(_, standing, _)| standing.is_counted)
        .collect();
    rows.sort_by(|one, other| other.2.cmp(&one.2).then(one.0.cmp(&other.0)));
    rows
}

fn oldest(table: &Table, most: usize) -> Vec<i64> {
    let mut oldest: Vec<i64> = table.values().map(|row| row.as_of_ms).collect();
    oldest.sort_unstable();
    oldest.truncate(most);
    oldest
}

/// Changes of one of 40 counters: its amount and `as_of` from then on, or that it leaves. Few amounts, so that many are
/// equal.
fn changes() -> impl Strategy<Value = Vec<(u8, Option<(i64, i64)>)>> {
    let row = prop_oneof![
        4 => (-2_i64..20, 0_i64..30).prop_map(Some),
        1 => Just(None),
    ];
    vec((0_u8..40, row), 0..300)
}

proptest! {
    #![proptest_config(config(919, 400))]

    #[test]
    fn standings_follow_changes(
        begin in changes(),
        changes in changes(),
        most in 1_usize..12,
        oldest_max in 1_usize..8,
        limit in 0_usize..14,
    ) {
        let id = |number: u8| CounterId::parse(format!("page-{number}")).unwrap();
        let row = |(amount, as_of_ms)| Row { amount, as_of_ms };
        let mut table = Table::new();
        for (number, change) in begin {
            match change {
                Some(change) => drop(table.insert(id(number), row(change))),
                None => drop(table.remove(&id(number))),
            }
        }
        let counted = u64::try_from(sorted(&table).len()).unwrap();
        let named = u64::try_from(table.len()).unwrap();
        let total = table.values().map(|row| i128::from(row.amount)).sum();
        let first = oldest(&table, 1).first().copied();
        let mut standings = Standings::new((counted, named), total, first, oldest_max);
        for (number, change) in changes {
            let counter = id(number);
            if let Some(before) = table.remove(&counter) {
                standings.remove(&counter, &before.standing());
            }
            if let Some(after) = change.map(row) {
                table.insert(counter.clone(), after);
                standings.add(&counter, &after.standing(), || after.amount);
            }
            let all = sorted(&table);
            prop_assert_eq!(standings.counters, u64::try_from(all.len()).unwrap());
            prop_assert_eq!(standings.named, u64::try_from(table.len()).unwrap());
            let total: i64 = table.values().map(|row| row.amount).sum();
            prop_assert_eq!(standings.total, i128::from(total));
            if standings.oldest_ms() == Err(OldestUnknown) {
                let read = oldest(&table, oldest_max);
                let has_all = read.len() < oldest_max;
                standings.set_oldest(read, has_all);
            }
            prop_assert_eq!(standings.oldest_ms(), Ok(oldest(&table, 1).first().copied()));
            if standings.first(limit).is_none() && limit <= most {
                standings.set_first(all.iter().take(most).cloned().collect(), most);
            }
            if let Some(first) = standings.first(limit) {
                let rows: Vec<i64> = all.iter().take(limit).map(|(_, _, amount)| *amount).collect();
                prop_assert_eq!(first, rows);
            } else {
                prop_assert!(limit > most, "the first {} of {} are not known", limit, most);
            }
            prop_assert!(standings.first_max() <= most);
        }
    }
}
