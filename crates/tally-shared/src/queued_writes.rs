//! Counts queued writes at the lead of the datacenter that accepted them, for an inbox or for a queue of the platform.
//!
//! Invariant: a queued write never creates again a counter that was deleted.

use futures_util::future::LocalBoxFuture;

use super::call;
use super::keyed_calls::{count_keyed, count_unclaimed};
use super::open_objects;
use tally_core::counter::id::{CounterId, Datacenter};
use tally_core::counter::ledger::{KeyedOutcome, KeyedWrite};
use tally_core::counter::queue::QueuedDelivery;
use tally_core::isolate::open_slots::ObjectUser;
use tally_host::Host;
use tally_wire::messages::{Fault, LookUp};
use tally_wire::names::CellAddress;

/// How long queued writes wait for room to open their counter's object, milliseconds, after objects in use now may have
/// been closed.
const ROOM_MS_MORE: i64 = 1_000;

/// Whether a generation is the current one, by its root.
///
/// # Errors
/// As [`call()`].
pub fn is_living<'a>(
    host: &'a Host,
    counter: &'a CounterId,
    generation: u64,
) -> LocalBoxFuture<'a, Result<bool, Fault>> {
    Box::pin(async move {
        let counter = counter.clone();
        let root = call(host, &LookUp { counter }).await?;
        Ok(root.is_some_and(|root| root.generation == generation))
    })
}

/// Counts writes of one counter and generation, all with clients' keys or none. Returns their outcomes, in their order.
/// If the object may not be opened in time, none is counted.
pub fn count_deliveries<'a>(
    host: &'a Host,
    here: &'a Datacenter,
    deliveries: &'a [&'a QueuedDelivery],
) -> LocalBoxFuture<'a, Vec<Result<KeyedOutcome, Fault>>> {
    Box::pin(async move {
        let Some(first) = deliveries.first() else {
            return Vec::new();
        };
        let lead = CellAddress::lead(&first.counter, here);
        let until_ms = host.now_ms() + open_objects::let_go_ms(host) + ROOM_MS_MORE;
        if let Err(fault) = open_objects::room(host, &lead, ObjectUser::Bulk, until_ms).await {
            return deliveries.iter().map(|_| Err(fault.clone())).collect();
        }
        let _turn = open_objects::turn(host, &lead).await;
        let writes: Vec<KeyedWrite> = deliveries
            .iter()
            .map(|delivery| delivery.write.clone())
            .collect();
        let outcomes = if first.is_clients {
            count_keyed(host, &first.counter, here, &writes, first.keys().into()).await
        } else {
            // Nobody else knows the key, and it is always sent to this lead first: no claim is needed.
            count_unclaimed(host, &first.counter, here, &writes, first.keys()).await
        };
        outcomes.into_iter().map(|(_, outcome)| outcome).collect()
    })
}
