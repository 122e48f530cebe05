//! Values that requests share: one request reads at a time, late answers replace nothing later, and while reads fail
//! nobody waits for the next.

use tally_core::isolate::shared_read::{
    AfterFault, ReadEnd, ReadRule, ReadStep, ReadTicket, ReadValue, SharedRead,
};

type Shares = SharedRead<&'static str, u32, &'static str, 4>;

const RULE: ReadRule = ReadRule {
    fresh_ms: 1_000,
    usable_ms: 10_000,
    stale_ms: 60_000,
    read_ms: 3_000,
    after_fault: AfterFault::RestAll,
};

fn kept(value: u32) -> Result<ReadValue<u32>, &'static str> {
    Ok(ReadValue::Kept(value))
}

fn holding(value: u32, read_ms: i64) -> Shares {
    let mut shares = Shares::default();
    let read = shares.begin_alone(read_ms);
    shares.end(&"share", read, read_ms, kept(value));
    shares
}

type Step = ReadStep<u32, &'static str>;

fn next(shares: &mut Shares, now_ms: i64) -> Step {
    shares.next(&"share", now_ms, &RULE)
}

/// The read that a request begins, or waits for.
fn read_of(step: Step) -> ReadTicket {
    match step {
        ReadStep::Read(read) | ReadStep::UseAndRead(_, read) | ReadStep::Wait(read) => read,
        step => panic!("no read: {step:?}"),
    }
}

fn begin(shares: &mut Shares, now_ms: i64) -> ReadTicket {
    let step = next(shares, now_ms);
    assert!(matches!(step, ReadStep::Read(_)), "{step:?}");
    read_of(step)
}

#[test]
fn one_request_reads_and_the_others_wait_for_it() {
    let mut shares = Shares::default();
    let read = begin(&mut shares, 0);
    for now_ms in [0, 1] {
        assert_eq!(next(&mut shares, now_ms), ReadStep::Wait(read));
    }
    assert_eq!(shares.ended(&"share", read, 3, &RULE), ReadEnd::UnderWay);
    shares.end(&"share", read, 4, kept(1));
    let ended = shares.ended(&"share", read, 5, &RULE);
    assert_eq!(ended, ReadEnd::Ended(Ok(1)));
    assert_eq!(next(&mut shares, 6), ReadStep::Use(1));
}

#[test]
fn a_read_that_never_ends_is_followed_by_another() {
    let mut shares = Shares::default();
    let lost = begin(&mut shares, 0);
    assert_eq!(next(&mut shares, 3_000), ReadStep::Wait(lost));
    let ended = shares.ended(&"share", lost, 3_001, &RULE);
    assert_eq!(ended, ReadEnd::Unknown);
    let read = begin(&mut shares, 3_001);
    // The lost one ends after all, and does not end the wait for the other.
    shares.end(&"share", lost, 3_002, kept(1));
    let ended = shares.ended(&"share", read, 3_003, &RULE);
    assert_eq!(ended, ReadEnd::UnderWay);
}

#[test]
fn a_read_that_its_caller_may_not_make_is_made_by_the_next() {
    let mut shares = Shares::default();
    let read = begin(&mut shares, 0);
    shares.give_up(&"share", read);
    begin(&mut shares, 1);
}

#[test]
fn an_old_value_is_read_anew_by_one_request_and_an_older_one_is_waited_for() {
    let mut shares = holding(1, 0);
    assert_eq!(next(&mut shares, 1_000), ReadStep::Use(1));
    let step = next(&mut shares, 1_001);
    assert!(matches!(step, ReadStep::UseAndRead(1, _)), "{step:?}");
    assert_eq!(next(&mut shares, 1_002), ReadStep::Use(1));
    shares.end(&"share", read_of(step), 1_100, kept(2));
    assert_eq!(next(&mut shares, 1_101), ReadStep::Use(2));
    let read = begin(&mut shares, 11_002);
    assert_eq!(next(&mut shares, 11_003), ReadStep::Wait(read));
}

#[test]
fn an_answer_that_comes_late_replaces_no_later_value() {
    let mut shares = Shares::default();
    let reads = [0, 0, 1, 2].map(|now_ms| shares.begin_alone(now_ms));
    let [none, earlier, later, last] = reads;
    shares.end(&"share", later, 100, kept(3));
    shares.end(&"share", earlier, 101, kept(2));
    assert_eq!(next(&mut shares, 102), ReadStep::Use(3));
    // Nor does the answer that there is none.
    shares.end(&"share", none, 103, Ok(ReadValue::Passed(0)));
    assert_eq!(next(&mut shares, 104), ReadStep::Use(3));
    shares.end(&"share", last, 105, Ok(ReadValue::Passed(0)));
    begin(&mut shares, 106);
}

#[test]
fn what_is_not_kept_is_for_those_alone_that_wait_for_it() {
    let mut shares = Shares::default();
    let read = begin(&mut shares, 0);
    shares.end(&"share", read, 10, Ok(ReadValue::Passed(7)));
    let ended = shares.ended(&"share", read, 11, &RULE);
    assert_eq!(ended, ReadEnd::Ended(Ok(7)));
    let read = begin(&mut shares, 11);
    assert_eq!(shares.ended(&"share", read, 12, &RULE), ReadEnd::UnderWay);
}

#[test]
fn while_reads_fail_an_old_value_is_used_and_nobody_waits() {
    let mut shares = holding(1, 0);
    let read = begin(&mut shares, 20_000);
    assert_eq!(next(&mut shares, 20_001), ReadStep::Wait(read));
    shares.end(&"share", read, 21_500, Err("away"));
    let ended = shares.ended(&"share", read, 21_501, &RULE);
    assert_eq!(ended, ReadEnd::Ended(Err("away")));
    // A second without attempts, and then one in the background.
    assert_eq!(next(&mut shares, 22_499), ReadStep::Use(1));
    let step = next(&mut shares, 22_500);
    assert!(matches!(step, ReadStep::UseAndRead(1, _)), "{step:?}");
    assert_eq!(next(&mut shares, 25_000), ReadStep::Use(1));
    shares.end(&"share", read_of(step), 25_100, Err("away"));
    assert_eq!(next(&mut shares, 25_200), ReadStep::Use(1));
    // Who comes later asks: the place may have answered for a long time.
    begin(&mut shares, 27_101);
}

#[test]
fn no_value_is_used_beyond_its_last_age() {
    let mut shares = holding(1, 0);
    let read = begin(&mut shares, 59_000);
    shares.end(&"share", read, 60_000, Err("away"));
    assert_eq!(next(&mut shares, 60_000), ReadStep::Use(1));
    assert_eq!(next(&mut shares, 60_001), ReadStep::Refuse("away"));
    let ages_ms = [59_000, 60_000, 60_001, -60_000, -60_001];
    let found = ages_ms.map(|now_ms| shares.within(&"share", now_ms, 60_000));
    assert_eq!(found, [Some(1), Some(1), None, Some(1), None]);
}

#[test]
fn a_fault_rests_the_values_of_one_place_and_no_others() {
    let rests = [AfterFault::Read, AfterFault::RestOne, AfterFault::RestAll].map(|after_fault| {
        let rule = ReadRule {
            after_fault,
            ..RULE
        };
        let mut shares = Shares::default();
        let read = shares.begin_alone(0);
        shares.end(&"share", read, 10, Err("away"));
        ["share", "other"].map(|key| shares.next(&key, 20, &rule) == ReadStep::Refuse("away"))
    });
    assert_eq!(rests, [[false, false], [true, false], [true, true]]);
}

#[test]
fn what_was_read_before_the_clock_stepped_back_looks_old_and_is_replaced() {
    let mut shares = holding(1, 100_000);
    let read = begin(&mut shares, 40_000);
    shares.end(&"share", read, 40_100, kept(2));
    assert_eq!(next(&mut shares, 40_200), ReadStep::Use(2));
}

#[test]
fn a_read_that_was_in_flight_during_an_own_change_does_not_hide_it() {
    let changes: [fn(&mut Shares); 3] = [
        |shares| shares.forget_keys(|key| *key == "share"),
        |shares| shares.forget_where(|value| *value == 1),
        |shares| shares.age(&"share", 20_000, 2_000),
    ];
    for change in changes {
        let mut shares = holding(1, 0);
        let before = read_of(next(&mut shares, 2_000));
        change(&mut shares);
        // In the same millisecond.
        let after = begin(&mut shares, 2_000);
        shares.end(&"share", before, 2_000, kept(1));
        assert_eq!(next(&mut shares, 2_000), ReadStep::Wait(after));
        shares.end(&"share", after, 2_000, kept(2));
        assert_eq!(next(&mut shares, 2_000), ReadStep::Use(2));
    }
}
