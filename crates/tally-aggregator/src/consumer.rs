//! The consumer of the deployment's queue, where it has one: messages become counts.
//!
//! Invariant: a message is acknowledged only when it is finished: counted under its key in the ledger of its lead, or
//! durable in an inbox, as a dead letter or as a write that the inbox continues to try. Every step before that may be
//! repeated: a crash, or a queue that delivers twice, counts nothing twice.
//!
//! It runs in the aggregator, not in the edge: it has no clients, calls objects only, and is deployed with them.

use std::future::ready;

use futures_util::future::LocalBoxFuture;

use tally_api::metrics::Metric;
use tally_core::counter::queue::write_outcome::{
    DeadLetter, DeadLetterReason, WriteOutcome, retry_seconds, verdict,
};
use tally_core::counter::queue::{HAND_OVER_DELIVERIES, InboxId, QueuedDelivery};
use tally_host::{Delivered, Host, MessageOutcome};
use tally_shared::concurrency::all_settled;
use tally_shared::queued_writes::{count_deliveries, is_living};
use tally_shared::{call, metrics};
use tally_wire::messages::{AppendResult, TakeOver};
use tally_wire::queued::{Group, Message, group};

/// The groups that are counted at once: a batch of 100 messages may be of 100 counters.
const GROUPS_AT_ONCE: usize = 16;

/// The indexes of messages, and the outcome of each. An inbox uses the same type, because the code that runs many of
/// these exists once for each type.
type GroupOutcomes = (Vec<usize>, Vec<WriteOutcome>);

/// Dead letters or writes that an inbox must take over, and the indexes of their messages. Not both, because an inbox
/// may have no room for writes.
struct Parcel {
    content: TakeOver,
    indices: Vec<usize>,
}

/// The parcel of dead letters, or of writes, for an inbox; begun if needed.
fn parcel(parcels: &mut Vec<Parcel>, to: InboxId, is_dead: bool) -> Option<&mut Parcel> {
    let fits = |parcel: &Parcel| {
        parcel.content.to == to && parcel.content.deliveries.is_empty() == is_dead
    };
    let index = parcels.iter().position(fits).unwrap_or_else(|| {
        parcels.push(Parcel {
            content: TakeOver {
                to,
                dead: Vec::new(),
                deliveries: Vec::new(),
            },
            indices: Vec::new(),
        });
        parcels.len() - 1
    });
    parcels.get_mut(index)
}

fn bury(parcels: &mut Vec<Parcel>, to: InboxId, index: usize, letter: DeadLetter) {
    if let Some(parcel) = parcel(parcels, to, true) {
        parcel.content.dead.push(letter);
        parcel.indices.push(index);
    }
}

fn give(parcels: &mut Vec<Parcel>, to: InboxId, index: usize, delivery: QueuedDelivery) {
    if let Some(parcel) = parcel(parcels, to, false) {
        parcel.content.deliveries.push(delivery);
        parcel.indices.push(index);
    }
}

/// Counts a batch, and returns the outcome of each message, in their order. Each is acknowledged or will be delivered
/// again. A build without queued events has all delivered again, for one that counts them.
pub fn consume<'a>(
    host: &'a Host,
    delivered: &'a [Delivered],
) -> LocalBoxFuture<'a, Vec<MessageOutcome>> {
    if cfg!(feature = "queue") {
        return Box::pin(count_all(host, delivered));
    }
    let again = |message: &Delivered| MessageOutcome::Again {
        seconds: retry_seconds(message.attempts),
    };
    Box::pin(ready(delivered.iter().map(again).collect()))
}

async fn count_all(host: &Host, delivered: &[Delivered]) -> Vec<MessageOutcome> {
    let mut readable = Vec::with_capacity(delivered.len());
    let mut parcels = Vec::new();
    for (index, message) in delivered.iter().enumerate() {
        match message.body.as_deref().and_then(Message::read) {
            Some(sent) => readable.push((index, sent)),
            None => {
                let letter = DeadLetter::unreadable(host.now_ms());
                bury(&mut parcels, InboxId::of_queue(), index, letter);
            }
        }
    }
    let oldest = readable.iter().map(|(_, sent)| sent.second).min();
    let groups = group(readable);
    let counts = groups.iter().map(|group| count(host, group));
    let mut finished = vec![false; delivered.len()];
    for (indices, verdicts) in all_settled(counts, GROUPS_AT_ONCE).await {
        let mut found = groups.iter().filter(|group| group.indices == indices);
        let Some(group) = found.next() else { continue };
        let inbox = InboxId {
            datacenter: group.datacenter.clone(),
            number: 0,
        };
        for ((index, delivery), verdict) in indices.into_iter().zip(&group.deliveries).zip(verdicts)
        {
            let deliveries = delivered.get(index).map_or(1, |message| message.attempts);
            match verdict {
                WriteOutcome::Done => set(&mut finished, index),
                WriteOutcome::Dead(death) => {
                    let letter = DeadLetter::of(delivery, death, host.now_ms());
                    bury(&mut parcels, inbox.clone(), index, letter);
                }
                WriteOutcome::Later if deliveries >= HAND_OVER_DELIVERIES => {
                    give(&mut parcels, inbox.clone(), index, delivery.clone());
                }
                WriteOutcome::Later => {}
            }
        }
    }
    let parcels = parcels.into_iter().map(|parcel| hand_over(host, parcel));
    for (indices, verdicts) in all_settled(parcels, GROUPS_AT_ONCE).await {
        for index in indices.into_iter().take(verdicts.len()) {
            set(&mut finished, index);
        }
    }
    if let Some(oldest) = oldest {
        let lag_ms = host.now_ms().saturating_sub(oldest.saturating_mul(1_000));
        metrics::add(
            host,
            Metric::QueueLagSum,
            u64::try_from(lag_ms).unwrap_or(0),
        );
        metrics::add(host, Metric::QueueLagCount, 1);
    }
    let fate = |(message, is_finished): (&Delivered, bool)| match is_finished {
        true => MessageOutcome::Acknowledged,
        false => MessageOutcome::Again {
            seconds: retry_seconds(message.attempts),
        },
    };
    delivered.iter().zip(finished).map(fate).collect()
}

/// Hands a parcel to its inbox: all of it is acknowledged, or none.
async fn hand_over(host: &Host, Parcel { content, indices }: Parcel) -> GroupOutcomes {
    let taken = call(host, &content).await;
    if taken != Ok(AppendResult::Logged) {
        return GroupOutcomes::default();
    }
    let dead = u64::try_from(content.dead.len()).unwrap_or(u64::MAX);
    metrics::add(host, Metric::DeadLetter, dead);
    let verdicts = vec![WriteOutcome::Done; indices.len()];
    (indices, verdicts)
}

fn set(finished: &mut [bool], index: usize) {
    if let Some(known) = finished.get_mut(index) {
        *known = true;
    }
}

/// Counts the writes of a group.
async fn count(host: &Host, group: &Group) -> GroupOutcomes {
    let judged =
        |verdict: WriteOutcome| (group.indices.clone(), vec![verdict; group.deliveries.len()]);
    let Some(first) = group.deliveries.first() else {
        return GroupOutcomes::default();
    };
    match is_living(host, &first.counter, first.write.generation).await {
        Ok(true) => {}
        Ok(false) => return judged(WriteOutcome::Dead(DeadLetterReason::Ended)),
        Err(_) => return judged(WriteOutcome::Later),
    }
    let deliveries: Vec<&QueuedDelivery> = group.deliveries.iter().collect();
    let counted = count_deliveries(host, &group.datacenter, &deliveries).await;
    let verdicts = counted
        .into_iter()
        .map(|outcome| outcome.map_or(WriteOutcome::Later, verdict));
    (group.indices.clone(), verdicts.collect())
}
