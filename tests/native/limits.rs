//! Law: each limit that nothing else meets is met here: what fits is taken, and one more is refused. That the tables of
//! docs say what the constants are is a law of tests/docs.

use std::borrow::Cow;

use tally::core::counter::ledger::{Ledger, RECORDS_MAX};
use tally::protocol::batch::Record;
use tally::protocol::batch::gather::{CLOCK_SKEW_MS, Gather, Limits, Times};
use tally::protocol::batch::plan::{CallsNeeded, body_calls_max};
use tally::protocol::problem::Code;
use tally::protocol::{bodies, bounds, names};

const NOW_MS: i64 = 1_777_593_630_000;

#[test]
fn shells_stay_below_what_the_platform_gives() {
    // Half of an isolate is left to everything else while bulk bodies are summed.
    const { assert!(bounds::BULK_MEMORY_BYTES_MAX <= bounds::ISOLATE_BYTES_MAX / 2) };
    // A body may be of that size.
    const { assert!(bodies::BULK_BYTES_MAX <= bounds::BULK_MEMORY_BYTES_MAX) };
    let claims = (bounds::CLAIMS_MAX + bounds::PUBLIC_CLAIMS_MAX) * bounds::CLAIM_BYTES;
    assert!(
        claims <= bounds::OBJECT_BYTES_MAX / 10,
        "roots have room beside claims"
    );
    let partitions = names::DIRECTORY_PARTITIONS;
    assert!(bounds::AGGREGATE_MAX + partitions <= bounds::CALLS_MAX);
    let tries = bounds::WHOLE_MS_MAX / i64::try_from(bounds::WHOLE_EVERY_MS).unwrap();
    assert_eq!(tries, 35, "`WHOLE_TRIES` of a cell");
}

#[test]
fn a_ledger_has_room_for_all_its_records_and_for_no_other() {
    let day_ms = 86_400_000;
    let mut ledger = Ledger::default();
    for record in 0..RECORDS_MAX {
        // Some of each hour, so that they lie in several slots.
        let hour = i64::try_from(record % 20).unwrap();
        let slot = ledger.admit(NOW_MS + hour * 3_600_000, day_ms, RECORDS_MAX);
        assert!(slot.is_some(), "record {record}");
    }
    assert_eq!(ledger.records(), RECORDS_MAX);
    assert_eq!(ledger.admit(NOW_MS, day_ms, RECORDS_MAX), None);
}

fn hash(bytes: &[u8]) -> u64 {
    tally::core::sketch::hash(&tally::core::sketch::HashKey::from([7; 16]), bytes)
}

#[test]
fn a_body_has_room_for_all_its_counters_and_for_no_other() {
    // With elements in plain lines, and under a key without, where each counter is two calls.
    let calls_max = body_calls_max(None);
    for (unique, has_key, fits) in [(Some("u"), false, 4_900), (None, true, 2_450)] {
        for counters in [fits, fits + 1] {
            let limits = Limits {
                counters_max: u64::try_from(calls_max).unwrap(),
                times: Times::Live,
                clock_skew_ms: CLOCK_SKEW_MS,
            };
            let mut gather = Gather::new(limits, 1);
            for line in 1..=counters {
                let record = Record {
                    key: Cow::Owned(format!("c{line}")),
                    delta: 1,
                    unique: unique.map(|unique| Cow::Borrowed(unique.as_bytes())),
                    at_ms: None,
                    id: None,
                    sample: None,
                };
                gather.add(line, &record, NOW_MS, &hash);
            }
            let checked = gather.check_counters();
            let (sums, report) = gather.finish();
            assert_eq!(report.rejected, 0);
            let needed = CallsNeeded::of_body(&sums, |_| 1, |_| 0, has_key, calls_max);
            let outcome = checked.and(needed.map(|_| ()));
            let outcome = outcome.map_err(|problem| problem.code());
            let expected = match counters == fits {
                true => Ok(()),
                false => Err(Code::TooManyCounters),
            };
            assert_eq!(outcome, expected);
        }
    }
}
