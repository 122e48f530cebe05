//! Laws of what callers may fill of a limiter's table: no caller and no policy takes what others need.

use tally_core::callers::owner;
use tally_core::limit::borrowers::Borrowers;
use tally_core::limit::lease::Admission;
use tally_core::limit::owner::{KeyGroup, Owner};
use tally_core::limit::policy::{OnError, Policy, Scope};
use tally_core::limit::table::{Check, KEYS_MAX, Table};

const BEGIN_MS: i64 = 1_795_269_600_000;

fn table() -> Table {
    Table::in_memory().grouped_by(owner::groups)
}

#[test]
fn policies_that_callers_bring_leave_room_for_others_whatever_their_names() {
    let month = Policy::sliding(10, 2_592_000);
    let mut table = table();
    for number in 0..62_000_u64 {
        let (name, key) = (format!("x{}~s2592000", number % 1_000), number.to_string());
        let brought = Check {
            name: &name,
            ..Check::of("p", &month, &key, 1)
        };
        // Where even the shared meters are out the policy decides; that is theirs alone.
        let _ = table.check(&brought, BEGIN_MS);
    }
    let before = table.size().keys;
    for number in 0..5_000_u64 {
        let key = format!("visitor's {number}");
        let visitors = Check {
            name: "website~S2592000",
            ..Check::of("p", &month, &key, 1)
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
                .check(&Check::of("p", &month, &key, 1), BEGIN_MS)
                .unwrap()
                .is_allowed
        );
    }
    assert_eq!(table.size().keys, before + 5_000, "each has its own");
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
    let [busy, other] = [0, 1].map(owner::of_key);
    let mut table = table();
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
        let address = owner::of_address(&number.to_be_bytes().repeat(4));
        bring(&mut table, address, &format!("n{number}~S2592000"), 0..400);
    }
    assert_eq!(
        bring(&mut table, other, "other~s2592000", 3_000..3_500),
        500
    );
    assert_eq!(
        bring(&mut table, owner::of_key(2), "third~s60", 0..500),
        500
    );
    // A caller that has filled its own has meters that it shares with nobody else.
    let full = bring(&mut table, other, "other~s2592000", 3_500..14_000);
    assert!(full < 10_500, "{full}");
    let month = Policy::sliding(10, 2_592_000);
    let request = Check {
        owner: other,
        ..Check::of("other~s2592000", &month, "k", 1)
    };
    assert!(table.check(&request, BEGIN_MS).is_ok());
}

#[test]
fn addresses_are_told_apart_by_twelve_bits() {
    let of = |number: u64| owner::of_address(&number.to_be_bytes());
    assert_eq!(of(7), of(7));
    let owners: std::collections::HashSet<Owner> = (0..100_000).map(of).collect();
    assert_eq!(owners.len(), 4_096, "and nobody is taken for one of them");
    assert!(!owners.contains(&Owner::default()));
    assert!(!owners.contains(&owner::of_key(0)));
    assert_eq!(owner::of_address(&[]), Owner::default());
}

/// A table in which nothing is left for policies that callers bring, shared meters included.
fn full_of_brought() -> Table {
    let month = Policy::sliding(10, 2_592_000);
    let mut table = table();
    for number in 0..60_000_u64 {
        let (name, key) = (format!("x{}~s2592000", number % 1_000), number.to_string());
        let brought = Check {
            name: &name,
            ..Check::of("p", &month, &key, 1)
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
    let request = Check::of("w~s60", &policy, "k", 1);
    for step in 0..50 {
        let now_ms = BEGIN_MS + 1_000 + step * 100;
        let mut admission = borrowers.check(&request, now_ms);
        if admission == Ok(Admission::Ask) {
            let due = borrowers.next_request("w~s60", "k", now_ms).unwrap();
            let answer = table.ask(&request, &due.request, now_ms);
            borrowers.answered(&due.name, &due.key, &answer, now_ms);
            borrowers.leave("w~s60", "k", 1);
            admission = borrowers.check(&request, now_ms);
        }
        let Ok(Admission::Decided(verdict)) = admission else {
            panic!("nobody can tell, so on_error lets it in: {admission:?} in step {step}");
        };
        assert!(!verdict.is_allowed, "step {step}");
        assert!((1..=1_000).contains(&verdict.retry_after_ms), "{verdict:?}");
    }
}

/// Limiters store these numbers with the keys that they count. The hash is that of the standard library, which promises
/// it to nobody: one that changes shows here.
#[test]
fn an_owner_has_the_same_number_after_an_upgrade() {
    let address = owner::of_address(&[203, 0, 113, 7]);
    let network = owner::of_address(&[0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 1]);
    let numbers = [address, network, owner::of_made_key(7)].map(Owner::number);
    assert_eq!(numbers, [1_994, 1_287, 69_243]);
    let group = Some(KeyGroup::new(0, 16_978_793_793_835_746_867));
    assert_eq!(owner::groups("logins", address), [group, None, None]);
}
