//! When an isolate asks the directory again for a value that may change: the key of elements.
//!
//! Invariants: while the directory answers, no value older than [`KEY_MS_MAX`] is used. While it does not answer, the
//! known value stays in use, nobody waits for an answer, and the directory is asked at most once in [`PAUSE_MS`]. An
//! answer never replaces a later one.

use crate::shell_limits::KEY_MS_MAX;

/// The age from which on a value is asked for anew, while the known one is used.
const REFRESH_FROM_MS: i64 = KEY_MS_MAX / 2;

/// How long after a question the directory is not asked again, unless no value is known.
pub const PAUSE_MS: i64 = 5_000;

/// What to do before the value is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefreshAction {
    /// Use the known value.
    Use,
    /// Use the known value, and ask meanwhile.
    UseAndRefresh,
    /// Ask, and use the known value if there is no answer.
    Refresh,
    /// Ask: no value is known.
    Need,
}

/// The times of questions and answers. All times are unix milliseconds of one clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refresh {
    /// The time of the question whose answer is known.
    known_ms: Option<i64>,
    requested_ms: Option<i64>,
    /// When a question was not answered, if none was since.
    failed_ms: Option<i64>,
}

impl Refresh {
    /// Returns what to do now.
    pub fn next(&self, now_ms: i64) -> RefreshAction {
        let Some(known_ms) = self.known_ms else {
            return RefreshAction::Need;
        };
        let age_ms = now_ms.saturating_sub(known_ms);
        // One request asks, the others continue.
        let is_requested = is_within(self.requested_ms, now_ms, PAUSE_MS);
        if age_ms < REFRESH_FROM_MS || is_requested {
            RefreshAction::Use
        } else if age_ms <= KEY_MS_MAX || self.failed_ms.is_some() {
            RefreshAction::UseAndRefresh
        } else {
            RefreshAction::Refresh
        }
    }

    /// Returns whether the directory has just failed to answer, so that requests that do not depend on it need not ask.
    pub fn is_paused(&self, now_ms: i64) -> bool {
        is_within(self.failed_ms, now_ms, PAUSE_MS)
    }

    /// Records that the directory is asked.
    pub fn begin(&mut self, now_ms: i64) {
        self.requested_ms = Some(now_ms);
    }

    /// Records that it did not answer.
    pub fn fail(&mut self, now_ms: i64) {
        self.failed_ms = Some(now_ms);
    }

    /// Records the answer to the question of that time. Returns whether it is new: an overtaken answer is not.
    pub fn accept(&mut self, requested_ms: i64) -> bool {
        let is_news = self
            .known_ms
            .is_none_or(|known_ms| requested_ms >= known_ms);
        if is_news {
            self.known_ms = Some(requested_ms);
            self.failed_ms = None;
        }
        is_news
    }
}

/// Whether a moment is at most so long ago.
fn is_within(moment_ms: Option<i64>, now_ms: i64, milliseconds: i64) -> bool {
    moment_ms.is_some_and(|moment_ms| now_ms.saturating_sub(moment_ms) <= milliseconds)
}
