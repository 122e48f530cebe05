//! When an isolate asks again for what the directory keeps and may change: the key of elements.
//!
//! Invariants: while the directory answers, nothing is used that is older than [`KEY_MS_MAX`]; while it does not, what is
//! known is used on, and it is asked no more than once in [`PAUSE_MS`]; an answer never replaces a later one.

use super::shell_limits::KEY_MS_MAX;

/// How long the directory is not asked again after it was, unless nothing is known.
pub const PAUSE_MS: i64 = 5_000;

/// What to do before something is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Use what is known.
    Use,
    /// Ask, and use what is known if there is no answer.
    Ask,
    /// Ask: nothing is known.
    Need,
}

/// When was asked, and when answered. All times are unix milliseconds of one clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refresh {
    /// When the question was asked whose answer is known.
    learned_ms: Option<i64>,
    asked_ms: Option<i64>,
    failed_ms: Option<i64>,
}

impl Refresh {
    /// Returns what to do now.
    pub fn next(&self, now_ms: i64) -> Next {
        let Some(learned_ms) = self.learned_ms else {
            return Next::Need;
        };
        let is_young = now_ms.saturating_sub(learned_ms) <= KEY_MS_MAX;
        // One request asks, the others go on.
        let is_asked = is_within(self.asked_ms, now_ms, PAUSE_MS);
        if is_young || is_asked {
            Next::Use
        } else {
            Next::Ask
        }
    }

    /// Returns whether the directory has just failed to answer, so that those who can do without need not ask.
    pub fn is_paused(&self, now_ms: i64) -> bool {
        is_within(self.failed_ms, now_ms, PAUSE_MS)
    }

    /// Notes that the directory is asked.
    pub fn ask(&mut self, now_ms: i64) {
        self.asked_ms = Some(now_ms);
    }

    /// Notes that it did not answer.
    pub fn fail(&mut self, now_ms: i64) {
        self.failed_ms = Some(now_ms);
    }

    /// Notes its answer to what was asked then. Returns whether that is news: an answer that was overtaken is not.
    pub fn learn(&mut self, asked_ms: i64) -> bool {
        let is_news = self
            .learned_ms
            .is_none_or(|learned_ms| asked_ms >= learned_ms);
        if is_news {
            self.learned_ms = Some(asked_ms);
        }
        is_news
    }
}

/// Whether a moment is no longer ago.
fn is_within(moment_ms: Option<i64>, now_ms: i64, milliseconds: i64) -> bool {
    moment_ms.is_some_and(|moment_ms| now_ms.saturating_sub(moment_ms) <= milliseconds)
}
