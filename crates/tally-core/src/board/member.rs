//! The record of a member, and how a write changes it.
//!
//! Invariant: a write that is refused, or whose condition does not hold, changes nothing.

use serde::{Deserialize, Serialize};

use super::key::Key;
use super::score::Score;
use super::settings::{Order, ScoreRule, Scores, Settings, Ties};

/// The longest metadata of a member, in bytes of JSON.
pub const METADATA_BYTES_MAX: usize = 1_024;

/// A member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Its score.
    pub score: Score,
    /// Its order among equal scores; `None` if its name decides.
    pub tie: Option<u64>,
    /// Whether it is left out of the order.
    pub is_hidden: bool,
    /// When it expires, unix milliseconds.
    pub expires_ms: Option<i64>,
    /// Metadata of its writer: JSON.
    pub metadata: Option<String>,
}

impl Member {
    /// Its place in the order.
    pub fn key(&self, name: &[u8]) -> Key {
        Key::new(self.score, self.tie, name)
    }
}

/// The effect of a write on a score.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Amount {
    /// The new score, if the board's rule keeps it.
    Score(Score),
    /// The amount to add to the score; a new member had 0.
    Delta(Score),
}

/// Which change of a score is kept. All of them keep a new member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ScoreCondition {
    /// Every.
    #[default]
    Any,
    /// One that makes it higher.
    Higher,
    /// One that makes it lower.
    Lower,
}

/// A write to a member. A field that is `None` changes nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScoreWrite {
    /// Its effect on the score.
    pub amount: Amount,
    /// A condition: the member exists, or does not exist.
    pub exists: Option<bool>,
    /// A condition on the change of the score.
    pub only: ScoreCondition,
    /// The new metadata; `Some(None)` removes it.
    pub metadata: Option<Option<String>>,
    /// When the member expires, unix milliseconds; `Some(None)` for never.
    pub expires_ms: Option<Option<i64>>,
}

impl ScoreWrite {
    /// A write of an amount and of nothing else.
    pub fn of(amount: Amount) -> Self {
        Self {
            amount,
            exists: None,
            only: ScoreCondition::Any,
            metadata: None,
            expires_ms: None,
        }
    }
}

/// Why a write is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MemberRefusal {
    /// The board has integer scores up to a bound, and the score would not be one.
    NotWhole,
    /// The score would be no number.
    NotANumber,
    /// The board keeps sums, and takes a delta.
    KeepsSums,
    /// The board keeps the best, and takes a score.
    KeepsBest,
    /// The board has as many members as it may.
    Full,
    /// The condition does not hold.
    Changed,
}

/// The change of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The member from now on; `None` if it does not change.
    pub after: Option<Member>,
    /// The new score; `None` if the member does not exist.
    pub score: Option<Score>,
    /// The former score; `None` for a new member.
    pub previous: Option<Score>,
}

/// Decides a write. `sequence` rises with each write that changes the board.
///
/// # Errors
/// Why it is refused.
pub fn change(
    settings: &Settings,
    before: Option<&Member>,
    write: &ScoreWrite,
    sequence: u64,
) -> Result<Change, MemberRefusal> {
    let previous = before.map(|member| member.score);
    let kept = Change {
        after: None,
        score: previous,
        previous,
    };
    let wanted = match (write.amount, settings.keep) {
        (Amount::Score(_), ScoreRule::Sum) => return Err(MemberRefusal::KeepsSums),
        (Amount::Delta(_), ScoreRule::Best) => return Err(MemberRefusal::KeepsBest),
        (Amount::Score(score), _) => score,
        (Amount::Delta(delta), _) => {
            (previous.unwrap_or_default().plus(delta)).ok_or(MemberRefusal::NotANumber)?
        }
    };
    if settings.scores == Scores::Integer && !wanted.is_whole() {
        return Err(MemberRefusal::NotWhole);
    }
    if write
        .exists
        .is_some_and(|exists| exists != before.is_some())
    {
        return Ok(kept);
    }
    let only = match (settings.keep, settings.order) {
        (ScoreRule::Best, Order::Desc) => ScoreCondition::Higher,
        (ScoreRule::Best, Order::Asc) => ScoreCondition::Lower,
        _ => write.only,
    };
    let is_kept = previous.is_none_or(|previous| match only {
        ScoreCondition::Any => true,
        ScoreCondition::Higher => wanted > previous,
        ScoreCondition::Lower => wanted < previous,
    });
    if !is_kept {
        return Ok(kept);
    }
    let mut after = before.cloned().unwrap_or(Member {
        score: wanted,
        tie: None,
        is_hidden: false,
        expires_ms: None,
        metadata: None,
    });
    if previous != Some(wanted) {
        (after.score, after.tie) = (wanted, tie(settings, sequence));
    }
    if let Some(metadata) = &write.metadata {
        after.metadata.clone_from(metadata);
    }
    if let Some(expires_ms) = write.expires_ms {
        after.expires_ms = expires_ms;
    }
    Ok(Change {
        after: Some(after).filter(|after| before != Some(after)),
        score: Some(wanted),
        previous,
    })
}

/// The tie of a score that is reached now. If the highest score is the best, the order is read from its other end.
fn tie(settings: &Settings, sequence: u64) -> Option<u64> {
    match (settings.ties, settings.order) {
        (Ties::First, Order::Asc) => Some(sequence),
        (Ties::First, Order::Desc) => Some(u64::MAX - sequence),
        (Ties::Member | Ties::Shared, _) => None,
    }
}
