//! Commands of one sorted set, which is a board.
//!
//! Invariant: the object that holds the set runs a command in one synchronous step. Members of equal scores are in the
//! order of their bytes, from the lowest score on. A board with another order in the other calls has this order here.

use std::collections::{BTreeMap, BTreeSet};

use super::error;
use super::float::{text_of, valid_score};
use super::glob::{Pattern, StepsLeft};
use super::options::number;
use super::reply::{Reply, ReplyError};
use super::sorted_ranges::{RangeQuery, reply_of, select};
use crate::messages::Fault;
use tally_core::board::key::Key;
use tally_core::board::member::{
    Amount, Change, MemberRefusal, ScoreCondition, ScoreWrite, change,
};
use tally_core::board::score::Score;
use tally_core::board::settings::Settings;
use tally_core::order::set_of;

/// The longest name of a member that a command writes, bytes.
pub const SORTED_MEMBER_BYTES_MAX: usize = 1_024;

/// The most members of a reply, and the most that one command removes or joins.
pub const SORTED_MEMBERS_MAX: u64 = 100_000;

/// The most members that are read and left out between two drawn ones. Up to so many, reading on costs less than a new
/// search of some 170 µs.
const DRAWN_GAP_MAX: u64 = 32;

/// The number of members at which a range of drawn ones ends.
const DRAWN_TOGETHER: u64 = 1_000;

/// The most stretches of drawn members that one command reads: some 0.2 s.
pub const DRAWN_APART_MAX: u64 = 1_000;

/// The most bytes of the members of a reply: an isolate has room for several copies.
pub const SORTED_BYTES_MAX: usize = 8 * 1024 * 1024;

/// How many members are read at once.
const PAGE: u64 = 5_000;

/// Members of one page of `ZSCAN`, where its `COUNT` is smaller.
const SCAN_COUNT_MIN: u64 = 1_000;

/// Members, each with its score.
pub type Members = Vec<(Vec<u8>, Score)>;

/// A set of members in the order of their scores.
pub trait SortedSet {
    /// The steps that the patterns of the request may still take.
    fn steps(&self) -> StepsLeft {
        StepsLeft::default()
    }

    /// How many members there are.
    fn count(&self) -> u64;

    /// A member's score and its position.
    ///
    /// # Errors
    /// Where rows cannot be read; as for all methods below.
    fn find(&self, member: &[u8]) -> Result<Option<(Score, Key)>, Fault>;

    /// How many members are before a position.
    fn before(&self, key: &Key) -> Result<u64, Fault>;

    /// The members from one index on, counted from 0, and before another.
    fn range(&self, low: u64, high: u64) -> Result<Members, Fault>;

    /// The next members after one, in the order of their names.
    fn named_after(&self, member: &[u8], limit: u64) -> Result<Members, Fault>;

    /// The effect of a write, or why it is refused; it is done unless `is_trial`.
    fn write(
        &mut self,
        member: &[u8],
        write: &ScoreWrite,
        is_trial: bool,
    ) -> Result<Result<Change, MemberRefusal>, Fault>;

    /// Removes a member; returns whether it existed.
    fn remove(&mut self, member: &[u8]) -> Result<bool, Fault>;
}

/// A set that does not exist.
#[derive(Default)]
pub struct NoMembers {
    /// Whether a command would have created it. What the command wrote is dropped.
    pub would_begin: bool,
}

impl SortedSet for NoMembers {
    fn count(&self) -> u64 {
        0
    }

    fn find(&self, _: &[u8]) -> Result<Option<(Score, Key)>, Fault> {
        Ok(None)
    }

    fn before(&self, _: &Key) -> Result<u64, Fault> {
        Ok(0)
    }

    fn range(&self, _: u64, _: u64) -> Result<Members, Fault> {
        Ok(Members::new())
    }

    fn named_after(&self, _: &[u8], _: u64) -> Result<Members, Fault> {
        Ok(Members::new())
    }

    fn write(
        &mut self,
        _: &[u8],
        write: &ScoreWrite,
        is_trial: bool,
    ) -> Result<Result<Change, MemberRefusal>, Fault> {
        let change = change(&Settings::default(), None, write, 0);
        let has_begun = change.as_ref().is_ok_and(|change| change.after.is_some());
        self.would_begin |= has_begun && !is_trial;
        Ok(change)
    }

    fn remove(&mut self, _: &[u8]) -> Result<bool, Fault> {
        Ok(false)
    }
}

type SortedResult = Result<Reply, ReplyError>;

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

/// How many members a command asks for; `u64::MAX` where that depends on the set.
pub fn members_asked(args: &[String]) -> u64 {
    let count = |index: usize, absent: u64| match args.get(index).map(|text| number(text)) {
        None => absent,
        Some(count) => count.map_or(0, i64::unsigned_abs),
    };
    match args[0].to_ascii_uppercase().as_str() {
        "ZPOPMIN" | "ZPOPMAX" | "ZRANDMEMBER" => count(2, 1),
        "ZSCAN" if args.len() == 3 => SCAN_COUNT_MIN,
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

/// A count as a reply.
pub(super) fn count(count: u64) -> Reply {
    Reply::Integer(i64::try_from(count).unwrap_or(i64::MAX))
}

/// A member as a reply.
pub(super) fn name(member: Vec<u8>) -> Reply {
    Reply::Text(
        String::from_utf8(member)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()),
    )
}

/// The refusal of a reply with too many members.
pub fn too_many() -> Reply {
    let members_max = SORTED_MEMBERS_MAX;
    let mebibytes = SORTED_BYTES_MAX / (1024 * 1024);
    Reply::err(format!(
        "a command works on {members_max} members, and {mebibytes} MiB of them, at most: ask for fewer"
    ))
}

/// The members at these indexes, if they are not too many.
pub(super) fn read(set: &dyn SortedSet, (low, high): (u64, u64)) -> Result<Members, ReplyError> {
    if high.saturating_sub(low) > SORTED_MEMBERS_MAX {
        return Err(too_many().into());
    }
    let (mut members, mut bytes, mut at) = (Members::new(), 0, low);
    while at < high {
        let end = high.min(at.saturating_add(PAGE));
        let page = set.range(at, end)?;
        if page.is_empty() {
            break;
        }
        bytes += page.iter().map(|(member, _)| member.len()).sum::<usize>();
        if bytes > SORTED_BYTES_MAX {
            return Err(too_many().into());
        }
        members.extend(page);
        at = end;
    }
    Ok(members)
}

fn score_of(set: &dyn SortedSet, member: &str) -> Result<Reply, Fault> {
    let found = set.find(member.as_bytes())?;
    Ok(Reply::text_or_nil(found.map(|(score, _)| text_of(score))))
}

/// The options of `ZADD`.
#[derive(Default)]
struct Options {
    only_absent: bool,
    only_present: bool,
    only_higher: bool,
    only_lower: bool,
    counts_changed: bool,
    increases: bool,
}

impl Options {
    /// The options before the scores, and how many words they are.
    fn parse(words: &[String]) -> (Self, usize) {
        let mut options = Self::default();
        for (index, word) in words.iter().enumerate() {
            match word.to_ascii_uppercase().as_str() {
                "NX" => options.only_absent = true,
                "XX" => options.only_present = true,
                "GT" => options.only_higher = true,
                "LT" => options.only_lower = true,
                "CH" => options.counts_changed = true,
                "INCR" => options.increases = true,
                _ => return (options, index),
            }
        }
        (options, words.len())
    }

    fn check(&self, pairs: usize) -> Result<(), Reply> {
        if self.only_absent && self.only_present {
            return Err(Reply::err(
                "XX and NX options at the same time are not compatible",
            ));
        }
        let bounds = u8::from(self.only_higher) + u8::from(self.only_lower);
        if bounds + u8::from(self.only_absent) > 1 && bounds > 0 {
            return Err(Reply::err(
                "GT, LT, and/or NX options at the same time are not compatible",
            ));
        }
        if self.increases && pairs > 1 {
            return Err(Reply::err(
                "INCR option supports a single increment-element pair",
            ));
        }
        Ok(())
    }

    fn write(&self, amount: Amount) -> ScoreWrite {
        let exists = match (self.only_absent, self.only_present) {
            (true, _) => Some(false),
            (_, true) => Some(true),
            _ => None,
        };
        let only = match (self.only_higher, self.only_lower) {
            (true, _) => ScoreCondition::Higher,
            (_, true) => ScoreCondition::Lower,
            _ => ScoreCondition::Any,
        };
        ScoreWrite {
            exists,
            only,
            ..ScoreWrite::of(amount)
        }
    }
}

/// Why the board refuses a write: in Redis's words where it has them.
fn refusal_of(refusal: MemberRefusal) -> ReplyError {
    Reply::err(text_of_refusal(refusal)).into()
}

fn text_of_refusal(refusal: MemberRefusal) -> &'static str {
    match refusal {
        MemberRefusal::NotANumber => "resulting score is not a number (NaN)",
        MemberRefusal::NotWhole => "this board holds whole numbers from -(2^53 - 1) to 2^53 - 1",
        MemberRefusal::KeepsSums => "this board keeps sums: send ZINCRBY",
        MemberRefusal::KeepsBest => "this board keeps the best score: send ZADD",
        MemberRefusal::Full => {
            "this board has as many members, or as many bytes, as it may: raise members_max, or remove members; \
             members that stood before were written"
        }
        MemberRefusal::Changed => "the member has changed",
    }
}

/// Whether an option of `ZADD` is in the place of `ZINCRBY`'s amount: Redis reads both commands alike.
fn has_option(args: &[String]) -> bool {
    Options::parse(&args[2..]).1 > 0
}

/// Whether `ZADD` adds to a score.
pub fn increases(args: &[String]) -> bool {
    Options::parse(&args[2..]).0.increases
}

fn writable(member: &str) -> Result<&[u8], Reply> {
    if member.is_empty() || member.len() > SORTED_MEMBER_BYTES_MAX {
        let bytes_max = SORTED_MEMBER_BYTES_MAX;
        return Err(Reply::err(format!(
            "a member has 1 to {bytes_max} bytes here"
        )));
    }
    Ok(member.as_bytes())
}

/// Whether a set without members accepts the writes of a `ZADD` without options. `change` says whether it accepts one
/// write.
///
/// # Errors
/// The refusal, where it does not.
pub fn check_anew(
    args: &[String],
    mut change: impl FnMut(&ScoreWrite) -> Result<(), MemberRefusal>,
) -> Result<(), Reply> {
    for (_, write) in scores_of(&Options::default(), &args[2..])? {
        change(&write).map_err(|refusal| Reply::err(text_of_refusal(refusal)))?;
    }
    Ok(())
}

/// The writes of scores and members, which alternate.
fn scores_of<'a>(
    options: &Options,
    words: &'a [String],
) -> Result<Vec<(&'a [u8], ScoreWrite)>, Reply> {
    let pairs = words.chunks_exact(2);
    let write = |pair: &'a [String]| {
        let write = options.write(Amount::Score(valid_score(&pair[0])?));
        Ok((writable(&pair[1])?, write))
    };
    pairs.map(write).collect()
}

fn zadd(set: &mut dyn SortedSet, args: &[String]) -> SortedResult {
    let (options, words) = Options::parse(&args[2..]);
    let pairs = args[2 + words..].chunks_exact(2);
    if pairs.len() == 0 || !pairs.remainder().is_empty() {
        return Err(error::syntax().into());
    }
    options.check(pairs.len())?;
    if options.increases {
        let (delta, member) = (&args[2 + words], &args[3 + words]);
        return increase(set, member, delta, &options);
    }
    let writes = scores_of(&options, &args[2 + words..])?;
    // All or nothing, except for lack of room.
    for (member, write) in &writes {
        set.write(member, write, true)?.map_err(refusal_of)?;
    }
    let (mut added, mut changed) = (0, 0);
    for (member, write) in &writes {
        let change = set.write(member, write, false)?.map_err(refusal_of)?;
        let is_new = change.previous.is_none() && change.after.is_some();
        added += u64::from(is_new);
        changed += u64::from(change.after.is_some());
    }
    Ok(count(if options.counts_changed {
        changed
    } else {
        added
    }))
}

fn increase(set: &mut dyn SortedSet, member: &str, delta: &str, options: &Options) -> SortedResult {
    let delta = valid_score(delta)?;
    let write = options.write(Amount::Delta(delta));
    let change = set.write(writable(member)?, &write, false)?;
    let change = change.map_err(refusal_of)?;
    // Without a condition a member is always written, even if that changes nothing.
    let has_condition = options.only_higher || options.only_lower || options.only_absent;
    let score = change
        .score
        .filter(|_| change.after.is_some() || !has_condition);
    Ok(Reply::text_or_nil(score.map(text_of)))
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

/// The next of a pseudorandom sequence. Source: Steele, Lea and Flood 2014, SplitMix64.
pub(super) fn drawn(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// How many members to draw, from a word. Below 0, a member may be drawn again.
///
/// # Errors
/// Where it is not a number, or its negation is not.
pub(super) fn draws_of(word: &str) -> Result<i64, Reply> {
    let (wanted, max) = (number(word)?, i64::MAX);
    if wanted < -max {
        return Err(Reply::err(format!(
            "value is out of range, value must between -{max} and {max}"
        )));
    }
    Ok(wanted)
}

/// The indexes of drawn members of a set, by [`draws_of`].
///
/// # Errors
/// Where they are more than [`SORTED_MEMBERS_MAX`].
pub(super) fn drawn_indices(total: u64, wanted: i64, mut seed: u64) -> Result<Vec<u64>, Reply> {
    let limit = wanted.unsigned_abs();
    let draws = match (total, wanted < 0) {
        (0, _) => 0,
        (_, true) => limit,
        (_, false) => limit.min(total),
    };
    if draws > SORTED_MEMBERS_MAX {
        return Err(too_many());
    }
    // Each of the last indexes in turn, or a random one before it that is not taken. Source: Floyd, in Bentley 1987, "A
    // sample of brilliance".
    let (mut indices, mut taken) = (Vec::new(), BTreeSet::new());
    for draw in 0..draws {
        indices.push(if wanted < 0 {
            drawn(&mut seed) % total
        } else {
            let last = total - draws + draw;
            let at = drawn(&mut seed) % (last + 1);
            let at = if taken.contains(&at) { last } else { at };
            taken.insert(at);
            at
        });
    }
    Ok(indices)
}

fn random(set: &dyn SortedSet, args: &[String], mut seed: u64) -> SortedResult {
    let total = set.count();
    let Some(wanted) = args.get(2) else {
        let at = drawn(&mut seed).checked_rem(total).unwrap_or(0);
        let found = set.range(at, (at + 1).min(total))?.pop();
        return Ok(found.map_or(Reply::Nil, |(member, _)| name(member)));
    };
    let wanted = draws_of(wanted)?;
    let with_scores = match &args[3..] {
        [] => false,
        [word] if word.eq_ignore_ascii_case("WITHSCORES") => true,
        _ => return Err(error::syntax().into()),
    };
    let is_all = u64::try_from(wanted).is_ok_and(|wanted| wanted >= total);
    let members = if is_all {
        read(set, (0, total))?
    } else {
        members_at(set, &drawn_indices(total, wanted, seed)?)?
    };
    Ok(reply_of(members, with_scores))
}

/// The members at these indexes, in this order. Members that are near each other are read together.
fn members_at(set: &dyn SortedSet, indices: &[u64]) -> Result<Members, ReplyError> {
    let sorted = set_of(indices.iter().copied());
    let mut sorted = sorted.into_iter().peekable();
    let (mut found, mut bytes) = (BTreeMap::new(), 0);
    let mut stretches = 0;
    while let Some(low) = sorted.next() {
        stretches += 1;
        if stretches > DRAWN_APART_MAX {
            let apart_max = DRAWN_APART_MAX;
            let text =
                format!("at most {apart_max} members that lie apart are drawn here: ask for fewer");
            return Err(Reply::err(text).into());
        }
        let mut wanted = set_of([low]);
        let mut last = low;
        while let Some(next) = sorted.next_if(|next| next - last <= DRAWN_GAP_MAX) {
            wanted.insert(next);
            last = next;
            if last - low >= DRAWN_TOGETHER {
                break;
            }
        }
        let range = (low..).zip(set.range(low, last + 1)?);
        for (index, member) in range.filter(|(index, _)| wanted.contains(index)) {
            bytes += member.0.len();
            found.insert(index, member);
        }
        if bytes > SORTED_BYTES_MAX {
            return Err(too_many().into());
        }
    }
    // One member may be drawn often.
    let members = indices.iter().filter_map(|index| found.get(index));
    if members.clone().map(|(name, _)| name.len()).sum::<usize>() > SORTED_BYTES_MAX {
        return Err(too_many().into());
    }
    Ok(members.cloned().collect())
}

fn scan(set: &dyn SortedSet, args: &[String]) -> SortedResult {
    let after = name_of_cursor(&args[2]).ok_or_else(|| Reply::err("invalid cursor"))?;
    // Redis does not check the options for a set that does not exist.
    if set.count() == 0 {
        return Ok(Reply::Array(vec![Reply::text("0"), Reply::Array(vec![])]));
    }
    let steps = set.steps();
    let (mut pattern, mut page) = (Pattern::parse("*", &steps)?, SCAN_COUNT_MIN);
    let pairs = args[3..].chunks_exact(2);
    if !pairs.remainder().is_empty() {
        return Err(error::syntax().into());
    }
    for pair in pairs {
        match pair[0].to_ascii_uppercase().as_str() {
            "MATCH" => pattern = Pattern::parse(&pair[1], &steps)?,
            "COUNT" => {
                let count = u64::try_from(number(&pair[1])?).unwrap_or(0);
                if count == 0 {
                    return Err(error::syntax().into());
                }
                page = count.clamp(SCAN_COUNT_MIN, SORTED_MEMBERS_MAX);
            }
            _ => return Err(error::syntax().into()),
        }
    }
    // A set that fits one page is returned in its order, as by Redis.
    let is_whole = after.is_empty() && set.count() <= page;
    let members = if is_whole {
        read(set, (0, set.count()))?
    } else {
        set.named_after(&after, page)?
    };
    let is_last = is_whole || u64::try_from(members.len()).unwrap_or(u64::MAX) < page;
    let cursor = match members.last() {
        Some((member, _)) if !is_last => cursor_of(member),
        _ => "0".to_owned(),
    };
    let mut matching = Members::new();
    for (member, score) in members {
        if pattern.matches(&String::from_utf8_lossy(&member))? {
            matching.push((member, score));
        }
    }
    Ok(Reply::Array(vec![
        Reply::Text(cursor),
        reply_of(matching, true),
    ]))
}

/// Decimal digits are converted in groups of nine.
const GROUP: u32 = 1_000_000_000;

/// The cursor after a member: a whole number, as clients expect, whose bytes are 1 and the name. So it stays valid
/// while members come and go. Cost: O(bytes²).
fn cursor_of(member: &[u8]) -> String {
    let mut groups = vec![1_u32];
    for byte in member {
        let mut carry = u64::from(*byte);
        for group in &mut groups {
            let value = u64::from(*group) * 256 + carry;
            carry = value / u64::from(GROUP);
            *group = u32::try_from(value % u64::from(GROUP)).unwrap_or(0);
        }
        if carry > 0 {
            groups.push(u32::try_from(carry).unwrap_or(0));
        }
    }
    let mut text = groups.pop().unwrap_or(0).to_string();
    for group in groups.iter().rev() {
        text.push_str(&format!("{group:09}"));
    }
    text
}

/// The name after which a page begins; empty for the first. `None` for an invalid cursor.
fn name_of_cursor(cursor: &str) -> Option<Vec<u8>> {
    const DIGITS_MAX: usize = 3 * (SORTED_MEMBER_BYTES_MAX + 1);
    let is_number = !cursor.is_empty() && cursor.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number || cursor.len() > DIGITS_MAX {
        return None;
    }
    // The bytes, lowest first.
    let mut bytes: Vec<u8> = Vec::new();
    for digit in cursor.bytes() {
        let mut carry = u32::from(digit - b'0');
        for byte in &mut bytes {
            let value = u32::from(*byte) * 10 + carry;
            *byte = value.to_le_bytes()[0];
            carry = value >> u8::BITS;
        }
        if carry > 0 {
            bytes.push(carry.to_le_bytes()[0]);
        }
    }
    bytes.pop();
    bytes.reverse();
    Some(bytes)
}
