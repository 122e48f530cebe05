//! Lines of `/events` that write to boards, once their section has been read.
//!
//! Invariant: a line is among the rejected ones unless it is known to be written.

use std::collections::BTreeMap;

use futures_util::future::{LocalBoxFuture, ready};

use crate::kit::hash_keys::name_key;
use tally_api::batch::budget::CallBudget;
use tally_api::batch::keyed_writes::BodyKey;
use tally_api::batch::lines::LineNumbers;
use tally_api::batch::report::BatchReport;
use tally_api::boards::{WRITES_AT_ONCE, problem_of, refusal_of};
use tally_api::idempotency_keys::section_key;
use tally_core::counter::id::{CounterId, Datacenter};
use tally_core::counter::ledger::KeySource;
use tally_core::sketch::hash;
use tally_host::Host;
use tally_shared::board_writes;
use tally_shared::call;
use tally_shared::concurrency::all_settled;
use tally_wire::messages::{BoardWritten, Fault, MemberWrite, OnceKey, WriteBoard};
use tally_wire::problem::Problem;

/// How many boards one body writes to at once.
const BOARDS_AT_ONCE: usize = 16;

/// How many calls a message to a board may take: one to each of 16 shards, and one for the claim of its key.
const CALLS_EACH: usize = 17;

/// The writes of a section by their boards, each with its line.
pub type BoardLines = BTreeMap<CounterId, Vec<(u64, MemberWrite)>>;

/// The body that the lines are of.
pub struct LinesOf<'a> {
    /// The datacenter where it entered.
    pub datacenter: &'a Datacenter,
    /// The calls that are left to it.
    pub calls: &'a CallBudget,
    /// The source of its keys.
    pub keys: KeySource,
}

/// Writes them. Returns whether all had been written before. A build without boards reads no such lines.
pub fn write<'a>(
    host: &'a Host,
    body: &'a LinesOf<'_>,
    key: Option<BodyKey>,
    lines: BoardLines,
    report: &'a mut BatchReport,
) -> LocalBoxFuture<'a, bool> {
    match cfg!(feature = "boards") {
        true => Box::pin(write_all(host, body, key, lines, report)),
        false => Box::pin(ready(true)),
    }
}

async fn write_all(
    host: &Host,
    body: &LinesOf<'_>,
    key: Option<BodyKey>,
    lines: BoardLines,
    report: &mut BatchReport,
) -> bool {
    let write = |(board, lines): (CounterId, Vec<(u64, MemberWrite)>)| async move {
        write_to(host, body, key, &board, lines).await
    };
    let all = all_settled(lines.into_iter().map(write), BOARDS_AT_ONCE).await;
    let mut is_replay = true;
    for (failed, was_made) in all {
        is_replay &= was_made;
        for (lines, problem) in failed {
            report.fail(&lines, &problem);
        }
    }
    is_replay
}

/// Writes to one board, so many lines at once. Returns the lines that failed, and whether all others had been written
/// before.
async fn write_to(
    host: &Host,
    body: &LinesOf<'_>,
    key: Option<BodyKey>,
    board: &CounterId,
    lines: Vec<(u64, MemberWrite)>,
) -> (Vec<(LineNumbers, Problem)>, bool) {
    let (mut failed, mut is_replay) = (Vec::new(), true);
    let numbers =
        |lines: &[(u64, MemberWrite)]| LineNumbers::of(lines.iter().map(|(line, _)| *line));
    for (some, section) in lines.chunks(WRITES_AT_ONCE).zip(0..) {
        if !body.calls.take_many(CALLS_EACH) {
            failed.push((numbers(some), CallBudget::spent()));
            continue;
        }
        let once = match once_of(host, body, key, section).await {
            Ok(once) => once,
            Err(problem) => {
                failed.push((numbers(some), problem));
                continue;
            }
        };
        let writes = some.iter().map(|(_, write)| write.clone()).collect();
        let send = |write: WriteBoard| -> LocalBoxFuture<'_, Result<BoardWritten, Fault>> {
            Box::pin(async move { call(host, &write).await })
        };
        let here = body.datacenter;
        let written = match board_writes::write(host, board, here, (writes, once), &send).await {
            Ok((written, _)) => written,
            Err(fault) => {
                failed.push((numbers(some), fault.into()));
                continue;
            }
        };
        if let Some(problem) = problem_of(&written) {
            failed.push((numbers(some), problem));
            continue;
        }
        is_replay &= !matches!(written, BoardWritten::Done(_));
        if let BoardWritten::Done(written)
        | BoardWritten::Replayed(written)
        | BoardWritten::ReplayedWhole(written) = written
        {
            for (index, refusal) in written.refused {
                let index = usize::try_from(index).unwrap_or(usize::MAX);
                let line = some.get(index).map(|(line, _)| *line);
                failed.push((LineNumbers::of(line), refusal_of(refusal)));
            }
        }
    }
    (failed, is_replay)
}

async fn once_of(
    host: &Host,
    body: &LinesOf<'_>,
    key: Option<BodyKey>,
    section: u32,
) -> Result<Option<OnceKey>, Problem> {
    let Some(BodyKey { key, fingerprint }) = key else {
        return Ok(None);
    };
    let names = name_key(host).await?;
    Ok(Some(OnceKey {
        key: section_key(&|bytes| hash(&names, bytes), key, section),
        fingerprint,
        keys: body.keys,
    }))
}
