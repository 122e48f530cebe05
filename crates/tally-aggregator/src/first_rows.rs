//! The first counters of each partition in an order, and how two of them compare.

use std::cmp::Ordering;

use tally_core::cluster::top_order::{TopOrder, TopRow};
use tally_core::counter::total::Value;
use tally_host::Host;
use tally_shared::partitions::ask_all;
use tally_wire::messages::{Fault, PartitionTop, TopOf};

/// Asks every partition for the first counters of an order. Returns what they answered, and the partitions that did not
/// answer.
pub(super) async fn ask_top(
    host: &Host,
    order: &TopOrder,
    limit: u32,
    above: Option<Value>,
) -> Result<(Vec<PartitionTop>, Vec<u32>), Fault> {
    let ask = |partition: u32| TopOf {
        partition,
        order: order.clone(),
        limit,
        above,
    };
    let (answered, missing) = ask_all(host, ask).await.by_any()?;
    let parts = answered.into_iter().map(|(_, part)| part).collect();
    Ok((parts, missing))
}

/// The larger amount comes first; among equal amounts the name decides.
pub(super) fn compare(one: &TopRow, other: &TopRow) -> Ordering {
    if other.amount.is_below(one.amount) {
        Ordering::Less
    } else if one.amount.is_below(other.amount) {
        Ordering::Greater
    } else {
        one.counter.cmp(&other.counter)
    }
}
