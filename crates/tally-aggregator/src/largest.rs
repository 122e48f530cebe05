//! The counters that may have counted most in a range, where there are too many to read all.
//!
//! Invariant: a counter that is not read has counted at most what was pushed of it to its partition, since the range
//! began or in all. So the counters with the largest of those bounds are read, and the answer has the bounds of the
//! others.
//! A top is complete once its last row has at least the largest bound of the counters that are not read.
//! Source: Fagin, Lotem, Naor 2003, "Optimal aggregation algorithms for middleware", the threshold algorithm.
//!
//! Sets, resets and decrements do not change what increments added, so the bounds hold.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use super::counters::sum_roots;
use super::first_rows::{ask_top, compare};
use tally_core::cluster::top_order::{OrderBy, TopOrder, TopRow, WindowStart};
use tally_core::counter::id::CounterId;
use tally_core::counter::total::Value;
use tally_core::order::in_order;
use tally_host::Host;
use tally_shared::call;
use tally_shared::call::CALL_MS_MAX;
use tally_shared::call_batcher::call_many;
use tally_shared::partitions;
use tally_wire::messages::{Aggregate, Fault, LookUp, SumMany, Sums, UnreadCounters};
use tally_wire::shell_limits::AGGREGATE_MAX;

/// The most counters of one history under `consistency=strong` with tablets: 0.15 to 0.25 ms of a thread each. Other
/// requests read [`AGGREGATE_MAX`], so that a dashboard, which polls, costs about a second of a thread at most.
const STRONG_MAX: u32 = 20_000;

/// Counters that are read between two looks at whether the top is complete.
const WAVE: u32 = 1_000;

/// The time within which the last wave begins, milliseconds: the edge waits for 45 s.
const WAVES_MS_MAX: i64 = 20_000;

/// The candidates of one partition, as a multiple of the average: names are spread over partitions by chance.
const SHARES: u32 = 2;

/// Counters with upper bounds of their counts in a range.
struct Candidates {
    /// The counter with the largest bound first.
    rows: Vec<TopRow>,
    /// The sums over all counters of the prefix, also those that are not in `rows`.
    sums: Sums,
    missing: Vec<u32>,
    /// The largest bound of a counter that is not in `rows`.
    beyond: Value,
}

impl Candidates {
    /// The counters that are not in `read`; `None` if there are none.
    fn without(&self, read: &BTreeSet<CounterId>) -> Option<UnreadCounters> {
        let mut unread = UnreadCounters {
            counters: self.sums.counters,
            count_max: self.sums.total,
            each_max: self.beyond,
        };
        for row in &self.rows {
            if read.contains(&row.counter) {
                let (added, removed) = row.amount.totals();
                unread.counters = unread.counters.saturating_sub(1);
                unread.count_max = unread.count_max.without(added, removed);
            } else {
                unread.each_max = unread.each_max.or_more(row.amount);
            }
        }
        (unread.counters > 0).then_some(unread)
    }
}

/// Asks all partitions for the counters with the largest bounds of the counts since `from`: about `among` in all.
async fn candidates(
    host: &Host,
    request: &SumMany,
    from: i64,
    among: u32,
) -> Result<Candidates, Fault> {
    let limit = among.div_ceil(partitions::count(host)) * SHARES;
    let since = WindowStart::reaching(from, host.now_ms().div_euclid(1_000));
    let order = TopOrder::new(&request.prefix, OrderBy::Count, Some(since));
    let (parts, missing) = ask_top(host, &order, limit, None).await?;
    let mut all = Candidates {
        rows: Vec::new(),
        sums: Sums::default(),
        missing,
        beyond: Value::default(),
    };
    for part in parts {
        let is_full = u32::try_from(part.rows.len()).is_ok_and(|rows| rows >= limit);
        if let Some(last) = part.rows.last().filter(|_| is_full) {
            all.beyond = all.beyond.or_more(last.amount);
        }
        all.sums = all.sums.plus(part.sums);
        all.rows.extend(part.rows);
    }
    all.rows = in_order(all.rows, compare);
    Ok(all)
}

/// The most counters that are read for a request.
pub(super) fn counters_max(host: &Host, request: &SumMany) -> u32 {
    match request.is_strong && request.by.is_none() && call::has_tablets(host) {
        true => STRONG_MAX,
        false => AGGREGATE_MAX,
    }
}

/// Adds the counters that may have counted most in a range, and records those that are not read. `enough` returns a
/// count: if there are more counters than may be read, counters whose bound is not larger than it are not read.
pub(super) async fn sum_largest(
    host: &Host,
    request: &SumMany,
    begun_ms: i64,
    all: &RefCell<Aggregate>,
    enough: &dyn Fn(&Aggregate) -> Option<u128>,
) -> Result<(), Fault> {
    let ranges = (request.window, request.history);
    let from = ranges.0.map(|(from, _)| from);
    let from = from.or(ranges.1.map(|range| range.from));
    let counters_max = counters_max(host, request);
    let is_enough = |next: Value| {
        let enough = enough(&all.borrow());
        enough.is_some_and(|enough| !Value::new(enough, 0).is_below(next))
    };
    let mut seen = BTreeSet::new();
    let mut leads = 0;
    let mut is_over = false;
    for among in [WAVE, counters_max] {
        let found = candidates(host, request, from.unwrap_or_default(), among).await?;
        let are_few = found.sums.counters <= u64::from(counters_max);
        let is_enough = |next: Value| !are_few && is_enough(next);
        let left = found.rows.iter();
        let left: Vec<&TopRow> = left.filter(|row| !seen.contains(&row.counter)).collect();
        for wave in left.chunks(usize::try_from(WAVE).unwrap_or(usize::MAX)) {
            let next = wave.first().map_or_else(Value::default, |row| row.amount);
            let room = usize::try_from(u64::from(counters_max).saturating_sub(leads)).unwrap_or(0);
            is_over = room == 0
                || host.now_ms() - begun_ms > WAVES_MS_MAX
                || is_enough(next.or_more(found.beyond));
            // Counters beyond the candidates may have more than these: more candidates come first.
            if is_over || among < counters_max && next.is_below(found.beyond) {
                break;
            }
            let counters = wave.iter().take(room).map(|row| row.counter.clone());
            let counters: Vec<CounterId> = counters.collect();
            let (summed, more) = sum_wave(host, request, begun_ms, (&counters, room), all).await;
            leads += more;
            is_over = summed < counters.len();
            seen.extend(counters.into_iter().take(summed));
            if is_over {
                break;
            }
        }
        is_over |= found.beyond == Value::default() || is_enough(found.beyond);
        if is_over || among == counters_max {
            let as_of_ms = found.sums.as_of_ms.unwrap_or(begun_ms);
            let unread = found.without(&seen);
            all.borrow_mut().leaves(unread, as_of_ms);
            all.borrow_mut().lacks(found.missing);
            break;
        }
    }
    Ok(())
}

/// Looks up counters and adds the first of them, whose leads are at most `room`. Returns how many were added, and how
/// many leads they have.
async fn sum_wave(
    host: &Host,
    request: &SumMany,
    begun_ms: i64,
    (counters, room): (&[CounterId], usize),
    all: &RefCell<Aggregate>,
) -> (usize, u64) {
    let look_up = |counter: &CounterId| LookUp {
        counter: counter.clone(),
    };
    let look_ups: Vec<LookUp> = counters.iter().map(look_up).collect();
    let looked_up = call_many(host, &look_ups, CALL_MS_MAX).await;
    let mut roots = BTreeMap::new();
    let (mut summed, mut leads) = (0, 0);
    for (counter, root) in counters.iter().zip(looked_up) {
        match root {
            Ok(Some(root)) => {
                leads += root.datacenters.len();
                if leads > room && !roots.is_empty() {
                    break;
                }
                roots.insert(counter.clone(), root);
            }
            // It has ended meanwhile.
            Ok(None) => {}
            Err(_) => all.borrow_mut().lacks([call::partition_of(host, counter)]),
        }
        summed += 1;
    }
    sum_roots(host, request, roots, begun_ms, all).await;
    (summed, u64::try_from(leads).unwrap_or(u64::MAX))
}
