//! Many counters at once, by what partitions of the directory say of them.
//!
//! Invariant: every partition is asked, once for each page; those that do not answer are named.

use std::cell::RefCell;
use std::collections::BTreeMap;

use super::explain::Notes;
use super::{LEADS_AT_ONCE, read, sum_world};
use crate::core::cluster::root::Root;
use crate::core::counter::id::CounterId;
use crate::core::counter::merge::Range;
use crate::host::Host;
use crate::node::shared::call;
use crate::node::shared::call_batcher::Batcher;
use crate::node::shared::call_within;
use crate::node::shared::concurrency::all_settled;
use crate::node::shared::open_objects;
use crate::protocol::bounds::AGGREGATE_MAX;
use crate::protocol::messages::{
    Call, Fault, GlobalSum, List, ListAll, ListRows, Listed, Read, SumMany, Wanted,
};
use crate::protocol::names::DIRECTORY_PARTITIONS;
use crate::protocol::order::in_order;
use crate::protocol::public::Aggregate;

/// How long an aggregate asks leads, and waits for room to open their objects: what is left of the edge's 45 s is for the last of them,
/// and for what roots remember of 5,000 others, 1 to 2 ms each.
const ROOM_MS_MAX: i64 = 32_000;

/// Names that one partition is asked for at once when an aggregate collects them.
const AGGREGATE_PAGE: u32 = 1_000;

/// Counters whose leads are asked at once where tablets host them: they travel together, 16 to a message where there are 64 tablets.
const HOSTED_AT_ONCE: usize = 1_024;

/// Points of the histories that are asked for at once: 160,000 of 40 bytes are 6 MB of the isolate's 128.
const HISTORY_POINTS_AT_ONCE: i64 = 160_000;

/// How long a partition may take before it is called missing: well below the time of the call that asks for all.
const PARTITION_MS_MAX: u64 = 3_000;

/// What partitions answered, and the numbers of those that did not.
pub(super) type Asked<T> = (Vec<(u32, T)>, Vec<u32>);

/// Asks every partition of the directory.
///
/// # Errors
/// What one of them said, where none answers.
pub(super) async fn ask_partitions<C: Call>(
    host: &Host,
    message: impl Fn(u32) -> C,
) -> Result<Asked<C::Answer>, Fault> {
    let ask = |partition: u32| {
        let message = message(partition);
        async move {
            (
                partition,
                call_within(host, &message, PARTITION_MS_MAX).await,
            )
        }
    };
    let asked = all_settled((0..DIRECTORY_PARTITIONS).map(ask), LEADS_AT_ONCE).await;
    let (mut answered, mut missing, mut fault) = (Vec::new(), Vec::new(), None);
    for (partition, answer) in asked {
        match answer {
            Ok(answer) => answered.push((partition, answer)),
            Err(other) => {
                missing.push(partition);
                fault = Some(other);
            }
        }
    }
    match fault.filter(|_| answered.is_empty()) {
        Some(fault) => Err(fault),
        None => Ok((answered, in_order(missing, Ord::cmp))),
    }
}

/// One page of counters of all partitions, together in order.
pub(super) async fn list_all(host: &Host, list: Result<ListAll, Fault>) -> Result<Listed, Fault> {
    let list = list?;
    let ask = |partition: u32| ListRows {
        partition,
        prefix: list.prefix.clone(),
        after: list.after.clone(),
        limit: list.limit,
        values: list.values,
    };
    let (answered, missing_partitions) = ask_partitions(host, ask).await?;
    let mut rows = BTreeMap::new();
    for (_, page) in answered {
        rows.extend(page);
    }
    let most = usize::try_from(list.limit).unwrap_or(usize::MAX);
    Ok(Listed {
        rows: rows.into_iter().take(most).collect(),
        missing_partitions,
    })
}

/// The living counters whose names begin alike, and the partitions that did not say theirs.
async fn roots_of(
    host: &Host,
    prefix: &str,
) -> Result<(BTreeMap<CounterId, Root>, Vec<u32>), Fault> {
    let most = usize::try_from(AGGREGATE_MAX).unwrap_or(usize::MAX);
    let page = usize::try_from(AGGREGATE_PAGE).unwrap_or(usize::MAX);
    let (mut roots, mut missing, mut after) = (BTreeMap::new(), Vec::new(), None);
    loop {
        let ask = |partition: u32| List {
            partition,
            prefix: prefix.to_owned(),
            after: after.clone(),
            limit: AGGREGATE_PAGE,
        };
        let (answered, silent) = ask_partitions(host, ask).await?;
        missing.extend(silent);
        let mut found = BTreeMap::new();
        for (_, page) in answered {
            found.extend(page);
        }
        let found: Vec<(CounterId, Root)> = found.into_iter().take(page).collect();
        let is_last = found.len() < page;
        after = found.last().map(|(counter, _)| counter.as_str().to_owned());
        roots.extend(found);
        let leads = roots.values().map(|root: &Root| root.datacenters.len());
        if roots.len() > most || leads.sum::<usize>() > most {
            return Err(Fault::TooMany(AGGREGATE_MAX));
        }
        if is_last {
            return Ok((roots, missing));
        }
        open_objects::rest(host).await;
    }
}

/// How many histories of that range are asked for at once: 16 of the longest.
fn histories_at_once(range: Range) -> usize {
    let points = (range.to - range.from) / range.step.seconds() + 1;
    usize::try_from(HISTORY_POINTS_AT_ONCE / points.max(1)).unwrap_or(1)
}

/// Sums every counter whose name begins alike. Each is added as it comes: of 5,000 histories one is held.
pub(super) async fn sum_many(
    host: &Host,
    asked: Result<SumMany, Fault>,
) -> Result<Aggregate, Fault> {
    let asked = asked?;
    let (roots, missing) = roots_of(host, &asked.prefix).await?;
    let wanted = Wanted {
        totals_only: true,
        history: asked.history,
        ..Wanted::default()
    };
    // A lead that a tablet hosts opens nothing.
    let is_hosted = call::has_tablets(host);
    let leads = roots.values().map(|root| root.datacenters.len());
    let leads = leads.filter(|_| !is_hosted).sum();
    // Where all cannot be opened in time, none waits: what roots remember is told at once.
    let room_ms = match open_objects::time_for(host, leads) {
        room_ms if room_ms <= ROOM_MS_MAX => ROOM_MS_MAX,
        _ => 0,
    };
    let begun_ms = host.now_ms();
    let batcher = Batcher::new(host);
    let notes = Notes {
        until_ms: Some((begun_ms + room_ms, begun_ms + ROOM_MS_MAX)),
        batcher: Some(&batcher),
        ..Notes::default()
    };
    let all = RefCell::new(Aggregate::new(asked.begun_ms, asked.top));
    all.borrow_mut().lacks(missing);
    let only = asked.datacenter.as_ref();
    let sum = |(counter, root): (CounterId, Root)| {
        let all = &all;
        async move {
            match sum_world(host, &counter, root, only, wanted, None, notes).await {
                Some(sum) if sum.has_lapsed(host.now_ms()) => {}
                Some(sum) => all.borrow_mut().add(&counter, &sum),
                // Ended and created again between listing and summing: read it by itself.
                None => {
                    let again = Read {
                        counter: counter.clone(),
                        datacenter: only.cloned(),
                        wanted,
                    };
                    let sum: Result<Option<GlobalSum>, Fault> =
                        read(host, Ok(again), None, notes).await;
                    match sum {
                        Ok(Some(sum)) => all.borrow_mut().add(&counter, &sum),
                        Ok(None) => {}
                        Err(_) => {
                            let partition = call::partition_of(host, &counter);
                            all.borrow_mut().lacks([partition]);
                        }
                    }
                }
            }
        }
    };
    let at_once = if is_hosted {
        HOSTED_AT_ONCE
    } else {
        LEADS_AT_ONCE
    };
    let at_once = match asked.history {
        Some(range) => at_once.min(histories_at_once(range)),
        None => at_once,
    };
    let sums = all_settled(roots.into_iter().map(sum), at_once);
    batcher.run(sums).await;
    Ok(all.into_inner())
}
