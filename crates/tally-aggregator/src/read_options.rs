//! How a read asks roots, leads and inboxes, and what it notes of their answers.
//!
//! Invariant: a read without an explanation writes no trace, reads no clock for it, and sends the same messages.

use std::cell::RefCell;

use tally_core::counter::id::Datacenter;
use tally_core::counter::merge::Part;
use tally_core::counter::queue::InboxId;
use tally_core::isolate::open_slots::ObjectUser;
use tally_host::Host;
use tally_shared::call_batcher::Batcher;
use tally_shared::call_within;
use tally_shared::open_objects;
use tally_wire::messages::{
    Call, Drain, Fault, InboxTrace, LeadTrace, LetInboxesGo, ReadTrace, SumDatacenter,
};

/// How a read is made.
#[derive(Clone, Copy, Default)]
pub struct ReadOptions<'a> {
    /// The trace of the read, if an explanation is wanted.
    pub trace: Option<&'a RefCell<ReadTrace>>,
    /// Datacenters that did not answer the last read: they are waited for only briefly.
    pub away: &'a [Datacenter],
    /// Until when the read waits for leads, unix milliseconds, if the caller waits for less time than leads may take.
    pub leads_until_ms: Option<i64>,
    /// For an aggregate, which makes its calls in turns: until when a call waits for room to open its object, and until
    /// when leads are asked, unix milliseconds.
    pub until_ms: Option<(i64, i64)>,
    /// For several counters: joins their calls to objects that host many.
    pub batcher: Option<&'a Batcher>,
}

impl ReadOptions<'_> {
    /// Calls an object, together with other calls of the same read if there are any.
    pub async fn call<C: Call>(
        &self,
        host: &Host,
        message: &C,
        milliseconds: u64,
    ) -> Result<C::Answer, Fault> {
        match self.batcher {
            Some(batcher) => batcher.call(message, milliseconds).await,
            None => call_within(host, message, milliseconds).await,
        }
    }
}

/// How long leads of datacenters that did not answer a moment ago may take, milliseconds: a round trip between any two
/// locations.
const AWAY_MS_MAX: u64 = 350;

fn since(host: &Host, begun_ms: i64) -> u64 {
    u64::try_from(host.now_ms().saturating_sub(begun_ms)).unwrap_or(0)
}

/// Waits for the answer of a counter's root.
pub async fn ask_root<T>(
    host: &Host,
    future: impl Future<Output = Result<T, Fault>>,
    options: ReadOptions<'_>,
) -> Result<T, Fault> {
    let begun_ms = options.trace.map(|_| host.now_ms());
    let answer = future.await;
    if let (Some(trace), Some(begun_ms)) = (options.trace, begun_ms) {
        trace.borrow_mut().root_ms = since(host, begun_ms);
    }
    answer
}

/// Asks a lead for its datacenter's sum, for a read that began then. If no more objects may be opened, it counts as one
/// that does not answer.
pub async fn ask_lead(
    host: &Host,
    mut sum: SumDatacenter,
    begun_ms: i64,
    options: ReadOptions<'_>,
) -> Result<Part, Fault> {
    if let Some((room_ms, end_ms)) = options.until_ms {
        open_objects::room(host, &sum.to, ObjectUser::Bulk, room_ms).await?;
        let _turn = open_objects::turn(host, &sum.to).await;
        if host.now_ms() > end_ms {
            let what = "the aggregate took too long to ask all";
            return Err(Fault::Unavailable(what.to_owned()));
        }
        return options.call(host, &sum, LEAD_MS_MAX).await;
    }
    open_objects::room_soon(host, &sum.to, ObjectUser::Single).await?;
    let Some(trace) = options.trace else {
        let is_away = options.away.contains(&sum.to.datacenter);
        let lead_ms = match is_away {
            // The time is for all of them together: if hundreds are unreachable they are asked in groups, one after the
            // other.
            true => AWAY_MS_MAX.saturating_sub(since(host, begun_ms)),
            false => LEAD_MS_MAX,
        };
        let left_ms = |until_ms: i64| u64::try_from(until_ms - host.now_ms()).unwrap_or(0);
        let limit_ms = lead_ms.min(options.leads_until_ms.map_or(LEAD_MS_MAX, left_ms));
        if limit_ms == 0 {
            return Err(Fault::Unavailable("others took the time".to_owned()));
        }
        return options.call(host, &sum, limit_ms).await;
    };
    let begun_ms = host.now_ms();
    let datacenter = sum.to.datacenter.clone();
    sum.explains = true;
    let mut answer = call_within(host, &sum, LEAD_MS_MAX).await;
    let shards = answer.as_mut().map(|sum| std::mem::take(&mut sum.trace));
    let shards = shards.unwrap_or_default();
    trace.borrow_mut().leads.push(LeadTrace {
        datacenter,
        latency_ms: since(host, begun_ms),
        shards,
    });
    answer
}

/// Asks an inbox to count the events of a counter that it has acknowledged.
pub async fn ask_inbox(
    host: &Host,
    drain: Drain,
    milliseconds: u64,
    options: ReadOptions<'_>,
) -> Result<(), Fault> {
    let begun_ms = options.trace.map(|_| host.now_ms());
    let answer = if drain.to.is_over(host.now_ms()) {
        Ok(())
    } else if drain.to == InboxId::of_sessions() {
        let counter = drain.counter.clone();
        call_within(host, &LetInboxesGo { counter }, milliseconds).await
    } else if drain.to.is_queue() {
        // The events in a queue of the platform cannot be asked for.
        Err(Fault::Unavailable("a queue cannot be drained".to_owned()))
    } else {
        call_within(host, &drain, milliseconds).await
    };
    if let (Some(trace), Some(begun_ms)) = (options.trace, begun_ms) {
        trace.borrow_mut().inboxes.push(InboxTrace {
            inbox: drain.to,
            latency_ms: since(host, begun_ms),
            is_drained: answer.is_ok(),
        });
    }
    answer
}

/// How long a lead may take before its datacenter counts as unreachable, milliseconds.
pub(super) const LEAD_MS_MAX: u64 = 3_000;

/// How long an inbox may take to count its acknowledged events, milliseconds: with a lead's time, that is still below
/// the time of a call.
pub(super) const DRAIN_MS_MAX: u64 = 1_700;

/// The leads that are called at once.
pub(super) const LEADS_AT_ONCE: usize = 64;
