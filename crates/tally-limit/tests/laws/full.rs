//! Laws of a table that is full: what has no room shares meters, no policy takes what others need, and memory is
//! bounded.

use std::collections::HashMap;

use tally_limit::borrowers::{BORROWERS_MAX, Borrowers, HELD_BYTES};
use tally_limit::lease::Admission;
use tally_limit::memory::{LIMITERS_BYTES_MAX, Memory, Share};
use tally_limit::owner::Owner;
use tally_limit::policy::{OnError, Policy, Scope};
use tally_limit::table::{BYTES_MAX, Check, Full, KEYS_MAX, Table};

use crate::checks::{check, left};
use crate::policy_kinds::{BEGIN_MS, Chance, precise};

#[test]
fn where_there_is_no_room_keys_share_meters_and_none_gets_more_than_its_limit() {
    let policy = Policy::sliding(3, 60);
    let mut table = Table::in_memory();
    let key = |number: u64| format!("key number {number}");
    let ask = |table: &mut Table, number: u64, now_ms: i64| {
        let key = key(number);
        let verdict = table.check(&check(&policy, &key, 1), now_ms);
        verdict.unwrap().is_allowed
    };
    let many = u64::from(KEYS_MAX) / 5 * 4;
    for number in 0..many {
        ask(&mut table, number, BEGIN_MS);
    }
    let size = table.size();
    assert!(size.keys > u64::from(KEYS_MAX) / 2, "{size:?}");
    assert!(size.keys <= u64::from(KEYS_MAX) * 3 / 4 + 257, "{size:?}");
    assert!(size.bytes < BYTES_MAX, "{size:?}");
    // One that has its own, and one that shares: none gets more than its limit, and the first all of it.
    let allowed = (0..9).filter(|_| ask(&mut table, 0, BEGIN_MS)).count();
    assert_eq!(allowed, 2);
    for number in many..many + 1_000 {
        let allowed = (0..9).filter(|_| ask(&mut table, number, BEGIN_MS)).count();
        assert!(allowed <= 3, "{allowed} of key {number}");
    }
    assert!(!ask(&mut table, many, BEGIN_MS));
    // Another policy has room for keys of its own.
    let other = Check {
        name: "other",
        ..check(&policy, "anyone", 1)
    };
    assert!(table.check(&other, BEGIN_MS).unwrap().is_allowed);
    assert_eq!(table.size().keys, size.keys + 1);
    // Once others are idle a key has its own again, with all of its limit.
    let later_ms = BEGIN_MS + 62_000;
    let allowed = (0..9).filter(|_| ask(&mut table, many, later_ms)).count();
    assert_eq!(allowed, 3);
}

#[test]
fn a_key_that_gets_room_has_used_what_it_used_of_the_meter_that_it_shared() {
    for seed in 0..20 {
        let chance = &mut Chance(seed);
        let policy = Policy::sliding(5, 100_000);
        let short = Policy::sliding(1, 10);
        let mut table = Table::in_memory();
        // Others fill the table, and leave it.
        for number in 0..u64::from(KEYS_MAX) {
            let key = number.to_string();
            let filler = Check {
                name: "p",
                ..check(&short, &key, 1)
            };
            table.check(&filler, BEGIN_MS).unwrap();
            if number > 2_000 && seed > 0 {
                break;
            }
        }
        let mut admitted: HashMap<String, u64> = HashMap::new();
        for step in 0..2_000 {
            let key = format!("k{}", chance.below(300));
            let verdict = table.check(&check(&policy, &key, 1), BEGIN_MS + step * 20);
            *admitted.entry(key).or_default() += u64::from(verdict.unwrap().is_allowed);
        }
        assert!(
            admitted.values().all(|admitted| *admitted <= 5),
            "seed {seed}"
        );
    }
}

#[test]
fn policies_that_callers_bring_leave_room_for_others_whatever_their_names() {
    let month = Policy::sliding(10, 2_592_000);
    let mut table = Table::in_memory();
    for number in 0..62_000_u64 {
        let (name, key) = (format!("x{}~s2592000", number % 1_000), number.to_string());
        let brought = Check {
            name: &name,
            ..check(&month, &key, 1)
        };
        // Where even the shared meters are out the policy decides; that is theirs alone.
        let _ = table.check(&brought, BEGIN_MS);
    }
    let before = table.size().keys;
    for number in 0..5_000_u64 {
        let key = format!("visitor's {number}");
        let visitors = Check {
            name: "website~S2592000",
            ..check(&month, &key, 1)
        };
        assert!(table.check(&visitors, BEGIN_MS).unwrap().is_allowed);
    }
    let before_others = table.size().keys;
    assert_eq!(before_others, before + 5_000, "visitors' are apart");
    let before = before_others;
    for number in 0..5_000_u64 {
        let key = format!("user {number}");
        assert!(
            table
                .check(&check(&month, &key, 1), BEGIN_MS)
                .unwrap()
                .is_allowed
        );
    }
    assert_eq!(table.size().keys, before + 5_000, "each has its own");
}

#[test]
fn nothing_of_a_meter_that_keys_share_is_given_back_until_a_key_has_its_own() {
    let month = Policy::sliding(3, 2_592_000);
    let short = Policy::sliding(3, 10);
    let mut table = Table::in_memory();
    for number in 0..76_000 {
        let key = number.to_string();
        let (name, policy) = if number < 60_000 {
            ("brief", &short)
        } else {
            ("p", &month)
        };
        let asked = Check {
            name,
            ..check(policy, &key, 1)
        };
        table.check(&asked, BEGIN_MS).unwrap();
    }
    let key = "75999";
    let used = 3 - left(&table, &month, key, BEGIN_MS);
    assert!(used > 0, "of the meter that it shares");
    let asked = check(&month, key, 1);
    assert_eq!(table.refund(&asked, BEGIN_MS), Err(Full));
    assert_eq!(table.reset(&asked, BEGIN_MS), Err(Full));
    assert_eq!(3 - left(&table, &month, key, BEGIN_MS), used);
    // Once others are idle it gets its own, in which all that it has used is in the sum.
    let later_ms = BEGIN_MS + 20_000;
    for _ in 0..60 {
        let _ = table.check(&check(&month, "other", 1), later_ms);
    }
    let given = table.refund(&asked, later_ms).unwrap();
    assert_eq!(given.remaining, 3 - used + 1);
    assert_eq!(table.reset(&asked, later_ms).unwrap().remaining, 3);
    let unused = Check {
        name: "unused",
        ..asked
    };
    assert_eq!(table.refund(&unused, later_ms).unwrap().remaining, 3);
}

/// So many new keys of a caller under one of its policies; how many of them have a place of their own then.
fn bring(table: &mut Table, owner: Owner, name: &str, keys: std::ops::Range<u64>) -> usize {
    let month = Policy::sliding(10, 2_592_000);
    let key = |number: u64| format!("{name} {number}");
    for number in keys.clone() {
        let key = key(number);
        let brought = Check {
            owner,
            ..Check::of(name, &month, &key, 1)
        };
        // Where even the shared meters are out it is refused.
        let _ = table.check(&brought, BEGIN_MS);
    }
    keys.filter(|number| table.knows(name, &key(*number)))
        .count()
}

#[test]
fn a_caller_that_fills_its_quota_leaves_room_for_other_callers() {
    let [busy, other] = [0, 1].map(Owner::of_key);
    let mut table = Table::in_memory();
    let held = bring(&mut table, busy, "busy~s2592000", 0..46_000);
    let most = usize::try_from(KEYS_MAX).unwrap() * 9 / 16;
    assert!((most..most + 10).contains(&held), "{held}");
    // The names of policies are the callers': they are no way around.
    for number in 0..20 {
        let name = format!("busy{number}~s2592000");
        assert_eq!(bring(&mut table, busy, &name, 0..100), 0, "{name}");
    }
    assert_eq!(bring(&mut table, other, "other~s2592000", 0..3_000), 3_000);
    assert_eq!(
        bring(&mut table, Owner::default(), "stored", 0..3_000),
        3_000
    );
    // All callers without a key together leave as much to those with one, however many addresses they have.
    for number in 0..40_u16 {
        let address = Owner::of_address(&number.to_be_bytes().repeat(4));
        bring(&mut table, address, &format!("n{number}~S2592000"), 0..400);
    }
    assert_eq!(
        bring(&mut table, other, "other~s2592000", 3_000..3_500),
        500
    );
    assert_eq!(
        bring(&mut table, Owner::of_key(2), "third~s60", 0..500),
        500
    );
    // A caller that has filled its own has meters that it shares with nobody else.
    let full = bring(&mut table, other, "other~s2592000", 3_500..14_000);
    assert!(full < 10_500, "{full}");
    let month = Policy::sliding(10, 2_592_000);
    let asked = Check {
        owner: other,
        ..Check::of("other~s2592000", &month, "k", 1)
    };
    assert!(table.check(&asked, BEGIN_MS).is_ok());
}

#[test]
fn addresses_are_told_apart_by_twelve_bits() {
    let of = |number: u64| Owner::of_address(&number.to_be_bytes());
    assert_eq!(of(7), of(7));
    let owners: std::collections::HashSet<Owner> = (0..100_000).map(of).collect();
    assert_eq!(owners.len(), 4_096, "and nobody is taken for one of them");
    assert!(!owners.contains(&Owner::default()));
    assert!(!owners.contains(&Owner::of_key(0)));
    assert_eq!(Owner::of_address(&[]), Owner::default());
}

/// A table in which nothing is left for policies that callers bring, shared meters included.
fn full_of_brought() -> Table {
    let month = Policy::sliding(10, 2_592_000);
    let mut table = Table::in_memory();
    for number in 0..60_000_u64 {
        let (name, key) = (format!("x{}~s2592000", number % 1_000), number.to_string());
        let brought = Check {
            name: &name,
            ..check(&month, &key, 1)
        };
        let _ = table.check(&brought, BEGIN_MS);
    }
    table
}

#[test]
fn a_lender_without_room_refuses_whatever_on_error_says() {
    let policy = Policy {
        scope: Scope::Global,
        on_error: OnError::Open,
        ..Policy::sliding(1_000, 60)
    };
    let mut table = full_of_brought();
    let mut borrowers = Borrowers::new("FRA", 1);
    let asked = Check::of("w~s60", &policy, "k", 1);
    for step in 0..50 {
        let now_ms = BEGIN_MS + 1_000 + step * 100;
        let mut admission = borrowers.check(&asked, now_ms);
        if admission == Ok(Admission::Ask) {
            let due = borrowers.due("w~s60", "k", now_ms).unwrap();
            let answer = table.ask(&asked, &due.request, now_ms);
            borrowers.answered(&due.name, &due.key, &answer, now_ms);
            borrowers.leave("w~s60", "k", 1);
            admission = borrowers.check(&asked, now_ms);
        }
        let Ok(Admission::Decided(verdict)) = admission else {
            panic!("nobody can tell, so on_error lets it in: {admission:?} in step {step}");
        };
        assert!(!verdict.is_allowed, "step {step}");
        assert!((1..=1_000).contains(&verdict.retry_after_ms), "{verdict:?}");
    }
}

#[test]
fn keys_that_grow_are_bounded_and_judged_all_the_same() {
    let policy = precise(1_000, 60);
    // The others of the isolate have taken what there was: it has an even part.
    let memory = Memory::default();
    let mut others: Vec<Share> = (0..7).map(|_| memory.share()).collect();
    others[0].hold(LIMITERS_BYTES_MAX);
    let mut table = Table::in_memory().sharing(memory.share());
    for round in 0..300_i64 {
        for key in 0..400 {
            let key = key.to_string();
            let verdict = table.check(&check(&policy, &key, 1), BEGIN_MS + round);
            assert!(verdict.unwrap().is_allowed);
        }
    }
    let bytes = table.size().bytes;
    assert!(bytes > LIMITERS_BYTES_MAX / 16 - 400_000, "{bytes}");
    assert!(bytes < LIMITERS_BYTES_MAX / 16 + 40_000, "{bytes}");
    assert_eq!(left(&table, &policy, "7", BEGIN_MS + 300), 700);
}

#[test]
fn leases_of_all_limiters_of_an_isolate_share_its_memory_and_each_has_its_part() {
    let memory = Memory::default();
    let policy = Policy {
        scope: Scope::Global,
        ..Policy::sliding(1_000, 60)
    };
    let held = |incarnation: u64| {
        let mut borrowers = Borrowers::new("FRA", incarnation).sharing(memory.share());
        let mut begin = |number: usize| {
            let key = number.to_string();
            let asked = borrowers.check(&Check::of("p", &policy, &key, 1), BEGIN_MS);
            asked.map(|_| borrowers.due("p", &key, BEGIN_MS))
        };
        let begun = (0..BORROWERS_MAX).map_while(|number| begin(number).ok());
        let begun = begun.count();
        (borrowers, begun)
    };
    let all: Vec<(Borrowers, usize)> = (0..8).map(held).collect();
    let begun: Vec<usize> = all.iter().map(|(_, begun)| *begun).collect();
    let sum = u64::try_from(begun.iter().sum::<usize>()).unwrap();
    assert_eq!(memory.bytes(), sum * HELD_BYTES);
    assert!(memory.bytes() < 2 * LIMITERS_BYTES_MAX, "{begun:?}");
    for begun in begun {
        assert!(u64::try_from(begun).unwrap() * HELD_BYTES >= LIMITERS_BYTES_MAX / 16);
    }
    // What nobody answers for is dropped, and its memory is free again.
    for (mut borrowers, _) in all {
        borrowers.all_due(1, BEGIN_MS + 60_000);
        assert!(borrowers.is_empty());
    }
    assert_eq!(memory.bytes(), 0);
}

#[test]
fn tables_of_one_isolate_share_its_memory_and_each_has_its_part() {
    let memory = Memory::default();
    let policy = Policy::sliding(10, 60);
    let mut tables: Vec<Table> = (0..4)
        .map(|_| Table::in_memory().sharing(memory.share()))
        .collect();
    for table in &mut tables {
        for number in 0..30_000 {
            let key = format!("key number {number}");
            table.check(&check(&policy, &key, 1), BEGIN_MS).unwrap();
        }
    }
    let held: Vec<u64> = tables.iter().map(|table| table.size().bytes).collect();
    assert_eq!(memory.bytes(), held.iter().sum::<u64>());
    assert!(memory.bytes() < 2 * LIMITERS_BYTES_MAX, "{held:?}");
    for bytes in held {
        assert!(bytes >= LIMITERS_BYTES_MAX / 16 * 3 / 4, "{bytes}");
    }
    drop(tables);
    assert_eq!(memory.bytes(), 0);
}
