//! Counts queued writes at the lead of the datacenter that accepted them, for an inbox or for a queue of the platform.
//!
//! Invariant: a queued write never creates again a counter that was deleted.

use super::call;
use super::keyed_calls::{count_keyed, count_unclaimed};
use super::open_objects;
use crate::core::counter::id::{CounterId, Datacenter};
use crate::core::counter::ledger::{KeyedOutcome, KeyedWrite};
use crate::core::counter::queue::QueuedDelivery;
use crate::host::Host;
use crate::protocol::messages::{Fault, LookUp};
use crate::protocol::names::CellAddress;
use crate::protocol::open_slots::{LET_GO_MS, ObjectUser};

/// How long queued writes wait for room to open their counter's object, milliseconds: by then objects in use now may
/// have been closed.
const ROOM_MS_MAX: i64 = LET_GO_MS + 1_000;

/// Whether a generation is the current one, by its root.
///
/// # Errors
/// As [`call()`].
pub async fn is_living(host: &Host, counter: &CounterId, generation: u64) -> Result<bool, Fault> {
    let counter = counter.clone();
    let root = call(host, &LookUp { counter }).await?;
    Ok(root.is_some_and(|root| root.generation == generation))
}

/// Counts writes of one counter and generation, all with clients' keys or none. Returns their outcomes, in their order.
/// If the object may not be opened in time, none is counted.
pub async fn count_deliveries(
    host: &Host,
    here: &Datacenter,
    deliveries: &[&QueuedDelivery],
) -> Vec<Result<KeyedOutcome, Fault>> {
    let Some(first) = deliveries.first() else {
        return Vec::new();
    };
    let lead = CellAddress::lead(&first.counter, here);
    if let Err(fault) =
        open_objects::room(host, &lead, ObjectUser::Bulk, host.now_ms() + ROOM_MS_MAX).await
    {
        return deliveries.iter().map(|_| Err(fault.clone())).collect();
    }
    let _turn = open_objects::turn(host, &lead).await;
    let writes: Vec<KeyedWrite> = deliveries
        .iter()
        .map(|delivery| delivery.write.clone())
        .collect();
    let outcomes = if first.is_clients {
        count_keyed(host, &first.counter, here, &writes, first.keys()).await
    } else {
        // Nobody else knows the key, and it is always sent to this lead first: no claim is needed.
        count_unclaimed(host, &first.counter, here, &writes, first.keys()).await
    };
    outcomes.into_iter().map(|(_, outcome)| outcome).collect()
}
