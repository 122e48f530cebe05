//! Cached summaries of boards that are in other datacenters: their first members, and the ranks of some others. So a
//! reader far from a board is answered at once.
//!
//! Invariant: an answer from a summary is the board's state at its `as_of`, and is never called exact.

use std::cell::RefCell;
use std::rc::Rc;

use crate::kit::request_context::RequestContext;
use tally_core::board::settings::{Order, Ties};
use tally_core::board::summary::SUMMARY_TOP;
use tally_core::counter::id::CounterId;
use tally_core::isolate::aged_cache::AgedCache;
use tally_host::{Host, State};
use tally_shared::board_shards::key_of;
use tally_shared::boards::{self, BoardReader};
use tally_wire::messages::{BoardAnswer, BoardPosition, BoardQuestion, BoardSeen, Fault};

/// The most boards whose summaries an isolate caches: at most 350 KB each, so 6 MB.
const SUMMARIES_MAX: usize = 16;

/// The age from which on a summary is refreshed in the background, milliseconds.
const FRESH_MS: i64 = 1_000;

/// The largest age of a summary that is used during the refresh, milliseconds; with an older one the reader waits.
const USABLE_MS: i64 = 10_000;

/// Those of this isolate, each read at its `as_of`.
#[derive(Default)]
struct Summaries(RefCell<AgedCache<CounterId, Rc<BoardSeen>, SUMMARIES_MAX>>);

impl State for Summaries {
    fn begin(_host: &Host) -> Self {
        Self::default()
    }
}

/// Whether a board is known to be in another datacenter than the request.
pub fn is_elsewhere(context: &RequestContext, board: &CounterId) -> bool {
    let home = boards::home_of(&context.host, board);
    home.is_some_and(|home| home != context.datacenter())
}

/// The cached summary of a board, of any age.
pub fn known(host: &Host, board: &CounterId) -> Option<Rc<BoardSeen>> {
    with(host, |summaries| summaries.peek(board).cloned())
}

/// The summary of a board: at once if one is cached, which is then refreshed for the next reader.
///
/// # Errors
/// If none is cached and the board does not answer, or has none.
pub async fn summary(
    context: &RequestContext,
    board: &CounterId,
) -> Result<Result<Rc<BoardSeen>, BoardAnswer>, Fault> {
    let now_ms = context.host.now_ms();
    let known = with(&context.host, |summaries| {
        summaries.find(board, now_ms, FRESH_MS)
    });
    let Some(known) = known.filter(|known| known.age_ms < USABLE_MS) else {
        return read(&context.host, board).await;
    };
    if known.must_read {
        let (host, board) = (context.host.clone(), board.clone());
        // If it fails, the cached one stays in use.
        context.wait_until(async move { drop(read(&host, &board).await) });
    }
    Ok(Ok(known.value))
}

fn with<T>(
    host: &Host,
    work: impl FnOnce(&mut AgedCache<CounterId, Rc<BoardSeen>, SUMMARIES_MAX>) -> T,
) -> T {
    work(&mut host.state::<Summaries>().0.borrow_mut())
}

async fn read(host: &Host, board: &CounterId) -> Result<Result<Rc<BoardSeen>, BoardAnswer>, Fault> {
    let reading = BoardReader::new(host, board);
    let answer = reading.ask(BoardQuestion::Summary).await;
    with(host, |summaries| match answer {
        Ok(BoardAnswer::Seen(seen)) => {
            let seen = Rc::new(*seen);
            // Its time is by the clock of the board, which does not step with the clock here.
            summaries.put(board.clone(), seen.clone(), seen.as_of_ms, i64::MAX);
            Ok(Ok(seen))
        }
        Ok(other) => {
            summaries.remove(board);
            Ok(Err(other))
        }
        Err(fault) => {
            summaries.fail(board);
            Err(fault)
        }
    })
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
