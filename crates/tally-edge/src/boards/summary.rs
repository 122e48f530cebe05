//! Cached summaries of boards that are in other datacenters: their first members, and the ranks of some others. So a
//! reader far from a board is answered at once.
//!
//! Invariant: an answer from a summary is the board's state at its `as_of`, and is never called exact.

use std::rc::Rc;

use crate::kit::request_context::RequestContext;
use crate::kit::shared_reads::SharedReads;
use tally_core::board::settings::{Order, Ties};
use tally_core::board::summary::SUMMARY_TOP;
use tally_core::counter::id::CounterId;
use tally_core::isolate::shared_read::{AfterFault, ReadRule, ReadValue};
use tally_host::Host;
use tally_shared::board_shards::key_of;
use tally_shared::boards::{self, BoardReader};
use tally_shared::call::CALL_MS_MAX;
use tally_wire::messages::{BoardAnswer, BoardPosition, BoardQuestion, BoardSeen};

/// The most boards whose summaries an isolate caches: at most 350 KB each, so 6 MB.
const SUMMARIES_MAX: usize = 16;

/// The ages of a summary. An older one is taken where the board itself does not answer either: see [`known`].
const SUMMARY_AGES: ReadRule = ReadRule {
    fresh_ms: 1_000,
    usable_ms: 10_000,
    stale_ms: 10_000,
    read_ms: CALL_MS_MAX,
    after_fault: AfterFault::RestOne,
};

/// The summaries of this isolate, or why a board has none.
type Summaries = SharedReads<CounterId, Result<Rc<BoardSeen>, BoardAnswer>, SUMMARIES_MAX>;

/// Whether a board is known to be in another datacenter than the request.
pub fn is_elsewhere(context: &RequestContext, board: &CounterId) -> bool {
    let home = boards::home_of(&context.host, board);
    home.is_some_and(|home| home != context.datacenter())
}

/// The cached summary of a board, of any age.
pub fn known(host: &Host, board: &CounterId) -> Option<Rc<BoardSeen>> {
    Summaries::with(host, |summaries| summaries.peek(board).cloned())?.ok()
}

/// The summary of a board; `None` if there is none, or the board does not answer.
pub async fn summary(context: &RequestContext, board: &CounterId) -> Option<Rc<BoardSeen>> {
    let look = Summaries::value(context, board, &SUMMARY_AGES, 0, |host| {
        let board = board.clone();
        Box::pin(async move {
            let reading = BoardReader::new(&host, &board);
            Ok(match reading.ask(BoardQuestion::Summary).await? {
                BoardAnswer::Seen(seen) => ReadValue::Kept(Ok(Rc::new(*seen))),
                other => ReadValue::Passed(Err(other)),
            })
        })
    });
    look.await.ok()?.value.ok()
}

/// The first members from a summary; `None` where it has fewer.
pub fn top_of(seen: &BoardSeen, limit: u32) -> Option<BoardSeen> {
    let rows = usize::try_from(limit.min(SUMMARY_TOP)).ok()?;
    Some(BoardSeen {
        rows: seen.rows.iter().take(rows).cloned().collect(),
        has_more: seen.has_more || seen.rows.len() > rows,
        is_exact: false,
        ..seen.clone()
    })
    .filter(|_| limit <= SUMMARY_TOP)
}

/// A member whose own shard was asked, with a rank among all shards from their summary: at least that of its row, and
/// higher by at most the slack. The part of its own shard, of the total too, is of now.
pub fn rank_among_all(seen: &BoardSeen, mut own: BoardSeen, shard: u32) -> BoardSeen {
    let is_desc = seen.settings.order == Order::Desc;
    own.is_exact = false;
    own.as_of_ms = own.as_of_ms.min(seen.as_of_ms);
    own.sequences.clone_from(&seen.sequences);
    let others = || {
        let all = (0..).zip(&seen.summaries);
        all.filter(|(number, _)| *number != shard)
            .map(|(_, summary)| summary)
    };
    own.period.total += others().map(|summary| summary.total).sum::<u64>();
    let mut slack = Vec::new();
    for row in &mut own.rows {
        let position = match seen.settings.ties {
            Ties::Shared => BoardPosition::Score(row.score),
            _ => BoardPosition::Key(key_of(row)),
        };
        let edge = position.edge(is_desc);
        let bounds = others().map(|summary| summary.better(&edge, is_desc));
        let (low, high) = bounds.fold((0, 0), |sum, (low, high)| (sum.0 + low, sum.1 + high));
        row.rank = row.rank.map(|rank| rank + low);
        slack.push(high - low);
    }
    own.slack = slack;
    own
}
