//! Laws of what a deployment counted: each count is in the sums once, whatever becomes of reports; rates lie within
//! their bounds; and what is told is text that Prometheus reads.

use std::collections::{BTreeMap, BTreeSet};

use crate::common::exposition::parse;
use proptest::prelude::*;
use tally_api::metrics::{Metric, Metrics, Reporter, changed, named, series_ids};
use tally_core::cluster::hot::{Hot, HotReport, HotWrites};
use tally_core::counter::id::{CounterId, Datacenter};
use tally_wire::fleet::{
    Clock, Counts, Fleet, FleetPart, Gauge, GaugeKind, IncarnationCounts, ReportExtras,
    ReportOutcome, Role, STAND_BY_MS, StoredSizes,
};
use tally_wire::messages::{decode, encode};
use tally_wire::problem::Code;

#[test]
fn no_two_series_have_one_number() {
    let ids: Vec<u32> = series_ids().collect();
    let different: BTreeSet<u32> = ids.iter().copied().collect();
    assert_eq!(different.len(), ids.len());
}

#[test]
fn edges_and_objects_report_each_series_of_one_of_them() {
    let mut metrics = Metrics::new(0);
    for metric in Metric::ALL {
        metrics.add(*metric, 1);
    }
    let of = |role| changed(metrics.counts(), &[], role);
    let (edge, objects) = (of(Role::Edge), of(Role::Objects));
    assert_eq!(edge.len() + objects.len(), Metric::ALL.len());
    let all: BTreeSet<u32> = edge.iter().chain(&objects).map(|(id, _)| *id).collect();
    assert_eq!(all.len(), Metric::ALL.len());
}

/// What becomes of a report.
#[derive(Clone, Copy, Debug)]
enum Way {
    Delivered,
    Lost,
    AnswerLost,
    Repeated,
    /// It comes again after the next.
    Late,
}

fn way() -> impl Strategy<Value = Way> {
    prop_oneof![
        4 => Just(Way::Delivered),
        1 => Just(Way::Lost),
        1 => Just(Way::AnswerLost),
        1 => Just(Way::Repeated),
        1 => Just(Way::Late),
    ]
}

/// Rows by incarnation, as a partition has them.
#[derive(Default)]
struct Rows(BTreeMap<u64, IncarnationCounts>);

impl Rows {
    fn take(&mut self, report: &Counts) -> ReportOutcome {
        let bytes = encode(report).unwrap();
        let counts = self.0.entry(report.incarnation).or_default();
        counts.take(decode(&bytes).unwrap()).0
    }

    fn sum(&self) -> u64 {
        let sums = self.0.values().flat_map(|counts| counts.sums.iter());
        sums.map(|(_, sum)| *sum).sum()
    }
}

proptest! {
    #[test]
    fn every_count_is_in_the_sums_once(steps in prop::collection::vec((0_u64..5, way()), 1..60)) {
        let mut metrics = Metrics::new(0);
        let mut reporter = Reporter::new(1, 0);
        let mut rows = Rows::default();
        let (mut counted, mut late, mut before) = (0, None::<Counts>, 0);
        let last = (0, Way::Delivered);
        for (number, (amount, way)) in steps.into_iter().chain([last; 2]).enumerate() {
            let now_ms = i64::try_from(number).unwrap() * 10_000;
            metrics.add(Metric::CommitWritten, amount);
            counted += amount;
            let unsent = reporter.report(metrics.counts(), Role::Objects, now_ms, || unreachable!());
            let report = Counts {
                incarnation: unsent.incarnation,
                sequence: unsent.sequence,
                role: Role::Objects,
                rose: unsent.rose,
                news: ReportExtras::default(),
            };
            if !matches!(way, Way::Lost) {
                prop_assert_eq!(rows.take(&report), ReportOutcome::Counted);
            }
            match way {
                Way::Delivered | Way::Late => reporter.confirmed(report.incarnation, report.sequence, now_ms),
                Way::Repeated => {
                    rows.take(&report);
                    reporter.confirmed(report.incarnation, report.sequence, now_ms);
                }
                Way::Lost | Way::AnswerLost => {}
            }
            if let Some(old) = late.take() {
                rows.take(&old);
                reporter.confirmed(old.incarnation, old.sequence, now_ms);
            }
            if matches!(way, Way::Late) {
                late = Some(report);
            }
            let sum = rows.sum();
            prop_assert!(before <= sum && sum <= counted, "{} {} {}", before, sum, counted);
            before = sum;
        }
        prop_assert_eq!(rows.sum(), counted);
    }

    #[test]
    fn a_counter_is_written_as_often_as_its_bounds_say(
        writes in prop::collection::vec((0_usize..900, 1_u64..50), 1..3_000),
        isolates in 1_usize..4,
        kept in 1_usize..300,
    ) {
        let mut notes: Vec<HotWrites> = (0..isolates).map(|_| HotWrites::default()).collect();
        let mut truth: BTreeMap<CounterId, u64> = BTreeMap::new();
        let here = Datacenter::parse("FRA").unwrap();
        for (place, (counter, amount)) in writes.iter().enumerate() {
            // Some are written far more than others.
            let counter = CounterId::parse(format!("c{}", counter * counter / 900)).unwrap();
            notes[place % isolates].record(&counter, &here, 1, *amount, 0);
            *truth.entry(counter).or_default() += amount;
        }
        let mut hot = Hot::default();
        for notes in &mut notes {
            hot.add(notes.take(1_000));
        }
        hot.prune(kept);
        let named: BTreeMap<_, _> = hot.hottest(usize::MAX).into_iter().collect();
        prop_assert!(named.len() <= kept);
        for (counter, writes) in &truth {
            let milli = writes * 1_000;
            match named.get(counter) {
                Some(row) => {
                    let most = row.rate + hot.error(row);
                    prop_assert!(row.rate <= milli && milli <= most, "{} {} {}", row.rate, milli, most);
                }
                None => prop_assert!(milli <= hot.absent_max(), "{} {}", milli, hot.absent_max()),
            }
        }
    }
}

#[test]
fn a_report_that_was_refused_is_told_with_the_next() {
    let mut metrics = Metrics::new(0);
    let mut reporter = Reporter::new(16, 0);
    metrics.add(Metric::DeadLetter, 3);
    let first = reporter.report(metrics.counts(), Role::Objects, 0, || 1);
    reporter.refused(first.incarnation, first.sequence);
    metrics.add(Metric::DeadLetter, 4);
    let next = reporter.report(metrics.counts(), Role::Objects, 10_000, || 1);
    assert_eq!((next.incarnation, next.sequence), (16, 1));
    assert_eq!(next.rose.iter().map(|(_, rose)| rose).sum::<u64>(), 7);
}

#[test]
fn whoever_may_be_forgotten_begins_anew_and_gives_up_what_may_have_been_counted() {
    let mut metrics = Metrics::new(0);
    let mut reporter = Reporter::new(16, 0);
    metrics.add(Metric::DeadLetter, 3);
    reporter.report(metrics.counts(), Role::Objects, 0, || 1);
    metrics.add(Metric::DeadLetter, 4);
    let again = reporter.report(metrics.counts(), Role::Objects, STAND_BY_MS - 1, || 1);
    assert_eq!((again.incarnation, again.rose[0].1), (16, 3));
    let anew = reporter.report(metrics.counts(), Role::Objects, STAND_BY_MS, || 17);
    assert_eq!(
        (anew.incarnation, anew.sequence, anew.rose[0].1),
        (17, 1, 4)
    );
    // One that was quiet for long has nothing to give up.
    reporter.confirmed(17, 1, STAND_BY_MS);
    metrics.add(Metric::DeadLetter, 5);
    let later = reporter.report(metrics.counts(), Role::Objects, 3 * STAND_BY_MS, || 18);
    assert_eq!(
        (later.incarnation, later.sequence, later.rose[0].1),
        (18, 1, 5)
    );
}

#[test]
fn a_number_that_is_ahead_is_of_an_incarnation_that_was_forgotten() {
    let mut counts = IncarnationCounts::default();
    let report = |sequence| Counts {
        incarnation: 1,
        sequence,
        role: Role::Edge,
        rose: vec![(7, 1)],
        news: ReportExtras::default(),
    };
    assert_eq!(counts.take(report(2)), (ReportOutcome::Forgotten, false));
    assert_eq!(counts.take(report(1)), (ReportOutcome::Counted, true));
    assert_eq!(counts.take(report(1)), (ReportOutcome::Counted, false));
    assert_eq!(counts.take(report(3)), (ReportOutcome::Forgotten, false));
    assert_eq!(counts.sums, [(7, 1)]);
}

fn part(now_ms: i64, clocks: &[(&str, i64, i64)]) -> FleetPart {
    let clock = |(name, from_ms, to_ms): &(&str, i64, i64)| Clock {
        datacenter: Datacenter::parse(name).unwrap(),
        from_ms: *from_ms,
        to_ms: *to_ms,
    };
    FleetPart {
        now_ms,
        clocks: clocks.iter().map(clock).collect(),
        ..FleetPart::default()
    }
}

#[test]
fn clocks_are_compared_with_the_middle_one_of_the_partitions() {
    // Asked at 1,000 and answered at 1,020 by the asker's clock. One partition is five seconds ahead, and FRA beside it
    // by its own word right.
    let parts = vec![
        (part(1_010, &[("SYD", -10, 10)]), 1_000, 1_020),
        (part(6_010, &[("FRA", -5, 5)]), 1_000, 1_020),
        (part(1_012, &[]), 1_000, 1_020),
    ];
    let fleet = Fleet::of(parts, vec![]);
    let of = |name: &str| {
        let mut clocks = fleet.part().clocks.iter();
        clocks
            .find(|clock| clock.datacenter.as_str() == name)
            .unwrap()
    };
    assert!(of("FRA").is_off() && of("FRA").surely_off_ms() > 4_900);
    assert!(!of("SYD").is_off());
    assert_eq!(of("SYD").surely_off_ms(), 0);
}

#[test]
fn sums_began_with_the_first_report_and_nobody_says_when_where_a_partition_does_not_know() {
    let of = |parts: &[(u64, Option<i64>)]| {
        let parts = parts.iter().map(|(sum, begun_ms)| FleetPart {
            sums: (*sum > 0).then_some((7, *sum)).into_iter().collect(),
            begun_ms: *begun_ms,
            ..FleetPart::default()
        });
        let parts = parts.map(|part| (part, 0, 0)).collect();
        let text = Metrics::new(0).render_with(None, Some(&Fleet::of(parts, vec![])));
        let line = text
            .lines()
            .find(|line| line.starts_with("tally_fleet_start_time_seconds "));
        line.and_then(|line| line.split(' ').nth(1).map(str::to_owned))
    };
    let start_time = of(&[(5, Some(90_500)), (0, None), (3, Some(12_000))]);
    assert_eq!(start_time.as_deref(), Some("12.000"));
    assert_eq!(of(&[(5, Some(90_500)), (3, None)]), None);
    assert_eq!(of(&[(0, None)]), None);
}

#[test]
fn what_is_so_now_is_told_in_the_form_of_prometheus() {
    let mut first = part(100_000, &[("FRA", -20, 31)]);
    first.counters = (12, 1_500);
    first.age_ms = Some(2_345);
    first.isolates = [3, 2];
    first.stored = vec![(
        "CELLS".to_owned(),
        StoredSizes {
            objects: 2,
            bytes: 8_192,
            variance: 99,
        },
    )];
    let gauge = |kind, name: &str, value, at_ms| Gauge {
        kind,
        name: name.to_owned(),
        value,
        at_ms,
    };
    first.gauges = vec![
        gauge(GaugeKind::Backlog, "FRA/1", 5, 90_000),
        gauge(GaugeKind::Backlog, "FRA/1", 4, 80_000),
        gauge(GaugeKind::OldestWaiting, "FRA/1", 95_500, 90_000),
        gauge(GaugeKind::Convergence, "FRA", 321, 90_000),
        // Of waits the longest of a minute, of all else the newest.
        gauge(GaugeKind::Unreported, "FRA", 900_000, 20_000),
        gauge(GaugeKind::Unreported, "FRA", 7_500, 85_000),
        gauge(GaugeKind::Unreported, "FRA", 120, 90_000),
        gauge(GaugeKind::EstimateError, "FRA", 9_000, 80_000),
        gauge(GaugeKind::EstimateError, "FRA", 4_150, 90_000),
    ];
    let fleet = Fleet::of(vec![(first, 100_000, 100_000)], vec![]);
    let text = Metrics::new(0).render_with(None, Some(&fleet));
    let families = parse(&text);
    for (name, value) in [
        ("tally_fleet_up", "1"),
        ("tally_fleet_age_seconds", "2.345"),
        ("tally_fleet_isolates{role=\"edge\"}", "3"),
        ("tally_fleet_counters", "12"),
        ("tally_fleet_stored_bytes{kind=\"CELLS\"}", "8192"),
        ("tally_fleet_stored_error_bytes{kind=\"CELLS\"}", "9"),
        (
            "tally_fleet_clock_offset_seconds{datacenter=\"FRA\"}",
            "0.0055",
        ),
        ("tally_fleet_inbox_backlog{inbox=\"FRA/1\"}", "5"),
        ("tally_fleet_inbox_oldest_seconds{inbox=\"FRA/1\"}", "4.500"),
        (
            "tally_fleet_convergence_seconds{datacenter=\"FRA\"}",
            "0.321",
        ),
        (
            "tally_fleet_unreported_seconds{datacenter=\"FRA\"}",
            "7.500",
        ),
        (
            "tally_fleet_estimate_error_ratio{datacenter=\"FRA\"}",
            "0.004150",
        ),
    ] {
        let line = format!("{name} {value}\n");
        assert!(text.contains(&line), "{line}{text}");
        assert!(
            families.contains_key(name.split('{').next().unwrap()),
            "{name}"
        );
    }
}

#[test]
fn what_no_isolate_has_told_is_nothing() {
    assert_eq!(HotWrites::default().take(5), HotReport::default());
    let mut hot = Hot::default();
    hot.add(HotReport::default());
    assert!(hot.is_empty() && hot.absent_max() == 0);
}

#[test]
fn series_are_named_as_the_text_names_them() {
    let mut metrics = Metrics::new(0);
    metrics.add(Metric::LookupMemory, 5);
    metrics.refuse(Code::ClockSkew);
    let objects = named(&changed(metrics.counts(), &[], Role::Objects));
    assert_eq!(
        objects,
        [("tally_lookups_total{from=\"memory\"}".to_owned(), 5.0)]
    );
    let edge = named(&changed(metrics.counts(), &[], Role::Edge));
    let text = metrics.render(None);
    assert_eq!(edge.len(), 2);
    for (name, amount) in edge {
        assert!(text.contains(&format!("{name} {amount}\n")), "{name}");
    }
    // Times are counted in milliseconds and rendered in seconds.
    metrics.add(Metric::QueueLagSum, 1_250);
    let objects = named(&changed(metrics.counts(), &[], Role::Objects));
    assert!(objects.contains(&("tally_queue_lag_seconds_sum".to_owned(), 1.25)));
    let text = metrics.render(Some(&metrics.snapshot()));
    assert!(text.contains("\ntally_queue_lag_seconds_sum 1.250\n"));
}
