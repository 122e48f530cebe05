//! Deliveries: their content, signature and outcome. Source: <https://www.standardwebhooks.com>.
//!
//! Invariant: a delivery has one id for all its attempts. Each attempt is signed with its own time.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use super::answer::Threshold;
use super::webhook::Reach;
use super::{Alert, AlertName, Secret};
use crate::public::to_json;
use tally_core::alert::condition::Reading;
use tally_core::sha256::hmac;

/// A request that leaves the deployment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// The address.
    pub url: String,
    /// Its headers.
    pub headers: Vec<(&'static str, String)>,
    /// Its body.
    pub body: Vec<u8>,
    /// What it may connect to.
    pub reach: Reach,
}

/// What a delivery reports about its alert.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EventKind {
    /// The alert fires.
    Firing,
    /// The condition no longer holds.
    Resolved,
    /// A test of the delivery itself.
    Test,
}

impl EventKind {
    /// The name in answers and deliveries.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Firing => "firing",
            Self::Resolved => "resolved",
            Self::Test => "test",
        }
    }
}

/// What is delivered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AlertEvent {
    /// What it reports.
    pub kind: EventKind,
    /// The number of the incident; a test has a number of its own.
    pub incident: u64,
    /// When the incident began, or the test, unix milliseconds.
    pub since_ms: i64,
    /// The alert's settings at that time.
    pub alert: Alert,
    /// The measured value.
    pub reading: Reading,
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

#[derive(Serialize)]
struct BodyView<'a> {
    r#type: String,
    alert: &'a AlertName,
    state: &'static str,
    id: &'a str,
    incident: String,
    #[serde(flatten)]
    watched: super::answer::WatchedView<'a>,
    when: super::answer::WhenView,
    value: Option<i64>,
    threshold: Option<Threshold>,
    as_of: Option<i64>,
    exact: bool,
    changed_at: i64,
    sent_at: i64,
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

    /// The body of an attempt.
    pub fn body(&self, now_ms: i64) -> String {
        let event = &self.event;
        let condition = &event.alert.condition;
        to_json(&BodyView {
            r#type: format!("alert.{}", event.kind.as_str()),
            alert: &self.name,
            state: event.kind.as_str(),
            id: &self.id(),
            incident: incident_text(event.incident),
            watched: super::answer::WatchedView::of(&event.alert.watched),
            when: super::answer::WhenView::of(condition),
            value: event.reading.value,
            threshold: Threshold::of(condition, event.reading.value),
            as_of: event.reading.as_of_ms,
            exact: event.reading.is_exact,
            changed_at: event.since_ms,
            sent_at: now_ms,
        })
    }

    /// The request of an attempt, signed with the attempt's time.
    pub fn request(
        &self,
        (webhook, reach): (&str, Reach),
        secret: &Secret,
        now_ms: i64,
    ) -> Outgoing {
        let (id, body) = (self.id(), self.body(now_ms));
        let seconds = now_ms.div_euclid(1_000).to_string();
        let signed = format!("{id}.{seconds}.{body}");
        let signature = STANDARD.encode(hmac(secret.bytes(), signed.as_bytes()));
        Outgoing {
            url: webhook.to_owned(),
            headers: vec![
                ("content-type", "application/json".to_owned()),
                ("user-agent", "Tally".to_owned()),
                ("webhook-id", id),
                ("webhook-timestamp", seconds),
                ("webhook-signature", format!("v1,{signature}")),
            ],
            body: body.into_bytes(),
            reach,
        }
    }
}

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
