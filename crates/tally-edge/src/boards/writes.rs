//! Writes to boards: of one member, and of many lines.

use futures_util::future::LocalBoxFuture;

use super::calls::{bytes_of, no_member};
use super::lanes;
use crate::deployment::{audit, key_budget};
use crate::kit::body;
use crate::kit::request_context::RequestContext;
use crate::kit::request_key::RequestKey;
use crate::kit::respond::Answer;
use tally_api::access::Caller;
use tally_api::boards::{
    BoardVersion, MemberLines, WRITES_AT_ONCE, not_found, parse_if_match, parse_lines, parse_write,
    problem_of, refusal_of, tag_text, written_json,
};
use tally_api::idempotency_keys::{KeyKind, section_key};
use tally_api::metrics::Metric;
use tally_api::query::Query;
use tally_core::counter::id::CounterId;
use tally_shared::boards::{self, BoardReader};
use tally_shared::metrics;
use tally_shared::{board_writes, call};
use tally_wire::messages::{
    BoardAnswer, BoardQuestion, BoardWritten, Fault, MemberAction, MemberOutcome, MemberWrite,
    OnceKey, WriteBoard,
};
use tally_wire::problem::{Code, Problem};
use tally_wire::rights::Scope;

/// A key for the board that its request writes to.
fn once_of(context: &RequestContext, key: &RequestKey, kind: KeyKind, hash: u64) -> OnceKey {
    OnceKey {
        key: key.name(kind),
        fingerprint: hash,
        keys: context.keys(),
    }
}

/// The key of a body of lines, for the board that it writes to too.
fn of_lines(context: &RequestContext, key: RequestKey, body: &[u8]) -> (RequestKey, OnceKey) {
    let hash = key.request_hash(&[b"members"], body);
    let once = once_of(context, &key, KeyKind::Batch, hash);
    (key, once)
}

/// The result of writes.
struct Outcome {
    written: MemberOutcome,
    version: BoardVersion,
    replay: Replay,
}

/// What is known of the first answer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Replay {
    /// This is the first answer.
    No,
    /// The first answer was from several shards. Their ranks and totals are of no use.
    OfShards,
    /// The rank and the total of the first answer are known.
    Whole,
}

impl Replay {
    /// That of an answer about these and other writes: a repeat only if all of them are.
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Whole, other) => other,
            (Self::No, _) | (_, Self::No) => Self::No,
            (Self::OfShards, _) => Self::OfShards,
        }
    }

    /// The answer, with a mark if it is a repeat.
    fn mark(self, answer: Answer) -> Answer {
        match self {
            Self::No => answer,
            Self::OfShards | Self::Whole => answer.replayed(),
        }
    }
}

/// Makes writes.
async fn send(
    context: &RequestContext,
    board: &CounterId,
    writes: Vec<MemberWrite>,
    once: Option<OnceKey>,
) -> Result<Outcome, Problem> {
    let carry = |write: WriteBoard| -> LocalBoxFuture<'_, Result<BoardWritten, Fault>> {
        // Only single writes use a lane: it does not keep the order of a body over several shards.
        if write.writes.len() == 1 && write.sequences.is_empty() {
            return Box::pin(lanes::send(context, write));
        }
        Box::pin(async move { call(&context.host, &write).await })
    };
    let here = context.datacenter();
    let sent = board_writes::write(&context.host, board, &here, (writes, once), &carry);
    let (written, version) = sent.await?;
    let outcome = |written, replay| {
        Ok(Outcome {
            written,
            version,
            replay,
        })
    };
    match (problem_of(&written), written) {
        (None, BoardWritten::Done(written)) => outcome(written, Replay::No),
        (None, BoardWritten::Replayed(written)) => outcome(written, Replay::OfShards),
        (None, BoardWritten::ReplayedWhole(written)) => outcome(written, Replay::Whole),
        // Only writes with a key can be of a board that has been deleted since.
        (_, BoardWritten::Ended) if once.is_none() => Err(not_found(&BoardAnswer::Absent)),
        (problem, _) => Err(problem.unwrap_or_else(|| not_found(&BoardAnswer::Absent))),
    }
}

/// Whether an object with all members knew the rank, or the total after several writes.
fn is_ranked(written: &MemberOutcome) -> bool {
    written.stand.is_none_or(|stand| stand.rank.is_some())
}

/// Asks all shards of a board for a member's rank and the total, because the shard that wrote knows only its own
/// members. A board of one object is asked too if the member has no rank: it is hidden or gone, or expired members were
/// still counted. Returns the total, as far as it is known, and whether it and the rank are exact.
///
/// A repeat asks nobody: a rank of now and a score of the first answer would be of two moments.
async fn stand_among_all(
    context: &RequestContext,
    board: &CounterId,
    name: Option<&CounterId>,
    written: &mut MemberOutcome,
    replay: Replay,
) -> (Option<u64>, bool) {
    let layout = boards::layout_of(&context.host, board);
    let is_told = match &written.stand {
        Some(stand) => stand.rank.is_some(),
        // Joined results of several groups of members do not tell whether expired ones were still counted.
        None => layout.number == 0,
    };
    match replay {
        Replay::No if layout.shards <= 1 && is_told => return (Some(written.total), true),
        Replay::No => {}
        Replay::Whole => return (Some(written.total), is_ranked(written)),
        Replay::OfShards => {
            if let Some(stand) = &mut written.stand {
                stand.rank = None;
            }
            return (None, false);
        }
    }
    let reading = BoardReader::new(&context.host, board);
    let names = name.map(bytes_of).into_iter().collect();
    let Ok(BoardAnswer::Seen(seen)) = reading.ask(BoardQuestion::Members(names)).await else {
        // The rank within one shard is not the rank in the board.
        if let Some(stand) = &mut written.stand {
            stand.rank = None;
        }
        let total = (layout.shards <= 1).then_some(written.total);
        return (total, false);
    };
    if let Some(stand) = &mut written.stand {
        stand.rank = seen.rows.first().and_then(|row| row.rank);
    }
    written.at_ms = seen.as_of_ms;
    (Some(seen.period.total), seen.is_exact)
}

/// Counts writes that are answered as done.
fn acknowledge(context: &RequestContext, replay: Replay, writes: u64) {
    let metric = match replay {
        Replay::No => Metric::AcknowledgedScore,
        Replay::OfShards | Replay::Whole => Metric::Replayed,
    };
    metrics::add(&context.host, metric, writes);
}

/// One write to a member.
async fn write_one(
    context: &RequestContext,
    board: CounterId,
    name: CounterId,
    action: MemberAction,
    once: Option<OnceKey>,
) -> Result<Answer, Problem> {
    let condition = context.precondition()?;
    let condition = condition.as_deref().map(parse_if_match).transpose()?;
    context.visitor().admit(board.as_str())?;
    let _waiting = context.waiting();
    // A removal or hiding must not create a board.
    if !matches!(action, MemberAction::Put(_)) && !boards::is_there(&context.host, &board).await? {
        return Err(not_found(&BoardAnswer::Absent));
    }
    let is_hidden = matches!(action, MemberAction::Hide(_));
    let writes = vec![MemberWrite {
        member: bytes_of(&name),
        action,
        condition,
    }];
    let sent = send(context, &board, writes, once).await?;
    let Outcome {
        mut written,
        version,
        replay,
    } = sent;
    if let Some((_, refusal)) = written.refused.first() {
        return Err(refusal_of(*refusal));
    }
    let is_absent = written.stand.is_some_and(|stand| stand.score.is_none());
    if is_hidden && is_absent {
        return Err(no_member(&name));
    }
    acknowledge(context, replay, 1);
    let known = stand_among_all(context, &board, Some(&name), &mut written, replay).await;
    let json = written_json(&board, Some(&name), (&written, &version), None, known);
    let mut answer = Answer::json(json);
    if let Some(tag) = written.stand.and_then(|stand| stand.tag) {
        answer = answer.with_header("etag", tag_text(tag));
    }
    Ok(replay.mark(answer))
}

/// The call that hides a member, in the audit log: other writes of members are no acts of admins.
const HIDE: &str = "POST /boards/{board}/members/{member}";

/// `POST /boards/{board}/members/{member}`
///
/// # Errors
/// Any refusal; then nothing was written, except `unavailable`, which says so.
pub async fn write(
    context: &RequestContext,
    caller: &Caller,
    board: CounterId,
    name: CounterId,
) -> Result<Answer, Problem> {
    Query::parse(context.query(), &[])?;
    let body = body::read_small(context).await?;
    let action = parse_write(&body, context.host.now_ms())?;
    if matches!(action, MemberAction::Hide(_)) {
        caller.may(Scope::Admin, board.as_str())?;
        let target = [board.as_str(), "/", name.as_str()].concat();
        audit::begin_named(context, caller, HIDE, &target, false).await;
    }
    let key = RequestKey::of(context, caller).await?;
    let once = key.map(|key| {
        let hash = key.request_hash(&[b"member", name.as_str().as_bytes()], &body);
        once_of(context, &key, KeyKind::Write, hash)
    });
    write_one(context, board, name, action, once).await
}

/// `DELETE /boards/{board}/members/{member}`
///
/// # Errors
/// As [`fn@write`], and `board-not-found`.
pub async fn remove(
    context: &RequestContext,
    board: CounterId,
    name: CounterId,
) -> Result<Answer, Problem> {
    Query::parse(context.query(), &[])?;
    write_one(context, board, name, MemberAction::Remove, None).await
}

/// Takes one from the budgets of a caller without a key for each line, and rejects the lines that find nothing left. A
/// body with an `Idempotency-Key` is refused whole: a repeat must have the same lines in the same groups.
fn admit_lines(
    context: &RequestContext,
    board: &CounterId,
    lines: &mut MemberLines,
    has_key: bool,
) -> Result<(), Problem> {
    let visitor = context.visitor();
    if has_key {
        let count = u64::try_from(lines.writes.len()).unwrap_or(u64::MAX);
        visitor.may_write(board.as_str(), count)?;
    }
    for (line, write) in std::mem::take(&mut lines.writes) {
        match visitor.admit(board.as_str()) {
            Ok(()) => lines.writes.push((line, write)),
            Err(problem) if has_key => return Err(problem),
            Err(problem) => lines.reject(line, problem),
        }
    }
    Ok(())
}

/// The problem of a section of a body whose earlier sections were written. The refusal of a full ledger says that
/// nothing was written, and offers to send the body without its key, which would write the earlier sections again.
fn after_others(problem: Problem) -> Problem {
    if problem.code() != Code::Overloaded {
        return problem;
    }
    Problem::new(
        Code::Unavailable,
        "too many keys are remembered for this board, and some lines were written; try again later with the same key",
    )
}

/// `POST /boards/{board}/members`: many writes, a line for each.
///
/// # Errors
/// As [`fn@write`]; the answer says why lines were refused.
pub async fn write_many(
    context: &RequestContext,
    caller: &Caller,
    board: CounterId,
) -> Result<Answer, Problem> {
    Query::parse(context.query(), &[])?;
    if context.precondition()?.is_some() {
        let detail = "`If-Match` is about one member: write to it alone; nothing was written";
        return Err(Problem::new(Code::InvalidPrecondition, detail));
    }
    let body = body::read_small(context).await?;
    let mut lines: MemberLines = parse_lines(&body, context.host.now_ms())?;
    let key = RequestKey::of(context, caller).await?;
    admit_lines(context, &board, &mut lines, key.is_some())?;
    let count = u64::try_from(lines.writes.len()).unwrap_or(u64::MAX);
    key_budget::spend_body(context, caller, count).await?;
    let _waiting = context.waiting();
    let key = key.map(|key| of_lines(context, key, &body));
    let writes = std::mem::take(&mut lines.writes);
    let mut all: Option<(MemberOutcome, BoardVersion)> = None;
    let mut replay = Replay::Whole;
    for (some, section) in writes.chunks(WRITES_AT_ONCE).zip(0..) {
        let once = key.as_ref().map(|(key, once)| OnceKey {
            key: section_key(&|bytes| key.hash(bytes), once.key, section),
            ..*once
        });
        let made = some.iter().map(|(_, write)| write.clone()).collect();
        let sent = send(context, &board, made, once).await;
        let sent = sent.map_err(|problem| match all {
            Some(_) => after_others(problem),
            None => problem,
        })?;
        let written = sent.written;
        acknowledge(context, sent.replay, written.accepted);
        replay = replay.and(sent.replay);
        for (index, refusal) in &written.refused {
            let index = usize::try_from(*index).unwrap_or(usize::MAX);
            let line = some.get(index).map_or(0, |(line, _)| *line);
            lines.reject(line, refusal_of(*refusal));
        }
        let (accepted, changed) = all
            .as_ref()
            .map_or((0, 0), |(all, _)| (all.accepted, all.changed));
        let all_of = MemberOutcome {
            accepted: accepted + written.accepted,
            changed: changed + written.changed,
            ..written
        };
        all = Some((all_of, sent.version));
    }
    let Some((mut written, version)) = all else {
        let why = lines.errors.into_iter().next().map(|(_, why)| why);
        let empty = || {
            Problem::new(
                Code::InvalidBody,
                "send lines, each with a `member` and a `score` or a `delta`",
            )
        };
        return Err(why.unwrap_or_else(empty));
    };
    if written.accepted == 0
        && let Some((_, why)) = lines.errors.first()
    {
        return Err(why.clone());
    }
    let known = stand_among_all(context, &board, None, &mut written, replay).await;
    let json = written_json(&board, None, (&written, &version), Some(&lines), known);
    let answer = Answer::json(json);
    Ok(replay.mark(answer))
}
