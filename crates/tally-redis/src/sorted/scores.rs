//! `ZADD` and `ZINCRBY`: writes of scores.

use super::set::{SortedResult, SortedSet, count};
use crate::error;
use crate::float::{text_of, valid_score};
use crate::reply_error::ReplyError;
use tally_core::board::member::{Amount, MemberRefusal, ScoreCondition, ScoreWrite, change};
use tally_core::board::settings::Settings;
use tally_core::order::set_of;
use tally_wire::redis::Reply;
use tally_wire::shell_limits::SORTED_MEMBER_BYTES_MAX;

/// The options of `ZADD`.
#[derive(Default)]
pub(super) struct Options {
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
             nothing was changed"
        }
        MemberRefusal::Changed => "the member has changed",
    }
}

/// Whether an option of `ZADD` is in the place of `ZINCRBY`'s amount: Redis reads both commands alike.
pub(super) fn has_option(args: &[String]) -> bool {
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

/// Whether a board with these settings may have the members of a `ZADD` in place of all others.
///
/// # Errors
/// The refusal, where it may not.
pub fn check_members(args: &[String], settings: &Settings) -> Result<(), Reply> {
    check_anew(args, |write| change(settings, None, write, 0).map(drop))?;
    let named = set_of(args.iter().skip(3).step_by(2));
    match u64::try_from(named.len()).is_ok_and(|count| count <= settings.members_max) {
        true => Ok(()),
        false => Err(Reply::err(format_args!(
            "this board has at most {} members: raise members_max, or store fewer; nothing was changed",
            settings.members_max
        ))),
    }
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

pub(super) fn zadd(set: &mut dyn SortedSet, args: &[String]) -> SortedResult {
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
    // All or nothing.
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

pub(super) fn increase(
    set: &mut dyn SortedSet,
    member: &str,
    delta: &str,
    options: &Options,
) -> SortedResult {
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
