//! Laws of what a table stores: after a crash it is as it was at the last commit; the log is bounded; its bytes are
//! fixed.

use std::collections::BTreeMap;

use tally_limit::owner::Owner;
use tally_limit::policy::Policy;
use tally_limit::table::log::{BODY_BYTES_MAX, Broken, ROWS_MAX};
use tally_limit::table::{Check, Table};

use crate::checks::check;
use crate::policy_kinds::{BEGIN_MS, Chance, KINDS, drawn, precise, step_ms};

/// Rows as a database keeps them: a number and a body at each place.
#[derive(Clone, Default)]
pub(crate) struct Rows {
    pub(crate) rows: BTreeMap<u64, (u64, Vec<u8>)>,
    /// How many rows were written or deleted.
    pub(crate) changed: usize,
}

impl Rows {
    /// Writes all that is to be written. Returns how many bytes that was.
    pub(crate) fn commit(&mut self, table: &mut Table) -> usize {
        let mut written = 0;
        while let Some(commit) = table.commit() {
            assert!(commit.body.len() <= BODY_BYTES_MAX);
            written += commit.body.len();
            self.changed += 1 + commit.deleted.len();
            self.rows.insert(commit.place, (commit.row, commit.body));
            for place in commit.deleted {
                let deleted = self.rows.remove(&place);
                assert!(deleted.is_some_and(|(number, _)| number < commit.row));
            }
            let numbers = self.rows.values().map(|(number, _)| *number);
            let first = numbers.clone().min().unwrap_or(0);
            let count = u64::try_from(self.rows.len()).unwrap();
            assert_eq!(first + count, commit.row + 1, "the newest, without gaps");
            assert_eq!(numbers.max(), Some(commit.row));
        }
        assert!(!table.is_dirty());
        written
    }

    pub(crate) fn load(&self, now_ms: i64) -> Table {
        let mut table = Table::stored();
        let rows = self.rows.iter();
        let mut rows: Vec<_> = rows
            .map(|(place, (number, body))| (number, place, body))
            .collect();
        rows.sort();
        for (number, place, body) in rows {
            table.load((*place, *number), body, now_ms).unwrap();
        }
        table
    }

    pub(crate) fn bytes(&self) -> usize {
        self.rows.values().map(|(_, body)| body.len()).sum()
    }
}

#[test]
fn a_table_that_is_loaded_is_as_it_was_at_its_last_commit() {
    for seed in 0..40 {
        let chance = &mut Chance(seed);
        let policies: Vec<Policy> = (0..KINDS).map(|kind| drawn(kind, chance)).collect();
        let mut table = Table::stored();
        let mut rows = Rows::default();
        let mut now_ms = BEGIN_MS;
        for _ in 0..600 {
            now_ms += step_ms(chance, 300);
            let number = chance.below(30);
            let policy = &policies[usize::try_from(number % 4).unwrap()];
            let key = number.to_string();
            match chance.below(30) {
                0 => {
                    table.reset(&check(policy, &key, 1), now_ms).unwrap();
                }
                1 => {
                    table.refund(&check(policy, &key, 1), now_ms).unwrap();
                }
                2 => {
                    rows.commit(&mut table);
                    let wall_ms = now_ms - i64::try_from(chance.below(2)).unwrap() * 600_000;
                    let mut loaded = rows.load(wall_ms);
                    for number in 0..30_u64 {
                        let policy = &policies[usize::try_from(number % 4).unwrap()];
                        let key = number.to_string();
                        let call = check(policy, &key, 1);
                        // A clock that stepped back while nobody ran is that of the last commit.
                        let before = table.peek(&call, now_ms);
                        let after = loaded.peek(&call, wall_ms);
                        if wall_ms == now_ms {
                            assert_eq!(after, before, "seed {seed} key {key}");
                        }
                        assert!(after.remaining <= before.remaining, "seed {seed} key {key}");
                    }
                    rows.commit(&mut loaded);
                }
                _ => {
                    table.check(&check(policy, &key, 1), now_ms).unwrap();
                }
            }
        }
    }
}

#[test]
fn a_clock_that_stepped_back_while_nobody_ran_freezes_nothing() {
    let policy = Policy::sliding(10, 60);
    let mut table = Table::stored();
    let mut rows = Rows::default();
    table.check(&check(&policy, "a", 4), BEGIN_MS).unwrap();
    rows.commit(&mut table);
    let back_ms = BEGIN_MS - 600_000;
    let mut loaded = rows.load(back_ms);
    let left = |table: &mut Table, now_ms| {
        table
            .check(&check(&policy, "a", 1), now_ms)
            .unwrap()
            .remaining
    };
    assert_eq!(left(&mut loaded, back_ms), 5, "and frees nothing");
    assert_eq!(left(&mut loaded, back_ms + 62_000), 9);
}

#[test]
fn a_log_stays_bounded_while_few_keys_change_and_many_do_not() {
    let policy = Policy::sliding(1_000_000, 2_592_000);
    let mut table = Table::stored();
    let mut rows = Rows::default();
    for key in 0..5_000 {
        table
            .check(&check(&policy, &key.to_string(), 1), BEGIN_MS)
            .unwrap();
    }
    rows.commit(&mut table);
    let whole = rows.bytes();
    let mut written = 0;
    for turn in 0..20_000_u64 {
        let key = (turn % 10).to_string();
        table.check(&check(&policy, &key, 1), BEGIN_MS).unwrap();
        written += rows.commit(&mut table);
        assert!(rows.rows.len() <= ROWS_MAX + 1);
    }
    assert!(rows.bytes() < 3 * whole + 4_100_000);
    assert!(
        written < 20_000 * 200 + 25 * whole,
        "{written} bytes for 20,000 commits"
    );
    let loaded = rows.load(BEGIN_MS);
    assert_eq!(loaded.size().keys, 5_000);
    let used = |key: &str| 1_000_000 - loaded.peek(&check(&policy, key, 1), BEGIN_MS).remaining;
    assert_eq!((used("3"), used("4999")), (2_001, 1));
}

#[test]
fn a_commit_of_a_long_log_writes_one_row_and_deletes_none() {
    let policy = Policy::sliding(1_000_000, 2_592_000);
    let (mut table, mut rows) = (Table::stored(), Rows::default());
    for turn in 0..4_000_u64 {
        let key = (turn % 10).to_string();
        table.check(&check(&policy, &key, 1), BEGIN_MS).unwrap();
        rows.commit(&mut table);
        if turn % 500 == 499 {
            table = rows.load(BEGIN_MS);
        }
    }
    assert!(rows.rows.len() <= ROWS_MAX + 1);
    // Each start may delete the row that it found before the log.
    assert!(rows.changed <= 4_000 + 8, "{} rows", rows.changed);
}

#[test]
fn what_does_not_fit_into_one_row_goes_into_more() {
    let policy = precise(1_000, 60);
    let mut table = Table::stored();
    for call in 0..500 {
        for key in 0..1_000 {
            table
                .check(&check(&policy, &key.to_string(), 1), BEGIN_MS + call)
                .unwrap();
        }
    }
    let mut rows = Rows::default();
    rows.commit(&mut table);
    assert!(rows.rows.len() > 1);
    let loaded = rows.load(BEGIN_MS + 500);
    assert_eq!(loaded.size().keys, 1_000);
    assert_eq!(
        loaded
            .peek(&check(&policy, "999", 1), BEGIN_MS + 500)
            .remaining,
        500
    );
}

#[test]
fn a_row_that_cannot_be_read_is_told() {
    let policy = Policy::sliding(10, 60);
    let mut table = Table::stored();
    table.check(&check(&policy, "a", 1), BEGIN_MS).unwrap();
    let body = table.commit().unwrap().body;
    for length in 0..body.len() {
        let cut = Table::stored().load((1, 1), &body[..length], BEGIN_MS);
        // A body may end after each entry, and this has one.
        assert_eq!(cut.is_ok(), length == CLOCK_BYTES, "{length}");
    }
    let mut future = body.clone();
    future[0] = 2;
    assert_eq!(Table::stored().load((1, 1), &future, BEGIN_MS), Err(Broken));
    let chance = &mut Chance(5);
    for _ in 0..2_000 {
        let mut broken = body.clone();
        let index = chance.index(body.len());
        broken[index] = chance.bits().to_le_bytes()[0];
        let mut table = Table::stored();
        // Read or not, nothing stops.
        let _ = table.load((1, 1), &broken, BEGIN_MS);
        let _ = table.check(&check(&policy, "a", 1), BEGIN_MS);
        table.commit();
    }
}

/// Version, the clock's last reading in 6 bytes and how far it is ahead in 1.
const CLOCK_BYTES: usize = 8;

#[test]
fn a_stored_row_keeps_its_bytes() {
    let policy = Policy::sliding(1_000, 60);
    let mut table = Table::stored();
    table.check(&check(&policy, "key", 300), BEGIN_MS).unwrap();
    let body = table.commit().unwrap().body;
    let hex: String = body.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(
        hex,
        "01d6f6b18dbc67000570006b6579e807c0a90700e8070000000000d6f6b18dbc6700bcb49f9f0dac020100ac0200"
    );
}

#[test]
fn what_callers_have_brought_stays_theirs_when_it_is_loaded() {
    let month = Policy::sliding(10, 2_592_000);
    let [busy, other] = [65_536, 65_537].map(Owner::of_number);
    let bring = |table: &mut Table, owner: Owner, key: u64| {
        let key = key.to_string();
        let brought = Check {
            owner,
            ..Check::of("p~s2592000", &month, &key, 1)
        };
        table.check(&brought, BEGIN_MS).unwrap();
        table.knows("p~s2592000", &key)
    };
    let mut table = Table::stored();
    let mut rows = Rows::default();
    let mut held = 0;
    while bring(&mut table, busy, held) {
        held += 1;
        if held % 1_000 == 0 {
            bring(&mut table, other, 1_000_000 + held);
        }
    }
    rows.commit(&mut table);
    let mut loaded = rows.load(BEGIN_MS);
    assert_eq!(loaded.size().keys, table.size().keys);
    for key in held + 1..held + 100 {
        assert!(!bring(&mut loaded, busy, key), "{key} is one too many");
        assert!(bring(&mut loaded, other, 2_000_000 + key));
    }
}

#[test]
fn a_row_of_several_owners_keeps_its_bytes() {
    let policy = Policy::sliding(1_000, 60);
    let mut table = Table::stored();
    for (key, owner) in [("a", Owner::default()), ("b", Owner::of_number(65_538))] {
        let brought = Check {
            owner,
            ..Check::of("p~s60", &policy, key, 300)
        };
        table.check(&brought, BEGIN_MS).unwrap();
    }
    let body = table.commit().unwrap().body;
    let hex: String = body.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(
        hex,
        "01d6f6b18dbc67000c006f776e6572203635353338e807c0a90700e807000000000000000000000007707e7336300062e807c0a90700e8070000000000d6f6b18dbc6700bcb49f9f0dac020100ac020008006f776e65722030e807c0a90700e807000000000000000000000007707e7336300061e807c0a90700e8070000000000d6f6b18dbc6700bcb49f9f0dac020100ac0200"
    );
}
