//! The deployment's data from all partitions of the directory.

use futures_util::future::LocalBoxFuture;
use tally_core::order::in_order;
use tally_host::Host;
use tally_shared::call_within;
use tally_shared::concurrency::all_settled;
use tally_shared::partitions::{self, PARTITION_MS_MAX};
use tally_wire::fleet::Fleet;
use tally_wire::messages::{Fault, FleetOf};
use tally_wire::names::DIRECTORY_PARTITIONS;

/// All partitions at once.
const PARTITIONS_AT_ONCE: usize = 16;

/// Asks every partition once.
///
/// # Errors
/// `Unavailable` where none answers.
pub fn read_fleet(host: &Host) -> LocalBoxFuture<'_, Result<Fleet, Fault>> {
    Box::pin(read(host))
}

async fn read(host: &Host) -> Result<Fleet, Fault> {
    let ask = |partition: u32| async move {
        let sent_ms = host.now_ms();
        let part = call_within(host, &FleetOf { partition }, PARTITION_MS_MAX).await;
        (partition, part.map(|part| (part, sent_ms, host.now_ms())))
    };
    // Reports of isolates are in the first sixteen partitions, whatever their number is.
    let all = partitions::count(host).max(DIRECTORY_PARTITIONS);
    let answers = all_settled((0..all).map(ask), PARTITIONS_AT_ONCE).await;
    let (mut parts, mut missing) = (Vec::new(), Vec::new());
    for (partition, part) in answers {
        match part {
            Ok(part) => parts.push(part),
            Err(_) => missing.push(partition),
        }
    }
    if parts.is_empty() {
        let why = "no partition of the directory answered";
        return Err(Fault::Unavailable(why.to_owned()));
    }
    Ok(Fleet::of(parts, in_order(missing, Ord::cmp)))
}
