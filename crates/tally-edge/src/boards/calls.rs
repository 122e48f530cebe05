//! Boards: members with scores. Each call is one message to the object of its board, which decides.

use std::rc::Rc;

use super::summary::{self, is_elsewhere, rank_among_all, top_of};
use crate::kit::body;
use crate::kit::request_context::RequestContext;
use crate::kit::respond::Answer;
use tally_api::access::Caller;
use tally_api::boards::{
    BoardQuery, BoardVersion, MEMBERS_QUERY, ReadBoard, WantedMembers, configured_json, cursor_of,
    deleted_json, list_json, members_json, not_found, one_json, parse_settings, rows_json,
    rows_ndjson, settings_fixed, tag_text,
};
use tally_api::query::{LIST_LIMIT, Query};
use tally_core::counter::id::CounterId;
use tally_shared::boards::{self, BoardReader};
use tally_shared::{call, partitions};
use tally_wire::messages::{
    BoardAnswer, BoardConfigured, BoardQuestion, BoardSeen, ConfigureBoard, EndBoard, Fault,
    ListAllBoards, MemberRange,
};
use tally_wire::problem::{Code, Problem};

/// Media type of an export.
const NDJSON: &str = "application/x-ndjson";

/// Header of an incomplete export: where the next one begins.
const CURSOR_HEADER: &str = "tally-cursor";

/// The problem of a read without an answer.
pub(super) fn unread(fault: Fault) -> Problem {
    match fault {
        Fault::Unavailable(what) => Problem::new(Code::Unavailable, format!("{what}; try again")),
        other => Problem::from(other),
    }
}

/// `GET /boards`
///
/// # Errors
/// `invalid-query`, `quota-exceeded`, `unavailable`.
pub async fn list(context: &RequestContext, caller: &Caller) -> Result<Answer, Problem> {
    let query = Query::parse(context.query(), &["prefix", "cursor", "limit"])?;
    let prefix = query.get("prefix").unwrap_or_default().to_owned();
    caller.may_list(&prefix)?;
    let limit = query.limit()?;
    context
        .visitor()
        .read(partitions::count(&context.host).into())?;
    let _waiting = context.waiting();
    let as_of_ms = context.host.now_ms();
    // One more than asked for shows whether there is another page.
    let list = ListAllBoards {
        prefix,
        after: query.get("cursor").map(str::to_owned),
        limit: limit + 1,
    };
    let mut listed = call(&context.host, &list).await.map_err(unread)?;
    let boards_max = usize::try_from(limit).unwrap_or(usize::MAX);
    let has_more = listed.boards.len() > boards_max;
    listed.boards.truncate(boards_max);
    let cursor = listed.boards.last().filter(|_| has_more);
    Ok(Answer::json(list_json(&listed, cursor, as_of_ms)))
}

/// `PUT /boards/{board}`
///
/// # Errors
/// `invalid-body`, `unknown-field`, `board-settings-fixed`, `unavailable`.
pub async fn put(context: &RequestContext, board: CounterId) -> Result<Answer, Problem> {
    Query::parse(context.query(), &[])?;
    let (settings, placing) = parse_settings(&body::read_small(context).await?)?;
    let _waiting = context.waiting();
    let configure = ConfigureBoard {
        board: board.clone(),
        settings,
        placing,
        here: context.datacenter(),
    };
    match call(&context.host, &configure).await? {
        BoardConfigured::Done(seen, is_new) => {
            // The owner of a spread board does not know how many members there are.
            let seen = match seen.layout.number {
                0 => seen,
                _ => ask_about(context, &board).await?,
            };
            let json = configured_json(&board_view(context, &board, &seen), false);
            let status = if is_new { 201 } else { 200 };
            Ok(Answer::json(json).with_status(status))
        }
        BoardConfigured::Fixed => {
            let seen = ask_about(context, &board).await?;
            Err(settings_fixed(&settings, &seen.settings))
        }
    }
}

/// Asks a board for what is known of all of it.
async fn ask_about(context: &RequestContext, board: &CounterId) -> Result<Box<BoardSeen>, Problem> {
    let query = BoardQuery::parse("", &[])?;
    ask(context, board, &query, BoardQuestion::About).await
}

/// `DELETE /boards/{board}`
///
/// # Errors
/// `board-not-found`, `unavailable`.
pub async fn delete(context: &RequestContext, board: CounterId) -> Result<Answer, Problem> {
    Query::parse(context.query(), &[])?;
    let _waiting = context.waiting();
    let end = EndBoard {
        board: board.clone(),
        generation: None,
    };
    if boards::is_there(&context.host, &board).await? && call(&context.host, &end).await? {
        Ok(Answer::json(deleted_json(&board)))
    } else {
        Err(not_found(&BoardAnswer::Absent))
    }
}

fn board_view<'a>(
    context: &RequestContext,
    board: &'a CounterId,
    seen: &'a BoardSeen,
) -> ReadBoard<'a> {
    ReadBoard {
        board,
        seen,
        now_ms: context.host.now_ms(),
    }
}

/// Asks a board.
pub(super) async fn ask(
    context: &RequestContext,
    board: &CounterId,
    query: &BoardQuery,
    question: BoardQuestion,
) -> Result<Box<BoardSeen>, Problem> {
    let reading = BoardReader {
        host: &context.host,
        board,
        period: query.period()?,
        at_least: query.at_least()?,
    };
    query.is_strong()?;
    context.visitor().read(1)?;
    let _waiting = context.waiting();
    match reading.ask(question).await.map_err(unread)? {
        BoardAnswer::Seen(seen) => Ok(seen),
        other => Err(unseen(context, board, &other).await),
    }
}

/// The problem of a read that a board does not answer. If a version was not reached, the problem has the version that
/// the board has reached. On a board of several shards, all shards are asked for it.
async fn unseen(context: &RequestContext, board: &CounterId, answer: &BoardAnswer) -> Problem {
    let problem = not_found(answer);
    let is_spread = boards::layout_of(&context.host, board).number > 0;
    if !is_spread || !matches!(answer, BoardAnswer::NotReached(..)) {
        return problem;
    }
    let reading = BoardReader::new(&context.host, board);
    match reading.ask(BoardQuestion::About).await {
        Ok(BoardAnswer::Seen(seen)) => problem.with_seen(BoardVersion::of(&seen).to_string()),
        _ => problem,
    }
}

/// `GET /boards/{board}`: its settings, and how many members it has.
///
/// # Errors
/// `invalid-query`, `board-not-found`, `period-not-found`, `version-not-reached`, `unavailable`; as for all reads
/// below.
pub async fn about(context: &RequestContext, board: CounterId) -> Result<Answer, Problem> {
    let query = BoardQuery::parse(context.query(), &["include"])?;
    let has_periods = query.includes_periods()?;
    let question = match has_periods {
        true => BoardQuestion::Periods,
        false => BoardQuestion::About,
    };
    let seen = ask(context, &board, &query, question).await?;
    let view = board_view(context, &board, &seen);
    Ok(Answer::json(configured_json(&view, has_periods)))
}

/// `GET /boards/{board}/members`: the named ones, one with its neighbours, lines, or a part of the order.
pub async fn members(context: &RequestContext, board: CounterId) -> Result<Answer, Problem> {
    let query = BoardQuery::parse(context.query(), &MEMBERS_QUERY)?;
    match query.wanted()? {
        WantedMembers::Named(names) => named(context, &board, &query, &names).await,
        WantedMembers::Around(name, limit) => around(context, &board, &query, (name, limit)).await,
        WantedMembers::Lines => export(context, board, query).await,
        WantedMembers::Range { range, counts } => {
            let is_top = range
                == MemberRange {
                    limit: range.limit,
                    ..MemberRange::default()
                };
            let seen = match is_top {
                true => top(context, &board, &query, range).await?,
                false => ask(context, &board, &query, BoardQuestion::Range(range)).await?,
            };
            let read = board_view(context, &board, &seen);
            Ok(Answer::json(rows_json(&read, counts)))
        }
    }
}

/// The first members: from a summary where the board is in another datacenter, and nothing newer is asked for.
pub(super) async fn top(
    context: &RequestContext,
    board: &CounterId,
    query: &BoardQuery,
    range: MemberRange,
) -> Result<Box<BoardSeen>, Problem> {
    let far = match may_be_far(context, board, query)? {
        true => far_summary(context, board).await?,
        false => None,
    };
    let limit = range.limit;
    if let Some(seen) = far.and_then(|seen| top_of(&seen, limit)) {
        return Ok(Box::new(seen));
    }
    match ask(context, board, query, BoardQuestion::Range(range)).await {
        // The cached summary is better than nothing, and the answer has its age.
        Err(problem) if problem.code() == Code::Unavailable && query.is_plain()? => {
            let known = summary::known(&context.host, board);
            let seen = known.and_then(|seen| top_of(&seen, limit)).ok_or(problem)?;
            Ok(Box::new(seen))
        }
        seen => seen,
    }
}

/// Whether a read may be answered by a summary: the board is in another datacenter.
fn may_be_far(
    context: &RequestContext,
    board: &CounterId,
    query: &BoardQuery,
) -> Result<bool, Problem> {
    Ok(query.is_plain()? && is_elsewhere(context, board))
}

/// The summary of a board in another datacenter; `None` where there is none, and the board itself must be asked.
async fn far_summary(
    context: &RequestContext,
    board: &CounterId,
) -> Result<Option<Rc<BoardSeen>>, Problem> {
    context.visitor().read(1)?;
    let _waiting = context.waiting();
    Ok(summary::summary(context, board).await)
}

async fn named(
    context: &RequestContext,
    board: &CounterId,
    query: &BoardQuery,
    names: &[CounterId],
) -> Result<Answer, Problem> {
    let wanted = names.iter().map(bytes_of).collect();
    let seen = ask(context, board, query, BoardQuestion::Members(wanted)).await?;
    let read = board_view(context, board, &seen);
    Ok(Answer::json(members_json(&read, names)))
}

pub(super) fn bytes_of(name: &CounterId) -> Vec<u8> {
    name.as_str().as_bytes().to_vec()
}

pub(super) fn no_member(name: &CounterId) -> Problem {
    let detail = format!("the board has no member {:?} in its order", name.as_str());
    Problem::new(Code::MemberNotFound, detail)
}

/// `GET /boards/{board}/members/{member}`
pub async fn member(
    context: &RequestContext,
    board: CounterId,
    name: CounterId,
) -> Result<Answer, Problem> {
    let query = BoardQuery::parse(context.query(), &["approximate"])?;
    let is_approximate = query.is_approximate()?;
    let seen = match is_approximate || may_be_far(context, &board, &query)? {
        true => far_member(context, &board, &name).await?,
        false => None,
    };
    let seen = match seen {
        Some(seen) => seen,
        None => {
            let question = BoardQuestion::Members(vec![bytes_of(&name)]);
            ask(context, &board, &query, question).await?
        }
    };
    let json = one_json(&board_view(context, &board, &seen), is_approximate);
    let json = json.ok_or_else(|| no_member(&name))?;
    let tag = seen.rows.first().map_or(0, |row| row.tag);
    Ok(Answer::json(json).with_header("etag", tag_text(tag)))
}

/// A member of a board with several shards, in another datacenter or approximately. Its own shard is asked, and a
/// summary has the ranks in the others.
async fn far_member(
    context: &RequestContext,
    board: &CounterId,
    name: &CounterId,
) -> Result<Option<Box<BoardSeen>>, Problem> {
    if boards::layout_of(&context.host, board).shards <= 1 {
        return Ok(None);
    }
    let Some(seen) = far_summary(context, board).await? else {
        return Ok(None);
    };
    let reading = BoardReader::new(&context.host, board);
    let at = seen.layout.shard_of_member(&bytes_of(name));
    let question = BoardQuestion::Members(vec![bytes_of(name)]);
    let own = reading.ask_shard(seen.layout, at, question).await;
    let is_same = |one: &BoardSeen, other: &BoardSeen| {
        one.generation == other.generation && one.period.start == other.period.start
    };
    Ok(match own {
        Ok(BoardAnswer::Seen(own)) if is_same(&own, &seen) => {
            Some(Box::new(rank_among_all(&seen, *own, at.shard)))
        }
        // The members have moved since, or another period has begun: the board itself is asked.
        _ => None,
    })
}

async fn around(
    context: &RequestContext,
    board: &CounterId,
    query: &BoardQuery,
    (name, limit): (CounterId, u32),
) -> Result<Answer, Problem> {
    let question = BoardQuestion::Around(bytes_of(&name), limit);
    let seen = ask(context, board, query, question).await?;
    if seen.rows.is_empty() {
        return Err(no_member(&name));
    }
    let read = board_view(context, board, &seen);
    Ok(Answer::json(rows_json(&read, false)))
}

/// Members in order, a line for each. The header has the cursor of the next part.
async fn export(
    context: &RequestContext,
    board: CounterId,
    mut query: BoardQuery,
) -> Result<Answer, Problem> {
    let mut left = query.exported()?;
    let mut range = query.exported_after()?;
    let (mut text, mut cursor) = (String::new(), None);
    let (mut is_exact, mut as_of_ms) = (true, i64::MAX);
    while left > 0 {
        range.limit = left.min(LIST_LIMIT.1);
        left -= range.limit;
        let question = BoardQuestion::Range(range.clone());
        let seen = ask(context, &board, &query, question).await?;
        rows_ndjson(&mut text, &seen.rows);
        is_exact &= seen.is_exact;
        as_of_ms = as_of_ms.min(seen.as_of_ms);
        query.pin_period(&seen.period);
        let last = seen.rows.last().filter(|_| seen.has_more);
        cursor = last.map(|last| cursor_of(last, &seen.period));
        let Some(last) = last else {
            break;
        };
        range.after = Some(tally_core::board::key::Key::new(
            last.score,
            last.tie,
            &last.member,
        ));
    }
    let staleness_ms = context.host.now_ms().saturating_sub(as_of_ms).max(0);
    let answer = Answer::text(text).of_type(NDJSON);
    let answer = answer.fresh(is_exact, as_of_ms, staleness_ms);
    Ok(match cursor {
        Some(cursor) => answer.with_header(CURSOR_HEADER, cursor),
        None => answer,
    })
}
