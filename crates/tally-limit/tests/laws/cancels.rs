//! A hold that is taken back is as if nobody had asked for it: all of it returns, and its name does its work anew.
//! Holds that have ended leave room for others.

use tally_limit::named::{CallFault, CallWork, NamedCall};
use tally_limit::policy::{Algorithm, Policy};
use tally_limit::table::Table;

use crate::checks::check;
use crate::log::Rows;
use crate::policy_kinds::BEGIN_MS;

fn call(name: u8, work: CallWork) -> NamedCall {
    NamedCall {
        name: [name; 16],
        is_repeatable: true,
        request: name.into(),
        account: 0,
        work,
    }
}

fn hold(name: u8) -> NamedCall {
    let is_returned = false;
    let length_ms = 60_000;
    call(
        name,
        CallWork::Hold {
            length_ms,
            is_returned,
        },
    )
}

/// Takes the hold of name 1 back; nobody repeats that.
fn cancel() -> NamedCall {
    let hold = [1; 16];
    NamedCall {
        is_repeatable: false,
        ..call(2, CallWork::Cancel { hold })
    }
}

#[test]
fn a_hold_that_is_taken_back_returns_and_its_name_holds_again() {
    let concurrency = Policy {
        algorithm: Algorithm::Concurrency,
        ..Policy::sliding(100, 10)
    };
    for policy in [Policy::sliding(100, 10), concurrency] {
        let (mut table, mut rows) = (Table::stored(), Rows::default());
        let asked = check(&policy, "k", 60);
        table.call(&asked, &hold(1), BEGIN_MS).unwrap();
        rows.commit(&mut table);
        let answer = table.call(&asked, &cancel(), BEGIN_MS).unwrap();
        assert_eq!((answer.held, answer.verdict.remaining), (60, 100));
        rows.commit(&mut table);
        let mut moved = Table::stored();
        let handover = table.hand_over(&asked, BEGIN_MS);
        moved.take_over(&asked, &handover, BEGIN_MS).unwrap();
        for mut table in [rows.load(BEGIN_MS), moved, table] {
            assert_eq!(table.peek(&asked, BEGIN_MS).remaining, 100);
            assert_eq!(
                table.call(&asked, &cancel(), BEGIN_MS),
                Err(CallFault::NoHold)
            );
            // Under its name another request may come too.
            let asked = check(&policy, "k", 30);
            let other = NamedCall {
                request: 9,
                ..hold(1)
            };
            let again = table.call(&asked, &other, BEGIN_MS).unwrap();
            assert_eq!(
                (again.is_repeated, again.held, again.verdict.remaining),
                (false, 30, 70)
            );
            let repeated = table.call(&asked, &other, BEGIN_MS).unwrap();
            assert_eq!((repeated.is_repeated, repeated.held), (true, 30));
            let mut rows = Rows::default();
            rows.commit(&mut table);
            assert_eq!(table.open_holds("p", "k", BEGIN_MS).count, 1);
        }
    }
}

#[test]
fn the_newest_of_two_holds_of_one_name_is_stored() {
    let policy = Policy::sliding(100, 10);
    let (mut table, mut rows) = (Table::stored(), Rows::default());
    let asked = check(&policy, "k", 60);
    for call in [hold(1), cancel(), hold(1)] {
        table.call(&asked, &call, BEGIN_MS).unwrap();
        rows.commit(&mut table);
    }
    let loaded = rows.load(BEGIN_MS);
    assert_eq!(loaded.open_holds("p", "k", BEGIN_MS).amount, 60);
    assert_eq!(loaded.peek(&asked, BEGIN_MS).remaining, 40);
}

#[test]
fn one_account_holds_as_often_as_it_wants_if_it_settles() {
    let policy = Policy::sliding(1_000_000, 10);
    let asked = check(&policy, "k", 1);
    let mut table = Table::stored();
    for number in 0..20_000_u64 {
        let mut name = [0; 16];
        name[..8].copy_from_slice(&number.to_le_bytes());
        let hold = NamedCall {
            name,
            is_repeatable: false,
            ..hold(1)
        };
        let end = NamedCall {
            is_repeatable: false,
            ..call(
                2,
                CallWork::Settle {
                    hold: name,
                    amount: Some(1),
                },
            )
        };
        // All of them within a second.
        let now_ms = BEGIN_MS + i64::try_from(number / 20).unwrap();
        table.call(&asked, &hold, now_ms).expect("room");
        table.call(&asked, &end, now_ms).expect("a hold");
    }
}

/// Hands a key over to a lender that may have had it before.
fn hand_over(old: &Table, next: &mut Table, now_ms: i64) {
    let policy = Policy::sliding(100, 10);
    let asked = check(&policy, "k", 1);
    let handover = old.hand_over(&asked, now_ms);
    next.take_over(&asked, &handover, now_ms).unwrap();
}

#[test]
fn a_hold_that_has_ended_stays_so_whenever_its_key_is_handed_over_once_more() {
    let policy = Policy::sliding(100, 10);
    let asked = check(&policy, "k", 60);
    let settle = |name, amount| {
        let hold = [1; 16];
        call(name, CallWork::Settle { hold, amount })
    };
    for (end, fault) in [
        (settle(2, None), CallFault::Settled),
        (settle(2, Some(0)), CallFault::Settled),
        (cancel(), CallFault::NoHold),
    ] {
        let [mut old, mut next] = [Table::stored(), Table::stored()];
        old.call(&asked, &hold(1), BEGIN_MS).unwrap();
        hand_over(&old, &mut next, BEGIN_MS);
        // By a clock that is behind that of the former lender too.
        for ended_ms in [BEGIN_MS, BEGIN_MS - 1_000] {
            let (mut old, mut next, mut rows) = (old.clone(), next.clone(), Rows::default());
            next.call(&asked, &end, ended_ms).unwrap();
            rows.commit(&mut next);
            // It has lost its memory, and asks its former lender again. Nothing is used any more.
            let again_ms = BEGIN_MS + 20_000;
            let mut next = rows.load(again_ms);
            hand_over(&old, &mut next, again_ms);
            assert_eq!(next.open_holds("p", "k", again_ms).count, 0);
            let settled = next.call(&asked, &settle(3, Some(5)), again_ms);
            assert_eq!(settled, Err(fault), "{end:?}");
            // It goes back to the former lender, where it was open.
            hand_over(&next, &mut old, again_ms);
            assert_eq!(old.open_holds("p", "k", again_ms).count, 0);
        }
    }
}

#[test]
fn a_name_that_holds_again_is_not_replaced_by_its_hold_at_the_former_lender() {
    let policy = Policy::sliding(100, 10);
    let [mut old, mut next] = [Table::stored(), Table::stored()];
    old.call(&check(&policy, "k", 60), &hold(1), BEGIN_MS)
        .unwrap();
    hand_over(&old, &mut next, BEGIN_MS);
    let again_ms = BEGIN_MS + 1;
    next.call(&check(&policy, "k", 1), &cancel(), again_ms)
        .unwrap();
    next.call(&check(&policy, "k", 30), &hold(1), again_ms)
        .unwrap();
    hand_over(&old, &mut next, again_ms);
    assert_eq!(next.open_holds("p", "k", again_ms).amount, 30);
    hand_over(&next, &mut old, again_ms);
    assert_eq!(old.open_holds("p", "k", again_ms).amount, 30);
}
