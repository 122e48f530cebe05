//! Deliveries as they are stored, and their outcome.
//!
//! Invariant: a delivery has one id for all its attempts.

use serde::{Deserialize, Serialize};

use super::alert::Alert;
use super::digest::CountDigest;
use crate::names::alert::AlertName;
use tally_core::alert::condition::Reading;

/// What a delivery reports about its alert.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EventKind {
    /// The alert fires.
    Firing,
    /// The condition no longer holds.
    Resolved,
    /// A test of the delivery itself.
    Test,
    /// What was counted in a day or a week.
    Digest,
}

impl EventKind {
    /// The name in answers and deliveries.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Firing => "firing",
            Self::Resolved => "resolved",
            Self::Test => "test",
            Self::Digest => "digest",
        }
    }
}

/// What is delivered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AlertEvent {
    /// What it reports.
    pub kind: EventKind,
    /// The number of the incident; a test and a digest have a number of their own.
    pub incident: u64,
    /// When the incident, the test or the time of the digest began, unix milliseconds.
    pub since_ms: i64,
    /// The alert's settings at that time.
    pub alert: Alert,
    /// The measured value.
    pub reading: Reading,
    /// What a digest says.
    pub digest: Option<CountDigest>,
}

/// The result of one attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// When it began, unix milliseconds.
    pub at_ms: i64,
    /// The status of the receiver's answer.
    pub status: Option<u16>,
    /// Why it failed; empty where it did not.
    pub why: String,
}

/// The state of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// Attempts are under way or planned.
    Waiting,
    /// The receiver has accepted it.
    Delivered,
    /// There will be no further attempt.
    GivenUp,
}

/// A delivery.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivery {
    /// Its alert.
    pub name: AlertName,
    /// What is delivered.
    pub event: AlertEvent,
    /// When it was made, unix milliseconds.
    pub created_ms: i64,
    /// The number of attempts so far.
    pub attempts: u32,
    /// The result of the last attempt.
    pub last: Option<Attempt>,
    /// Its state.
    pub outcome: Outcome,
}

/// The id of an incident in answers: 16 hexadecimal digits.
pub fn incident_text(incident: u64) -> String {
    format!("{incident:016x}")
}

impl Delivery {
    /// A new delivery, before its first attempt.
    pub fn new(name: AlertName, event: AlertEvent, now_ms: i64) -> Self {
        Self {
            name,
            event,
            created_ms: now_ms,
            attempts: 0,
            last: None,
            outcome: Outcome::Waiting,
        }
    }

    /// Its id: the same in each attempt.
    pub fn id(&self) -> String {
        let AlertEvent { kind, incident, .. } = &self.event;
        format!("alert_{}_{}", incident_text(*incident), kind.as_str())
    }
}

/// A delivery, and the time of its next attempt, unix milliseconds.
pub type ScheduledDelivery = (Delivery, Option<i64>);

/// Returns why an answer of this status is no acknowledgement; `None` where it is one.
pub fn refusal_of(status: u16) -> Option<String> {
    match status {
        200..=299 => None,
        // A redirect that the platform does not follow may have no status here.
        0 | 300..=399 => Some(format!(
            "the receiver redirects ({status}), which is not followed: put the address that it leads to"
        )),
        _ => Some(format!("the receiver answered {status}")),
    }
}
