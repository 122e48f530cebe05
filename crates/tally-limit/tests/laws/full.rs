//! Laws of a table that is full: what has no room shares meters, no policy takes what others need, and memory is
//! bounded.

use std::collections::HashMap;

use tally_limit::borrowers::{BORROWERS_MAX, Borrowers, HELD_BYTES};
use tally_limit::memory::{LIMITERS_BYTES_MAX, MemoryShare, SharedMemory};
use tally_limit::owner::{KeyGroup, Owner};
use tally_limit::policy::{Algorithm, Policy, Scope};
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

/// A table without room for more keys: the last of those under `policy` share a meter.
fn full_of(brief: &Policy, policy: &Policy) -> Table {
    let mut table = Table::in_memory();
    for number in 0..76_000 {
        let key = number.to_string();
        let (name, policy) = match number {
            0..60_000 => ("brief", brief),
            _ => ("p", policy),
        };
        let call = Check {
            name,
            ..check(policy, &key, 1)
        };
        table.check(&call, BEGIN_MS).unwrap();
    }
    table
}

#[test]
fn a_key_that_gets_room_keeps_the_policy_by_which_the_meter_that_it_shared_counts() {
    let brief = Policy::sliding(3, 1);
    let minute = Policy::sliding(100, 60);
    let bucket = Policy {
        algorithm: Algorithm::TokenBucket,
        ..minute.clone()
    };
    for new in [Policy::sliding(100, 3_600), bucket] {
        let mut table = full_of(&brief, &minute);
        let key = "75999";
        let mut ask = |policy: &Policy, now_ms| table.check(&check(policy, key, 1), now_ms);
        while ask(&minute, BEGIN_MS).unwrap().is_allowed {}
        // The policy is replaced. Once the others are idle, an edge that does not know it asks by the old one.
        assert!(!ask(&new, BEGIN_MS + 5).unwrap().is_allowed);
        let later_ms = BEGIN_MS + 3_000;
        for _ in 0..60 {
            let _ = table.check(&check(&new, "other", 1), later_ms);
        }
        let capacity_ms = 60_000 / 100;
        let returned = if new.window_ms == 60_000 {
            3_000 / capacity_ms
        } else {
            0
        };
        let mut admitted = 0;
        let refused = loop {
            let verdict = table.check(&check(&minute, key, 1), later_ms).unwrap();
            if !verdict.is_allowed {
                break verdict;
            }
            admitted += 1;
        };
        assert!(table.knows("p", key), "it has its own by now");
        assert!(admitted <= returned, "{admitted} above what was used");
        assert!(refused.retry_after_ms <= 3_700_000, "{refused:?}");
    }
}

#[test]
fn nothing_of_a_meter_that_keys_share_is_given_back_until_a_key_has_its_own() {
    let month = Policy::sliding(3, 2_592_000);
    let short = Policy::sliding(3, 10);
    let mut table = full_of(&short, &month);
    let key = "75999";
    let used = 3 - left(&table, &month, key, BEGIN_MS);
    assert!(used > 0, "of the meter that it shares");
    let call = check(&month, key, 1);
    assert_eq!(table.refund(&call, BEGIN_MS), Err(Full));
    assert_eq!(table.reset(&call, BEGIN_MS), Err(Full));
    assert_eq!(3 - left(&table, &month, key, BEGIN_MS), used);
    // Once others are idle it gets its own, in which all that it has used is in the sum.
    let later_ms = BEGIN_MS + 20_000;
    for _ in 0..60 {
        let _ = table.check(&check(&month, "other", 1), later_ms);
    }
    let given = table.refund(&call, later_ms).unwrap();
    assert_eq!(given.remaining, 3 - used + 1);
    assert_eq!(table.reset(&call, later_ms).unwrap().remaining, 3);
    let unused = Check {
        name: "unused",
        ..call
    };
    assert_eq!(table.refund(&unused, later_ms).unwrap().remaining, 3);
}

/// So many new keys of an owner under a policy; how many of them have a place of their own then.
fn bring(table: &mut Table, owner: Owner, name: &str, keys: std::ops::Range<u64>) -> usize {
    let month = Policy::sliding(10, 2_592_000);
    let key = |number: u64| format!("{} {number}", owner.number());
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
fn an_owner_that_fills_its_part_of_a_policy_leaves_room_for_other_owners_and_policies() {
    let [busy, other] = [1, 2].map(Owner::of_number);
    let mut table = Table::in_memory();
    let held = bring(&mut table, busy, "p", 0..46_000);
    let held_max = usize::try_from(KEYS_MAX).unwrap() * 9 / 16;
    assert!((held_max..held_max + 10).contains(&held), "{held}");
    assert_eq!(bring(&mut table, other, "p", 0..3_000), 3_000);
    assert_eq!(bring(&mut table, busy, "other", 0..3_000), 3_000);
    assert_eq!(bring(&mut table, Owner::default(), "q", 0..3_000), 3_000);
}

#[test]
fn room_is_shared_out_by_the_groups_that_a_table_is_told() {
    let all_alike = |_: &str, _: Owner| [Some(KeyGroup::new(0, 0)), None, None];
    let mut table = Table::in_memory().grouped_by(all_alike);
    let held = bring(&mut table, Owner::default(), "p", 0..60_000);
    let held_max = usize::try_from(KEYS_MAX).unwrap() * 3 / 4;
    assert!((held_max..held_max + 10).contains(&held), "{held}");
    assert_eq!(bring(&mut table, Owner::of_number(1), "other", 0..100), 0);
}

#[test]
fn keys_that_grow_are_bounded_and_judged_all_the_same() {
    let policy = precise(1_000, 60);
    // The others of the isolate have taken what there was: it has an even part.
    let memory = SharedMemory::default();
    let mut others: Vec<MemoryShare> = (0..7).map(|_| memory.share()).collect();
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
    let memory = SharedMemory::default();
    let policy = Policy {
        scope: Scope::Global,
        ..Policy::sliding(1_000, 60)
    };
    let held = |incarnation: u64| {
        let mut borrowers = Borrowers::new("FRA", incarnation).sharing(memory.share());
        let mut begin = |number: usize| {
            let key = number.to_string();
            let admission = borrowers.check(&Check::of("p", &policy, &key, 1), BEGIN_MS);
            admission.map(|_| borrowers.next_request("p", &key, BEGIN_MS))
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
        borrowers.due_requests(1, BEGIN_MS + 60_000);
        assert!(borrowers.is_empty());
    }
    assert_eq!(memory.bytes(), 0);
}

#[test]
fn tables_of_one_isolate_share_its_memory_and_each_has_its_part() {
    let memory = SharedMemory::default();
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
