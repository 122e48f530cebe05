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
use tally_wire::alerts::{Delivery, Outgoing, Secret, incident_text};
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
