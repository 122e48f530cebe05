//! The requests of deliveries: their content and signature. Source: <https://www.standardwebhooks.com>.
//!
//! Invariant: each attempt is signed with its own time.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;

use super::answer::{Threshold, WatchedView, WhenView};
use crate::json::to_json;
use tally_core::sha256::hmac;
use tally_wire::alerts::webhook::Reach;
use tally_wire::alerts::{
    AlertEvent, Delivery, DigestCount, Outgoing, Secret, Watched, incident_text,
};
use tally_wire::names::alert::AlertName;

#[derive(Serialize)]
struct BodyView<'a> {
    r#type: String,
    alert: &'a AlertName,
    state: &'static str,
    id: &'a str,
    incident: String,
    #[serde(flatten)]
    watched: WatchedView<'a>,
    when: WhenView,
    value: Option<i64>,
    threshold: Option<Threshold>,
    as_of: Option<i64>,
    exact: bool,
    changed_at: i64,
    sent_at: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    digest: Option<DigestView<'a>>,
}

/// A number, the one before, and by how much it is more, in percent; `null` where there was none before.
#[derive(Serialize)]
struct CountView {
    count: i64,
    count_before: i64,
    change_percent: Option<i64>,
}

impl CountView {
    fn of(DigestCount { count, before }: DigestCount) -> Self {
        let change = i128::from(count) - i128::from(before);
        let percent = (change * 100).checked_div(before.into());
        Self {
            count,
            count_before: before,
            change_percent: percent.and_then(|percent| i64::try_from(percent).ok()),
        }
    }
}

#[derive(Serialize)]
struct TopView<'a> {
    counter: &'a str,
    #[serde(flatten)]
    counted: CountView,
}

#[derive(Serialize)]
struct DigestView<'a> {
    from: i64,
    to: i64,
    #[serde(flatten)]
    all: CountView,
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<CountView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top: Option<Vec<TopView<'a>>>,
    /// What did not answer, by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    missing: Option<&'a str>,
}

impl<'a> DigestView<'a> {
    fn of(event: &'a AlertEvent) -> Option<Self> {
        let digest = event.digest.as_ref()?;
        let top = digest.top.iter().map(|(counter, counted)| TopView {
            counter,
            counted: CountView::of(*counted),
        });
        let is_prefix = matches!(event.alert.watched, Watched::Prefix(_));
        let missing = event.reading.missing.as_str();
        Some(Self {
            from: digest.from_ms,
            to: digest.to_ms,
            all: CountView::of(digest.all),
            refused: digest.refused.map(CountView::of),
            top: is_prefix.then(|| top.collect()),
            missing: Some(missing).filter(|missing| !missing.is_empty()),
        })
    }
}

/// The body of an attempt.
pub fn body_of(delivery: &Delivery, now_ms: i64) -> String {
    let event = &delivery.event;
    let condition = &event.alert.condition;
    to_json(&BodyView {
        r#type: format!("alert.{}", event.kind.as_str()),
        alert: &delivery.name,
        state: event.kind.as_str(),
        id: &delivery.id(),
        incident: incident_text(event.incident),
        watched: WatchedView::of(&event.alert.watched),
        when: WhenView::of(condition),
        value: event.reading.value,
        threshold: Threshold::of(condition, event.reading.value),
        as_of: event.reading.as_of_ms,
        exact: event.reading.is_exact,
        changed_at: event.since_ms,
        sent_at: now_ms,
        digest: DigestView::of(event),
    })
}

/// The request of an attempt, signed with the attempt's time.
pub fn request_of(
    delivery: &Delivery,
    (webhook, reach): (&str, Reach),
    secret: &Secret,
    now_ms: i64,
) -> Outgoing {
    let (id, body) = (delivery.id(), body_of(delivery, now_ms));
    let seconds = now_ms.div_euclid(1_000).to_string();
    let signed = format!("{id}.{seconds}.{body}");
    let signature = STANDARD.encode(hmac(secret.bytes(), signed.as_bytes()));
    Outgoing {
        url: webhook.to_owned(),
        headers: vec![
            ("content-type".into(), "application/json".to_owned()),
            ("user-agent".into(), "Tally".to_owned()),
            ("webhook-id".into(), id),
            ("webhook-timestamp".into(), seconds),
            ("webhook-signature".into(), format!("v1,{signature}")),
        ],
        body: body.into_bytes(),
        reach,
    }
}
