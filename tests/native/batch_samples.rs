//! Samples in bulk bodies: read with their lines, joined by stamp, counted with their lines and in no other way, and
//! in what a body may hold in memory.

use crate::common::events::parse_event;

use tally_api::access::Caller;
use tally_api::batch::event::parse_increment;
use tally_api::batch::gather::{BatchLimits, CLOCK_SKEW_MS, Gatherer};
use tally_api::batch::gathered::{CountingMode, GatheredCounter, Times};
use tally_api::batch::keyed_writes::BodyKey;
use tally_api::batch::plan::Plan;
use tally_core::counter::id::Datacenter;
use tally_core::counter::ledger::WriteKey;
use tally_core::counter::samples::Samples;
use tally_core::sketch::{HashKey, Histogram, Sample};
use tally_wire::problem::Code;

/// 1 May 2026, 00:00:30 UTC.
const NOW_MS: i64 = 1_777_593_630_000;
const NOW: i64 = NOW_MS / 1_000;

const LIMITS: BatchLimits = BatchLimits {
    times: Times::Live,
    clock_skew_ms: CLOCK_SKEW_MS,
};

/// FNV-1a: fingerprints must differ where what was asked for does.
fn hash(bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

fn gathered<'a>(lines: impl IntoIterator<Item = &'a str>) -> (GatheredCounter, u64) {
    let mut gather = Gatherer::new(LIMITS, Caller::nobody().sender(), 1);
    for (number, line) in (1..).zip(lines) {
        let record = parse_event(line.as_bytes()).expect("a record");
        gather.add(number, &record, NOW_MS, &hash);
    }
    let bytes = gather.memory_bytes();
    let (mut sums, report) = gather.finish();
    assert_eq!(report.rejected, 0);
    (sums.pop().expect("a counter").1, bytes)
}

fn histogram(values: &[f64]) -> Histogram {
    let mut histogram = Histogram::new();
    for value in values {
        histogram.insert(Sample::new(*value).expect("a sample"));
    }
    histogram
}

fn plan(gathered: GatheredCounter, key: Option<BodyKey>) -> Plan {
    let counter = tally_core::counter::id::CounterId::parse("a").expect("an id");
    let here = Datacenter::parse("FRA").expect("a datacenter");
    let sums = vec![(counter, gathered)];
    let manner = CountingMode::new(Times::Live, HashKey::from([7; 16]).id());
    Plan::new(sums, manner, &here, |_| 4, |_| 2, key)
}

#[test]
fn a_sample_is_read_or_refused_with_its_line() {
    let sample = |text: &str| {
        let line = format!(r#"{{"id":"a","sample":{text}}}"#);
        let event = parse_event(line.as_bytes()).map(|event| event.sample);
        let event = event.map_err(|problem| problem.code());
        let body = format!(r#"{{"sample":{text}}}"#);
        let increment = parse_increment(body.as_bytes()).map(|body| body.sample);
        let increment = increment.map_err(|problem| problem.code());
        assert_eq!(event, increment, "{text}");
        event.map(|sample| sample.map(Sample::value))
    };
    for (text, value) in [
        ("12.3", 12.3),
        ("0", 0.0),
        ("-0.0", 0.0),
        ("7", 7.0),
        ("1e3", 1_000.0),
    ] {
        assert_eq!(sample(text), Ok(Some(value)), "{text}");
    }
    for text in [
        "-1",
        "1e-10",
        "17592186044416",
        "1e999",
        "null",
        "\"1\"",
        "true",
        "[]",
        "{}",
    ] {
        assert_eq!(sample(text), Err(Code::InvalidBody), "{text}");
    }
    for text in ["NaN", "1.", ""] {
        assert_eq!(sample(text), Err(Code::InvalidJson), "{text}");
    }
    assert_eq!(parse_increment(b"").map(|body| body.sample), Ok(None));
    let twice = br#"{"id":"a","sample":1,"sample":2}"#;
    assert_eq!(
        parse_event(twice).map_err(|problem| problem.code()),
        Err(Code::InvalidBody)
    );
}

#[test]
fn samples_join_by_stamp_and_go_with_the_amounts() {
    let earlier = format!(r#"{{"id":"a","sample":4,"at":{}}}"#, NOW_MS / 1_000 - 2);
    let (sum, _) = gathered([
        r#"{"id":"a","sample":1,"delta":5}"#,
        r#"{"id":"a","unique":"ann"}"#,
        r#"{"id":"a","sample":2,"unique":"bob"}"#,
        &earlier,
    ]);
    let samples: Samples = vec![(NOW, histogram(&[1.0, 2.0])), (NOW - 2, histogram(&[4.0]))];
    assert_eq!(sum.samples, samples);
    let mut plan = plan(sum, None);
    let [amounts] = plan.amounts().try_into().expect("one load of amounts");
    assert_eq!((amounts.to.shard, amounts.load.added), (2, 8));
    assert_eq!(amounts.load.samples, samples);
    assert!(
        plan.elements()
            .iter()
            .all(|other| other.load.samples.is_empty())
    );
}

#[test]
fn samples_of_lines_with_keys_go_with_those() {
    let (sum, _) = gathered([
        r#"{"id":"a","sample":1,"idempotency_key":"x"}"#,
        r#"{"id":"a","sample":2}"#,
        r#"{"id":"a","idempotency_key":"y"}"#,
    ]);
    let key = BodyKey {
        key: WriteKey([9; 16]),
        fingerprint: 9,
    };
    let keyed = plan(sum, Some(key)).keyed();
    let writes: Vec<_> = keyed.iter().flat_map(|some| &some.writes).collect();
    let samples: Vec<_> = writes.iter().map(|write| write.samples.clone()).collect();
    let one = |value: f64| vec![(NOW, histogram(&[value]))];
    assert_eq!(samples, [one(1.0), Vec::new(), one(2.0)]);
}

#[test]
fn another_sample_is_another_write() {
    let fingerprint = |line: &str| gathered([line]).0.identified[0].fingerprint;
    let without = fingerprint(r#"{"id":"a","idempotency_key":"x"}"#);
    let one = fingerprint(r#"{"id":"a","idempotency_key":"x","sample":1}"#);
    assert_ne!(without, one);
    assert_ne!(
        without,
        fingerprint(r#"{"id":"a","idempotency_key":"x","sample":0}"#)
    );
    assert_ne!(
        one,
        fingerprint(r#"{"id":"a","idempotency_key":"x","sample":2}"#)
    );
    assert_eq!(
        one,
        fingerprint(r#"{"id":"a","idempotency_key":"x","sample":1.0}"#)
    );
    // As it was before there were samples: amount, element, time.
    let before =
        tally_api::idempotency_keys::fingerprint(&hash, &[&1_u128.to_le_bytes(), b"", b""]);
    assert_eq!(without, before);
}

#[test]
fn what_samples_hold_is_counted() {
    // As far apart as can be: beyond 64 buckets they are an array from the first to the last.
    let line = |number: u32| {
        let value = (f64::from(number) * 73.0 / 100.0 - 29.5).exp2();
        format!(r#"{{"id":"a","sample":{value:e}}}"#)
    };
    let bytes = |lines: u32| {
        let lines: Vec<String> = (0..lines).map(line).collect();
        gathered(lines.iter().map(String::as_str)).1
    };
    let (few, many) = (bytes(60) - bytes(1), bytes(100) - bytes(1));
    assert!(few >= 59 * 16, "{few}");
    assert!(many >= 4_500 * 8, "{many}");
}
