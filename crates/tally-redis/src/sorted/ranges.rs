//! The members of a sorted set that a command selects: by rank, by score or by name.

use super::set::{Members, SortedSet, name, read};
use crate::error;
use crate::float::text_of;
use crate::options::number;
use crate::reply_error::ReplyError;
use tally_core::board::key::Key;
use tally_core::board::score::Score;
use tally_wire::redis::Reply;

/// The cost of reading a name for a comparison, in steps of a pattern: 2 µs. So all ranges of names of one request read
/// at most 100,000 members.
const NAME_READ_STEPS: u64 = 1_000;

/// An end of a range of scores.
#[derive(Clone, Copy)]
struct ScoreEnd {
    score: Score,
    is_left_out: bool,
}

/// An end of a range of names.
#[derive(Clone, Copy)]
enum NameEnd<'a> {
    First,
    Last,
    At(&'a str),
    Beside(&'a str),
}

impl NameEnd<'_> {
    /// Whether a name is in a range that begins here.
    fn is_before(self, name: &[u8]) -> bool {
        match self {
            Self::First => true,
            Self::Last => false,
            Self::At(end) => end.as_bytes() <= name,
            Self::Beside(end) => end.as_bytes() < name,
        }
    }

    /// Whether a name is in a range that ends here.
    fn is_behind(self, name: &[u8]) -> bool {
        match self {
            Self::First => false,
            Self::Last => true,
            Self::At(end) => name <= end.as_bytes(),
            Self::Beside(end) => name < end.as_bytes(),
        }
    }
}

#[derive(Clone, Copy)]
enum Range<'a> {
    Ranks(i64, i64),
    Scores(ScoreEnd, ScoreEnd),
    Names(NameEnd<'a>, NameEnd<'a>),
}

/// The kind of a range.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Rank,
    Score,
    Name,
}

/// The selection of a command.
pub struct RangeQuery<'a> {
    range: Range<'a>,
    is_reverse: bool,
    /// How many to skip, and the most members; all where that is negative.
    limit: Option<(i64, i64)>,
    /// Whether scores are included.
    pub with_scores: bool,
}

fn score_end(text: &str) -> Result<ScoreEnd, Reply> {
    let (is_left_out, text) = match text.strip_prefix('(') {
        Some(text) => (true, text),
        None => (false, text),
    };
    // Redis reads ends by C's `strtod`: spaces before, nothing at all, and what exceeds a double are numbers too.
    let text = text.trim_ascii_start();
    let number: Option<f64> = if text.is_empty() {
        Some(0.0)
    } else {
        text.parse().ok()
    };
    let score = number.and_then(Score::new);
    let score = score.ok_or_else(|| Reply::err("min or max is not a float"))?;
    Ok(ScoreEnd { score, is_left_out })
}

fn name_end(text: &str) -> Result<NameEnd<'_>, Reply> {
    if let Some(name) = text.strip_prefix('[') {
        return Ok(NameEnd::At(name));
    }
    if let Some(name) = text.strip_prefix('(') {
        return Ok(NameEnd::Beside(name));
    }
    match text {
        "-" => Ok(NameEnd::First),
        "+" => Ok(NameEnd::Last),
        _ => Err(Reply::err("min or max not valid string range item")),
    }
}

impl<'a> Range<'a> {
    fn parse(by: By, low: &'a str, high: &'a str) -> Result<Self, Reply> {
        Ok(match by {
            By::Rank => Self::Ranks(number(low)?, number(high)?),
            By::Score => Self::Scores(score_end(low)?, score_end(high)?),
            By::Name => Self::Names(name_end(low)?, name_end(high)?),
        })
    }
}

impl<'a> RangeQuery<'a> {
    /// A command that has only ends: `ZCOUNT`, `ZREMRANGEBYRANK`.
    ///
    /// # Errors
    /// As Redis.
    pub fn of_bounds(args: &'a [String]) -> Result<Self, Reply> {
        let by = match args[0].to_ascii_uppercase().as_str() {
            "ZREMRANGEBYRANK" => By::Rank,
            "ZCOUNT" | "ZREMRANGEBYSCORE" => By::Score,
            _ => By::Name,
        };
        Ok(Self {
            range: Range::parse(by, &args[2], &args[3])?,
            is_reverse: false,
            limit: None,
            with_scores: false,
        })
    }

    /// `ZRANGE` and similar commands, with their ends at `first` and after it.
    ///
    /// # Errors
    /// As Redis, except that a limit is accepted with ranks too, because the service that the clients are made for
    /// accepts it.
    pub fn parse(args: &'a [String], first: usize, is_stored: bool) -> Result<Self, Reply> {
        let (mut by, mut is_reverse) = match args[0].to_ascii_uppercase().as_str() {
            "ZREVRANGE" => (Some(By::Rank), Some(true)),
            "ZRANGEBYSCORE" => (Some(By::Score), Some(false)),
            "ZREVRANGEBYSCORE" => (Some(By::Score), Some(true)),
            "ZRANGEBYLEX" => (Some(By::Name), Some(false)),
            "ZREVRANGEBYLEX" => (Some(By::Name), Some(true)),
            _ => (None, None),
        };
        let (mut limit, mut with_scores) = (None, false);
        let mut words = args[first + 2..].iter();
        while let Some(word) = words.next() {
            match word.to_ascii_uppercase().as_str() {
                "WITHSCORES" if !is_stored => with_scores = true,
                "LIMIT" => {
                    let skip = words.next().ok_or_else(error::syntax)?;
                    let max = words.next().ok_or_else(error::syntax)?;
                    limit = Some((number(skip)?, number(max)?));
                }
                "REV" if is_reverse.is_none() => is_reverse = Some(true),
                "BYLEX" if by.is_none() => by = Some(By::Name),
                "BYSCORE" if by.is_none() => by = Some(By::Score),
                _ => return Err(error::syntax()),
            }
        }
        let (by, is_reverse) = (by.unwrap_or(By::Rank), is_reverse.unwrap_or(false));
        if with_scores && by == By::Name {
            return Err(Reply::err(
                "syntax error, WITHSCORES not supported in combination with BYLEX",
            ));
        }
        let (low, high) = match is_reverse && by != By::Rank {
            true => (&args[first + 1], &args[first]),
            false => (&args[first], &args[first + 1]),
        };
        Ok(Self {
            range: Range::parse(by, low, high)?,
            is_reverse,
            limit,
            with_scores,
        })
    }

    /// The most members that it selects, of any set.
    pub fn members_max(&self) -> u64 {
        match (self.limit, self.range) {
            (Some((_, max)), _) => u64::try_from(max).unwrap_or(u64::MAX),
            (None, Range::Ranks(first, last)) if (first < 0) == (last < 0) => {
                u64::try_from(last.saturating_sub(first).saturating_add(1)).unwrap_or(0)
            }
            _ => u64::MAX,
        }
    }

    /// The first index of its members, and the one after the last.
    ///
    /// # Errors
    /// Where names are compared by rank and members are too many; a fault where rows cannot be read.
    pub fn indices(&self, set: &dyn SortedSet) -> Result<(u64, u64), ReplyError> {
        let total = set.count();
        match self.range {
            Range::Ranks(first, last) => Ok(ranks(total, first, last, self.is_reverse)),
            Range::Scores(low, high) => {
                let begin = |end: ScoreEnd, behind: bool| {
                    set.before(&if behind {
                        Key::behind(end.score)
                    } else {
                        Key::first_of(end.score)
                    })
                };
                Ok((
                    begin(low, low.is_left_out)?,
                    begin(high, !high.is_left_out)?,
                ))
            }
            Range::Names(low, high) => self.indices_of_names(set, (low, high)),
        }
    }

    /// Members of equal scores are in the order of their names. Cost: O(members) where scores differ.
    fn indices_of_names(
        &self,
        set: &dyn SortedSet,
        (low, high): (NameEnd<'_>, NameEnd<'_>),
    ) -> Result<(u64, u64), ReplyError> {
        let total = set.count();
        let first = set.range(0, total.min(1))?.pop();
        let last = set.range(total.saturating_sub(1), total)?.pop();
        let (Some((_, score)), Some((_, last))) = (first, last) else {
            return Ok((0, 0));
        };
        if score != last {
            set.steps()
                .take(total.saturating_mul(NAME_READ_STEPS))
                .map_err(ReplyError::Reply)?;
            let (begin, end) = self.walk(&read(set, (0, total))?, (low, high));
            let index = |at| u64::try_from(at).unwrap_or(u64::MAX);
            return Ok((index(begin), index(end)));
        }
        let begin = |end: NameEnd<'_>, is_low: bool| {
            let key = |name: &str| Key::new(score, None, name.as_bytes());
            match end {
                NameEnd::First => Ok(0),
                NameEnd::Last => Ok(total),
                NameEnd::At(name) if is_low => set.before(&key(name)),
                NameEnd::Beside(name) if !is_low => set.before(&key(name)),
                NameEnd::At(name) | NameEnd::Beside(name) => set.before(&key(name).next()),
            }
        };
        Ok((begin(low, true)?, begin(high, false)?))
    }

    /// Redis compares only names, in order of rank: from the first name after the near end of the range to the first
    /// beyond the far end. Members that a limit skips are not compared. Source: `zzlFirstInLexRange`,
    /// `zzlLastInLexRange` and `genericZrangebylexCommand` of Redis 7.0, for sets of up to 128 members.
    fn walk(&self, members: &Members, (low, high): (NameEnd<'_>, NameEnd<'_>)) -> (usize, usize) {
        let reaches_low = |(name, _): &(Vec<u8>, Score)| low.is_before(name);
        let reaches_high = |(name, _): &(Vec<u8>, Score)| high.is_behind(name);
        if !members.last().is_some_and(reaches_low) || !members.first().is_some_and(reaches_high) {
            return (0, 0);
        }
        let begin = match self.is_reverse {
            true => members.iter().rposition(reaches_high),
            false => members.iter().position(reaches_low),
        };
        let is_in = |member| reaches_low(member) && reaches_high(member);
        let Some(begin) = begin.filter(|begin| is_in(&members[*begin])) else {
            return (0, 0);
        };
        let skip = self.limit.map_or(0, |(skip, _)| skip);
        let skip = usize::try_from(skip).unwrap_or(usize::MAX);
        if self.is_reverse {
            let walked = &members[..(begin + 1).saturating_sub(skip)];
            let beyond = walked.iter().rposition(|member| !reaches_low(member));
            return (beyond.map_or(0, |beyond| beyond + 1), begin + 1);
        }
        let from = begin.saturating_add(skip).min(members.len());
        let beyond = members[from..]
            .iter()
            .position(|member| !reaches_high(member));
        (begin, beyond.map_or(members.len(), |beyond| from + beyond))
    }
}

/// The indexes of ranks, which count from the end where they are negative.
fn ranks(total: u64, first: i64, last: i64, is_reverse: bool) -> (u64, u64) {
    let at = |rank: i64| match u64::try_from(rank) {
        Ok(rank) => Some(rank),
        Err(_) => total.checked_sub(rank.unsigned_abs()),
    };
    let first = at(first).unwrap_or(0);
    let end = at(last).map_or(0, |last| last.saturating_add(1).min(total));
    if first >= end {
        return (0, 0);
    }
    if is_reverse {
        (total - end, total - first)
    } else {
        (first, end)
    }
}

/// The members of a query, in its order.
///
/// # Errors
/// Where they are too many; a fault where rows cannot be read.
pub fn select(set: &dyn SortedSet, query: &RangeQuery<'_>) -> Result<Members, ReplyError> {
    let (mut low, mut high) = query.indices(set)?;
    if let Some((skip, max)) = query.limit {
        let max = u64::try_from(max).unwrap_or(u64::MAX);
        let Ok(skip) = u64::try_from(skip) else {
            return Ok(Members::new());
        };
        if query.is_reverse {
            high = high.saturating_sub(skip);
            low = low.max(high.saturating_sub(max));
        } else {
            low = low.saturating_add(skip);
            high = high.min(low.saturating_add(max));
        }
    }
    let mut members = read(set, (low, high))?;
    if query.is_reverse {
        members.reverse();
    }
    Ok(members)
}

/// Members as a reply, each followed by its score where scores are included.
pub fn reply_of(members: Members, with_scores: bool) -> Reply {
    let mut replies = Vec::with_capacity(members.len() * (1 + usize::from(with_scores)));
    for (member, score) in members {
        replies.push(name(member));
        if with_scores {
            replies.push(Reply::Text(text_of(score)));
        }
    }
    Reply::Array(replies)
}
