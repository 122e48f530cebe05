//! The keys that hold most are those that a sum over all keys says, whatever the table drops meanwhile.

use tally_limit::named::{CallWork, Holders, NamedCall};
use tally_limit::policy::Policy;
use tally_limit::table::{Check, Table};

use crate::policy_kinds::{BEGIN_MS, Chance};

const KEYS: u64 = 3_000;

fn hold(table: &mut Table, policy: &str, key: &str, amount: u64, number: u64) {
    let mut name = [0; 16];
    name[..8].copy_from_slice(&number.to_le_bytes());
    let fields = Policy::sliding(1_000_000, 60);
    let call = NamedCall {
        name,
        is_repeatable: false,
        request: number,
        account: 0,
        work: CallWork::Hold {
            length_ms: 60_000,
            is_returned: false,
        },
    };
    let check = Check::of(policy, &fields, key, amount);
    let at_ms = BEGIN_MS + i64::try_from(number).unwrap();
    table.call(&check, &call, at_ms).unwrap();
}

#[test]
fn the_keys_that_hold_most_are_listed_by_what_they_hold() {
    let mut chance = Chance(5);
    let mut tables = [Table::stored(), Table::stored()];
    let mut sums = std::collections::BTreeMap::new();
    let mut all = 0;
    for number in 0..2 * KEYS {
        let key = format!("key-{}", chance.below(KEYS));
        let amount = 1 + chance.below(1_000);
        // Each key has its own table, as each has its own limiter.
        let table = &mut tables[key.len() % 2];
        hold(table, "p", &key, amount, number);
        hold(table, "pp", &key, 1_000_000, number);
        *sums.entry(key).or_insert(0) += amount;
        all += amount;
    }
    let now_ms = BEGIN_MS + 20_000;
    let mut found = Holders::default();
    for table in &tables {
        found.join(table.holders("p", 10, now_ms), 10);
    }
    let mut expected: Vec<(String, u64)> = sums.clone().into_iter().collect();
    expected.sort_by_key(|(key, sum)| (u64::MAX - sum, key.clone()));
    expected.truncate(10);
    let listed: Vec<(String, u64)> = found
        .keys
        .iter()
        .map(|(key, open)| (key.clone(), open.amount))
        .collect();
    assert_eq!(listed, expected);
    assert_eq!(found.all.amount, all);
    assert_eq!((found.all.count, found.all.oldest_ms), (2 * KEYS, BEGIN_MS));
    assert_eq!(found.count, u64::try_from(sums.len()).unwrap());
    // All of them end.
    let late_ms = BEGIN_MS + 120_000;
    let ended = tables.map(|table| table.holders("p", 10, late_ms));
    assert_eq!(ended, [Holders::default(), Holders::default()]);
}
