//! Law: whatever a body mixes, and whatever fails on the way, every line is either accepted or rejected, and
//! what has a key counts once however often it is sent.

use crate::common;

mod weather;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use common::config;
use proptest::collection::vec;
use proptest::prelude::*;
use tally_api::access::Caller;
use tally_api::batch::BulkRecord;
use tally_api::batch::addressed::Addressed;
use tally_api::batch::gather::{BatchLimits, CLOCK_SKEW_MS, Gatherer};
use tally_api::batch::gathered::{CountingMode, GatheredCounter, Times};
use tally_api::batch::keyed_writes::{BodyKey, KeyedElements, KeyedWrites};
use tally_api::batch::plan::Plan;
use tally_api::batch::report::{BatchReport, ERRORS_MAX};
use tally_core::counter::autoscale::shard_of_element;
use tally_core::counter::flush::Element;
use tally_core::counter::id::{CounterId, Datacenter};
use tally_core::counter::ledger::WriteKey;
use tally_wire::problem::{Code, Problem};
use weather::{Weather, weather};

const NOW_MS: i64 = 1_777_593_630_000;
const COUNTERS: [&str; 3] = ["a", "b", "c"];
const IDS: [&str; 5] = ["1", "2", "3", "4", "5"];
const ELEMENTS: [&str; 4] = ["u", "v", "w", "x"];
/// Elements go to both of them, and amounts to the second.
const SHARDS: u8 = 2;
const OWN: u8 = 1;

/// A line of a body; `None` is one that cannot be read.
type Line = Option<Sent>;

#[derive(Clone, Debug)]
struct Sent {
    counter: usize,
    delta: u8,
    id: Option<usize>,
    unique: Option<usize>,
}

/// Leads and shards, as plain numbers.
#[derive(Default)]
struct World {
    totals: BTreeMap<String, u128>,
    records: BTreeMap<(String, WriteKey), u64>,
    times: BTreeMap<String, u128>,
    elements: BTreeSet<(String, Element)>,
}

fn hash(bytes: &[u8]) -> u64 {
    tally_core::sketch::hash(&tally_core::sketch::HashKey::from([7; 16]), bytes)
}

fn hashed(element: usize) -> u64 {
    hash(ELEMENTS[element].as_bytes())
}

fn at<T: Clone>(list: &[T], number: usize) -> T {
    list[number % list.len()].clone()
}

/// What is gathered of a body, and the report on it.
fn gathered(
    lines: &[Line],
    times: Times,
    now_ms: i64,
) -> (Vec<(CounterId, GatheredCounter)>, BatchReport) {
    let limits = BatchLimits {
        times,
        clock_skew_ms: CLOCK_SKEW_MS,
    };
    let mut gather = Gatherer::new(limits, Caller::nobody().sender(), 1);
    for (number, line) in (1..).zip(lines) {
        match line {
            Some(sent) => {
                let unique = sent
                    .unique
                    .map(|element| Cow::Borrowed(ELEMENTS[element].as_bytes()));
                let record = BulkRecord {
                    key: Cow::Borrowed(COUNTERS[sent.counter]),
                    delta: sent.delta.into(),
                    unique,
                    at_ms: None,
                    id: sent.id.map(|id| Cow::Borrowed(IDS[id])),
                    sample: None,
                    ttl_if_new: None,
                    dimensions: Default::default(),
                };
                gather.add(number, &record, now_ms, &hash);
            }
            None => gather.reject(number, &Problem::new(Code::InvalidJson, "no")),
        }
    }
    gather.finish()
}

impl World {
    fn add(&mut self, counter: &CounterId, amount: u128, times: &[(i64, u128)]) {
        *self.totals.entry(counter.as_str().to_owned()).or_default() += amount;
        let timed: u128 = times.iter().map(|(_, amount)| amount).sum();
        *self.times.entry(counter.as_str().to_owned()).or_default() += timed;
    }

    fn add_load(&mut self, one: &Addressed) {
        let times = [one.load.live.clone(), one.load.past.clone()].concat();
        self.add(&one.to.counter, one.load.added, &times);
        let elements = one.load.tokens.iter().chain(&one.load.past_tokens);
        let counter = one.to.counter.as_str();
        self.elements
            .extend(elements.map(|(_, token)| (counter.to_owned(), *token)));
    }

    /// Every line that was accepted has its element counted too.
    fn check_elements(&self, report: &BatchReport, lines: &[Line]) {
        let rejected: BTreeSet<u64> = report.errors.iter().map(|error| error.line).collect();
        for (number, line) in (1..).zip(lines) {
            let sent = line.as_ref().filter(|_| !rejected.contains(&number));
            let Some((sent, element)) = sent.and_then(|sent| Some((sent, sent.unique?))) else {
                continue;
            };
            let counter = COUNTERS[sent.counter].to_owned();
            let is_there = self
                .elements
                .contains(&(counter, Element::of(hashed(element))));
            assert!(is_there, "the element of line {number} is lost: {report:?}");
        }
    }

    /// Counts the keyed writes of one counter, where the call does not fail, or though it does. Returns for each
    /// whether it was counted.
    fn count_keyed(
        &mut self,
        some: &KeyedWrites,
        (fails, is_counted): (bool, bool),
        report: &mut BatchReport,
    ) -> Vec<Option<i64>> {
        let away = Problem::new(Code::Unavailable, "away");
        let reused = Problem::new(Code::IdempotencyKeyReused, "another write");
        let mut counted = Vec::new();
        for (place, write) in some.writes.iter().enumerate() {
            let name = (some.counter.as_str().to_owned(), write.key);
            let known = self.records.get(&name).copied();
            let is_other = known.is_some_and(|known| known != write.fingerprint);
            if known.is_none() && (!fails || is_counted) {
                self.records.insert(name, write.fingerprint);
                let times = [write.live.clone(), write.past.clone()].concat();
                self.add(&some.counter, write.added, &times);
            }
            if fails {
                some.fail(place, &away, report);
            } else if is_other {
                some.fail(place, &reused, report);
            }
            counted.push((!fails && !is_other).then_some(i64::MAX));
        }
        counted
    }

    /// Sends a body, as the shell does.
    fn send(
        &mut self,
        lines: &[Line],
        times: Times,
        key: Option<BodyKey>,
        weather: &Weather,
        now_ms: i64,
    ) -> BatchReport {
        let (sums, mut report) = gathered(lines, times, now_ms);
        let here = Datacenter::local();
        let mut plan = Plan::new(sums, manner(times), &here, |_| SHARDS, |_| OWN, key);
        let away = Problem::new(Code::Unavailable, "away");
        for (number, one) in plan.elements().into_iter().enumerate() {
            if at(&weather.elements_fail, number) {
                plan.fail_elements(number, &away, &mut report);
            } else {
                self.add_load(&one);
            }
        }
        let keyed = plan.keyed();
        for (number, one) in plan.amounts().into_iter().enumerate() {
            if at(&weather.amounts_fail, number) {
                plan.fail_amounts(number, &away, &mut report);
            } else {
                self.add_load(&one);
            }
        }
        let mut late = KeyedElements::default();
        for (number, some) in keyed.into_iter().enumerate() {
            assert!(!some.writes.is_empty(), "a call for nothing");
            let counted = self.count_keyed(&some, at(&weather.keyed_fail, number), &mut report);
            late.add(some, &here, &counted);
        }
        for (number, one) in late.loads().into_iter().enumerate() {
            assert!(one.load.live.is_empty() && one.load.added == 0);
            if at(&weather.late_fail, number) {
                late.fail(number, &away, &mut report);
            } else {
                self.add_load(&one);
            }
        }
        self.check_elements(&report, lines);
        report
    }
}

/// What a plain list says: the total of each counter, and how many lines are rejected for good.
fn plainly(lines: &[Line]) -> (BTreeMap<String, u128>, u64) {
    let mut totals: BTreeMap<String, u128> = BTreeMap::new();
    let mut firsts: BTreeMap<(usize, usize), (u8, Option<usize>)> = BTreeMap::new();
    let mut rejected = 0;
    for line in lines {
        let Some(sent) = line else {
            rejected += 1;
            continue;
        };
        let content = (sent.delta, sent.unique);
        if let Some(id) = sent.id {
            match firsts.get(&(sent.counter, id)) {
                Some(first) => {
                    rejected += u64::from(*first != content);
                    continue;
                }
                None => firsts.insert((sent.counter, id), content),
            };
        }
        *totals.entry(COUNTERS[sent.counter].to_owned()).or_default() += u128::from(sent.delta);
    }
    (totals, rejected)
}

/// The elements of lines that all have ids: of those only that were not refused.
fn elements_that_count(lines: &[Line]) -> BTreeSet<(String, Element)> {
    let mut firsts = BTreeMap::new();
    let sent = lines.iter().flatten().filter(|sent| {
        let content = (sent.delta, sent.unique);
        *firsts.entry((sent.counter, sent.id)).or_insert(content) == content
    });
    let token = |element: usize| Element::of(hashed(element));
    sent.filter_map(|sent| Some((COUNTERS[sent.counter].to_owned(), token(sent.unique?))))
        .collect()
}

fn check(report: &BatchReport, lines: &[Line]) -> Result<(), TestCaseError> {
    let all = u64::try_from(lines.len()).expect("few");
    prop_assert_eq!(report.accepted + report.rejected, all);
    let errors = u64::try_from(report.errors.len()).expect("few");
    prop_assert_eq!(
        errors,
        report.rejected.min(u64::try_from(ERRORS_MAX).expect("100"))
    );
    let by_code: u64 = report.rejected_lines.iter().map(|one| one.count).sum();
    prop_assert_eq!(by_code, report.rejected);
    let numbers: Vec<u64> = report.errors.iter().map(|error| error.line).collect();
    prop_assert!(numbers.is_sorted_by(|one, next| one < next), "{numbers:?}");
    Ok(())
}

fn line(with_ids_only: bool) -> impl Strategy<Value = Line> {
    let id = if with_ids_only {
        (0..IDS.len()).prop_map(Some).boxed()
    } else {
        prop::option::of(0..IDS.len()).boxed()
    };
    let sent = (
        0..COUNTERS.len(),
        1..3_u8,
        id,
        prop::option::of(0..ELEMENTS.len()),
    );
    let sent = sent.prop_map(|(counter, delta, id, unique)| Sent {
        counter,
        delta,
        id,
        unique,
    });
    prop_oneof![12 => sent.prop_map(Some), 1 => Just(None)]
}

fn times() -> impl Strategy<Value = Times> {
    prop_oneof![Just(Times::Live), Just(Times::Past)]
}

const KEY: BodyKey = BodyKey {
    key: WriteKey([9; 16]),
    fingerprint: 9,
};

proptest! {
    #![proptest_config(config(101, 512))]

    #[test]
    fn a_body_with_a_key_counts_once_however_often_it_fails(
        lines in vec(line(false), 0..40), weathers in vec(weather(), 0..4), times in times(),
    ) {
        let mut world = World::default();
        let mut now_ms = NOW_MS;
        for weather in &weathers {
            check(&world.send(&lines, times, Some(KEY), weather, now_ms), &lines)?;
            // A retry comes later, and its lines have other stamps.
            now_ms += 7_777;
        }
        let (totals, rejected) = plainly(&lines);
        for _ in 0..2 {
            let report = world.send(&lines, times, Some(KEY), &Weather::fine(), now_ms);
            check(&report, &lines)?;
            prop_assert_eq!(report.rejected, rejected);
            prop_assert_eq!(&world.totals, &totals);
            prop_assert_eq!(&world.times, &totals, "every amount has its time");
        }
    }

    #[test]
    fn records_with_ids_count_once_in_whatever_bodies_they_come(
        lines in vec(line(true), 1..40), weathers in vec(weather(), 0..4), cut in any::<prop::sample::Index>(),
    ) {
        let mut world = World::default();
        for weather in &weathers {
            check(&world.send(&lines, Times::Live, None, weather, NOW_MS), &lines)?;
        }
        check(&world.send(&lines, Times::Live, None, &Weather::fine(), NOW_MS), &lines)?;
        // Parted elsewhere, and under a key of the body: they are counted by their own.
        let (one, other) = lines.split_at(cut.index(lines.len()));
        for part in [other, one] {
            check(&world.send(part, Times::Live, Some(KEY), &Weather::fine(), NOW_MS + 60_000), part)?;
        }
        prop_assert_eq!(&world.totals, &plainly(&lines).0);
        prop_assert_eq!(&world.elements, &elements_that_count(&lines));
    }

    #[test]
    fn whatever_fails_a_line_that_is_accepted_is_counted_whole(
        lines in vec(line(false), 1..40), with_key in any::<bool>(), weather in weather(),
    ) {
        let mut world = World::default();
        let report = world.send(&lines, Times::Live, with_key.then_some(KEY), &weather, NOW_MS);
        check(&report, &lines)?;
        let rejected: BTreeSet<u64> = report.errors.iter().map(|error| error.line).collect();
        let accepted = (1..).zip(&lines).filter(|(number, _)| !rejected.contains(number));
        let accepted: Vec<Line> = accepted.map(|(_, line)| line.clone()).collect();
        let (least, refused) = plainly(&accepted);
        prop_assert_eq!(refused, 0);
        for (counter, least) in least {
            // What is rejected as unknown may be counted all the same.
            prop_assert!(world.totals.get(&counter).is_some_and(|total| *total >= least));
        }
    }

    #[test]
    fn a_plain_line_that_is_rejected_for_its_elements_counts_nothing(
        lines in vec(line(false), 1..40), with_key in any::<bool>(),
    ) {
        let mut world = World::default();
        let weather = Weather { elements_fail: vec![true], ..Weather::fine() };
        let report = world.send(&lines, Times::Live, with_key.then_some(KEY), &weather, NOW_MS);
        check(&report, &lines)?;
        // Those of the own shard go with the amounts. Those of keyed lines go once the lines have been counted.
        let is_keyed = |sent: &Sent| with_key || sent.id.is_some();
        let fails = |sent: &Sent| {
            let of_counter = lines.iter().flatten().filter(|one| one.counter == sent.counter);
            let mut elements = of_counter.filter(|one| !is_keyed(one)).filter_map(|one| one.unique);
            !is_keyed(sent) && elements.any(|element| shard_of_element(hashed(element), SHARDS) != OWN)
        };
        let left: Vec<Line> = lines.iter().map(|line| line.clone().filter(|sent| !fails(sent))).collect();
        let (totals, rejected) = plainly(&left);
        prop_assert_eq!(&world.totals, &totals);
        prop_assert_eq!(report.rejected, rejected);
    }

    #[test]
    fn a_keyed_line_that_is_rejected_for_its_element_is_whole_after_a_retry(
        lines in vec(line(true), 1..40),
    ) {
        let mut world = World::default();
        let weather = Weather { late_fail: vec![true], ..Weather::fine() };
        let report = world.send(&lines, Times::Live, None, &weather, NOW_MS);
        check(&report, &lines)?;
        let (totals, refused) = plainly(&lines);
        prop_assert_eq!(&world.totals, &totals);
        prop_assert!(world.elements.is_empty());
        let accepted = report.accepted;
        let report = world.send(&lines, Times::Live, None, &Weather::fine(), NOW_MS);
        prop_assert_eq!(report.rejected, refused);
        prop_assert!(accepted <= report.accepted);
        prop_assert_eq!(&world.totals, &totals);
        prop_assert_eq!(&world.elements, &elements_that_count(&lines));
    }
}

fn manner(times: Times) -> CountingMode {
    let hash = tally_core::sketch::HashKey::from([7; 16]).id();
    CountingMode::new(times, hash)
}
