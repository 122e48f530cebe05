//! Gathering sums what was sent, and a rejected record changes nothing.

use crate::common::config;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use tally_api::access::Caller;
use tally_api::batch::BulkRecord;
use tally_api::batch::gather::{BatchLimits, CLOCK_SKEW_MS, Gatherer, coarsen, skew_of};
use tally_api::batch::gathered::{CountingMode, GatheredCounter, Times};
use tally_api::batch::hashes::{Hashed, Hashes};
use tally_api::batch::lines::LineNumbers;
use tally_api::batch::plan::Plan;
use tally_api::batch::report::{BatchReport, ERRORS_MAX};
use tally_core::counter::id::{CounterId, Datacenter};
use tally_core::sketch::redis_hash;
use tally_wire::problem::{Code, Problem};

/// What was added, by stamp, the tokens, and the lines of one counter.
type PlainSum = (u128, BTreeMap<i64, u128>, BTreeSet<(i64, Hashed)>, Vec<u64>);

const NOW_MS: i64 = 1_700_000_000_500;
const NOW: i64 = 1_700_000_000;

fn limits(times: Times) -> BatchLimits {
    BatchLimits {
        times,
        clock_skew_ms: CLOCK_SKEW_MS,
    }
}

fn record<'a>(
    key: &'a str,
    delta: u128,
    at_ms: Option<i64>,
    unique: Option<&'static str>,
) -> BulkRecord<'a> {
    let unique = unique.map(|element| Cow::Borrowed(element.as_bytes()));
    BulkRecord {
        key: Cow::Borrowed(key),
        delta,
        unique,
        at_ms,
        id: None,
        sample: None,
        ttl_if_new: None,
        dimensions: Default::default(),
    }
}

fn hash(element: &[u8]) -> u64 {
    element.iter().fold(0, |sum: u64, &byte| {
        sum.wrapping_mul(256).wrapping_add(byte.into())
    })
}

fn hashed(element: &[u8]) -> Hashed {
    Hashed {
        keyed: hash(element),
        redis: redis_hash(element),
    }
}

fn codes(report: &BatchReport) -> Vec<(u64, Code)> {
    report
        .errors
        .iter()
        .map(|error| (error.line, error.code))
        .collect()
}

proptest! {
    #![proptest_config(config(2, 200))]

    #[test]
    fn sums_equal_a_plain_list(
        events in prop::collection::vec(
            (0usize..5, 1u128..9, prop::option::of(0i64..200_000), prop::option::of(0usize..6)), 0..600),
        seed in any::<u64>(),
    ) {
        let keys = ["a", "/b", "c c", "d", "é"];
        let elements = ["u", "v", "w", "x", "y", "z"];
        let mut gather = Gatherer::new(limits(Times::Past), Caller::nobody().sender(), seed);
        let mut sums: BTreeMap<&str, PlainSum> = BTreeMap::new();
        for (line, &(key, delta, age, element)) in (1..).zip(&events) {
            let (key, element) = (keys[key], element.map(|element| elements[element]));
            let at_ms = age.map(|age| NOW_MS - age * 1000);
            gather.add(line, &record(key, delta, at_ms, element), NOW_MS, &hash);
            let stamp = coarsen(NOW - age.unwrap_or(0), NOW);
            let sum = sums.entry(key).or_default();
            sum.0 += delta;
            *sum.1.entry(stamp).or_default() += delta;
            sum.2.extend(element.map(|element| (stamp, hashed(element.as_bytes()))));
            sum.3.push(line);
        }
        prop_assert_eq!(gather.counters(), u64::try_from(sums.len()).unwrap());
        let (gathered, report) = gather.finish();
        prop_assert_eq!((report.accepted, report.rejected), (u64::try_from(events.len()).unwrap(), 0));
        prop_assert_eq!(gathered.len(), sums.len());
        for ((id, is), (key, (added, buckets, tokens, lines))) in gathered.iter().zip(&sums) {
            prop_assert_eq!(id.as_str(), *key);
            prop_assert_eq!(is.added, *added);
            prop_assert_eq!(&is.buckets, buckets);
            prop_assert_eq!(&is.tokens, &tokens.iter().copied().collect::<Vec<_>>());
            prop_assert_eq!(is.lines.count(), u64::try_from(lines.len()).unwrap());
            prop_assert_eq!(&is.lines, &LineNumbers::of(lines.iter().copied()));
        }
    }

    #[test]
    fn a_coarse_stamp_stays_in_its_hour_and_keeps_what_cells_keep(
        age in 0i64..1_000_000,
        now in 2_000_000i64..3_000_000,
    ) {
        let stamp = now - age;
        let coarse = coarsen(stamp, now);
        prop_assert!(coarse <= stamp && coarse / 3600 == stamp / 3600);
        prop_assert!(age > 15 * 60 || coarse == stamp, "seconds are kept for 15 minutes");
        prop_assert!(age > 24 * 3600 || coarse / 60 == stamp / 60, "minutes are kept for 24 hours");
        prop_assert_eq!(coarsen(coarse, now), coarse);
    }
}

#[test]
fn stamps_get_coarser_at_their_ages() {
    for (age, step) in [(960, 1), (961, 60), (90_000, 60), (90_001, 3600), (-5, 1)] {
        let stamp = NOW - age;
        assert_eq!(coarsen(stamp, NOW), stamp - stamp % step, "{age} s ago");
    }
}

#[test]
fn a_live_time_is_near_the_clock_and_a_past_one_is_not_ahead() {
    for (times, offset_ms, sound) in [
        (Times::Live, 5_000, true),
        (Times::Live, 5_001, false),
        (Times::Live, -5_000, true),
        (Times::Live, -5_001, false),
        (Times::Past, 5_000, true),
        (Times::Past, 5_001, false),
        (Times::Past, -NOW_MS, true),
        (Times::Past, i64::MAX - NOW_MS, false),
    ] {
        let mut gather = Gatherer::new(limits(times), Caller::nobody().sender(), 1);
        gather.add(
            1,
            &record("a", 1, Some(NOW_MS + offset_ms), None),
            NOW_MS,
            &hash,
        );
        let (gathered, report) = gather.finish();
        assert_eq!(gathered.len(), usize::from(sound), "{times:?} {offset_ms}");
        assert_eq!(
            codes(&report),
            if sound {
                vec![]
            } else {
                vec![(1, Code::ClockSkew)]
            }
        );
    }
}

#[test]
fn a_record_with_an_id_whose_time_is_out_of_range_may_be_a_retry() {
    for (times, at_ms, is_skewed) in [
        (Times::Live, NOW_MS - CLOCK_SKEW_MS, false),
        (Times::Live, NOW_MS - CLOCK_SKEW_MS - 1, true),
        (Times::Live, NOW_MS + CLOCK_SKEW_MS + 1, true),
        (Times::Live, i64::MIN, true),
        (Times::Past, NOW_MS - 100 * CLOCK_SKEW_MS, false),
        (Times::Past, i64::MAX, true),
    ] {
        let mut gather = Gatherer::new(limits(times), Caller::nobody().sender(), 1);
        let sent = BulkRecord {
            id: Some("1".into()),
            ..record("a", 3, Some(at_ms), Some("u"))
        };
        gather.add(1, &sent, NOW_MS, &hash);
        let (gathered, report) = gather.finish();
        // Until it is known whether it was counted.
        assert_eq!((report.accepted, report.rejected), (1, 0));
        let (_, of_counter) = &gathered[0];
        assert_eq!(of_counter.identified[0].is_skewed, is_skewed, "{at_ms}");
        assert_eq!((of_counter.added, of_counter.lines.count()), (0, 0));
        // Elements are of their own time, not of the retry's.
        let second = of_counter.identified[0].second;
        assert!(second <= at_ms.div_euclid(1_000) && of_counter.tokens.is_empty());
        let here = Datacenter::local();
        let mut plan = Plan::new(gathered, manner(times), &here, |_| 1, |_| 0, None);
        let keyed = plan.keyed();
        assert_eq!(keyed.len(), 1);
        assert_eq!(keyed[0].is_recall, is_skewed);
    }
}

#[test]
fn a_rejected_record_changes_nothing() {
    let mut gather = Gatherer::new(limits(Times::Live), Caller::nobody().sender(), 1);
    let add = |gather: &mut Gatherer, line, record: &BulkRecord<'_>| {
        gather.add(line, record, NOW_MS, &hash)
    };
    add(&mut gather, 1, &record("a", 5, None, Some("u")));
    add(&mut gather, 2, &record("b", 1, None, None));
    let before = gather.memory_bytes();
    add(&mut gather, 5, &record(".", 1, None, None));
    add(&mut gather, 6, &record("a", 1, Some(0), Some("v")));
    gather.reject(7, &Problem::new(Code::InvalidJson, "no"));
    // But for a bit for each line, in four words at first for each of three codes.
    assert_eq!(gather.memory_bytes() - before, 3 * 4 * 8);
    assert_eq!(gather.counters(), 2);
    add(&mut gather, 8, &record("a", 1, None, None));
    let (gathered, report) = gather.finish();
    assert_eq!((report.accepted, report.rejected), (3, 3));
    assert_eq!(
        codes(&report),
        [
            (5, Code::InvalidId),
            (6, Code::ClockSkew),
            (7, Code::InvalidJson)
        ]
    );
    let (_, a) = &gathered[0];
    assert_eq!(a.added, 6);
    assert_eq!(a.buckets, BTreeMap::from([(NOW, 6)]));
    assert_eq!(a.tokens, [(NOW, hashed(b"u"))]);
    assert_eq!(a.lines, LineNumbers::of([1, 8]));
}

#[test]
fn what_was_taken_and_what_comes_later_are_the_whole_and_lines_go_on() {
    let mut gather = Gatherer::new(limits(Times::Live), Caller::nobody().sender(), 1);
    for (line, key) in (1..).zip(["a", "b", "a"]) {
        gather.add(line, &record(key, 1, None, None), NOW_MS, &hash);
    }
    let first = gather.take();
    assert_eq!((gather.counters(), gather.memory_bytes()), (0, 0));
    for (line, key) in (4..).zip(["a", "c"]) {
        gather.add(line, &record(key, 1, None, None), NOW_MS, &hash);
    }
    let problem = Problem::new(Code::Overloaded, "no room");
    for (_, gathered) in &first {
        gathered.fail(&problem, gather.report());
    }
    let (second, report) = gather.finish();
    type GatheredSums = Vec<(String, u128, Vec<(u64, u64)>)>;
    let sums_of = |sums: &[(CounterId, GatheredCounter)]| -> GatheredSums {
        let sums = sums.iter();
        sums.map(|(id, sum)| {
            (
                id.as_str().to_owned(),
                sum.added,
                sum.lines.runs().collect(),
            )
        })
        .collect()
    };
    let of = |id: &str, added, runs: &[(u64, u64)]| (id.to_owned(), added, runs.to_vec());
    assert_eq!(
        sums_of(&first),
        [of("a", 2, &[(1, 1), (3, 3)]), of("b", 1, &[(2, 2)])]
    );
    assert_eq!(
        sums_of(&second),
        [of("a", 1, &[(4, 4)]), of("c", 1, &[(5, 5)])]
    );
    assert_eq!((report.accepted, report.rejected), (2, 3));
}

#[test]
fn memory_grows_with_what_is_distinct_only() {
    let mut gather = Gatherer::new(limits(Times::Past), Caller::nobody().sender(), 1);
    let elements = ["u", "v", "w"];
    let fill = |gather: &mut Gatherer, rounds: u64| {
        for line in 0..rounds {
            let element = elements[usize::try_from(line % 3).unwrap()];
            gather.add(line, &record("a", 1, None, Some(element)), NOW_MS, &hash);
        }
    };
    fill(&mut gather, 1_000);
    let before = gather.memory_bytes();
    fill(&mut gather, 100_000);
    assert_eq!(gather.memory_bytes(), before);
    for (line, counter) in (0..).zip(0..1000u32) {
        gather.add(
            line,
            &record(&format!("k{counter:05}"), 1, None, None),
            NOW_MS,
            &hash,
        );
    }
    let grown = gather.memory_bytes() - before;
    assert!(
        (600_000..1_000_000).contains(&grown),
        "{grown} bytes for 1,000 counters"
    );
    assert!(before < 10_000, "{before} bytes for one counter");
}

#[test]
fn a_visitor_is_counted_by_its_element_and_known_again_by_what_was_sent() {
    let today = record("a", 1, None, Some("auto"));
    let keyed = BulkRecord {
        id: Some("1".into()),
        ..today.clone()
    };
    let gathers = [b"monday", b"sunday"].map(|element| {
        let mut gather = Gatherer::new(limits(Times::Live), Caller::nobody().sender(), 1);
        gather.add_as(1, &today, Some(element), NOW_MS, &hash);
        gather.add_as(2, &keyed, Some(element), NOW_MS, &hash);
        gather.ignore_bot();
        gather
    });
    let [one, other] = gathers.map(|gather| {
        let (mut gathered, report) = gather.finish();
        assert_eq!((report.accepted, report.bots_ignored), (2, 1));
        gathered.remove(0).1
    });
    assert_eq!(one.tokens[0].1, hashed(b"monday"));
    assert_eq!(one.identified[0].element, Some(hashed(b"monday")));
    assert_ne!(one.identified[0].element, other.identified[0].element);
    assert_eq!(
        one.identified[0].fingerprint,
        other.identified[0].fingerprint
    );
}

#[test]
fn elements_and_names_have_hashes_of_their_own() {
    struct Two;
    impl Hashes for Two {
        fn element(&self, _: &[u8]) -> u64 {
            1
        }
        fn name(&self, _: &[u8]) -> u64 {
            2
        }
    }
    let mut gather = Gatherer::new(limits(Times::Live), Caller::nobody().sender(), 1);
    let sent = BulkRecord {
        id: Some("1".into()),
        ..record("a", 1, None, Some("bob"))
    };
    gather.add(1, &sent, NOW_MS, &Two);
    gather.add(2, &record("a", 1, None, Some("bob")), NOW_MS, &Two);
    let (_, gathered) = gather.finish().0.remove(0);
    let identified = &gathered.identified[0];
    let element = Hashed {
        keyed: 1,
        redis: redis_hash(b"bob"),
    };
    assert_eq!(
        (identified.element, identified.fingerprint),
        (Some(element), 2)
    );
    assert_eq!(identified.key.0, [2, 0, 0, 0, 0, 0, 0, 0].repeat(2)[..]);
    assert_eq!(gathered.tokens[0].1, element);
}

#[test]
fn a_report_names_the_first_errors_of_the_whole_batch() {
    let mut report = BatchReport {
        accepted: 1_000,
        ..BatchReport::default()
    };
    let bad = Problem::new(Code::InvalidJson, "no");
    for line in (2..=400).step_by(2) {
        report.reject(line, &bad);
    }
    assert_eq!((report.rejected, report.errors.len()), (200, ERRORS_MAX));
    let lines = LineNumbers::of((1..=599).step_by(2));
    report.fail(&lines, &Problem::new(Code::Unavailable, "later"));
    assert_eq!((report.accepted, report.rejected), (700, 500));
    let named: Vec<u64> = report.errors.iter().map(|error| error.line).collect();
    assert_eq!(named, (1..=100).collect::<Vec<u64>>());
    assert_eq!(report.errors[0].code, Code::Unavailable);
}

#[test]
fn a_report_has_its_documented_form() {
    let mut report = BatchReport {
        accepted: 2,
        ..BatchReport::default()
    };
    report.reject(3, &Problem::new(Code::InvalidLine, "why"));
    assert_eq!(
        serde_json::to_string(&report).unwrap(),
        r#"{"accepted":2,"rejected":1,"errors":[{"line":3,"code":"invalid-line","detail":"why"}],"rejected_lines":[{"code":"invalid-line","count":1,"lines":"3"}]}"#
    );
    let with_bots = BatchReport {
        bots_ignored: 4,
        ..BatchReport::default()
    };
    assert_eq!(
        serde_json::to_string(&with_bots).unwrap(),
        r#"{"accepted":0,"rejected":0,"bots_ignored":4,"errors":[]}"#
    );
}

#[test]
fn a_batch_of_which_nothing_counts_is_refused_by_its_common_reason_with_its_report() {
    let refusal = |accepted: u64, bots_ignored: u64, problems: &[(u64, Code)]| {
        let mut report = BatchReport {
            accepted,
            bots_ignored,
            ..BatchReport::default()
        };
        for (line, code) in problems {
            let problem = Problem::new(*code, format!("why {line}"));
            report.reject(*line, &problem);
        }
        report.refusal()
    };
    let bad = [
        (1, Code::InvalidJson),
        (2, Code::InvalidDelta),
        (3, Code::InvalidDelta),
    ];
    assert_eq!(refusal(1, 0, &bad), None);
    assert_eq!(refusal(0, 1, &[]), None);
    assert_eq!(refusal(0, 0, &[]), None);
    assert!(refusal(0, 1, &bad).is_some());
    let (problem, json) = refusal(0, 0, &bad).unwrap();
    assert_eq!(problem.code(), Code::InvalidDelta);
    assert_eq!(problem.retry_after_seconds(), None);
    let expected = r#"{"type":"/problems/invalid-delta","title":"A delta is a positive whole number","status":400,"detail":"none of 3 was counted; the reason of number 2: why 2","code":"invalid-delta","accepted":0,"rejected":3,"errors":[{"line":1,"code":"invalid-json","detail":"why 1"},{"line":2,"code":"invalid-delta","detail":"why 2"},{"line":3,"code":"invalid-delta","detail":"why 3"}],"rejected_lines":[{"code":"invalid-json","count":1,"lines":"1"},{"code":"invalid-delta","count":2,"lines":"2-3"}]}"#;
    assert_eq!(json, expected);
    // The first of two as frequent ones.
    let (problem, _) = refusal(0, 0, &bad[..2]).unwrap();
    assert_eq!(problem.code(), Code::InvalidJson);
    // What may count later takes precedence, and says when.
    let away = [&bad[..], &[(4, Code::Unavailable)]].concat();
    let (problem, _) = refusal(0, 0, &away).unwrap();
    assert_eq!(
        (problem.code(), problem.retry_after_seconds()),
        (Code::Unavailable, Some(1))
    );
    let mut report = BatchReport::default();
    for (line, seconds) in [(1, 7), (2, 3)] {
        let spent = Problem::new(Code::QuotaExceeded, "spent").with_retry_after(seconds);
        report.reject(line, &spent);
    }
    let (problem, _) = report.refusal().unwrap();
    assert_eq!(
        (problem.code().status(), problem.retry_after_seconds()),
        (429, Some(3))
    );
}

fn manner(times: Times) -> CountingMode {
    let hash = tally_core::sketch::HashKey::from([7; 16]).id();
    CountingMode::new(times, hash)
}

#[test]
fn a_write_near_the_clock_is_taken_and_any_other_learns_how_far_it_is() {
    for off_ms in [-CLOCK_SKEW_MS, 0, CLOCK_SKEW_MS] {
        assert_eq!(skew_of(NOW_MS + off_ms, NOW_MS), None, "{off_ms}");
    }
    for (at_ms, words) in [
        (
            NOW_MS - 5_001,
            "5001 ms behind the clock here, 5000 ms are allowed",
        ),
        (NOW_MS + 6_000, "6000 ms ahead of the clock here"),
        (0, "1700000000500 ms behind"),
    ] {
        let problem = skew_of(at_ms, NOW_MS).expect("a refusal");
        assert_eq!(problem.code(), Code::ClockSkew);
        assert!(problem.detail().contains(words), "{}", problem.detail());
        assert!(!problem.detail().contains("unix"), "{}", problem.detail());
    }
}
