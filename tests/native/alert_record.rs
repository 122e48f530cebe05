//! What readings make of an alert: a model that knows what a receiver was told, and tables of what is over.

use proptest::prelude::*;
use tally_core::alert::backoff::{ANSWER_MS_MAX, GIVEN_UP_AFTER_MS, wait_ms};
use tally_core::alert::condition::{Bound, Condition, Measure, Reading, ThresholdResult};
use tally_core::alert::record::{AlertRecord, AlertState, EVERY_MS, NEAR_EVERY_MS, Notice};
use tally_core::alert::samples::RateSamples;

fn condition(above: Option<i64>, below: Option<i64>) -> Condition {
    Condition {
        measure: Measure::Value,
        above,
        below,
    }
}

fn reading(value: i64, bound: Bound) -> Reading {
    Reading {
        value: Some(value),
        bound,
        as_of_ms: None,
        is_exact: true,
        missing: String::new(),
    }
}

#[test]
fn what_is_missing_decides_only_where_it_may() {
    use Bound::{AtLeast, AtMost, Unknown, Whole};
    use ThresholdResult::{Exceeded, Unknown as Undecided, Within};
    let above = condition(Some(10), None);
    let below = condition(None, Some(10));
    let both = condition(Some(20), Some(10));
    let table = [
        (&above, 11, Whole, Exceeded),
        (&above, 10, Whole, Within),
        (&above, 11, AtLeast, Exceeded),
        (&above, 10, AtLeast, Undecided),
        (&above, 11, AtMost, Undecided),
        (&above, 10, AtMost, Within),
        (&above, 11, Unknown, Undecided),
        (&above, 10, Unknown, Undecided),
        (&below, 9, Whole, Exceeded),
        (&below, 10, Whole, Within),
        (&below, 9, AtLeast, Undecided),
        (&below, 10, AtLeast, Within),
        (&below, 9, AtMost, Exceeded),
        (&below, 10, AtMost, Undecided),
        (&both, 9, Whole, Exceeded),
        (&both, 10, Whole, Within),
        (&both, 20, Whole, Within),
        (&both, 21, Whole, Exceeded),
        (&both, 21, AtLeast, Exceeded),
        (&both, 15, AtLeast, Undecided),
        (&both, 5, AtLeast, Undecided),
        (&both, 5, AtMost, Exceeded),
    ];
    for (condition, value, bound, expected) in table {
        let judged = condition.judge(&reading(value, bound));
        assert_eq!(judged, expected, "{condition:?} {value} {bound:?}");
    }
    let nothing = Reading {
        value: None,
        ..reading(0, Whole)
    };
    assert_eq!(above.judge(&nothing), Within);
    assert_eq!(above.judge(&Reading::unknown("away")), Undecided);
}

#[test]
fn near_is_a_fifth_of_the_threshold() {
    let above = condition(Some(1_000), None);
    for (value, is_near) in [
        (799, false),
        (800, true),
        (1_200, true),
        (1_201, false),
        (-1_000, false),
    ] {
        assert_eq!(above.is_near(value), is_near, "{value}");
    }
    assert!(condition(None, Some(-100)).is_near(-120));
    assert!(!condition(Some(0), None).is_near(0));
    assert!(Condition::silent_for(600).is_near(500));
}

#[test]
fn waits_double_up_to_an_hour_and_are_longer_than_an_answer_may_take() {
    let answer_ms = i64::try_from(ANSWER_MS_MAX).expect("small");
    let mut last_ms = 0;
    for attempts in 1..100 {
        for random in [0, 255, 256, 511, u64::MAX] {
            let wait = wait_ms(attempts, random);
            assert!((answer_ms + 1..=4_500_000).contains(&wait), "{wait}");
        }
        let middle_ms = wait_ms(attempts, 256);
        assert!(middle_ms >= last_ms && middle_ms <= 3_600_000);
        last_ms = middle_ms;
    }
    assert_eq!((wait_ms(1, 256), wait_ms(2, 256)), (15_000, 30_000));
    assert_eq!(GIVEN_UP_AFTER_MS, 86_400_000);
}

#[test]
fn rates_are_of_whole_spans_and_never_of_a_counter_that_began_anew() {
    let mut samples = RateSamples::default();
    samples.record(0, 100, false);
    assert_eq!(samples.rate_per_minute(60_000), None);
    samples.record(30_000, 150, false);
    assert_eq!(samples.rate_per_minute(60_000), None);
    samples.record(60_000, 220, false);
    assert_eq!(samples.rate_per_minute(60_000), Some(120));
    samples.record(90_000, 280, false);
    assert_eq!(samples.rate_per_minute(60_000), Some(130));
    // It was not measured for a while.
    samples.record(2_000_000, 1_000, false);
    assert_eq!(samples.rate_per_minute(60_000), None);
    samples.record(2_060_000, 1_010, false);
    assert_eq!(samples.rate_per_minute(60_000), Some(10));
    samples.record(2_070_000, 3, false);
    assert_eq!(samples.rate_per_minute(60_000), None);
    // A clock that steps back.
    samples.record(2_010_000, 4, false);
    assert_eq!(samples.rate_per_minute(60_000), None);
    let mut huge = RateSamples::default();
    huge.record(0, 0, false);
    huge.record(60_000, u128::MAX, false);
    assert!(huge.rate_per_minute(60_000).is_some());
}

#[test]
fn silence_is_since_the_last_change() {
    let mut samples = RateSamples::default();
    assert_eq!(samples.silent_seconds(1_000, 5), (0, false));
    assert_eq!(samples.silent_seconds(61_000, 5), (60, false));
    assert_eq!(samples.silent_seconds(121_000, 5), (120, false));
    assert_eq!(samples.silent_seconds(181_000, 6), (0, false));
    assert_eq!(samples.silent_seconds(182_000, 6), (1, false));
    // A counter has ended, which is no write.
    assert_eq!(samples.silent_seconds(241_000, 2), (60, true));
    assert_eq!(samples.silent_seconds(301_000, 2), (120, false));
    assert_eq!(samples.silent_seconds(361_000, 3), (0, false));
}

#[test]
fn a_counter_of_many_that_ends_leaves_the_rate_of_the_others() {
    let mut samples = RateSamples::default();
    let counted = [100, 160, 220, 80, 140, 200, 260, 320];
    let mut rates = Vec::new();
    for (minute, counted) in (0..).zip(counted) {
        samples.record(minute * 60_000, counted, true);
        let rate = samples.rate_per_minute(180_000);
        rates.push((rate, samples.has_fallen()));
    }
    let few = (None, false);
    // In the minute of the end nothing is known of what the others counted. No sample is below 0.
    let expected = [(Some(26), true), (Some(40), true), (Some(40), true)];
    assert_eq!(rates[..3], [few, few, few]);
    assert_eq!(rates[3..6], expected);
    assert_eq!(rates[6..], [(Some(60), false), (Some(60), false)]);
    samples.record(480_000, 0, true);
    assert_eq!(samples.rate_per_minute(180_000), Some(0));
}

/// One step of a run.
#[derive(Clone, Debug)]
enum Step {
    Reads(i64),
    Fails,
    Silence(i64),
    Full,
    Changes,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0_i64..20).prop_map(Step::Reads),
        2 => Just(Step::Fails),
        1 => (0_i64..400_000).prop_map(Step::Silence),
        1 => Just(Step::Full),
        1 => Just(Step::Changes),
    ]
}

proptest! {
    /// Firing comes before resolved, each once, of one incident at a time; nothing while it is silenced; and once it is
    /// not, what was told is what is so.
    #[test]
    fn a_receiver_is_told_what_is_so(steps in prop::collection::vec(step(), 1..80), for_ms in 0_i64..200_000) {
        let condition = condition(Some(10), None);
        let mut record = AlertRecord::new(0);
        let (mut now_ms, mut id, mut open_incident) = (0, 0, None);
        let mut over_since: Option<i64> = None;
        for step in steps {
            now_ms += 60_000;
            let mut room = 20;
            match step {
                Step::Reads(value) => {
                    id += 1;
                    record.take(now_ms, &condition, for_ms, reading(value, Bound::Whole), id);
                    over_since = (value > 10).then(|| over_since.unwrap_or(now_ms));
                    let fires = over_since.is_some_and(|since| now_ms - since >= for_ms);
                    let expected = match (over_since, fires) {
                        (None, _) => AlertState::Ok,
                        (_, false) => AlertState::Pending,
                        (_, true) => AlertState::Firing,
                    };
                    prop_assert_eq!(record.state, expected);
                }
                Step::Fails => {
                    id += 1;
                    let before = record.incident;
                    record.take(now_ms, &condition, for_ms, Reading::unknown("away"), id);
                    prop_assert_eq!(record.state, AlertState::Unknown);
                    prop_assert_eq!(record.incident, before);
                }
                Step::Silence(for_ms) => record.silence(now_ms + for_ms),
                Step::Full => room = 1,
                Step::Changes => {
                    record = record.anew(now_ms);
                    over_since = None;
                }
            }
            let is_silent = record.silenced_until_ms(now_ms).is_some();
            let notices = record.notices(now_ms, room);
            prop_assert!(notices.is_empty() || (!is_silent && room == 20));
            for notice in notices {
                open_incident = match (open_incident, notice) {
                    (None, Notice::Firing(incident)) => Some(incident),
                    (Some(before), Notice::Resolved(incident)) if before == incident => None,
                    other => return Err(TestCaseError::fail(format!("{other:?}"))),
                };
            }
            if !is_silent && room == 20 && record.state != AlertState::Unknown {
                prop_assert_eq!(open_incident, record.incident);
            }
            let next_ms = record.next_ms(now_ms, &condition);
            prop_assert!(next_ms > now_ms && next_ms <= now_ms + EVERY_MS);
            if record.state == AlertState::Pending && !is_silent {
                prop_assert_eq!(next_ms, now_ms + NEAR_EVERY_MS);
            }
        }
    }
}
