//! Commands of one sorted set, which is a board.
//!
//! Invariant: the object that holds the set runs a command in one synchronous step. Members of equal scores are in the
//! order of their bytes, from the lowest score on. A board with another order in the other calls has this order here.

use self::drawn::random;
use self::ranges::{RangeQuery, reply_of, select};
use self::scan::scan;
use self::scores::{Options, has_option, increase, zadd};
use self::set::{SortedResult, count, read};
use crate::error;
use crate::float::text_of;
use crate::options::{SCAN_COUNT_MIN, number};
use crate::reply_error::ReplyError;
use tally_core::board::settings::Ties;
use tally_wire::messages::Fault;
use tally_wire::redis::Reply;

pub(super) mod drawn;
pub mod ranges;
mod scan;
mod scores;
mod set;

pub use drawn::DRAWN_APART_MAX;
pub use scores::{check_anew, check_members, increases};
pub use set::{Members, NoMembers, SORTED_BYTES_MAX, SORTED_MEMBERS_MAX, SortedSet, too_many};

/// The reply to a command whose key holds another type of value. Faults of the command itself come first.
pub fn wrong_type(args: &[String]) -> Reply {
    match run(&mut NoMembers::default(), args, 0) {
        Err(ReplyError::Reply(refusal)) => refusal,
        _ => error::wrong_type(),
    }
}

/// Why a command names members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Naming {
    /// It writes them.
    Written,
    /// It reads their scores.
    Scored,
    /// It reads their ranks.
    Ranked,
}

/// Why a command names members, and of how many words one is a member; `None` for a command that names none.
pub fn naming_of(args: &[String]) -> Option<(Naming, usize)> {
    match args[0].to_ascii_uppercase().as_str() {
        "ZADD" | "ZINCRBY" => Some((Naming::Written, 2)),
        "ZREM" => Some((Naming::Written, 1)),
        "ZSCORE" | "ZMSCORE" => Some((Naming::Scored, 1)),
        "ZRANK" | "ZREVRANK" => Some((Naming::Ranked, 1)),
        _ => None,
    }
}

/// The members that a command names, so that those of several commands can be read together. Words of another meaning
/// may be among them.
pub fn named_members(args: &[String]) -> Vec<&[u8]> {
    let Some((_, step)) = naming_of(args) else {
        return Vec::new();
    };
    let words = args.get(2..).unwrap_or_default().iter().rev();
    words.step_by(step).map(String::as_bytes).collect()
}

/// Commands that do without a sorted set's order of equal scores.
const WITHOUT_ORDER: &str =
    "ZADD ZINCRBY ZSCORE ZMSCORE ZCARD ZCOUNT ZSCAN ZRANDMEMBER ZREM ZREMRANGEBYSCORE";

/// Whether a board has the order of equal scores that a command needs.
///
/// # Errors
/// The refusal, where it has not.
pub fn check_order(args: &[String], ties: Ties) -> Result<(), Reply> {
    let mut free = WITHOUT_ORDER.split(' ');
    if ties != Ties::First || free.any(|name| name.eq_ignore_ascii_case(&args[0])) {
        return Ok(());
    }
    Err(Reply::err(
        "this board orders members of equal scores by who was first, not by their bytes: read its order with /boards",
    ))
}

/// How many members a command asks for; `u64::MAX` where that depends on the set.
pub fn members_asked(args: &[String]) -> u64 {
    let count = |index: usize, absent: u64| match args.get(index).map(|text| number(text)) {
        None => absent,
        Some(count) => count.map_or(0, i64::unsigned_abs),
    };
    match args[0].to_ascii_uppercase().as_str() {
        "ZPOPMIN" | "ZPOPMAX" | "ZRANDMEMBER" => count(2, 1),
        "ZSCAN" if args.len() == 3 => u64::try_from(SCAN_COUNT_MIN).unwrap_or(u64::MAX),
        "ZSCAN" => u64::MAX,
        name if name.contains("RANGE") && !name.starts_with("ZREM") => {
            RangeQuery::parse(args, 2, false).map_or(0, |query| query.members_max())
        }
        _ => 0,
    }
}

/// Runs a command. `seed` is random.
///
/// # Errors
/// As Redis; a fault where rows cannot be read.
pub fn run(set: &mut dyn SortedSet, args: &[String], seed: u64) -> SortedResult {
    match args[0].to_ascii_uppercase().as_str() {
        "ZADD" => zadd(set, args),
        "ZINCRBY" if has_option(args) => Err(error::syntax().into()),
        "ZINCRBY" => increase(set, &args[3], &args[2], &Options::default()),
        "ZSCORE" => Ok(score_of(set, &args[2])?),
        "ZMSCORE" => {
            let scores = args[2..].iter().map(|member| score_of(set, member));
            Ok(Reply::Array(scores.collect::<Result<_, Fault>>()?))
        }
        "ZCARD" => Ok(count(set.count())),
        "ZRANK" => rank(set, args, false),
        "ZREVRANK" => rank(set, args, true),
        "ZCOUNT" | "ZLEXCOUNT" => {
            let (low, high) = RangeQuery::of_bounds(args)?.indices(set)?;
            Ok(count(high.saturating_sub(low)))
        }
        "ZREM" => {
            let mut removed = 0;
            for member in &args[2..] {
                removed += u64::from(set.remove(member.as_bytes())?);
            }
            Ok(count(removed))
        }
        "ZREMRANGEBYRANK" | "ZREMRANGEBYSCORE" | "ZREMRANGEBYLEX" => {
            let indices = RangeQuery::of_bounds(args)?.indices(set)?;
            let members = read(set, indices)?;
            for (member, _) in &members {
                set.remove(member)?;
            }
            Ok(Reply::count(members.len()))
        }
        "ZPOPMIN" | "ZPOPMAX" => pop(set, args),
        "ZRANDMEMBER" => random(set, args, seed),
        "ZSCAN" => scan(set, args),
        command => {
            let is_stored = command == "ZRANGESTORE";
            let query = RangeQuery::parse(args, if is_stored { 3 } else { 2 }, is_stored)?;
            let members = select(set, &query)?;
            Ok(reply_of(members, query.with_scores || is_stored))
        }
    }
}

fn score_of(set: &dyn SortedSet, member: &str) -> Result<Reply, Fault> {
    let found = set.find(member.as_bytes())?;
    Ok(Reply::text_or_nil(found.map(|(score, _)| text_of(score))))
}

fn rank(set: &dyn SortedSet, args: &[String], is_reverse: bool) -> SortedResult {
    let with_score = match &args[3..] {
        [] => false,
        [word] if word.eq_ignore_ascii_case("WITHSCORE") => true,
        _ => return Err(error::syntax().into()),
    };
    let Some((score, key)) = set.find(args[2].as_bytes())? else {
        return Ok(Reply::Nil);
    };
    let before = set.before(&key)?;
    let rank = count(if is_reverse {
        set.count().saturating_sub(before + 1)
    } else {
        before
    });
    Ok(if with_score {
        Reply::Array(vec![rank, Reply::Text(text_of(score))])
    } else {
        rank
    })
}

fn pop(set: &mut dyn SortedSet, args: &[String]) -> SortedResult {
    let limit = match &args[2..] {
        [] => 1,
        [word] => {
            let limit = number(word)
                .ok()
                .and_then(|limit| u64::try_from(limit).ok());
            limit.ok_or_else(|| Reply::err("value is out of range, must be positive"))?
        }
        _ => return Err(error::syntax().into()),
    };
    let total = set.count();
    let limit = limit.min(total);
    let is_lowest = args[0].eq_ignore_ascii_case("ZPOPMIN");
    let mut members = if is_lowest {
        read(set, (0, limit))?
    } else {
        read(set, (total - limit, total))?
    };
    if !is_lowest {
        members.reverse();
    }
    for (member, _) in &members {
        set.remove(member)?;
    }
    Ok(reply_of(members, true))
}
