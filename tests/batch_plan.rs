//! A body never needs more calls than one invocation may make, and what would go beyond fails by its lines.
#![expect(
    clippy::expect_used,
    reason = "the helpers of a test fail it by panicking"
)]

use std::collections::BTreeSet;

use tally::counter::flush::Load;
use tally::counter::id::{CounterId, Datacenter};
use tally::counter::ledger::WriteKey;
use tally::counter::settings::UniqueHash;
use tally::protocol::batch::gather::{Gathered, Identified, Manner, Times};
use tally::protocol::batch::keyed::{BodyKey, KEYED_AT_ONCE_MAX, KeyedElements};
use tally::protocol::batch::plan::{Addressed, BATCH_FLUSHES_MAX, Plan};
use tally::protocol::batch::report::{LineNumbers, Report};
use tally::protocol::problem::{Code, Problem};

/// Subrequests of one invocation on the paid plan, and how often a call may be made.
const SUBREQUESTS_MAX: usize = 10_000;
const ATTEMPTS: usize = 2;

/// `counters` counters of one line each, with `elements` unique elements, and `ids` records besides that
/// have an id.
fn sums(counters: u64, elements: u64, ids: u64) -> Vec<(CounterId, Gathered)> {
    let one = |number: u64| {
        let gathered = Gathered {
            unique_hash: UniqueHash::Keyed,
            added: 5,
            buckets: [(1_777_593_600, 5)].into(),
            tokens: (0..elements)
                .map(|element| {
                    (
                        1_777_593_600,
                        (number * 1_000 + element).wrapping_mul(0x9e37_79b9_7f4a_7c15),
                    )
                })
                .collect(),
            lines: LineNumbers {
                count: 1,
                first: vec![number + 1],
            },
            identified: (0..ids)
                .map(|id| Identified {
                    line: counters + number * ids + id + 1,
                    key: WriteKey(u128::from(id).to_le_bytes()),
                    fingerprint: 1,
                    second: 1_777_593_600,
                    delta: 1,
                    is_skewed: false,
                    element: (elements > 0).then(|| {
                        let name = number * 1_000_000 + id;
                        name.wrapping_mul(0x9e37_79b9_7f4a_7c15)
                    }),
                    sample: None,
                })
                .collect(),
            samples: Vec::new(),
        };
        (
            CounterId::parse(format!("c{number:05}")).expect("an id"),
            gathered,
        )
    };
    (0..counters).map(one).collect()
}

fn plan(counters: u64, elements: u64, shards: u8, report: &mut Report) -> Plan {
    report.accepted = counters;
    plan_of(sums(counters, elements, 0), shards, None, report)
}

fn plan_of(
    sums: Vec<(CounterId, Gathered)>,
    shards: u8,
    key: Option<BodyKey>,
    report: &mut Report,
) -> Plan {
    let own = |shards: u8| shards / 2;
    let here = Datacenter::local();
    Plan::new(
        sums,
        manner(Times::Live),
        &here,
        |_| shards,
        own,
        key,
        report,
    )
}

#[test]
fn no_body_needs_more_calls_than_the_platform_allows() {
    for (counters, shards) in [(3_000, 1), (3_000, 2), (200, 64), (3_000, 64)] {
        let mut report = Report::default();
        let mut plan = plan(counters, 400, shards, &mut report);
        let flushes = plan.elements().len() + plan.amounts().len();
        assert!(
            flushes <= BATCH_FLUSHES_MAX,
            "{flushes} for {counters} of {shards}"
        );
        assert!(flushes * ATTEMPTS + 100 <= SUBREQUESTS_MAX);
        assert_eq!(report.accepted + report.rejected, counters);
        assert!(
            report
                .errors
                .iter()
                .all(|error| error.code == Code::TooManyCounters)
        );
    }
    let mut report = Report::default();
    plan(3_000, 400, 1, &mut report);
    assert_eq!(report.rejected, 0, "one shard each: every counter fits");
}

fn length<T>(list: &[T]) -> u64 {
    u64::try_from(list.len()).expect("few")
}

/// A message of keyed writes is a claim at the root and a count at the lead, and each may be made twice.
#[test]
fn nor_do_the_keyed_writes_of_a_body() {
    let body_key = BodyKey {
        key: WriteKey([9; 16]),
        fingerprint: 9,
    };
    for (counters, shards, elements, ids, key) in [
        (3_000, 1, 400, 3, None),
        (3_000, 1, 0, 0, Some(body_key)),
        (3_000, 1, 400, 3, Some(body_key)),
        (3_000, 2, 400, 1, Some(body_key)),
        (200, 64, 400, 1, None),
        (2, 1, 0, 200_000, Some(body_key)),
    ] {
        let mut report = Report::default();
        let lines = counters * (1 + ids);
        report.accepted = lines;
        let mut plan = plan_of(sums(counters, elements, ids), shards, key, &mut report);
        let calls_for_keys = plan.calls_for_keys();
        let flushes = plan.elements().len() + plan.amounts().len();
        let keyed = plan.keyed();
        let chunks = keyed
            .iter()
            .map(|some| some.writes.len().div_ceil(KEYED_AT_ONCE_MAX));
        let calls = flushes + 2 * chunks.sum::<usize>();
        let writes: u64 = keyed.iter().map(|some| length(&some.writes)).sum();
        let mut late = KeyedElements::default();
        for some in keyed {
            let counted = vec![Some(i64::MAX); some.writes.len()];
            late.add(some, &Datacenter::local(), &counted);
        }
        let late = late.loads().len();
        // Where keys lie with many leads, they get what is left and no more.
        let calls_for_keys = std::iter::from_fn(|| calls_for_keys.take().then_some(())).count();
        assert_eq!(flushes + late + calls_for_keys, BATCH_FLUSHES_MAX);
        let calls = calls + late;
        assert!(calls <= BATCH_FLUSHES_MAX, "{calls} calls");
        assert!(calls * ATTEMPTS + 100 <= SUBREQUESTS_MAX, "{calls} calls");
        assert_eq!(report.accepted + report.rejected, lines);
        let accepted = report.accepted / (1 + ids);
        assert!(accepted > 0);
        assert_eq!(writes, accepted * (ids + u64::from(key.is_some())));
    }
}

#[test]
fn elements_of_keyed_lines_go_once_they_are_counted_with_the_time_of_that() {
    let here = Datacenter::local();
    // Counted now, refused, counted a minute ago, by a clock that is ahead, and by one that is ten minutes
    // ahead: that far off is the sender's own.
    let counted = [
        Some(1_777_593_600),
        None,
        Some(1_777_593_540),
        Some(1_777_593_603),
        Some(1_777_594_200),
    ];
    let of_the_past = [1_777_593_540, 1_777_593_600, 1_777_593_600, 1_777_593_600];
    let live = [1_777_593_540, 1_777_593_600, 1_777_593_600, 1_777_594_195];
    for (times, expected) in [(Times::Past, of_the_past), (Times::Live, live)] {
        let mut report = Report::default();
        let sums = sums(1, 1, 5);
        let mut plan = Plan::new(sums, manner(times), &here, |_| 1, |_| 0, None, &mut report);
        let keyed = plan.keyed().pop().expect("keyed writes");
        let mut late = KeyedElements::default();
        late.add(keyed, &here, &counted);
        let loads = late.loads();
        assert_eq!(loads.len(), 1);
        assert_eq!(loads[0].load.tokens, []);
        let seconds = loads[0].load.past_tokens.iter().map(|(second, _)| *second);
        assert_eq!(seconds.collect::<Vec<_>>(), expected);
    }
}

#[test]
fn elements_of_plain_lines_are_of_the_past_where_the_lines_are() {
    for times in [Times::Live, Times::Past] {
        let mut report = Report::default();
        let here = Datacenter::local();
        let sums = sums(1, 9, 0);
        let mut plan = Plan::new(sums, manner(times), &here, |_| 4, |_| 0, None, &mut report);
        let loads = [plan.elements(), plan.amounts()].concat();
        let count = |of: fn(&Load) -> usize| loads.iter().map(|one| of(&one.load)).sum::<usize>();
        let counts = [
            count(|load| load.tokens.len()),
            count(|load| load.past_tokens.len()),
        ];
        assert_eq!(counts, if times == Times::Live { [9, 0] } else { [0, 9] });
    }
}

#[test]
fn amounts_go_to_one_cell_and_every_element_to_its_own_shard_once() {
    let mut report = Report::default();
    let mut plan = plan(3, 100, 8, &mut report);
    let (elements, amounts) = (plan.elements(), plan.amounts());
    assert_eq!(amounts.len(), 3);
    assert!(
        amounts
            .iter()
            .all(|one| one.load.added == 5 && one.to.shard == 4)
    );
    assert!(
        elements
            .iter()
            .all(|one| one.load.added == 0 && one.load.live.is_empty())
    );
    for counter in 0..3 {
        let of_counter = |one: &&Addressed| one.to.counter.as_str() == format!("c{counter:05}");
        let all: Vec<_> = elements.iter().chain(&amounts).filter(of_counter).collect();
        let shards: BTreeSet<u8> = all.iter().map(|one| one.to.shard).collect();
        assert_eq!(shards.len(), all.len(), "one load a shard");
        assert_eq!(
            all.iter().map(|one| one.load.tokens.len()).sum::<usize>(),
            100
        );
    }
}

#[test]
fn a_counter_whose_elements_failed_is_not_counted_and_fails_once() {
    let mut report = Report::default();
    let mut plan = plan(3, 100, 8, &mut report);
    let elements = plan.elements();
    let problem = Problem::new(Code::Unavailable, "away");
    for (number, one) in elements.iter().enumerate() {
        if one.to.counter.as_str() == "c00001" {
            plan.fail_elements(number, &problem, &mut report);
        }
    }
    assert_eq!((report.accepted, report.rejected), (2, 1));
    let amounts = plan.amounts();
    assert!(
        amounts
            .iter()
            .all(|one| one.to.counter.as_str() != "c00001")
    );
    // The second load of amounts is the third counter's.
    plan.fail_amounts(1, &problem, &mut report);
    assert_eq!((report.accepted, report.rejected), (1, 2));
    let lines: Vec<u64> = report.errors.iter().map(|error| error.line).collect();
    assert_eq!(lines, [2, 3]);
}

fn manner(times: Times) -> Manner {
    let hash = tally::sketch::HashKey::from([7; 16]).id();
    Manner { times, hash }
}
