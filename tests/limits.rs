//! Law: the table of limits in ARCHITECTURE.md says what the constants are, and each limit that nothing else meets is
//! met here: what fits is taken, and one more is refused.

use std::borrow::Cow;

use tally::counter::history::{DAYS_KEPT, HOURS_KEPT, MINUTES_KEPT, SECONDS_KEPT};
use tally::counter::id::{COUNTER_ID_BYTES_MAX, Datacenter};
use tally::counter::ledger::{Ledger, RECORDS_MAX, WriteKey};
use tally::counter::queue::{APPEND_ENTRIES_MAX, DEAD_LETTERS_MAX, LOG_ROWS_MAX};
use tally::counter::{lane, nonces, produce};
use tally::limit::policy::{LIMIT_MAX, WINDOW_SECONDS_MAX};
use tally::limit::table::{BYTES_MAX, KEYS_MAX};
use tally::protocol::batch::Record;
use tally::protocol::batch::gather::{CLOCK_SKEW_MS, Gather, Limits, Manner, Times};
use tally::protocol::batch::keyed::BodyKey;
use tally::protocol::batch::plan::{BATCH_COUNTERS_MAX, BATCH_FLUSHES_MAX, Plan};
use tally::protocol::batch::split::RECORD_BYTES_MAX;
use tally::protocol::batch::wave::GATHER_MS_MAX;
use tally::protocol::limits::CHECKS_MAX;
use tally::protocol::limits::batch::DEMANDS_MAX;
use tally::protocol::names::LIMITER_PARTITIONS;
use tally::protocol::problem::Code;
use tally::protocol::{bodies, bounds, keyed, names, query};

const NOW_MS: i64 = 1_777_593_630_000;

/// A number as the table writes it, in groups of three.
fn written(number: impl TryInto<u64>) -> String {
    let Ok(number) = number.try_into() else {
        unreachable!("a limit is not negative")
    };
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[test]
fn the_table_of_limits_says_what_the_constants_are() {
    let all = include_str!("../ARCHITECTURE.md");
    let (_, table) = all.split_once("\n## Limits\n").unwrap();
    let (table, _) = table.split_once("\n## ").unwrap();
    let mebibytes = 1 << 20;
    let said = [
        format!("id {} B", written(COUNTER_ID_BYTES_MAX)),
        format!("body {} MiB", bodies::BODY_BYTES_MAX / mebibytes),
        format!("bulk body {} MiB", bodies::BULK_BYTES_MAX / mebibytes),
        format!("{} MiB drained", bodies::DRAIN_BYTES_MAX / mebibytes),
        format!("record of a bulk body {} KiB", RECORD_BYTES_MAX / 1_024),
        format!("{} counters (", written(BATCH_COUNTERS_MAX)),
        format!("({} under a key)", written(BATCH_FLUSHES_MAX / 2)),
        format!("{} calls per bulk body", written(BATCH_FLUSHES_MAX)),
        format!("at most {} s for others", GATHER_MS_MAX / 1_000),
        format!("{} batches of", lane::BATCHES_MAX),
        format!("{} writes per lane", written(lane::BATCH_ITEMS_MAX)),
        format!("{} points of history", written(query::POINTS_MAX)),
        format!("{} counters in a union", query::UNION_MAX),
        format!("seconds {} min", SECONDS_KEPT / 60),
        format!("minutes {} h", MINUTES_KEPT / 3_600),
        format!("newest {} hours", written(HOURS_KEPT)),
        format!("{} days", written(DAYS_KEPT)),
        format!("{} appends", written(LOG_ROWS_MAX)),
        format!("of {APPEND_ENTRIES_MAX} events"),
        format!("{} dead letters", written(DEAD_LETTERS_MAX)),
        format!("{} messages of", produce::BATCH_MESSAGES_MAX),
        format!("of {} B in a batch", produce::MESSAGE_BYTES_MAX),
        format!("{} full batches", produce::FULL_MAX),
        format!("{} lanes", written(nonces::LANES_MAX)),
        format!("{} keys per counter", written(RECORDS_MAX)),
        format!("follows {} moves", keyed::MOVES_MAX),
        format!("limits up to {}", written(LIMIT_MAX)),
        format!("up to {} days", WINDOW_SECONDS_MAX / 86_400),
        format!("{CHECKS_MAX} checks of one call"),
        format!(
            "{} keys and {} MiB",
            written(KEYS_MAX),
            BYTES_MAX / mebibytes
        ),
        format!("{LIMITER_PARTITIONS} limiters of a datacenter"),
        format!("{} different checks", written(DEMANDS_MAX)),
        format!(
            "{} MiB of bulk sums",
            bounds::BULK_MEMORY_BYTES_MAX / 1_048_576
        ),
        format!("{} flushes wait", written(bounds::WAITING_MAX)),
        format!("{} per partition", written(bounds::CLAIMS_MAX)),
        format!("{} in an aggregate", written(bounds::AGGREGATE_MAX)),
        format!("at most {} s; its kept", bounds::OPERATE_MS_MAX / 1_000),
        format!("at most {} KiB", bounds::ANSWER_BYTES_MAX / 1_024),
        format!("for {} s by an edge", bounds::HOME_MS_MAX / 1_000),
        format!("by an edge, {} of them", written(bounds::HOMES_MAX)),
        format!("at most {} ms until", bounds::WHOLE_MS_MAX),
    ];
    for text in said {
        assert!(table.contains(&text), "the table does not say: {text}");
    }
}

#[test]
fn shells_stay_below_what_the_platform_gives() {
    // Half of an isolate is left to everything else while bulk bodies are summed.
    const { assert!(bounds::BULK_MEMORY_BYTES_MAX <= bounds::ISOLATE_BYTES_MAX / 2) };
    // A body may be of that size.
    const { assert!(bodies::BULK_BYTES_MAX <= bounds::BULK_MEMORY_BYTES_MAX) };
    let claims = bounds::CLAIMS_MAX * bounds::CLAIM_BYTES;
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
    tally::sketch::hash(&tally::sketch::HashKey::from([7; 16]), bytes)
}

#[test]
fn a_body_has_room_for_all_its_counters_and_for_no_other() {
    let limits = Limits {
        counters_max: BATCH_COUNTERS_MAX,
        times: Times::Live,
        clock_skew_ms: CLOCK_SKEW_MS,
    };
    let key = BodyKey {
        key: WriteKey([9; 16]),
        fingerprint: 9,
    };
    // With elements in plain lines, and under a key without: both need no more calls than there are.
    for (unique, key) in [(Some("u"), None), (None, Some(key))] {
        let mut gather = Gather::new(limits, 1);
        for line in 1..=BATCH_COUNTERS_MAX + 1 {
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
        let (sums, mut report) = gather.finish();
        assert_eq!((report.accepted, report.rejected), (BATCH_COUNTERS_MAX, 1));
        assert_eq!(report.errors[0].code, Code::TooManyCounters);
        assert_eq!(report.errors[0].line, BATCH_COUNTERS_MAX + 1);
        let here = Datacenter::local();
        let mut plan = Plan::new(
            sums,
            manner(Times::Live),
            &here,
            |_| 1,
            |_| 0,
            key,
            &mut report,
        );
        let planned = plan.amounts().len() + plan.keyed().len();
        let fits = u64::try_from(planned).unwrap();
        // A keyed counter is two calls, so only 4,900 / 2 of them fit into one body.
        let most = u64::try_from(BATCH_FLUSHES_MAX).unwrap() / 2;
        assert_eq!(fits, key.map_or(BATCH_COUNTERS_MAX, |_| most));
        assert_eq!(report.accepted, fits);
    }
}

fn manner(times: Times) -> Manner {
    let hash = tally::sketch::HashKey::from([7; 16]).id();
    Manner { times, hash }
}
