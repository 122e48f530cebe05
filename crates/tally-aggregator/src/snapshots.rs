//! Snapshots of all partitions: their list, and former states of counters.

use std::collections::BTreeMap;

use tally_core::counter::id::CounterId;
use tally_host::Host;
use tally_shared::partitions::{ByPartition, PartitionAnswers, ask_all, ask_ever, ask_gone, count};
use tally_wire::messages::{
    AllRuns, AskRuns, BeginRun, Fault, ListAllPastStates, ListPastStates, ListRuns, PastStateList,
    PastStateRow,
};

/// The runs of all partitions. On request, one is begun in each first.
pub(super) async fn runs(host: &Host, request: Result<AskRuns, Fault>) -> Result<AllRuns, Fault> {
    let list = |partition: u32| ListRuns { partition };
    if request?.begins {
        let begin = |partition: u32| BeginRun { partition };
        if let Some(fault) = ask_all(host, begin).await.fault {
            return Err(fault);
        }
        // Former partitions write runs too, so that their roots are recorded as gone.
        let known = ask_ever(host, list, |answer| answer.ever).await.answers;
        let last = known.iter().map(|(partition, _)| *partition).max();
        let gone = count(host)..last.map_or(0, |last| last + 1);
        if let Some(fault) = ask_gone(host, gone, begin).await.fault {
            return Err(fault);
        }
    }
    let listed = ask_ever(host, list, |answer| answer.ever).await;
    let (partitions, missing_partitions) = readable(listed)?;
    Ok(AllRuns {
        partitions,
        missing_partitions,
    })
}

/// The answers, and the numbers of the partitions that did not answer.
///
/// # Errors
/// The fault of one of them, if none answers; `Unreadable` if the last failure was that.
fn readable<T>(answered: PartitionAnswers<T>) -> Result<(ByPartition<T>, Vec<u32>), Fault> {
    match &answered.fault {
        Some(fault @ Fault::Unreadable(_)) => Err(fault.clone()),
        _ => answered.by_any(),
    }
}

/// The state of counters of all partitions on a day, together in order.
///
/// # Errors
/// `Unreadable` where a file cannot be read that is needed.
pub(super) async fn kept(
    host: &Host,
    request: Result<ListAllPastStates, Fault>,
) -> Result<PastStateList, Fault> {
    let request = request?;
    let ask = |partition: u32| ListPastStates {
        partition,
        query: request.clone(),
    };
    let (pages, missing_partitions) = readable(ask_ever(host, ask, |page| page.ever).await)?;
    let mut listed = PastStateList {
        missing_partitions,
        ..PastStateList::default()
    };
    let mut rows: BTreeMap<CounterId, PastStateRow> = BTreeMap::new();
    for (partition, page) in pages {
        listed.has_more |= page.has_more;
        listed.runs.extend(page.run.map(|run| (partition, run)));
        for row in page.rows {
            // A root that has moved since then may be in a run of either partition.
            let known = rows.get(&row.counter);
            if known.is_none_or(|known| known.kept.as_of_ms < row.kept.as_of_ms) {
                rows.insert(row.counter.clone(), row);
            }
        }
    }
    let limit = usize::try_from(request.limit).unwrap_or(usize::MAX);
    listed.has_more |= rows.len() > limit;
    // A full page ends at its last name, so names of other partitions beyond the first `limit` are never skipped.
    listed.rows = rows.into_values().take(limit).collect();
    Ok(listed)
}
