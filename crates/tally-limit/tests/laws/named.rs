//! Laws of named calls: used and held are together at most the limit at every instant, nothing comes back twice, each
//! name does its work once, and the quota is whole again at the end of all times. Tables crash, move and forget.

use tally_limit::handover::Handover;
use tally_limit::named::{
    CALLS_MAX, CLOSED_MS, CallAnswer, CallFault, CallName, CallWork, KNOWN_MS, NamedCall,
};
use tally_limit::policy::{Algorithm, Policy, Scope};
use tally_limit::table::{Check, Table};

use crate::checks::check;
use crate::log::Rows;
use crate::policy_kinds::{BEGIN_MS, Chance, window_begins_ms};

const LIMIT: u64 = 100;
const WINDOW_MS: i64 = 10_000;

fn of_algorithm(algorithm: Algorithm) -> Policy {
    Policy {
        algorithm,
        ..Policy::sliding(LIMIT, 10)
    }
}

fn policies() -> Vec<Policy> {
    let precise = Policy {
        is_precise: true,
        ..Policy::sliding(LIMIT, 10)
    };
    let global = Policy {
        scope: Scope::Global,
        ..Policy::sliding(LIMIT, 10)
    };
    let algorithms = [
        Algorithm::SlidingWindow,
        Algorithm::FixedWindow,
        Algorithm::TokenBucket,
        Algorithm::Concurrency,
    ];
    let mut all = algorithms.map(of_algorithm).to_vec();
    all.extend([precise, global]);
    all
}

fn name(number: u64) -> CallName {
    let mut name = [0; 16];
    name[..8].copy_from_slice(&number.to_le_bytes());
    name
}

fn call(number: u64, work: CallWork) -> NamedCall {
    NamedCall {
        name: name(number),
        is_repeatable: true,
        request: number,
        account: 0,
        work,
    }
}

fn hold(number: u64, length_ms: i64) -> NamedCall {
    let is_returned = false;
    call(
        number,
        CallWork::Hold {
            length_ms,
            is_returned,
        },
    )
}

fn settle(number: u64, hold: u64, amount: impl Into<Option<u64>>) -> NamedCall {
    let (hold, amount) = (name(hold), amount.into());
    call(number, CallWork::Settle { hold, amount })
}

/// A hold as its caller knows it.
#[derive(Clone, Copy)]
struct Opened {
    number: u64,
    amount: u64,
    ends_ms: i64,
    is_returned: bool,
}

/// What is known of one key from outside.
#[derive(Default)]
struct Outside {
    open: Vec<Opened>,
    /// What counts as used, and since when.
    used: Vec<(i64, u64)>,
    newest: u64,
}

impl Outside {
    fn expire(&mut self, policy: &Policy, now_ms: i64) {
        for ended in self.open.extract_if(.., |open| open.ends_ms <= now_ms) {
            if !ended.is_returned && policy.algorithm != Algorithm::Concurrency {
                self.used.push((ended.ends_ms, ended.amount));
            }
        }
    }

    fn held(&self) -> u64 {
        self.open.iter().map(|open| open.amount).sum()
    }

    fn position(&self, hold: CallName) -> Option<usize> {
        self.open.iter().position(|open| name(open.number) == hold)
    }

    /// The least that must count as used: what was used within the window, or since its boundary.
    fn used_at_least(&self, policy: &Policy, now_ms: i64) -> u64 {
        let from_ms = window_begins_ms(policy, now_ms).unwrap_or(i64::MAX);
        let used = self.used.iter().filter(|(at_ms, _)| *at_ms >= from_ms);
        used.map(|(_, amount)| amount).sum()
    }
}

fn draw_work(outside: &Outside, chance: &mut Chance) -> CallWork {
    let one = |chance: &mut Chance| {
        let index = chance.below(outside.open.len() as u64) as usize;
        outside.open[index].number
    };
    match chance.below(8) {
        0 => CallWork::Check,
        1..=3 => CallWork::Hold {
            length_ms: 1 + chance.below(20_000) as i64,
            is_returned: chance.below(2) == 0,
        },
        4..=6 if !outside.open.is_empty() => CallWork::Settle {
            hold: name(one(chance)),
            amount: (chance.below(4) > 0).then(|| chance.below(60)),
        },
        _ => CallWork::Settle {
            hold: name(1 + chance.below(outside.newest + 2)),
            amount: None,
        },
    }
}

/// Makes a call twice: its answer, and how much is left before and after it.
fn make_twice(
    table: &mut Table,
    checked: &Check<'_>,
    made: &NamedCall,
    now_ms: i64,
) -> (Result<CallAnswer, CallFault>, u64, u64) {
    let left = |table: &Table| {
        table
            .peek(
                &Check {
                    cost: 1,
                    ..*checked
                },
                now_ms,
            )
            .remaining
    };
    let before = left(table);
    let answer = table.call(checked, made, now_ms);
    let repeated = table.call(checked, made, now_ms);
    match (answer, repeated) {
        (Ok(first), Ok(again)) => {
            assert!(!first.is_repeated && again.is_repeated);
            let is_repeated = false;
            assert_eq!(
                first,
                CallAnswer {
                    is_repeated,
                    ..again
                },
                "a repeat has the first answer"
            );
        }
        (Err(first), Err(again)) => assert_eq!(first, again),
        (first, again) => panic!("{first:?}, then {again:?}"),
    }
    (answer, before, left(table))
}

/// Makes a drawn call and follows it from outside.
fn step(
    table: &mut Table,
    policy: &Policy,
    outside: &mut Outside,
    chance: &mut Chance,
    now_ms: i64,
) {
    outside.newest += 1;
    let made = call(outside.newest, draw_work(outside, chance));
    let cost = 1 + chance.below(40);
    let (answer, before, after) = make_twice(table, &check(policy, "k", cost), &made, now_ms);
    let is_concurrency = policy.algorithm == Algorithm::Concurrency;
    match (made.work, answer) {
        (CallWork::Check, Ok(_)) if is_concurrency => assert_eq!(before, after),
        (CallWork::Check, Ok(answer)) if answer.verdict.is_allowed => {
            assert_eq!(before - after, cost);
            outside.used.push((now_ms, cost));
        }
        (
            CallWork::Hold {
                length_ms,
                is_returned,
            },
            Ok(answer),
        ) if answer.verdict.is_allowed => {
            let said = (before - after, answer.held, answer.verdict.remaining);
            assert_eq!(said, (cost, cost, after));
            let ends_ms = now_ms + length_ms;
            assert_eq!(answer.ends_ms, ends_ms);
            let (number, amount) = (outside.newest, cost);
            outside.open.push(Opened {
                number,
                amount,
                ends_ms,
                is_returned,
            });
        }
        (CallWork::Check | CallWork::Hold { .. }, Ok(_)) => {
            assert_eq!(before, after, "a refusal takes nothing");
            assert!(cost > before);
        }
        (CallWork::Settle { hold, amount }, Ok(answer)) => {
            let open = outside
                .open
                .remove(outside.position(hold).expect("an open hold"));
            let used = amount.unwrap_or(open.amount);
            assert_eq!(answer.held, open.amount);
            assert_eq!(before + open.amount - answer.settled, after);
            if is_concurrency {
                assert_eq!((answer.settled, answer.over), (0, 0));
            } else {
                assert_eq!(answer.settled + answer.over, used);
                assert_eq!(answer.settled, used.min(before + open.amount));
                outside.used.push((now_ms, answer.settled));
            }
        }
        (CallWork::Settle { hold, .. }, Err(_)) => {
            assert_eq!(
                (outside.position(hold), before),
                (None, after),
                "nothing comes back twice"
            );
        }
        (work, answer) => panic!("{work:?}: {answer:?}"),
    }
}

fn moved(from: &Table, policy: &Policy, now_ms: i64) -> Table {
    let handover: Handover = from.hand_over(&check(policy, "k", 1), now_ms);
    let mut to = Table::stored();
    to.take_over(&check(policy, "k", 1), &handover, now_ms)
        .unwrap();
    to
}

#[test]
fn used_and_held_are_never_more_than_the_limit_and_the_quota_is_whole_at_the_end() {
    let (mut settled_late, mut seen) = (0, 0);
    for seed in 0..16 {
        for policy in policies() {
            let chance = &mut Chance(seed);
            let (mut table, mut rows) = (Table::stored(), Rows::default());
            let mut outside = Outside::default();
            let mut now_ms = BEGIN_MS;
            for _ in 0..150 {
                now_ms += chance.below(1_500) as i64;
                seen += 1;
                let open = outside.open.len();
                outside.expire(&policy, now_ms);
                settled_late += open - outside.open.len();
                step(&mut table, &policy, &mut outside, chance, now_ms);
                rows.commit(&mut table);
                let left = table.peek(&check(&policy, "k", 1), now_ms).remaining;
                let taken = outside.held() + outside.used_at_least(&policy, now_ms);
                assert!(
                    taken + left <= LIMIT,
                    "{taken} and {left}, seed {seed}, {policy:?}"
                );
                assert_eq!(table.open_holds("p", "k", now_ms).amount, outside.held());
                match chance.below(12) {
                    0 => table = rows.load(now_ms),
                    1 => {
                        table = moved(&table, &policy, now_ms);
                        rows = Rows::default();
                        rows.commit(&mut table);
                    }
                    _ => {}
                }
            }
            now_ms += 20_000 + 2 * WINDOW_MS;
            for mut table in [rows.load(now_ms), table] {
                assert_eq!(table.peek(&check(&policy, "k", 1), now_ms).remaining, LIMIT);
                let end_ms = now_ms + KNOWN_MS + 20_000;
                for number in 0..20 {
                    table
                        .check(&check(&policy, &number.to_string(), 1), end_ms)
                        .unwrap();
                }
                assert!(!table.knows("p", "k"), "nothing is kept for good");
            }
        }
    }
    assert!(settled_late > 300 && seen > 10_000);
}

#[test]
fn an_answer_is_known_for_an_hour_and_another_request_is_refused() {
    let policy = Policy::sliding(LIMIT, 10);
    let (mut table, mut rows) = (Table::stored(), Rows::default());
    let made = call(7, CallWork::Check);
    let first = table
        .call(&check(&policy, "k", 30), &made, BEGIN_MS)
        .unwrap();
    rows.commit(&mut table);
    for mut table in [rows.load(BEGIN_MS), table] {
        let late_ms = BEGIN_MS + KNOWN_MS - 1;
        let again = table
            .call(&check(&policy, "k", 30), &made, late_ms)
            .unwrap();
        assert_eq!((again.verdict, again.is_repeated), (first.verdict, true));
        let other = NamedCall { request: 8, ..made };
        let reused = table.call(&check(&policy, "k", 30), &other, late_ms);
        assert_eq!(reused, Err(CallFault::Reused));
        assert_eq!(
            table.peek(&check(&policy, "k", 1), late_ms).remaining,
            LIMIT
        );
        let after_ms = BEGIN_MS + KNOWN_MS + 20_000;
        let new = table
            .call(&check(&policy, "k", 30), &other, after_ms)
            .unwrap();
        assert!(!new.is_repeated);
    }
}

#[test]
fn a_refund_that_is_repeated_gives_back_once() {
    let policy = Policy::sliding(LIMIT, 10);
    let mut table = Table::stored();
    table.check(&check(&policy, "k", 90), BEGIN_MS).unwrap();
    for _ in 0..3 {
        let refunded = table.call(
            &check(&policy, "k", 30),
            &call(1, CallWork::Refund),
            BEGIN_MS,
        );
        assert_eq!(refunded.unwrap().verdict.remaining, 40);
    }
    assert_eq!(table.peek(&check(&policy, "k", 1), BEGIN_MS).remaining, 40);
}

#[test]
fn a_refusal_is_the_answer_to_every_repeat() {
    let policy = Policy::sliding(LIMIT, 10);
    let mut table = Table::stored();
    table.check(&check(&policy, "k", 90), BEGIN_MS).unwrap();
    let refused = table
        .call(&check(&policy, "k", 30), &hold(1, 1_000), BEGIN_MS)
        .unwrap();
    assert!(!refused.verdict.is_allowed && refused.held == 0);
    let late_ms = BEGIN_MS + 60_000;
    let again = table
        .call(&check(&policy, "k", 30), &hold(1, 1_000), late_ms)
        .unwrap();
    assert_eq!((again.verdict, again.is_repeated), (refused.verdict, true));
    let unheld = table.call(&check(&policy, "k", 1), &settle(2, 1, 1), late_ms);
    assert_eq!(unheld, Err(CallFault::NoHold), "a refusal is no hold");
}

#[test]
fn a_hold_ends_once() {
    let policy = Policy::sliding(LIMIT, 10);
    let mut table = Table::stored();
    let mut of = |key: &str, made: NamedCall, cost: u64, now_ms: i64| {
        table.call(&check(&policy, key, cost), &made, now_ms)
    };
    of("k", hold(1, 1_000), 40, BEGIN_MS).unwrap();
    of("k", hold(2, 1_000), 40, BEGIN_MS).unwrap();
    assert_eq!(
        of("other", settle(3, 1, 1), 1, BEGIN_MS),
        Err(CallFault::NoHold)
    );
    let settled = of("k", settle(4, 1, 10), 1, BEGIN_MS).unwrap();
    assert_eq!(
        (settled.held, settled.settled, settled.verdict.remaining),
        (40, 10, 50)
    );
    assert_eq!(
        of("k", settle(5, 1, 10), 1, BEGIN_MS),
        Err(CallFault::Settled)
    );
    assert_eq!(
        of("k", settle(6, 2, 10), 1, BEGIN_MS + 1_000),
        Err(CallFault::Ended)
    );
    let unrepeatable = NamedCall {
        is_repeatable: false,
        ..hold(9, 1_000)
    };
    of("k", unrepeatable, 1, BEGIN_MS).unwrap();
    let forgotten_ms = BEGIN_MS + 1_000 + CLOSED_MS + 20_000;
    assert_eq!(
        of("k", settle(10, 9, 1), 1, forgotten_ms),
        Err(CallFault::NoHold)
    );
}

#[test]
fn more_than_was_held_is_taken_if_there_is_room() {
    let policy = Policy::sliding(LIMIT, 10);
    let mut table = Table::stored();
    table
        .call(&check(&policy, "k", 40), &hold(1, 1_000), BEGIN_MS)
        .unwrap();
    table
        .call(&check(&policy, "k", 30), &hold(2, 1_000), BEGIN_MS)
        .unwrap();
    let settled = table
        .call(&check(&policy, "k", 1), &settle(3, 1, 90), BEGIN_MS)
        .unwrap();
    assert_eq!((settled.settled, settled.over), (70, 20));
    assert_eq!(table.peek(&check(&policy, "k", 1), BEGIN_MS).remaining, 0);
}

#[test]
fn a_hold_outlives_a_change_of_the_limit_and_a_reset() {
    let policy = Policy::sliding(LIMIT, 10);
    let mut table = Table::stored();
    table
        .call(&check(&policy, "k", 40), &hold(1, 1_000), BEGIN_MS)
        .unwrap();
    table.reset(&check(&policy, "k", 1), BEGIN_MS).unwrap();
    assert_eq!(table.peek(&check(&policy, "k", 1), BEGIN_MS).remaining, 60);
    let smaller = Policy::sliding(10, 60);
    assert_eq!(
        table
            .check(&check(&smaller, "k", 1), BEGIN_MS)
            .unwrap()
            .remaining,
        0
    );
    let settled = table
        .call(&check(&smaller, "k", 1), &settle(2, 1, None), BEGIN_MS)
        .unwrap();
    assert_eq!(
        (settled.settled, settled.over),
        (40, 0),
        "what was held may be used"
    );
}

#[test]
fn a_check_never_takes_of_a_limit_of_concurrency() {
    let policy = of_algorithm(Algorithm::Concurrency);
    let mut table = Table::stored();
    for _ in 0..3 {
        let verdict = table.check(&check(&policy, "k", 60), BEGIN_MS).unwrap();
        assert_eq!((verdict.is_allowed, verdict.remaining), (true, LIMIT));
    }
    let held = hold(1, 1_000);
    table
        .call(&check(&policy, "k", LIMIT), &held, BEGIN_MS)
        .unwrap();
    let refused = table
        .call(&check(&policy, "k", 1), &hold(2, 1_000), BEGIN_MS)
        .unwrap();
    assert_eq!(
        (refused.verdict.is_allowed, refused.verdict.retry_after_ms),
        (false, 1_000)
    );
    let open = table.open_holds("p", "k", BEGIN_MS + 10);
    assert_eq!(
        (open.amount, open.count, open.oldest_ms),
        (LIMIT, 1, BEGIN_MS)
    );
    let after = table
        .call(&check(&policy, "k", 1), &hold(3, 1_000), BEGIN_MS + 1_000)
        .unwrap();
    assert!(after.verdict.is_allowed, "a leaked hold ends with its time");
}

#[test]
fn no_account_takes_the_room_of_all_others_and_old_answers_go_first() {
    let policy = Policy::sliding(1_000_000, 10);
    let mut table = Table::stored();
    let mut of = |account: u32, number: u64, now_ms: i64| {
        let made = NamedCall {
            account,
            ..call(number, CallWork::Check)
        };
        table.call(&check(&policy, "k", 1), &made, now_ms)
    };
    let half = CALLS_MAX as u64 / 2;
    for number in 0..half {
        of(1, number, BEGIN_MS).unwrap();
    }
    assert_eq!(of(1, half, BEGIN_MS), Err(CallFault::PartFull));
    for number in half..half + 1_000 {
        of(2, number, BEGIN_MS).unwrap();
    }
    for number in half + 1_000..2 * half {
        of(number as u32, number, BEGIN_MS).unwrap();
    }
    assert_eq!(of(7, 3 * half, BEGIN_MS), Err(CallFault::Full));
    assert!(of(7, 3 * half, BEGIN_MS + 300_000).is_ok());
    assert!(
        of(2, half, BEGIN_MS + 300_000).unwrap().is_repeated,
        "the oldest went"
    );
}

/// A hold that only its id repeats, of an account.
fn drawn(account: u32, number: u64, length_ms: i64) -> NamedCall {
    NamedCall {
        account,
        is_repeatable: false,
        ..hold(number, length_ms)
    }
}

#[test]
fn every_open_hold_of_a_crowded_key_is_found_whatever_was_forgotten_between() {
    let policy = Policy::sliding(1_000_000_000, 10);
    for seed in 0..4 {
        let chance = &mut Chance(seed);
        let (mut table, mut rows) = (Table::stored(), Rows::default());
        let mut open: Vec<u64> = Vec::new();
        let mut now_ms = BEGIN_MS;
        let checked = check(&policy, "k", 3);
        for number in 0..12_000_u64 {
            // Names come in no order.
            let number = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            now_ms += chance.below(20) as i64;
            let made = drawn(chance.below(3) as u32, number, 80_000_000);
            table.call(&checked, &made, now_ms).unwrap();
            open.push(number);
            if open.len() > 900 {
                let one = open.swap_remove(chance.below(900) as usize);
                let end = NamedCall {
                    is_repeatable: false,
                    ..settle(0, one, 2)
                };
                assert_eq!(table.call(&checked, &end, now_ms).unwrap().held, 3);
                let again = table.call(&checked, &end, now_ms);
                assert_eq!(again, Err(CallFault::Settled), "seed {seed}");
            }
            if chance.below(40) == 0 {
                rows.commit(&mut table);
            }
            if chance.below(4_000) == 0 {
                rows.commit(&mut table);
                table = rows.load(now_ms);
            }
        }
        for number in open {
            let made = settle(number ^ 1, number, None);
            let ended = table.call(&checked, &made, now_ms);
            assert_eq!(ended.unwrap().held, 3, "seed {seed}");
        }
        assert_eq!(table.open_holds("p", "k", now_ms).count, 0);
    }
}

#[test]
fn a_settlement_outlives_a_crash_though_its_hold_was_forgotten_for_want_of_room() {
    let policy = Policy::sliding(1_000_000_000, 10);
    let (mut table, mut rows) = (Table::stored(), Rows::default());
    let checked = check(&policy, "k", 1);
    let half = CALLS_MAX as u64 / 2;
    for number in 0..half {
        let made = drawn(1, number, 60_000);
        table.call(&checked, &made, BEGIN_MS).unwrap();
    }
    rows.commit(&mut table);
    // In one turn, as the demands of one message.
    for number in 0..half / 2 {
        let end = NamedCall {
            is_repeatable: false,
            ..settle(0, number, 1)
        };
        table.call(&checked, &end, BEGIN_MS).unwrap();
    }
    let next = table.call(&checked, &drawn(1, half, 60_000), BEGIN_MS);
    assert_eq!(next, Err(CallFault::PartFull), "nothing is stored yet");
    rows.commit(&mut table);
    let next = table.call(&checked, &drawn(1, half, 60_000), BEGIN_MS);
    assert!(next.unwrap().verdict.is_allowed);
    rows.commit(&mut table);
    let loaded = rows.load(BEGIN_MS);
    assert_eq!(loaded.open_holds("p", "k", BEGIN_MS).count, half / 2 + 1);
}

#[test]
fn a_busy_key_admits_holds_after_a_crash_too() {
    let policy = Policy::sliding(1_000_000_000, 10);
    let (mut table, mut rows) = (Table::stored(), Rows::default());
    let checked = check(&policy, "k", 1);
    for number in 0..20_000_u64 {
        table
            .call(&checked, &drawn(1, number, 60_000), BEGIN_MS)
            .unwrap();
        let end = NamedCall {
            is_repeatable: false,
            ..settle(0, number, 1)
        };
        table.call(&checked, &end, BEGIN_MS).unwrap();
        if number % 50 == 0 {
            rows.commit(&mut table);
        }
    }
    rows.commit(&mut table);
    // What was forgotten because there was no room is in the rows.
    let mut loaded = rows.load(BEGIN_MS);
    let next = loaded.call(&checked, &drawn(1, 20_000, 60_000), BEGIN_MS);
    assert!(next.unwrap().verdict.is_allowed);
}

#[test]
fn a_hundred_thousand_open_holds_take_eight_mebibytes() {
    let policy = Policy::sliding(1_000_000_000, 10);
    let mut table = Table::stored();
    let mut rows = Rows::default();
    // As many keys without a hold.
    let mut empty = Table::stored();
    for number in 0..100_000_u64 {
        let key = (number % 100).to_string();
        let checked = check(&policy, &key, 1);
        let made = NamedCall {
            account: number as u32,
            ..hold(number, 600_000)
        };
        table.call(&checked, &made, BEGIN_MS).unwrap();
        empty.check(&checked, BEGIN_MS).unwrap();
    }
    let more = table.size().bytes - empty.size().bytes;
    assert!(more <= 8 << 20, "{more} bytes");
    rows.commit(&mut table);
    assert!(rows.rows.len() <= 100, "{} rows", rows.rows.len());
    let loaded = rows.load(BEGIN_MS + 1);
    assert_eq!(loaded.open_holds("p", "3", BEGIN_MS + 1).count, 1_000);
}

#[test]
fn the_log_of_many_calls_is_bounded_and_keeps_what_is_open() {
    let policy = Policy::sliding(1_000_000_000, 10);
    let (mut table, mut rows) = (Table::stored(), Rows::default());
    let long = NamedCall {
        is_repeatable: false,
        ..hold(u64::MAX, 80_000_000)
    };
    table
        .call(&check(&policy, "old", 1), &long, BEGIN_MS)
        .unwrap();
    let mut now_ms = BEGIN_MS;
    for number in 0..3_000_u64 {
        now_ms += 1_500;
        let key = (number % 50).to_string();
        let made = NamedCall {
            account: number as u32,
            ..call(number, CallWork::Check)
        };
        table.call(&check(&policy, &key, 1), &made, now_ms).unwrap();
        rows.commit(&mut table);
        assert!(rows.rows.len() <= tally_limit::table::log::ROWS_MAX + 1);
    }
    assert!(rows.bytes() < 8_000_000, "{}", rows.bytes());
    let mut loaded = rows.load(now_ms);
    assert_eq!(loaded.open_holds("p", "old", now_ms).count, 1);
    let made = NamedCall {
        account: 2_999,
        ..call(2_999, CallWork::Check)
    };
    let again = loaded.call(&check(&policy, &(2_999 % 50).to_string(), 1), &made, now_ms);
    assert!(again.unwrap().is_repeated);
}

#[test]
fn a_key_that_shares_a_meter_has_no_holds() {
    let policy = Policy::sliding(LIMIT, 10);
    let mut table = Table::in_memory();
    let mut number = 0_u64;
    while table.knows("p", &number.to_string()) || number == 0 {
        number += 1;
        let key = number.to_string();
        table.check(&check(&policy, &key, 1), BEGIN_MS).unwrap();
    }
    let key = number.to_string();
    let refused = table.call(
        &Check {
            ..check(&policy, &key, 1)
        },
        &hold(1, 1_000),
        BEGIN_MS,
    );
    assert_eq!(refused, Err(CallFault::Full));
}

#[test]
fn a_key_is_used_until_nothing_of_it_counts_although_its_named_calls_are_known() {
    for policy in policies() {
        let mut table = Table::in_memory();
        assert!(!table.has_used("p", "k", BEGIN_MS));
        table
            .call(&check(&policy, "k", 1), &hold(1, 5_000), BEGIN_MS)
            .unwrap();
        assert!(table.has_used("p", "k", BEGIN_MS + 4_000), "{policy:?}");
        let later_ms = BEGIN_MS + 5_000 + 3 * WINDOW_MS;
        assert!(table.knows("p", "k"));
        assert!(!table.has_used("p", "k", later_ms), "{policy:?}");
    }
}
