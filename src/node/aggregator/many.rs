//! Many counters at once, by what partitions of the directory say of them.
//!
//! Invariant: every partition is asked, once for each page; those that do not answer are named.

use std::collections::BTreeMap;

use super::LEADS_AT_ONCE;
use crate::host::Host;
use crate::node::shared::call_within;
use crate::node::shared::concurrency::all_settled;
use crate::protocol::messages::{Call, Fault, ListAll, ListRows, Listed};
use crate::protocol::names::DIRECTORY_PARTITIONS;
use crate::protocol::order::in_order;

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
