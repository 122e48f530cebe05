//! A body never makes more calls than one invocation may: which calls a counter needs is known before it is counted.

use std::collections::BTreeSet;

use tally_api::batch::addressed::Addressed;
use tally_api::batch::budget::{CallBudget, KEYED_AT_ONCE_MAX};
use tally_api::batch::gathered::{CountingMode, GatheredCounter, KeyedRecord, Times};
use tally_api::batch::hashes::Hashed;
use tally_api::batch::keyed_writes::{BodyKey, KeyedElements};
use tally_api::batch::lines::LineNumbers;
use tally_api::batch::plan::{CallsNeeded, Plan, body_calls_max, part_calls_max};
use tally_api::batch::report::BatchReport;
use tally_core::counter::flush::Load;
use tally_core::counter::id::{CounterId, Datacenter};
use tally_core::counter::ledger::WriteKey;
use tally_core::counter::settings::UniqueHash;
use tally_core::sketch::HashId;
use tally_wire::problem::{Code, Problem};

/// Subrequests of one invocation on the paid plan, and how often a call may be made.
const SUBREQUESTS_MAX: usize = 10_000;
const ATTEMPTS: usize = 2;

fn hashed(name: u64) -> Hashed {
    let keyed = name.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    Hashed {
        keyed,
        redis: keyed.rotate_left(17),
    }
}

/// `counters` counters of one line each, with `elements` unique elements, and `ids` records besides that
/// have an id.
fn sums(counters: u64, elements: u64, ids: u64) -> Vec<(CounterId, GatheredCounter)> {
    let one = |number: u64| {
        let gathered = GatheredCounter {
            ttl_if_new: None,
            unique_hash: UniqueHash::Keyed,
            added: 5,
            buckets: [(1_777_593_600, 5)].into(),
            tokens: (0..elements)
                .map(|element| (1_777_593_600, hashed(number * 1_000 + element)))
                .collect(),
            lines: LineNumbers::of([number + 1]),
            identified: (0..ids)
                .map(|id| KeyedRecord {
                    ttl_if_new: None,
                    line: counters + number * ids + id + 1,
                    key: WriteKey(u128::from(id).to_le_bytes()),
                    fingerprint: 1,
                    second: 1_777_593_600,
                    delta: 1,
                    is_skewed: false,
                    element: (elements > 0).then(|| hashed(number * 1_000_000 + id)),
                    sample: None,
                    dimensions: Default::default(),
                })
                .collect(),
            samples: Vec::new(),
            dimensions: Default::default(),
        };
        (
            CounterId::parse(format!("c{number:05}")).expect("an id"),
            gathered,
        )
    };
    (0..counters).map(one).collect()
}

fn plan(counters: u64, elements: u64, shards: u8) -> Plan {
    plan_of(sums(counters, elements, 0), shards, None)
}

fn own(shards: u8) -> u8 {
    shards / 2
}

fn plan_of(sums: Vec<(CounterId, GatheredCounter)>, shards: u8, key: Option<BodyKey>) -> Plan {
    let here = Datacenter::local();
    Plan::new(sums, manner(Times::Live), &here, |_| shards, own, key)
}

const BODY_KEY: BodyKey = BodyKey {
    key: WriteKey([9; 16]),
    fingerprint: 9,
};

/// Counters, shards, elements of each, ids of each, and whether the body has a key.
const BODIES: [(u64, u8, u64, u64, bool); 9] = [
    (3_000, 1, 400, 0, false),
    (100, 2, 400, 0, false),
    (20, 64, 400, 0, false),
    (20, 1, 400, 3, false),
    (30, 1, 0, 0, true),
    (30, 1, 400, 3, true),
    (20, 2, 400, 1, true),
    (20, 64, 40, 1, true),
    (2, 1, 0, 200_000, true),
];

/// A message of keyed writes is a claim at the root and a count at the lead. All may be made twice.
#[test]
fn a_body_makes_just_the_calls_that_it_is_judged_by() {
    for (counters, shards, elements, ids, has_key) in BODIES {
        let sums = sums(counters, elements, ids);
        let needed = |is_hosted: bool| {
            let all = sums.iter().map(|(_, gathered)| {
                CallsNeeded::of(gathered, shards, own(shards), has_key, is_hosted)
            });
            all.fold((0, 0), |sum, one| (sum.0 + one.flushes, sum.1 + one.keyed))
        };
        let mut plan = plan_of(sums.clone(), shards, has_key.then_some(BODY_KEY));
        let mut loads = plan.elements();
        loads.extend(plan.amounts());
        let keyed = plan.keyed();
        let chunks = keyed
            .iter()
            .map(|some| some.writes.len().div_ceil(KEYED_AT_ONCE_MAX));
        let claims_and_counts = 2 * chunks.sum::<usize>();
        let mut late = KeyedElements::default();
        for some in keyed {
            let counted = vec![Some(i64::MAX); some.writes.len()];
            late.add(some, &Datacenter::local(), &counted);
        }
        loads.extend(late.loads());
        assert_eq!(needed(false), (loads.len(), claims_and_counts));
        // What goes to a lead that a tablet hosts travels with others.
        let by_themselves = loads.iter().filter(|load| !load.to.is_lead()).count();
        assert_eq!(needed(true), (by_themselves, 0));
    }
}

#[test]
fn calls_are_taken_all_or_none_and_what_is_not_used_is_given_back() {
    let calls = CallBudget::new(10);
    assert!(calls.take_many(9));
    assert!(!calls.take_many(2));
    assert!(calls.take());
    assert!(!calls.take());
    calls.give_back(3);
    assert!(calls.take_many(3));
    assert!(!calls.take());
    assert!(CallBudget::unbounded().take_many(usize::MAX));
}

#[test]
fn a_part_never_sends_more_messages_to_tablets_than_it_has_counters_for() {
    assert_eq!(part_calls_max(0, 16, 8_192), 0);
    assert_eq!(part_calls_max(64, 16, 8_192), 4 * 64 + 16);
    assert_eq!(part_calls_max(4_096, 16, 3), 4 * 3 + 3);
}

#[test]
fn the_calls_of_a_body_are_half_of_an_invocations() {
    assert_eq!(body_calls_max(None), 4_900);
    for invocation in [50, 10_000, 1_000_000] {
        assert!(body_calls_max(Some(invocation)) * ATTEMPTS <= invocation);
    }
    assert!(body_calls_max(None) * ATTEMPTS + 100 <= SUBREQUESTS_MAX);
}

#[test]
fn a_load_has_its_elements_by_the_other_hash_too() {
    for (known, times) in [
        (UniqueHash::Keyed, Times::Live),
        (UniqueHash::Redis, Times::Live),
        (UniqueHash::Keyed, Times::Past),
    ] {
        let other = match known {
            UniqueHash::Keyed => UniqueHash::Redis,
            UniqueHash::Redis => UniqueHash::Keyed,
        };
        let hash_of = |unique: UniqueHash| match unique {
            UniqueHash::Keyed => manner(times).hash,
            UniqueHash::Redis => HashId::REDIS,
        };
        let mut sums = sums(1, 50, 2);
        sums[0].1.unique_hash = known;
        let by = |unique: UniqueHash| {
            let all = sums[0].1.tokens.iter();
            let all = all.map(|(_, hashed)| hashed.element(hash_of(unique)));
            all.collect::<BTreeSet<_>>()
        };
        let (one, two) = (by(known), by(other));
        let here = Datacenter::local();
        let mut plan = Plan::new(sums, manner(times), &here, |_| 4, |_| 1, None);
        let mut late = KeyedElements::default();
        late.add(plan.keyed().remove(0), &here, &[Some(0), Some(0)]);
        let mut loads = [plan.elements(), plan.amounts(), late.loads()].concat();
        for load in &mut loads {
            assert!(!load.rehash(known), "it is that one already");
            assert_eq!(load.load.hash, hash_of(known));
        }
        let elements = |loads: &[Addressed]| {
            let all = loads.iter().map(|one| &one.load);
            let all = all.flat_map(|load| load.tokens.iter().chain(&load.past_tokens));
            all.map(|(_, element)| *element).collect::<BTreeSet<_>>()
        };
        // Those of ids are among them.
        assert_eq!(elements(&loads), one);
        for load in &mut loads {
            assert!(load.rehash(other));
            assert_eq!(load.load.hash, hash_of(other));
        }
        assert_eq!(elements(&loads), two);
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
        let sums = sums(1, 1, 5);
        let mut plan = Plan::new(sums, manner(times), &here, |_| 1, |_| 0, None);
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
        let here = Datacenter::local();
        let sums = sums(1, 9, 0);
        let mut plan = Plan::new(sums, manner(times), &here, |_| 4, |_| 0, None);
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
    let mut plan = plan(3, 100, 8);
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
    let mut report = BatchReport {
        accepted: 3,
        ..BatchReport::default()
    };
    let mut plan = plan(3, 100, 8);
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

fn manner(times: Times) -> CountingMode {
    let hash = tally_core::sketch::HashKey::from([7; 16]).id();
    CountingMode::new(times, hash)
}
