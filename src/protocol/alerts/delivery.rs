//! What is delivered, how it is signed, and what became of it. Source: <https://www.standardwebhooks.com>.
//!
//! Invariant: a delivery has one id, however often it is tried; each attempt is signed with its own time.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use super::answer::Threshold;
use super::{Alert, AlertName, Secret};
use crate::core::alert::condition::Reading;
use crate::core::sha256::hmac;
use crate::protocol::public::to_json;

/// A request that leaves the deployment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// Where to.
    pub url: String,
    /// Its headers.
    pub headers: Vec<(&'static str, String)>,
    /// Its body.
    pub body: Vec<u8>,
}

/// What a delivery says of its alert.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EventKind {
    /// It fires.
    Firing,
    /// It is over.
    Resolved,
    /// Nothing: somebody looks whether deliveries arrive.
    Test,
}

impl EventKind {
    /// As it is told.
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
pub struct Event {
    /// What it says.
    pub kind: EventKind,
    /// The incident; of a test its own number.
    pub incident: u64,
    /// When the incident began, or the test, unix milliseconds.
    pub since_ms: i64,
    /// What was watched, as it was then.
    pub alert: Alert,
    /// What was measured.
    pub reading: Reading,
}

/// What came of one attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// When it began, unix milliseconds.
    pub at_ms: i64,
    /// The status that the receiver answered.
    pub status: Option<u16>,
    /// Why it failed; empty where it did not.
    pub why: String,
}

/// What has become of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// It is tried, or will be.
    Waiting,
    /// The receiver has taken it.
    Delivered,
    /// It will not be tried again.
    GivenUp,
}

/// A delivery.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivery {
    /// Its alert.
    pub name: AlertName,
    /// What is delivered.
    pub event: Event,
    /// When it was made, unix milliseconds.
    pub created_ms: i64,
    /// How often it was tried.
    pub attempts: u32,
    /// What came of the last attempt.
    pub last: Option<Attempt>,
    /// What has become of it.
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
    since: i64,
    sent_at: i64,
}

/// An id of an incident as it is told: 16 hexadecimal digits.
pub fn incident_text(incident: u64) -> String {
    format!("{incident:016x}")
}

impl Delivery {
    /// The first of a new delivery.
    pub fn new(name: AlertName, event: Event, now_ms: i64) -> Self {
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
        let Event { kind, incident, .. } = &self.event;
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
            since: event.since_ms,
            sent_at: now_ms,
        })
    }

    /// The request of an attempt, signed with the time of it.
    pub fn request(&self, webhook: &str, secret: &Secret, now_ms: i64) -> Outgoing {
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
        }
    }
}

/// Why an answer of this status is not taken as an acknowledgement; `None` where it is.
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
