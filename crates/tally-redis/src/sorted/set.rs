//! A set of members in the order of their scores, as its commands see it.

use crate::glob::StepsLeft;
use crate::reply_error::ReplyError;
use tally_core::board::key::Key;
use tally_core::board::member::{Change, MemberRefusal, ScoreWrite, change};
use tally_core::board::score::Score;
use tally_core::board::settings::Settings;
use tally_wire::messages::Fault;
use tally_wire::redis::Reply;

/// The most members of a reply, and the most that one command removes or joins.
pub const SORTED_MEMBERS_MAX: u64 = 100_000;

/// The most bytes of the members of a reply: an isolate has room for several copies.
pub const SORTED_BYTES_MAX: usize = 8 * 1024 * 1024;

/// How many members are read at once.
const PAGE: u64 = 5_000;

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

pub(super) type SortedResult = Result<Reply, ReplyError>;

/// A count as a reply.
pub(crate) fn count(count: u64) -> Reply {
    Reply::Integer(i64::try_from(count).unwrap_or(i64::MAX))
}

/// A member as a reply.
pub(crate) fn name(member: Vec<u8>) -> Reply {
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
