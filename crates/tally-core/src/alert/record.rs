//! The record of an alert: its state, its incident, and the notices that its receiver got.
//!
//! Invariants: an incident begins with the reading that makes the alert fire and ends with the first reading that is
//! within. Windows have full seconds that are over, and each begins at the latest where the last one ended: every count
//! is in one. A reading that lacks the deciding part begins and ends no incident. The receiver gets "firing" before
//! "resolved", each once per incident. A silenced alert sends nothing. When the silence ends, it sends its state at
//! that time.

use serde::{Deserialize, Serialize};

use super::condition::{Condition, Measure, Reading, ThresholdResult};
use super::digest::{PATIENCE_MS, SETTLED_MS, last_period_ms, next_period_ms};
use super::samples::RateSamples;

/// The interval between evaluations of an alert, milliseconds.
pub const EVERY_MS: i64 = 60_000;

/// The interval while it is near a threshold, or over it and not yet firing, milliseconds.
pub const NEAR_EVERY_MS: i64 = 10_000;

/// A window may end this much later than the newest full second, so that it begins where the last one ended. The next
/// measurement is earlier by as much.
const LATE_SECONDS_MAX: i64 = 30;

/// The state of an alert.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AlertState {
    /// Within its thresholds.
    Ok,
    /// Over one, but not yet for long enough.
    Pending,
    /// Over one.
    Firing,
    /// A deciding part did not answer. An open incident continues.
    Unknown,
}

/// One incident of an alert.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Incident {
    /// Its unique id.
    pub id: u64,
    /// When it began, unix milliseconds.
    pub since_ms: i64,
}

/// A notice to a receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// An incident has begun.
    Firing(Incident),
    /// An incident is over.
    Resolved(Incident),
}

/// The stored record of an alert, in addition to its definition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename = "AlertRecord+")]
pub struct AlertRecord {
    /// Its state.
    pub state: AlertState,
    /// When that state began, unix milliseconds.
    pub since_ms: i64,
    /// When it went over a threshold.
    over_since_ms: Option<i64>,
    /// The open incident.
    pub incident: Option<Incident>,
    /// The incident whose beginning its receiver was notified of, and not yet of its end.
    notified: Option<Incident>,
    /// Nothing is sent until this time, unix milliseconds.
    silenced_until_ms: i64,
    /// The last reading.
    pub reading: Reading,
    /// The samples of earlier measurements.
    pub samples: RateSamples,
    /// The end of the last day or week that a digest was sent of, or when the alert was made, unix milliseconds.
    #[serde(default)]
    digested_ms: i64,
    /// The last second of the last window that was measured, unix seconds; 0 before that.
    #[serde(default)]
    window_end: i64,
}

impl AlertRecord {
    /// The record of a new alert.
    pub fn new(now_ms: i64) -> Self {
        Self {
            state: AlertState::Unknown,
            since_ms: now_ms,
            over_since_ms: None,
            incident: None,
            notified: None,
            silenced_until_ms: 0,
            reading: Reading::unknown("it was not measured yet"),
            samples: RateSamples::default(),
            digested_ms: now_ms,
            window_end: 0,
        }
    }

    /// The last second of the window that a measurement at this time is about, unix seconds: the newest that is over.
    /// If a window up to there would leave out seconds after the last window, it ends earlier. After a longer pause the
    /// seconds in between are left out.
    pub fn next_window_end(&self, now_ms: i64, measure: Measure) -> i64 {
        let newest = last_full_second(now_ms);
        let seconds = measure.window_seconds().unwrap_or_default();
        let contiguous = self.window_end.saturating_add(seconds);
        match (0..=LATE_SECONDS_MAX).contains(&(newest - contiguous)) {
            true => contiguous,
            false => newest,
        }
    }

    /// Records that the window up to this second was measured.
    pub fn record_window(&mut self, end: i64) {
        self.window_end = end;
    }

    /// How much the window of a measurement at this time ended before the newest full second, milliseconds.
    fn window_lag_ms(&self, at_ms: i64, measure: Measure) -> i64 {
        let lag = last_full_second(at_ms) - self.window_end;
        match measure.window_seconds() {
            Some(_) if (0..=LATE_SECONDS_MAX).contains(&lag) => lag * 1_000,
            _ => 0,
        }
    }

    /// Changes what the alert watches. The next reading resolves the open incident, or continues it as a new one.
    #[must_use]
    pub fn anew(&self, now_ms: i64) -> Self {
        Self {
            notified: self.notified,
            silenced_until_ms: self.silenced_until_ms,
            ..Self::new(now_ms)
        }
    }

    /// The end of the silence, if the alert is silenced now.
    pub fn silenced_until_ms(&self, now_ms: i64) -> Option<i64> {
        Some(self.silenced_until_ms).filter(|until_ms| *until_ms > now_ms)
    }

    /// Sends no notices until a time, unix milliseconds. A past time ends the silence.
    pub fn silence(&mut self, until_ms: i64) {
        self.silenced_until_ms = until_ms;
    }

    /// Takes a reading. `id` is the id of an incident that begins with it.
    pub fn take(
        &mut self,
        now_ms: i64,
        condition: &Condition,
        for_ms: i64,
        reading: Reading,
        id: u64,
    ) {
        let state = match condition.judge(&reading) {
            ThresholdResult::Unknown => AlertState::Unknown,
            ThresholdResult::Within => {
                self.over_since_ms = None;
                self.incident = None;
                AlertState::Ok
            }
            ThresholdResult::Exceeded => {
                let over_since_ms = *self.over_since_ms.get_or_insert(now_ms);
                if self.incident.is_none() && now_ms - over_since_ms.min(now_ms) >= for_ms {
                    let since_ms = now_ms;
                    self.incident = Some(Incident { id, since_ms });
                }
                match self.incident {
                    Some(_) => AlertState::Firing,
                    None => AlertState::Pending,
                }
            }
        };
        if state != self.state {
            self.state = state;
            self.since_ms = now_ms;
        }
        self.reading = reading;
    }

    /// The notices to send to its receiver now, in order; they count as sent. None if there is no room for all of them:
    /// then the next reading decides again.
    pub fn notices(&mut self, now_ms: i64, room: usize) -> Vec<Notice> {
        if self.silenced_until_ms(now_ms).is_some() || room < 2 || self.state == AlertState::Unknown
        {
            return Vec::new();
        }
        let mut notices = Vec::new();
        if self.notified == self.incident {
            return notices;
        }
        notices.extend(self.notified.map(Notice::Resolved));
        notices.extend(self.incident.map(Notice::Firing));
        self.notified = self.incident;
        notices
    }

    /// The day or week that a digest must be sent of now: its beginning and its end, unix milliseconds.
    pub fn digest_due_ms(&self, now_ms: i64, seconds: u32) -> Option<(i64, i64)> {
        let period_ms = last_period_ms(seconds, now_ms);
        (period_ms.1 > self.digested_ms).then_some(period_ms)
    }

    /// Takes the reading of a digest of a time that ended at `to_ms`. Returns whether it is sent now: not during a
    /// silence, and not while something is missing that may still come.
    pub fn digest(&mut self, now_ms: i64, to_ms: i64, reading: Reading) -> bool {
        let waits = !reading.missing.is_empty() && now_ms < to_ms + SETTLED_MS + PATIENCE_MS;
        let state = match reading.missing.is_empty() {
            true => AlertState::Ok,
            false => AlertState::Unknown,
        };
        if state != self.state {
            (self.state, self.since_ms) = (state, now_ms);
        }
        self.reading = reading;
        if !waits {
            self.digested_ms = to_ms;
        }
        !waits && self.silenced_until_ms(now_ms).is_none()
    }

    /// When it is evaluated next, unix milliseconds, after an evaluation at `at_ms`.
    pub fn next_ms(&self, at_ms: i64, condition: &Condition) -> i64 {
        if let Measure::Digest(seconds) = condition.measure {
            return match self.digest_due_ms(at_ms, seconds) {
                Some(_) => at_ms + EVERY_MS,
                None => next_period_ms(seconds, at_ms),
            };
        }
        let value = self.reading.value;
        let is_near = value.is_some_and(|value| condition.is_near(value));
        let every_ms = match self.state {
            AlertState::Pending => NEAR_EVERY_MS,
            AlertState::Ok | AlertState::Firing if is_near => NEAR_EVERY_MS,
            _ => EVERY_MS,
        };
        let lag_ms = self.window_lag_ms(at_ms, condition.measure);
        let next_ms = at_ms + (every_ms - lag_ms).max(NEAR_EVERY_MS);
        match self.silenced_until_ms(at_ms) {
            // When the silence ends, the state at that time is sent.
            Some(until_ms) => next_ms.min(until_ms),
            None => next_ms,
        }
    }
}

/// The newest second that is over, unix seconds.
fn last_full_second(now_ms: i64) -> i64 {
    now_ms.div_euclid(1_000) - 1
}
