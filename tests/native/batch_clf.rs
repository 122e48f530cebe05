//! The queries of `/ingest`, and the fixture's counts, which equal those of a plain count.

use std::collections::BTreeMap;

use tally_api::access::Caller;
use tally_api::batch::gather::{BatchLimits, CLOCK_SKEW_MS, Gatherer};
use tally_api::batch::gathered::{GatheredCounter, Times};
use tally_api::batch::ingest::{Format, Ingest, KeyField};
use tally_api::batch::ndjson::UniqueField;
use tally_api::batch::report::BatchReport;
use tally_core::counter::id::CounterId;
use tally_wire::problem::Code;

#[test]
fn only_known_queries_are_taken() {
    let sound = Ingest::from_query(Some("clf"), Some("path"), Some("ip")).unwrap();
    assert_eq!(
        sound,
        Ingest {
            format: Format::Clf,
            key: KeyField::Path,
            unique: UniqueField::Ip,
            by: Vec::new(),
            site: None,
        }
    );
    assert_eq!(
        Ingest::from_query(Some("logpush"), None, None)
            .unwrap()
            .unique,
        UniqueField::None
    );
    for (format, key, unique, names) in [
        (
            None,
            None,
            None,
            ["`format`", "`clf`", "`ndjson`", "`logpush`"],
        ),
        (
            Some("csv"),
            None,
            None,
            ["`format`", "`clf`", "`ndjson`", "`csv`"],
        ),
        (
            Some("clf"),
            Some("host"),
            None,
            ["`id`", "`path`", "`host`", ""],
        ),
        (
            Some("clf"),
            None,
            Some("agent"),
            ["`unique`", "`ip`", "`none`", "`agent`"],
        ),
    ] {
        let problem = Ingest::from_query(format, key, unique).unwrap_err();
        assert_eq!(problem.code(), Code::InvalidQuery);
        assert!(
            names.iter().all(|name| problem.detail().contains(name)),
            "{problem}"
        );
    }
}

const LOG: &str = include_str!("../fixtures/access.log");

/// The plain count: no calendar, only the text of the hour.
#[derive(Default)]
struct PlainCount<'a> {
    paths: BTreeMap<&'a str, u128>,
    hours: BTreeMap<&'a str, u128>,
    path_hours: BTreeMap<(&'a str, &'a str), u128>,
    visitors: BTreeMap<&'a str, Vec<&'a str>>,
}

fn plain_count(log: &str) -> PlainCount<'_> {
    let mut plain = PlainCount::default();
    for line in log.lines() {
        let target = line.split('"').nth(1).unwrap().split(' ').nth(1).unwrap();
        let path = target.split('?').next().unwrap();
        let hour = &line.split('[').nth(1).unwrap()[..14];
        *plain.paths.entry(path).or_default() += 1;
        *plain.hours.entry(hour).or_default() += 1;
        *plain.path_hours.entry((path, hour)).or_default() += 1;
        plain
            .visitors
            .entry(path)
            .or_default()
            .push(line.split(' ').next().unwrap());
    }
    plain
}

/// What the shell gathers of a log that comes in chunks.
fn gathered(log: &str) -> (Vec<(CounterId, GatheredCounter)>, BatchReport) {
    let now_ms = 1_800_000_000_000;
    let limits = BatchLimits {
        times: Times::Past,
        clock_skew_ms: CLOCK_SKEW_MS,
    };
    let ingest = Ingest::from_query(Some("clf"), None, Some("ip")).unwrap();
    let mut gather = Gatherer::new(limits, Caller::nobody().sender(), 1);
    // Not what elements are hashed with in earnest, but without collisions here.
    let hash = |element: &[u8]| {
        element
            .iter()
            .fold(0, |sum: u64, &byte| sum.wrapping_mul(257) + u64::from(byte))
    };
    let mut splitter = ingest.splitter();
    let mut take =
        |line, record: Result<&[u8], _>| match record.and_then(|record| ingest.read(record)) {
            Ok(Some(record)) => gather.add(line, &record, now_ms, &hash),
            Ok(None) => panic!("no line of this log is a check"),
            Err(problem) => gather.reject(line, &problem),
        };
    for chunk in log.as_bytes().chunks(1500) {
        splitter.push(chunk, &mut take).unwrap();
    }
    splitter.finish(&mut take).unwrap();
    gather.finish()
}

#[test]
fn the_fixture_counts_as_a_plain_count_does() {
    let (counters, report) = gathered(LOG);
    assert_eq!((report.accepted, report.rejected), (2000, 0));
    let plain = plain_count(LOG);
    let counted: BTreeMap<&str, u128> = counters
        .iter()
        .map(|(id, sum)| (id.as_str(), sum.added))
        .collect();
    assert_eq!(counted, plain.paths);

    // The log begins at 10 h on 17 May 2015, which is 1431856800.
    let text = |stamp: i64| {
        assert_eq!(stamp % 3600, 0);
        let hour = (stamp - 1_431_856_800) / 3600 + 10;
        format!("{}/May/2015:{:02}", 17 + hour / 24, hour % 24)
    };
    let mut counted_hours: BTreeMap<String, u128> = BTreeMap::new();
    for (id, sum) in &counters {
        assert_eq!(sum.buckets.values().sum::<u128>(), sum.added);
        for (&stamp, &count) in &sum.buckets {
            *counted_hours.entry(text(stamp)).or_default() += count;
            assert_eq!(
                plain.path_hours.get(&(id.as_str(), text(stamp).as_str())),
                Some(&count)
            );
        }
        let mut expected = plain.visitors[id.as_str()].clone();
        expected.sort_unstable();
        expected.dedup();
        let mut hashes: Vec<u64> = sum.tokens.iter().map(|&(_, hash)| hash.keyed).collect();
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(hashes.len(), expected.len(), "visitors of {id}");
    }
    let counted_hours: BTreeMap<&str, u128> = counted_hours
        .iter()
        .map(|(hour, count)| (hour.as_str(), *count))
        .collect();
    assert_eq!(counted_hours, plain.hours);
}
