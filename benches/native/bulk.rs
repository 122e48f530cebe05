//! Bulk bodies, from bytes to one sum per counter, as the edge reads them; and the stages before it,
//! each with those that feed it, so that the difference is what a stage costs.
//!
//! A sum is compared with a plain count of the lines in every iteration.

use std::collections::BTreeMap;

use divan::counter::{BytesCount, ItemsCount};
use divan::{Bencher, black_box};
use tally_api::access::Caller;
use tally_api::batch::BulkRecord;
use tally_api::batch::event::parse_line;
use tally_api::batch::gather::{BatchLimits, CLOCK_SKEW_MS, Gatherer};
use tally_api::batch::gathered::Times;
use tally_api::batch::ingest::Ingest;
use tally_api::batch::split::Splitter;
use tally_core::sketch::{HashKey, hash};
use tally_logs::formats::clf;
use tally_wire::problem::{Code, Problem};

use crate::{BEGIN_MS, Chance};

/// Events and counters of one body: those of the HTTP benchmark.
const EVENTS: usize = 50_000;
const COUNTERS: u64 = 1_000;

/// Visitors of the bodies that name them: five events each.
const VISITORS: u64 = 10_000;

/// What a stream hands over at once.
const CHUNK_BYTES: usize = 64 * 1024;

/// 2,000 lines of a real log.
const LOG: &[u8] = include_bytes!("../../tests/fixtures/access.log");

/// What an event says beside its key.
#[derive(Clone, Copy, Debug)]
enum Events {
    /// `"delta":1`, in lines; 40 bytes each.
    Increment,
    /// The same in one JSON array.
    Array,
    /// `"delta":1` and a visitor.
    Unique,
    /// `"delta":1` and a time within the 5 s that are allowed.
    Time,
}

const ALL: [Events; 4] = [
    Events::Increment,
    Events::Array,
    Events::Unique,
    Events::Time,
];

/// A body, and what each counter must come to.
struct Body {
    bytes: Vec<u8>,
    records: usize,
    sums: BTreeMap<String, u128>,
}

impl Body {
    fn of_events(kind: Events) -> Self {
        let mut sums = BTreeMap::new();
        let mut random = Chance(11);
        let mut draw = |below: u64| random.next().unwrap() % below;
        let events: Vec<String> = (0..EVENTS)
            .map(|_| {
                let key = format!("bench-batch-{}", draw(COUNTERS));
                let more = match kind {
                    Events::Increment | Events::Array => String::new(),
                    Events::Unique => format!(",\"unique\":\"visitor-{}\"", draw(VISITORS)),
                    Events::Time => {
                        format!(",\"at\":{}", BEGIN_MS.unsigned_abs() / 1_000 - draw(5))
                    }
                };
                let event = format!("{{\"id\":\"{key}\",\"delta\":1{more}}}");
                *sums.entry(key).or_default() += 1;
                event
            })
            .collect();
        let bytes = match kind {
            Events::Array => format!("[{}]", events.join(",")),
            _ => events.join("\n"),
        };
        Self {
            bytes: bytes.into_bytes(),
            records: EVENTS,
            sums,
        }
    }

    fn of_log() -> Self {
        let mut sums = BTreeMap::new();
        let lines: Vec<_> = LOG.trim_ascii_end().split(|&byte| byte == b'\n').collect();
        for line in lines.iter().filter_map(|line| clf::read(line).ok()) {
            *sums.entry(line.path().into_owned()).or_default() += 1;
        }
        Self {
            bytes: LOG.to_vec(),
            records: lines.len(),
            sums,
        }
    }

    fn count<'a, 'b>(&self, bencher: Bencher<'a, 'b>) -> Bencher<'a, 'b> {
        bencher
            .counter(ItemsCount::new(self.records))
            .counter(BytesCount::new(self.bytes.len()))
    }

    fn split(&self, mut splitter: Splitter, mut each: impl FnMut(u64, &[u8])) {
        let mut each = |number, record: Result<&[u8], Problem>| each(number, record.unwrap());
        for chunk in black_box(&self.bytes).chunks(CHUNK_BYTES) {
            splitter.push(chunk, &mut each).unwrap();
        }
        splitter.finish(&mut each).unwrap();
    }

    /// Splits, reads and sums the body, and compares the sums.
    fn sum(
        &self,
        splitter: Splitter,
        times: Times,
        read: impl Fn(&[u8]) -> Result<BulkRecord<'_>, Problem>,
    ) {
        let key = HashKey::from(*b"a key of a bench");
        let hash_of = |element: &[u8]| hash(&key, element);
        let limits = BatchLimits {
            times,
            clock_skew_ms: CLOCK_SKEW_MS,
        };
        let mut gather = Gatherer::new(limits, Caller::nobody().sender(), 13);
        self.split(splitter, |number, record| match read(record) {
            Ok(record) => gather.add(number, &record, BEGIN_MS, &hash_of),
            Err(problem) => gather.reject(number, &problem),
        });
        let (sums, _) = gather.finish();
        assert_eq!(sums.len(), self.sums.len(), "another number of counters");
        for ((counter, gathered), (key, sum)) in sums.iter().zip(&self.sums) {
            assert_eq!((counter.as_str(), gathered.added), (key.as_str(), *sum));
        }
    }
}

/// Splitting alone.
#[divan::bench(args = [Events::Increment, Events::Array])]
fn split(bencher: Bencher, kind: Events) {
    let body = Body::of_events(kind);
    body.count(bencher).bench(|| {
        body.split(Splitter::detect(), |_, record| {
            black_box(record);
        })
    });
}

/// Splitting and reading.
#[divan::bench(args = ALL)]
fn parse(bencher: Bencher, kind: Events) {
    let body = Body::of_events(kind);
    body.count(bencher).bench(|| {
        body.split(Splitter::detect(), |_, record| {
            black_box(parse_line(record)).unwrap();
        })
    });
}

/// The record of a line alone.
fn parse_event(line: &[u8]) -> Result<BulkRecord<'_>, Problem> {
    parse_line(line).map(|(record, _)| record)
}

/// All of what `/events` does with a body before it writes.
#[divan::bench(args = ALL)]
fn parse_and_sum(bencher: Bencher, kind: Events) {
    let body = Body::of_events(kind);
    body.count(bencher)
        .bench(|| body.sum(Splitter::detect(), Times::Live, parse_event));
}

/// Splitting and reading log lines.
#[divan::bench]
fn log_parse(bencher: Bencher) {
    let body = Body::of_log();
    body.count(bencher).bench(|| {
        body.split(Splitter::lines(), |_, line| {
            let _ = black_box(clf::read(line));
        })
    });
}

fn read_log(line: &[u8]) -> Result<BulkRecord<'_>, Problem> {
    let ingest = Ingest::from_query(Some("clf"), None, Some("ip"))?;
    let record = ingest.read(line)?;
    record.ok_or_else(|| Problem::new(Code::InvalidLine, "a line of this log is a request"))
}

/// All of what `/ingest?format=clf&unique=ip` does with a log before it writes.
#[divan::bench]
fn log_parse_and_sum(bencher: Bencher) {
    let body = Body::of_log();
    body.count(bencher)
        .bench(|| body.sum(Splitter::lines(), Times::Past, read_log));
}
