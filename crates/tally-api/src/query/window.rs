//! Windows in queries, and the ranges of samples.

use super::parse::{Query, WINDOW_SECONDS_MAX, refuse};
use super::top::{no_window, window_named};
use tally_core::counter::history::Resolution;
use tally_core::counter::merge::Range;
use tally_core::counter::samples::{SAMPLES_BY_MINUTE_SECONDS, SAMPLES_SECONDS_MAX, whole};
use tally_core::counter::uniques_retention::{self, BY_DAYS_SECONDS};
use tally_wire::messages::ReadParts;
use tally_wire::problem::Problem;

/// How long unique elements of windows are stored: 400 days.
pub const WINDOW_UNIQUES_SECONDS_MAX: i64 = BY_DAYS_SECONDS;

/// The default window of samples: an hour.
const SAMPLES_SECONDS_DEFAULT: u64 = 3_600;

/// How long samples are kept by the hour, in seconds: [`SAMPLES_SECONDS_MAX`].
const SAMPLES_KEPT_SECONDS: i64 = 2_160 * 3_600;

const _: () = assert!(SAMPLES_KEPT_SECONDS.unsigned_abs() == SAMPLES_SECONDS_MAX);

impl Query {
    /// The window of the query. It ends with `at`, but not after now. Nothing is counted later than now, and a cell
    /// would search as many rows as `at` is ahead.
    ///
    /// # Errors
    /// `invalid-query` for a window out of range or an `at` without a window.
    pub fn window(&self, now: i64) -> Result<Option<Window>, Problem> {
        let at = self.unix_seconds("at")?.map(|at| at.min(now));
        let Some(text) = self.get("window") else {
            return if at.is_some() {
                refuse("at needs a window".to_owned())
            } else {
                Ok(None)
            };
        };
        let end = at.unwrap_or(now);
        let named = || {
            let days = window_named(text, end)?;
            u64::try_from(end - days.seconds() + 1).ok()
        };
        let seconds = text
            .parse::<u64>()
            .ok()
            .or_else(named)
            .filter(|seconds| (1..=WINDOW_SECONDS_MAX).contains(seconds));
        match seconds {
            Some(seconds) => Ok(Some(Window {
                seconds,
                at: end,
                now,
            })),
            None => refuse(no_window(text)),
        }
    }

    /// The window of unique elements, see [`Query::window`].
    ///
    /// # Errors
    /// `invalid-query`, also for one that begins before they are stored.
    pub fn uniques_window(&self, now: i64) -> Result<Option<Window>, Problem> {
        let window = self.window(now)?;
        if window.is_some_and(|window| !window.has_uniques()) {
            return refuse(format!(
                "uniques are kept for {WINDOW_UNIQUES_SECONDS_MAX} seconds; ask for less"
            ));
        }
        Ok(window)
    }

    /// The window of samples, by default an hour; it ends with `at` or else now.
    ///
    /// # Errors
    /// `invalid-query` for a window out of range, or one that begins before samples are stored.
    pub fn samples_window(&self, now: i64) -> Result<SamplesWindow, Problem> {
        let window = match self.get("window") {
            Some(_) => self.window(now)?,
            None => None,
        };
        let window = window.unwrap_or(Window {
            seconds: SAMPLES_SECONDS_DEFAULT,
            at: self.unix_seconds("at")?.map_or(now, |at| at.min(now)),
            now,
        });
        let (first, last) = window.bounds();
        if first <= now.saturating_sub(SAMPLES_KEPT_SECONDS) {
            return refuse(format!(
                "samples are kept for {SAMPLES_SECONDS_MAX} seconds; ask for a window within them"
            ));
        }
        Ok(SamplesWindow {
            seconds: window.seconds,
            whole: whole(first, last, now),
            now,
        })
    }

    /// The range of samples by steps, and the second from which steps are complete; `None` where no step is asked for.
    /// Without `from` and `to` the last 60 steps.
    ///
    /// # Errors
    /// `invalid-query` for a step by which samples are not stored, and for parameters of a window; `range-too-large`
    /// above [`POINTS_MAX`](super::POINTS_MAX) points.
    pub fn samples_series(&self, now: i64) -> Result<Option<(Range, i64)>, Problem> {
        let sent =
            |names: [&'static str; 2]| names.into_iter().find(|name| self.get(name).is_some());
        let (step, kept) = match self.get("step") {
            None => {
                return match sent(["from", "to"]) {
                    Some(name) => refuse(format!(
                        "{name} goes with a step: send step=1m, 1h or 1d, or window and at"
                    )),
                    None => Ok(None),
                };
            }
            Some("1m") => (Resolution::Minute, SAMPLES_BY_MINUTE_SECONDS),
            Some("1h") => (Resolution::Hour, SAMPLES_KEPT_SECONDS),
            // The first day may lack hours.
            Some("1d") => (Resolution::Day, SAMPLES_KEPT_SECONDS - 86_400),
            Some(other) => return refuse(format!("step must be 1m, 1h or 1d, not {other:?}")),
        };
        if let Some(name) = sent(["window", "at"]) {
            return refuse(format!("a step goes with from and to, not with {name}"));
        }
        let range = Self::range(step, self.range_ends(step, now)?)?;
        let kept_from = step.start_of(now.saturating_sub(kept));
        Ok(Some((range, kept_from)))
    }
}

/// A window of samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SamplesWindow {
    /// The requested length.
    pub seconds: u64,
    /// The first and the last second of the minutes, or hours, that are counted: in full.
    pub whole: (i64, i64),
    /// The second of the request, unix time.
    pub now: i64,
}

/// A window of time: the `seconds` seconds up to and including `at`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Its length.
    pub seconds: u64,
    /// Its last second, unix time.
    pub at: i64,
    /// The second of the request, unix time.
    pub now: i64,
}

impl Window {
    /// Its first and its last second.
    pub fn bounds(self) -> (i64, i64) {
        let length = i64::try_from(self.seconds).unwrap_or(i64::MAX);
        (self.at.saturating_sub(length).saturating_add(1), self.at)
    }

    /// Whether unique elements of such a window are stored.
    pub fn has_uniques(self) -> bool {
        self.bounds().0 > self.now.saturating_sub(WINDOW_UNIQUES_SECONDS_MAX)
    }

    /// The first and last second of its unique elements in the answer: full minutes where both ends are within the last
    /// 24 hours, full hours within the last week, otherwise full days. `None` where they are not stored.
    pub fn uniques_cover(self) -> Option<(i64, i64)> {
        let covered = uniques_retention::widened_window(self.bounds(), self.now);
        self.has_uniques().then_some(covered)
    }

    /// The question to the cells.
    pub fn wanted(window: Option<Self>) -> ReadParts {
        ReadParts {
            window: window.map(Self::bounds),
            uniques: window.and_then(Self::uniques_cover),
            ..ReadParts::default()
        }
    }
}
