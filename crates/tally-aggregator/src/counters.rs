//! The sum of counters whose roots are known, each by asking its leads.
//!
//! Invariant: each sum is added as it comes, and a counter that cannot be read names its partition.

use std::cell::RefCell;
use std::collections::BTreeMap;

use super::read::{read, sum_datacenters};
use super::read_options::{LEADS_AT_ONCE, ReadOptions};
use tally_api::public::add_counter;
use tally_core::cluster::root::Root;
use tally_core::counter::history::HOURS_KEPT;
use tally_core::counter::id::CounterId;
use tally_core::counter::merge::Range;
use tally_host::Host;
use tally_shared::call;
use tally_shared::call_batcher::Batcher;
use tally_shared::concurrency::all_settled;
use tally_shared::open_objects;
use tally_wire::messages::{Aggregate, Fault, GlobalSum, Read, ReadParts, SumMany};

/// How long an aggregate asks leads, and waits for room to open their objects, milliseconds. The rest of the edge's 45
/// s is for the last of them, and for the stored views of up to 5,000 other counters.
const ROOM_MS_MAX: i64 = 32_000;

/// The counters whose leads are asked at once if tablets host them: these calls travel together, 16 in a message with
/// 64 tablets.
pub(super) const HOSTED_AT_ONCE: usize = 1_024;

/// The points of histories that are requested at once: 160,000 of 40 bytes are 6 MB of the isolate's 128 MB.
const HISTORY_POINTS_AT_ONCE: i64 = 160_000;

/// The breakdowns that are requested at once: 16 × 1,000 values of 280 bytes are 5 MB.
const BREAKDOWNS_AT_ONCE: usize = 16;

/// How many histories of that range are asked for at once: 74 of the longest. No step has more buckets than hours.
fn histories_at_once(range: Range) -> usize {
    let points = (range.to - range.from) / range.step.seconds() + 1;
    let kept = i64::try_from(HOURS_KEPT).unwrap_or(i64::MAX);
    usize::try_from(HISTORY_POINTS_AT_ONCE / points.clamp(1, kept)).unwrap_or(1)
}

/// Adds counters to an aggregate. Each is added as it comes, so one of 5,000 histories is in memory.
pub(super) async fn sum_roots(
    host: &Host,
    request: &SumMany,
    roots: BTreeMap<CounterId, Root>,
    begun_ms: i64,
    all: &RefCell<Aggregate>,
) {
    let wanted = ReadParts {
        totals_only: true,
        history: request.history,
        window: request.window,
        breakdown: request.by,
        ..ReadParts::default()
    };
    let is_hosted = call::has_tablets(host);
    let leads = roots.values().map(|root| root.datacenters.len());
    let leads = leads.filter(|_| !is_hosted).sum();
    // If not all can be opened in time, none waits: stored views are used at once.
    let room_ms = match open_objects::time_for(host, leads) {
        room_ms if room_ms <= ROOM_MS_MAX => ROOM_MS_MAX,
        _ => 0,
    };
    let batcher = Batcher::new(host);
    let options = ReadOptions {
        until_ms: Some((begun_ms + room_ms, begun_ms + ROOM_MS_MAX)),
        batcher: Some(&batcher),
        ..ReadOptions::default()
    };
    let only = request.datacenter.as_ref();
    let sum = |(counter, root): (CounterId, Root)| async move {
        match sum_datacenters(host, &counter, root, only, wanted, None, options).await {
            Ok(Some(sum)) if sum.has_lapsed(host.now_ms()) => {}
            Ok(Some(sum)) => add_counter(&mut all.borrow_mut(), &counter, &sum),
            // The counter was ended and created again between listing and summing, or is damaged: it is read
            // separately.
            Ok(None) | Err(_) => {
                let again = Read {
                    counter: counter.clone(),
                    datacenter: only.cloned(),
                    wanted,
                };
                let sum: Result<Option<GlobalSum>, Fault> =
                    read(host, Ok(again), None, options).await;
                match sum {
                    Ok(Some(sum)) => add_counter(&mut all.borrow_mut(), &counter, &sum),
                    Ok(None) => {}
                    Err(_) => {
                        let partition = call::partition_of(host, &counter);
                        all.borrow_mut().lacks([partition]);
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
    let at_once = match request.history {
        _ if request.by.is_some() => BREAKDOWNS_AT_ONCE,
        Some(range) => at_once.min(histories_at_once(range)),
        None => at_once,
    };
    let sums = all_settled(roots.into_iter().map(sum), at_once);
    batcher.run(sums).await;
}
