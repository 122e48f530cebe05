//! Many counters at once, from the data of the directory's partitions.
//!
//! Invariant: every partition is asked, once for each page; those that do not answer are named.

use std::cell::RefCell;
use std::collections::BTreeMap;

use super::counters::sum_roots;
use super::first_rows::ask_top;
use super::largest::{counters_max, sum_largest};
use super::read::{read_drained, read_view};
use super::read_options::ReadOptions;
use tally_core::cluster::root::Root;
use tally_core::cluster::top_order::{OrderBy, TopOrder};
use tally_core::counter::id::CounterId;
use tally_core::isolate::joined_pages::JoinedPages;
use tally_core::order::{in_order, map_of};
use tally_host::Host;
use tally_shared::call;
use tally_shared::call_batcher::Batcher;
use tally_shared::concurrency::all_settled;
use tally_shared::open_objects;
use tally_shared::partitions::{self, ask_all, ask_more, ask_some};
use tally_wire::messages::{
    Aggregate, CounterList, Fault, GlobalSum, List, ListAll, ListRows, Read, ReadDrained, ReadEach,
    SumMany, Sums,
};
use tally_wire::names::DIRECTORY_PARTITIONS;
use tally_wire::shell_limits::AGGREGATE_MAX;

/// How long leads are asked in all, milliseconds. The edge waits 45 s, so later answers have no receiver.
const SUM_MS_MAX: i64 = 40_000;

/// The names of one partition that an aggregate requests, at first and later: 16 × 500 roots are 2 MB.
const AGGREGATE_PAGES: (u32, u32) = (125, 500);

/// The fewest names that a partition is asked for.
const NAMES_MIN: u32 = 16;

/// One page of counters of all partitions, together in order.
pub(super) async fn list_all(
    host: &Host,
    list: Result<ListAll, Fault>,
) -> Result<CounterList, Fault> {
    let list = list?;
    let ask = |partition: u32, after: Option<String>, limit: u32| ListRows {
        partition,
        prefix: list.prefix.clone(),
        after,
        limit,
        values: list.values,
    };
    let mut pages = JoinedPages::new(list.limit, partitions::count(host));
    let share = pages.share();
    let first = |partition: u32| ask(partition, list.after.clone(), share);
    let (answered, mut missing_partitions) = ask_all(host, first).await.by_any()?;
    for (partition, page) in answered {
        pages.add(partition, share, page);
    }
    let left = pages.take_left();
    if !left.is_empty() {
        let after = |partition: u32| left.get(&partition).map(|last| last.as_str().to_owned());
        let more = |partition: u32| ask(partition, after(partition), list.limit);
        let answered = match ask_more(host, &left, more).await {
            Some(answered) => {
                missing_partitions.extend(answered.missing);
                answered.answers
            }
            None => {
                // Roots are moving: all partitions must be asked at one moment.
                pages = JoinedPages::new(list.limit, 1);
                let whole = |partition: u32| ask(partition, list.after.clone(), list.limit);
                let (answers, missing) = ask_all(host, whole).await.by_any()?;
                missing_partitions = missing;
                answers
            }
        };
        for (partition, page) in answered {
            pages.add(partition, list.limit, page);
        }
        missing_partitions = in_order(missing_partitions, Ord::cmp);
    }
    Ok(CounterList {
        rows: pages.into_rows(),
        missing_partitions,
    })
}

/// The living counters with a prefix, page by page.
struct Pages<'a> {
    host: &'a Host,
    prefix: &'a str,
    limit: u32,
    /// The partitions that have more, and the last name that each returned.
    left: BTreeMap<u32, Option<String>>,
    /// Those that did not answer.
    missing: Vec<u32>,
    /// Whether all are asked together, because roots move or have moved, and the last name that all have covered.
    is_together: bool,
    after: Option<String>,
}

impl<'a> Pages<'a> {
    fn new(host: &'a Host, prefix: &'a str) -> Self {
        Self {
            host,
            prefix,
            limit: AGGREGATE_PAGES.0,
            left: partitions::all(host)
                .map(|partition| (partition, None))
                .collect(),
            missing: Vec::new(),
            is_together: partitions::count(host) != DIRECTORY_PARTITIONS,
            after: None,
        }
    }

    fn are_over(&self) -> bool {
        self.left.is_empty()
    }

    /// The next page of names while roots move: of all partitions together, up to the last name that all have covered.
    async fn next_of_all(&mut self) -> Result<Vec<(CounterId, Root)>, Fault> {
        // The number of names from all partitions together is that of sixteen partitions.
        let part = self.limit * DIRECTORY_PARTITIONS / partitions::count(self.host);
        let limit = part.clamp(NAMES_MIN, self.limit.max(NAMES_MIN));
        let ask = |partition: u32| List {
            partition,
            prefix: self.prefix.to_owned(),
            after: self.after.clone(),
            limit,
        };
        let answers = ask_all(self.host, ask).await;
        let (answered, silent) = answers.by_any()?;
        self.missing.extend(silent);
        let is_full = |page: &[(CounterId, Root)]| {
            u32::try_from(page.len()).is_ok_and(|names| names >= limit)
        };
        let full = answered.iter().filter(|(_, page)| is_full(page));
        let covered_to = full.filter_map(|(_, page)| page.last());
        let covered_to = covered_to.map(|(last, _)| last.clone()).min();
        let mut found: Vec<(CounterId, Root)> =
            answered.into_iter().flat_map(|(_, page)| page).collect();
        match covered_to {
            Some(to) => {
                found.retain(|(counter, _)| *counter <= to);
                self.after = Some(to.as_str().to_owned());
            }
            None => self.left.clear(),
        }
        self.limit = AGGREGATE_PAGES.1;
        Ok(found)
    }

    /// The next page of each partition that has more.
    async fn next(&mut self) -> Result<Vec<(CounterId, Root)>, Fault> {
        let ask = |partition: u32| List {
            partition,
            prefix: self.prefix.to_owned(),
            after: self.left.get(&partition).cloned().flatten(),
            limit: self.limit,
        };
        if self.is_together {
            return self.next_of_all().await;
        }
        let partitions: Vec<u32> = self.left.keys().copied().collect();
        let all = ask_some(self.host, partitions.into_iter(), ask).await;
        if all.fault == Some(Fault::Repartitioned) {
            // All names so far are before the last name that every partition has covered.
            self.is_together = true;
            self.after = self.left.values().min().cloned().flatten();
            return self.next_of_all().await;
        }
        let is_first = self.left.values().all(Option::is_none);
        if let Some(fault) = all.fault.filter(|_| is_first && all.answers.is_empty()) {
            return Err(fault);
        }
        let (answered, silent) = (all.answers, all.missing);
        for partition in &silent {
            self.left.remove(partition);
        }
        self.missing.extend(silent);
        let mut found = Vec::new();
        for (partition, page) in answered {
            let is_full = u32::try_from(page.len()).is_ok_and(|names| names >= self.limit);
            match page.last().filter(|_| is_full) {
                Some((last, _)) => {
                    let after = Some(last.as_str().to_owned());
                    self.left.insert(partition, after)
                }
                None => self.left.remove(&partition),
            };
            found.extend(page);
        }
        self.limit = AGGREGATE_PAGES.1;
        Ok(found)
    }
}

/// Reads several counters: roots and leads in the same object are asked together.
pub(super) async fn read_each(
    host: &Host,
    request: Result<ReadEach, Fault>,
) -> Result<Vec<Result<Option<GlobalSum>, Fault>>, Fault> {
    let ReadEach { reads, is_strong } = request?;
    let batcher = Batcher::new(host);
    let options = ReadOptions {
        batcher: Some(&batcher),
        ..ReadOptions::default()
    };
    let read = |(index, read): (usize, Read)| async move {
        let sum = match is_strong {
            true => read_drained(host, Ok(ReadDrained { read }), options).await,
            false => read_view(host, Ok(read), options).await,
        };
        (index, sum)
    };
    let at_once = reads.len();
    let sums = all_settled(reads.into_iter().enumerate().map(read), at_once);
    let sums = in_order(batcher.run(sums).await, |one, other| one.0.cmp(&other.0));
    Ok(sums.into_iter().map(|(_, sum)| sum).collect())
}

/// Whether an aggregate may not read so many.
fn are_too_many(roots: &BTreeMap<CounterId, Root>) -> bool {
    let limit = usize::try_from(AGGREGATE_MAX).unwrap_or(usize::MAX);
    let leads = roots.values().map(|root| root.datacenters.len());
    roots.len() > limit || leads.sum::<usize>() > limit
}

/// The sums of the pushed totals of all counters, and the partitions that did not answer.
async fn pushed_sums(host: &Host, request: &SumMany) -> Result<(Sums, Vec<u32>), Fault> {
    let order = TopOrder::new(&request.prefix, OrderBy::Value, None);
    let (parts, missing) = ask_top(host, &order, 0, None).await?;
    let sums = parts.into_iter().map(|part| part.sums);
    let sums = sums.fold(Sums::default(), Sums::plus);
    Ok((sums, missing))
}

/// Sums every counter with a prefix. If there are very many, their pushed totals are summed, unless leads must be
/// asked: then as many at once as memory holds. For a range, the counters that may have counted most are asked.
pub(super) async fn sum_many(
    host: &Host,
    request: Result<SumMany, Fault>,
) -> Result<Aggregate, Fault> {
    let request = request?;
    let is_of_times = request.history.is_some() || request.by.is_some();
    let is_plain = !is_of_times && request.datacenter.is_none();
    let mut pages = Pages::new(host, &request.prefix);
    let mut roots = map_of(pages.next().await?);
    if !pages.are_over() && is_plain && !request.is_strong {
        let (sums, missing) = pushed_sums(host, &request).await?;
        if sums.counters > AGGREGATE_MAX.into() {
            let mut known = Aggregate::known(request.begun_ms, sums);
            known.lacks(missing);
            return Ok(known);
        }
    }
    // A lead in a tablet opens no object of its own.
    let is_hosted = call::has_tablets(host);
    let begun_ms = host.now_ms();
    let all = RefCell::new(Aggregate::new(
        request.begun_ms,
        request.top,
        request.value.clone(),
    ));
    let mut are_few = !is_of_times;
    loop {
        while !pages.are_over() && !are_too_many(&roots) {
            open_objects::rest(host).await;
            roots.extend(pages.next().await?);
        }
        if are_too_many(&roots) && !is_hosted && !is_of_times {
            return Err(Fault::TooMany(AGGREGATE_MAX));
        }
        if are_too_many(&roots) && !are_few {
            let (sums, _) = pushed_sums(host, &request).await?;
            let counters_max = counters_max(host, &request);
            are_few = counters_max > AGGREGATE_MAX && sums.counters <= counters_max.into();
            if !are_few {
                sum_largest(host, &request, begun_ms, &all, &|_| None).await?;
                return Ok(all.into_inner());
            }
        }
        sum_roots(host, &request, std::mem::take(&mut roots), begun_ms, &all).await;
        if pages.are_over() {
            break;
        }
        if host.now_ms() - begun_ms > SUM_MS_MAX {
            let detail = "reading all counters takes more than 40 s: leave out consistency=strong, or send a longer prefix";
            return Err(Fault::Unavailable(detail.to_owned()));
        }
    }
    all.borrow_mut().lacks(pages.missing);
    Ok(all.into_inner())
}
