//! The sum of one counter over its datacenters.
//!
//! Invariant: a datacenter that does not answer contributes its last known part, and the answer names it.

use futures_util::future::LocalBoxFuture;

use super::read_options::{
    DRAIN_MS_MAX, LEADS_AT_ONCE, ReadOptions, ask_inbox, ask_lead, ask_root,
};
use tally_core::cluster::root::Root;
use tally_core::cluster::view::View;
use tally_core::counter::id::{CounterId, Datacenter};
use tally_core::counter::merge::Part;
use tally_core::counter::queue::InboxId;
use tally_core::isolate::view_fallback;
use tally_core::order::in_order;
use tally_core::sketch::Uniques;
use tally_host::Host;
use tally_shared::call::{CALL_MS_MAX, call, call_again};
use tally_shared::concurrency::all_settled;
use tally_wire::messages::{
    Drain, Fault, GlobalSum, LookUp, Read, ReadDrained, ReadParts, Reconcile, SumDatacenter,
    ViewAnswer, ViewOf,
};
use tally_wire::names::CellAddress;

/// How long leads may take, from the beginning of the read, for the value in the answer to a write, milliseconds. The
/// edge waits for 0.4 s (`VALUE_MS_MAX` there). Then an unreachable datacenter contributes its last known part, and the
/// others their present one.
const BESIDE_MS_MAX: i64 = 350;

/// The most attempts of a read, because the counter may be ended and created again meanwhile.
const READ_TRIES: usize = 3;

/// Sums a counter for readers to whom an edge gives the same sum.
pub(super) async fn read_shared(
    host: &Host,
    request: Result<Read, Fault>,
) -> Result<Option<GlobalSum>, Fault> {
    let is_beside = request
        .as_ref()
        .is_ok_and(|request| request.wanted.is_passing);
    let options = ReadOptions {
        leads_until_ms: is_beside.then(|| host.now_ms().saturating_add(BESIDE_MS_MAX)),
        ..ReadOptions::default()
    };
    read_view(host, request, options).await
}

/// Sums a counter for its watchers, as a default read does, but waits only briefly for datacenters that were `away` at
/// the last read: otherwise all others would be delayed by these.
///
/// # Errors
/// `Unavailable` where its root does not answer.
pub fn read_watched<'a>(
    host: &'a Host,
    counter: &'a CounterId,
    away: &'a [Datacenter],
) -> LocalBoxFuture<'a, Result<Option<GlobalSum>, Fault>> {
    Box::pin(async move {
        let request = Read {
            counter: counter.clone(),
            datacenter: None,
            wanted: ReadParts::default(),
        };
        let options = ReadOptions {
            away,
            ..ReadOptions::default()
        };
        read_view(host, Ok(request), options).await
    })
}

/// Sums a counter now, by asking all its datacenters, with the count of the window, if any.
///
/// # Errors
/// `Unavailable` where its root does not answer.
pub fn read_now<'a>(
    host: &'a Host,
    counter: &'a CounterId,
    window: Option<(i64, i64)>,
) -> LocalBoxFuture<'a, Result<Option<GlobalSum>, Fault>> {
    Box::pin(async move {
        let wanted = ReadParts {
            window,
            totals_only: true,
            ..ReadParts::default()
        };
        ask_now(host, counter, wanted).await
    })
}

/// As [`read_now`], with its unique elements.
///
/// # Errors
/// As there.
pub fn read_sketches<'a>(
    host: &'a Host,
    counter: &'a CounterId,
) -> LocalBoxFuture<'a, Result<Option<GlobalSum>, Fault>> {
    Box::pin(async move { ask_now(host, counter, ReadParts::default()).await })
}

async fn ask_now(
    host: &Host,
    counter: &CounterId,
    wanted: ReadParts,
) -> Result<Option<GlobalSum>, Fault> {
    let request = Read {
        counter: counter.clone(),
        datacenter: None,
        wanted: ReadParts {
            reads_all: true,
            is_passing: true,
            ..wanted
        },
    };
    read_drained(
        host,
        Ok(ReadDrained { read: request }),
        ReadOptions::default(),
    )
    .await
}

/// Sums a counter for a reader that accepts pushed data: of many datacenters only those are asked that have not pushed
/// recently.
pub(super) async fn read_view(
    host: &Host,
    request: Result<Read, Fault>,
    options: ReadOptions<'_>,
) -> Result<Option<GlobalSum>, Fault> {
    let request = request?;
    let wanted = request.wanted;
    if request.reads_leads() {
        return read(host, Ok(request), None, options).await;
    }
    let view_of = ViewOf {
        counter: request.counter.clone(),
        watches: !wanted.is_passing,
        of_one: false,
    };
    let viewed = match options.batcher {
        Some(batcher) => batcher.call(&view_of, CALL_MS_MAX).await?,
        None => ask_root(host, call_again(host, &view_of, CALL_MS_MAX), options).await?,
    };
    let Some(ViewAnswer {
        root,
        view,
        is_watched,
        now_ms,
    }) = viewed
    else {
        return Ok(None);
    };
    if let Some(view) = view {
        let view = View::from_rest(view);
        let silent = match is_watched {
            true => view_fallback::silent(&view, now_ms),
            false => Vec::new(),
        };
        let options = match silent.as_slice() {
            [] => options,
            away => ReadOptions { away, ..options },
        };
        let view = Some((&view, now_ms));
        let sum =
            sum_datacenters(host, &request.counter, root, None, wanted, view, options).await?;
        if let Some(sum) = sum.filter(|sum| !sum.has_unreconciled()) {
            return Ok((!sum.has_lapsed(host.now_ms())).then_some(sum));
        }
        return read(host, Ok(request), None, options).await;
    }
    read(host, Ok(request), Some(root), options).await
}

/// Sums a counter by asking all its datacenters; `known` is its root, if that has just been read.
pub(super) async fn read(
    host: &Host,
    read: Result<Read, Fault>,
    mut known: Option<Root>,
    options: ReadOptions<'_>,
) -> Result<Option<GlobalSum>, Fault> {
    let Read {
        counter,
        datacenter,
        wanted,
    } = read?;
    for _ in 0..READ_TRIES {
        let root = match known.take() {
            Some(root) => Some(root),
            None => look_up(host, &counter, options).await?,
        };
        let Some(root) = root else {
            return Ok(None);
        };
        let only = datacenter.as_ref();
        if let Some(sum) =
            sum_datacenters(host, &counter, root, only, wanted, None, options).await?
        {
            if sum.has_unreconciled() {
                let message = Reconcile {
                    counter: counter.clone(),
                };
                known = call(host, &message).await?;
                continue;
            }
            return Ok((!sum.has_lapsed(host.now_ms())).then_some(sum));
        }
    }
    Err(Fault::Unavailable(
        "the counter is being ended and created again".to_owned(),
    ))
}

pub(super) async fn look_up(
    host: &Host,
    counter: &CounterId,
    options: ReadOptions<'_>,
) -> Result<Option<Root>, Fault> {
    let counter = counter.clone();
    let look_up = LookUp { counter };
    ask_root(host, options.call(host, &look_up, CALL_MS_MAX), options).await
}

/// Sums a counter once its inboxes have counted what they had acknowledged.
pub(super) async fn read_drained(
    host: &Host,
    request: Result<ReadDrained, Fault>,
    options: ReadOptions<'_>,
) -> Result<Option<GlobalSum>, Fault> {
    let request = request?.read;
    let Some(root) = look_up(host, &request.counter, options).await? else {
        return Ok(None);
    };
    let drain = |inbox: &InboxId| {
        let drain = Drain {
            to: inbox.clone(),
            counter: request.counter.clone(),
        };
        ask_inbox(host, drain, DRAIN_MS_MAX, options)
    };
    let drained = all_settled(root.inboxes.iter().map(drain), LEADS_AT_ONCE).await;
    // The drain may have added a datacenter.
    let known = root.inboxes.is_empty().then_some(root);
    let mut sum = read(host, Ok(request), known, options).await?;
    if let Some(sum) = &mut sum {
        sum.is_drained = drained.iter().all(Result::is_ok);
    }
    Ok(sum)
}

/// Sums the datacenters; `None` if a lead counts for a newer generation than the root that was read. With a view of its
/// root, datacenters that have pushed recently are not asked. A datacenter that does not answer contributes its last
/// known part.
///
/// # Errors
/// `Unreadable` where one has damaged rows: its last known part may be less than what was acknowledged, and the damage
/// would go unnoticed.
pub(super) async fn sum_datacenters(
    host: &Host,
    counter: &CounterId,
    root: Root,
    only: Option<&Datacenter>,
    wanted: ReadParts,
    view: Option<(&View, i64)>,
    options: ReadOptions<'_>,
) -> Result<Option<GlobalSum>, Fault> {
    let now_ms = host.now_ms();
    if let Some(trace) = options.trace {
        // If a sum is made again, the explanation is of the last one.
        trace.borrow_mut().leads.clear();
    }
    let view = view.filter(|(view, _)| view.generation() == root.generation);
    let question = wanted.of(root.generation);
    let ask = |datacenter: &Datacenter| {
        let to = CellAddress::lead(counter, datacenter);
        async move {
            let datacenter = to.datacenter.clone();
            let sum = SumDatacenter::new(to, question);
            let answer = ask_lead(host, sum, now_ms, options).await;
            (datacenter, answer)
        }
    };
    let mut datacenters: Vec<(Datacenter, Option<Part>)> = Vec::new();
    let mut targets = Vec::new();
    for datacenter in &root.datacenters {
        match view.and_then(|(view, at_ms)| view_fallback::pushed(view, datacenter, at_ms, now_ms))
        {
            _ if only.is_some_and(|only| only != datacenter) => {}
            Some(sum) => datacenters.push((datacenter.clone(), Some(sum))),
            None => targets.push(datacenter),
        }
    }
    for (datacenter, answer) in all_settled(targets.into_iter().map(ask), LEADS_AT_ONCE).await {
        match answer {
            Ok(sum) => datacenters.push((datacenter, Some(sum))),
            Err(Fault::Superseded(_)) => return Ok(None),
            Err(fault @ Fault::Unreadable(_)) => return Err(fault),
            Err(_) => datacenters.push((datacenter, None)),
        }
    }
    let mut memory = None;
    // Views have no samples and breakdowns, so the last known part of a datacenter would lack them.
    let remembers = view.is_none() && wanted.samples.is_none() && wanted.breakdown.is_none();
    if remembers && datacenters.iter().any(|(_, part)| is_silent(part)) {
        memory = last_view(host, counter, root.generation, options).await;
    }
    let view = view.map(|(view, _)| view).or(memory.as_ref());
    if let Some(view) = view {
        view_fallback::fill_in(&mut datacenters, view, now_ms);
    }
    let datacenters = in_order(datacenters, |one, other| one.0.cmp(&other.0));
    let is_drained = root.inboxes.is_empty();
    let mut sum = GlobalSum {
        root,
        uniques: Uniques::new(),
        window_uniques: Uniques::new(),
        datacenters,
        is_whole: only.is_none(),
        is_drained,
    };
    // Datacenters that were not asked contribute no sketch of their own: the root has the union.
    if let Some(view) = view.filter(|_| !wanted.totals_only && !sum.is_queried()) {
        sum.uniques = view.uniques().clone();
    }
    sum.join_uniques();
    Ok(Some(sum))
}

/// Whether a datacenter did not answer, or not with all its shards.
fn is_silent(part: &Option<Part>) -> bool {
    part.as_ref().is_none_or(|part| !part.missing.is_empty())
}

/// The view of a counter's generation, for datacenters that do not answer now.
async fn last_view(
    host: &Host,
    counter: &CounterId,
    generation: u64,
    options: ReadOptions<'_>,
) -> Option<View> {
    let view_of = ViewOf {
        counter: counter.clone(),
        watches: false,
        of_one: true,
    };
    let viewed = options.call(host, &view_of, CALL_MS_MAX).await;
    let viewed = viewed.ok().flatten()?;
    let view = View::from_rest(viewed.view?);
    (view.generation() == generation).then_some(view)
}
