//! Law: the metrics are text that Prometheus reads, their labels are bounded, their buckets are
//! cumulative, and no counter ever falls.

use crate::common;
use crate::common::exposition;

use std::collections::BTreeMap;

use common::config;
use exposition::{Sample, parse, values};
use proptest::prelude::*;
use tally_api::batch::lines::LineNumbers;
use tally_api::batch::report::BatchReport;
use tally_api::metrics::{Metric, Metrics};
use tally_api::routes::RouteName;
use tally_wire::fleet::Snapshot;
use tally_wire::messages::{decode, encode};
use tally_wire::problem::{Code, Problem};

const EDGE_BEGUN_SECONDS: i64 = 1_700_000_000;
const OTHER_BEGUN_SECONDS: i64 = 1_700_000_100;

/// The lines of one family.
fn block<'a>(text: &'a str, name: &str) -> Vec<&'a str> {
    let heads = [format!("# HELP {name} "), format!("# TYPE {name} ")];
    let samples = [" ", "{", "_sum", "_count", "_bucket"].map(|next| format!("{name}{next}"));
    let is_its = |line: &&str| {
        heads
            .iter()
            .chain(&samples)
            .any(|head| line.starts_with(head))
    };
    text.lines().filter(is_its).collect()
}

/// A registry in which everything has happened, each another number of times.
fn busy() -> Metrics {
    let mut metrics = Metrics::new(EDGE_BEGUN_SECONDS);
    for (metric, amount) in Metric::ALL.iter().zip(1..) {
        metrics.add(*metric, amount);
    }
    for (code, lines) in Code::ALL.iter().zip(1..) {
        metrics.refuse(*code);
        metrics.reject_lines(*code, lines);
    }
    for (route, milliseconds) in RouteName::ALL.iter().zip(0..) {
        metrics.observe(*route, milliseconds);
    }
    metrics
}

#[test]
fn isolates_of_one_process_are_shown_as_their_sum_from_the_first_begin_on() {
    let mut sum = Metrics::new(i64::MAX);
    for (begun_seconds, replayed) in [(20, 2), (10, 3)] {
        let mut metrics = Metrics::new(begun_seconds);
        metrics.add(Metric::Replayed, replayed);
        metrics.observe(RouteName::Increment, 7);
        sum.join(&metrics);
    }
    let sums = values(&sum.render(Some(&sum.snapshot())));
    for (name, expected) in [
        ("tally_replayed_total", 5.0),
        (
            "tally_request_duration_seconds_count{route=\"increment\"}",
            2.0,
        ),
        (
            "tally_request_duration_seconds_sum{route=\"increment\"}",
            0.014,
        ),
        ("tally_start_time_seconds{worker=\"edge\"}", 10.0),
        ("tally_start_time_seconds{worker=\"aggregator\"}", 10.0),
    ] {
        assert_eq!(sums.get(name), Some(&expected), "{name}");
    }
    let mut more = Metrics::new(30);
    more.add(Metric::Replayed, u64::MAX);
    sum.join(&more);
    assert_eq!(sum.counts().iter().max(), Some(&u64::MAX));
}

#[test]
fn the_text_has_its_documented_form() {
    let mut metrics = Metrics::new(EDGE_BEGUN_SECONDS);
    let mut other = Metrics::new(OTHER_BEGUN_SECONDS);
    metrics.add(Metric::FlushCounted, 7);
    metrics.add(Metric::FlushUnknown, 1);
    metrics.add(Metric::FlushWritesSum, 231);
    metrics.add(Metric::FlushWritesCount, 8);
    other.add(Metric::ShardSeal, 3);
    for milliseconds in [0, 1, 2, 3, 5_000, 5_001] {
        metrics.observe(RouteName::Increment, milliseconds);
    }
    let text = metrics.render(Some(&other.snapshot()));
    for (name, lines) in [
        ("tally_aggregator_up", "\
# HELP tally_aggregator_up 1 if the global aggregator gave its part of these numbers.
# TYPE tally_aggregator_up gauge
tally_aggregator_up 1"),
        ("tally_start_time_seconds", "\
# HELP tally_start_time_seconds When the isolate that counts began to, in unix seconds, by Worker.
# TYPE tally_start_time_seconds gauge
tally_start_time_seconds{worker=\"edge\"} 1700000000
tally_start_time_seconds{worker=\"aggregator\"} 1700000100"),
        ("tally_flushes_total", "\
# HELP tally_flushes_total Flushes that lanes sent to cells, by outcome; unknown is one that was not confirmed in time.
# TYPE tally_flushes_total counter
tally_flushes_total{outcome=\"counted\"} 7
tally_flushes_total{outcome=\"refused\"} 0
tally_flushes_total{outcome=\"unknown\"} 1"),
        ("tally_flush_writes", "\
# HELP tally_flush_writes Writes joined in each flush.
# TYPE tally_flush_writes summary
tally_flush_writes_sum 231
tally_flush_writes_count 8"),
        ("tally_shard_seals_total", "\
# HELP tally_shard_seals_total Times that a shard was sealed, by its lead or because its counter ends.
# TYPE tally_shard_seals_total counter
tally_shard_seals_total 3"),
        ("tally_request_duration_seconds", "\
# HELP tally_request_duration_seconds From a request's arrival to its answer, by route; in steps of a millisecond.
# TYPE tally_request_duration_seconds histogram
tally_request_duration_seconds_bucket{route=\"increment\",le=\"0.001\"} 2
tally_request_duration_seconds_bucket{route=\"increment\",le=\"0.002\"} 3
tally_request_duration_seconds_bucket{route=\"increment\",le=\"0.005\"} 4
tally_request_duration_seconds_bucket{route=\"increment\",le=\"0.01\"} 4
tally_request_duration_seconds_bucket{route=\"increment\",le=\"0.02\"} 4
tally_request_duration_seconds_bucket{route=\"increment\",le=\"0.05\"} 4
tally_request_duration_seconds_bucket{route=\"increment\",le=\"0.1\"} 4
tally_request_duration_seconds_bucket{route=\"increment\",le=\"0.2\"} 4
tally_request_duration_seconds_bucket{route=\"increment\",le=\"0.5\"} 4
tally_request_duration_seconds_bucket{route=\"increment\",le=\"1\"} 4
tally_request_duration_seconds_bucket{route=\"increment\",le=\"2\"} 4
tally_request_duration_seconds_bucket{route=\"increment\",le=\"5\"} 5
tally_request_duration_seconds_bucket{route=\"increment\",le=\"+Inf\"} 6
tally_request_duration_seconds_sum{route=\"increment\"} 10.007
tally_request_duration_seconds_count{route=\"increment\"} 6"),
    ] {
        let expected: Vec<&str> = lines.lines().collect();
        assert_eq!(block(&text, name), expected);
    }
}

#[test]
fn every_series_is_there_once_and_keeps_to_its_own() {
    let text = busy().render(Some(&busy().snapshot()));
    parse(&text);
    let before = values(&Metrics::new(0).render(Some(&Metrics::new(0).snapshot())));
    let mut seen = Vec::new();
    for metric in Metric::ALL {
        let mut metrics = Metrics::new(0);
        metrics.add(*metric, 5);
        let after = values(&metrics.render(Some(&metrics.snapshot())));
        let moved: Vec<_> = after
            .into_iter()
            .filter(|(series, value)| before.get(series) != Some(value))
            .collect();
        assert_eq!(moved.len(), 1, "{metric:?} moves {moved:?}");
        // Times are counted in milliseconds and rendered in seconds.
        let expected = match metric {
            Metric::QueueLagSum => 0.005,
            _ => 5.0,
        };
        assert_eq!(moved[0].1, expected, "{metric:?}");
        assert!(!seen.contains(&moved[0].0), "{metric:?} is {}", moved[0].0);
        seen.push(moved[0].0.clone());
    }
}

#[test]
fn labels_are_bounded() {
    let codes: Vec<&str> = Code::ALL.iter().map(|code| code.as_str()).collect();
    let routes: Vec<&str> = RouteName::ALL.iter().map(|route| route.as_str()).collect();
    let bounds = [
        "0.001", "0.002", "0.005", "0.01", "0.02", "0.05", "0.1", "0.2", "0.5", "1", "2", "5",
        "+Inf",
    ];
    for family in parse(&busy().render(Some(&busy().snapshot()))).values() {
        for (sample, labels, _) in &family.samples {
            for (name, value) in labels {
                let allowed: &[&str] = match name.as_str() {
                    "code" => &codes,
                    "route" => &routes,
                    "le" => &bounds,
                    "operation" => &[
                        "increment",
                        "decrement",
                        "event",
                        "queued",
                        "ingest",
                        "put",
                        "set",
                        "delete",
                        "score",
                        "redis",
                    ],
                    "outcome" => &["counted", "refused", "unknown", "written", "failed"],
                    "verdict" => &["allowed", "refused", "error"],
                    "worker" => &["edge", "aggregator"],
                    "reason" => &["watched", "checkpoint"],
                    "from" => &["memory", "storage"],
                    "transport" => &["sse", "websocket"],
                    other => panic!("{sample} has a label {other}"),
                };
                assert!(
                    allowed.contains(&value.as_str()),
                    "{sample}: {name}={value}"
                );
            }
        }
    }
    let mut unique = [codes, routes].concat();
    let all = unique.len();
    unique.sort_unstable();
    unique.dedup();
    assert_eq!(unique.len(), all, "a name stands for two things");
}

#[test]
fn a_refusal_is_counted_under_its_code_and_a_skewed_time_once_more() {
    for code in Code::ALL {
        let mut metrics = Metrics::new(0);
        metrics.refuse(*code);
        metrics.reject_lines(*code, 3);
        let values = values(&metrics.render(None));
        for other in Code::ALL {
            let at = |family: &str| values[&format!("{family}{{code=\"{}\"}}", other.as_str())];
            let expected = if other == code {
                (1.0, 3.0)
            } else {
                (0.0, 0.0)
            };
            let counted = (at("tally_refused_total"), at("tally_rejected_lines_total"));
            assert_eq!(counted, expected, "{}", other.as_str());
        }
        let skewed = if *code == Code::ClockSkew { 4.0 } else { 0.0 };
        assert_eq!(
            values["tally_clock_skew_total"],
            skewed,
            "{}",
            code.as_str()
        );
    }
}

#[test]
fn without_the_aggregator_only_its_families_are_missing() {
    let (metrics, other) = (busy(), busy().snapshot());
    let with = parse(&metrics.render(Some(&other)));
    let text = metrics.render(None);
    assert_eq!(values(&text)["tally_aggregator_up"], 0.0);
    let without = parse(&text);
    let missing: Vec<&str> = with
        .keys()
        .filter(|name| !without.contains_key(*name))
        .map(String::as_str)
        .collect();
    let of_objects = [
        "tally_commit_flushes",
        "tally_commits_total",
        "tally_dead_letters_total",
        "tally_live_reads_total",
        "tally_live_updates_total",
        "tally_live_watcher_seconds_total",
        "tally_lookups_total",
        "tally_objects_unreadable_total",
        "tally_push_bytes_total",
        "tally_pushes_total",
        "tally_queue_lag_seconds",
        "tally_shard_seals_total",
        "tally_shard_splits_total",
    ];
    assert_eq!(missing, of_objects);
    let lines: Vec<&str> = text.lines().collect();
    let of_edge = |line: &&str| line.starts_with("tally_flush") || line.starts_with("tally_re");
    let all = metrics.render(Some(&Metrics::new(0).snapshot()));
    for line in all.lines().filter(of_edge) {
        assert!(lines.contains(&line), "{line}");
    }
}

#[test]
fn what_the_aggregator_says_of_the_edge_changes_nothing() {
    let metrics = Metrics::new(0);
    let values = values(&metrics.render(Some(&busy().snapshot())));
    assert_eq!(values["tally_replayed_total"], 0.0);
    assert_ne!(values["tally_shard_seals_total"], 0.0);
}

#[test]
fn a_snapshot_survives_its_way_and_another_builds_is_left_out() {
    let snapshot = busy().snapshot();
    let bytes = encode(&snapshot).expect("an encoding");
    assert!(bytes.len() < 1_000, "{} bytes", bytes.len());
    let arrived: Snapshot = decode(&bytes).expect("a snapshot");
    assert_eq!(arrived, snapshot);
    // The layout comes first: another one is of a build that counts other things.
    let mut other = bytes.clone();
    other[0] ^= 1;
    let other: Snapshot = decode(&other).expect("a snapshot");
    let metrics = busy();
    assert_eq!(metrics.render(Some(&other)), metrics.render(None));
}

#[test]
fn a_report_knows_which_lines_each_code_cost() {
    let mut report = BatchReport {
        accepted: 10,
        ..BatchReport::default()
    };
    for line in 1..=150 {
        report.reject(line, &Problem::new(Code::ClockSkew, "late"));
    }
    report.reject(151, &Problem::new(Code::InvalidJson, "bad"));
    let lines = LineNumbers::of([152, 153, 155, 157]);
    report.fail(&lines, &Problem::new(Code::Unavailable, "away"));
    let expected = [
        (Code::ClockSkew, 150),
        (Code::InvalidJson, 1),
        (Code::Unavailable, 4),
    ];
    let by_code = report.rejected_lines.iter();
    let by_code: Vec<_> = by_code.map(|one| (one.code, one.count)).collect();
    assert_eq!(by_code, expected);
    assert_eq!(report.rejected, 155);
    let json = serde_json::to_string(&report).expect("JSON");
    assert!(json.contains(r#""count":150,"lines":"1-150"}"#), "{json}");
    assert!(
        json.contains(r#""count":4,"lines":"152-153,155,157"}"#),
        "{json}"
    );
}

#[test]
fn a_clock_that_steps_back_and_huge_amounts_are_borne() {
    let mut metrics = Metrics::new(-5);
    metrics.observe(RouteName::Read, -7);
    metrics.observe(RouteName::Read, i64::MAX);
    metrics.observe(RouteName::Read, i64::MAX);
    metrics.observe(RouteName::Read, i64::MAX);
    metrics.add(Metric::Replayed, u64::MAX);
    metrics.add(Metric::Replayed, 1);
    let text = metrics.render(None);
    parse(&text);
    assert!(text.contains("tally_replayed_total 18446744073709551615\n"));
    assert!(text.contains("_bucket{route=\"read\",le=\"0.001\"} 1\n"));
    assert!(text.contains("_count{route=\"read\"} 4\n"));
}

#[derive(Clone, Debug)]
enum Event {
    Add(usize, u64),
    Refuse(usize),
    Reject(usize, u64),
    Observe(usize, i64),
}

fn event() -> impl Strategy<Value = Event> {
    let index = 0..1_000usize;
    prop_oneof![
        (index.clone(), 0..1_000u64).prop_map(|(metric, amount)| Event::Add(metric, amount)),
        index.clone().prop_map(Event::Refuse),
        (index.clone(), 0..1_000u64).prop_map(|(code, lines)| Event::Reject(code, lines)),
        (index, -10..10_000i64)
            .prop_map(|(route, milliseconds)| Event::Observe(route, milliseconds)),
    ]
}

fn any<T: Copy>(all: &[T], index: usize) -> T {
    all[index % all.len()]
}

proptest! {
    #![proptest_config(config(204, 64))]

    #[test]
    fn no_counter_falls_and_buckets_are_cumulative(events in prop::collection::vec(event(), 1..60)) {
        let mut metrics = Metrics::new(0);
        let mut before = values(&metrics.render(Some(&metrics.snapshot())));
        let mut requests = BTreeMap::new();
        for event in events {
            match event {
                Event::Add(metric, amount) => metrics.add(any(Metric::ALL, metric), amount),
                Event::Refuse(code) => metrics.refuse(any(Code::ALL, code)),
                Event::Reject(code, lines) => metrics.reject_lines(any(Code::ALL, code), lines),
                Event::Observe(route, milliseconds) => {
                    let route = any(RouteName::ALL, route);
                    metrics.observe(route, milliseconds);
                    *requests.entry(route.as_str()).or_insert(0u32) += 1;
                }
            }
            let after = values(&metrics.render(Some(&metrics.snapshot())));
            for (series, value) in &before {
                let now = after.get(series).copied();
                prop_assert!(now.is_some_and(|now| now >= *value), "{series}: {value}, then {now:?}");
            }
            before = after;
        }
        let families = parse(&metrics.render(Some(&metrics.snapshot())));
        let histogram = &families["tally_request_duration_seconds"];
        prop_assert_eq!(&histogram.kind, "histogram");
        for (route, request_count) in requests {
            let of_route = |sample: &str| -> Vec<f64> {
                let name = format!("tally_request_duration_seconds{sample}");
                let is_its = |(other, labels, _): &&Sample| {
                    *other == name && labels[0].1 == route
                };
                let samples = histogram.samples.iter().filter(is_its);
                samples.map(|(_, _, value)| value.parse().expect("a number")).collect()
            };
            let buckets = of_route("_bucket");
            prop_assert_eq!(buckets.len(), 13);
            prop_assert!(buckets.is_sorted(), "{:?}", buckets);
            prop_assert_eq!(buckets.last(), Some(&f64::from(request_count)));
            prop_assert_eq!(of_route("_count"), vec![f64::from(request_count)]);
        }
    }
}
