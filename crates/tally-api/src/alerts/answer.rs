//! Answers about alerts. None of them holds a secret.

use serde::{Serialize, Serializer};

use crate::fields::{MissingPartitions, Moment};
use crate::json::to_json;
use crate::query::{ListPage, newest_first};
use tally_core::alert::condition::{Condition, Measure};
use tally_core::alert::digest::WEEK_SECONDS;
use tally_core::alert::record::{AlertRecord, AlertState};
use tally_core::order::in_order;
use tally_wire::alerts::{Alert, Delivery, Outcome, ScheduledDelivery, Watched, incident_text};
use tally_wire::names::alert::AlertName;

/// What is watched.
#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
pub enum WatchedView<'a> {
    /// A counter.
    Counter(&'a str),
    /// A prefix.
    Prefix(&'a str),
    /// A policy.
    Policy(&'a str),
}

impl<'a> WatchedView<'a> {
    /// The view of an alert's subject.
    pub fn of(watched: &'a Watched) -> Self {
        match watched {
            Watched::Counter(counter) => Self::Counter(counter.as_str()),
            Watched::Prefix(prefix) => Self::Prefix(prefix),
            Watched::Policy(policy) => Self::Policy(policy.as_str()),
        }
    }
}

#[derive(Default, Serialize)]
struct ThresholdsView {
    #[serde(skip_serializing_if = "Option::is_none")]
    every: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seconds: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    above: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    below: Option<i64>,
}

/// A condition as clients send it.
pub struct WhenView(&'static str, ThresholdsView);

impl Serialize for WhenView {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map([(self.0, &self.1)])
    }
}

impl WhenView {
    /// The view of a condition.
    pub fn of(condition: &Condition) -> Self {
        let Condition {
            measure,
            above,
            below,
        } = *condition;
        let (name, seconds) = match measure {
            Measure::Value => ("value", None),
            Measure::RatePerMinute => ("rate_per_minute", None),
            Measure::CountIn(seconds) => ("count_in", Some(seconds)),
            Measure::UniquesIn(seconds) => ("uniques_in", Some(seconds)),
            Measure::RefusedIn(seconds) => ("refused_in", Some(seconds)),
            Measure::AllowedPercentIn(seconds) => ("allowed_percent_in", Some(seconds)),
            Measure::Digest(seconds) => {
                let every = if seconds == WEEK_SECONDS {
                    "week"
                } else {
                    "day"
                };
                let thresholds = ThresholdsView {
                    every: Some(every),
                    ..ThresholdsView::default()
                };
                return Self("digest", thresholds);
            }
            Measure::Silence => {
                let seconds = above.and_then(|above| u32::try_from(above + 1).ok());
                let thresholds = ThresholdsView {
                    seconds,
                    ..ThresholdsView::default()
                };
                return Self("silent_for", thresholds);
            }
        };
        let thresholds = ThresholdsView {
            seconds,
            above,
            below,
            ..ThresholdsView::default()
        };
        Self(name, thresholds)
    }
}

/// The threshold that a value has passed.
#[derive(Serialize)]
#[serde(transparent)]
pub struct Threshold(i64);

impl Threshold {
    /// The threshold of a condition that the value has passed; for silence the seconds.
    pub fn of(condition: &Condition, value: Option<i64>) -> Option<Self> {
        let threshold = condition.threshold_of(value)?;
        Some(Self(match condition.measure {
            Measure::Silence => threshold + 1,
            _ => threshold,
        }))
    }
}

/// An alert as a line of an export: its settings, without its secret.
pub fn alert_line(name: &AlertName, alert: &Alert) -> String {
    #[derive(Serialize)]
    struct BodyView<'a> {
        #[serde(flatten)]
        watched: WatchedView<'a>,
        when: WhenView,
        for_seconds: u32,
        webhook: &'a str,
    }
    #[derive(Serialize)]
    struct LineView<'a> {
        alert: &'a AlertName,
        body: BodyView<'a>,
    }
    let mut line = to_json(&LineView {
        alert: name,
        body: BodyView {
            watched: WatchedView::of(&alert.watched),
            when: WhenView::of(&alert.condition),
            for_seconds: alert.for_seconds,
            webhook: &alert.webhook,
        },
    });
    line.push('\n');
    line
}

#[derive(Serialize)]
struct DeliveryView<'a> {
    /// The same in each attempt: the header `webhook-id`.
    id: String,
    alert: &'a AlertName,
    state: &'static str,
    incident: String,
    value: Option<i64>,
    created_at: Moment,
    outcome: &'static str,
    attempts: u32,
    last_attempt_at: Option<Moment>,
    /// What the receiver answered last.
    status: Option<u16>,
    /// Why the last attempt failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_attempt_at: Option<Moment>,
}

fn delivery_view((delivery, next_ms): &ScheduledDelivery) -> DeliveryView<'_> {
    let last = delivery.last.as_ref();
    let why = last.map(|last| last.why.as_str());
    DeliveryView {
        id: delivery.id(),
        alert: &delivery.name,
        state: delivery.event.kind.as_str(),
        incident: incident_text(delivery.event.incident),
        value: delivery.event.reading.value,
        created_at: delivery.created_ms,
        outcome: match delivery.outcome {
            Outcome::Waiting => "waiting",
            Outcome::Delivered => "delivered",
            Outcome::GivenUp => "given_up",
        },
        attempts: delivery.attempts,
        last_attempt_at: last.map(|last| last.at_ms),
        status: last.and_then(|last| last.status),
        why: why.filter(|why| !why.is_empty()),
        next_attempt_at: *next_ms,
    }
}

/// An alert as it is reported.
pub struct AlertSummary<'a> {
    /// Its name.
    pub name: &'a AlertName,
    /// What it watches.
    pub alert: &'a Alert,
    /// What was last measured of it, and its state.
    pub record: &'a AlertRecord,
    /// Its last delivery.
    pub last: Option<&'a ScheduledDelivery>,
}

#[derive(Serialize)]
struct AlertView<'a> {
    alert: &'a AlertName,
    #[serde(flatten)]
    watched: WatchedView<'a>,
    when: WhenView,
    for_seconds: u32,
    webhook: &'a str,
    state: &'static str,
    /// What the state would be were it not silenced.
    condition: &'static str,
    /// When it came into this state.
    changed_at: Moment,
    /// What was measured last.
    value: Option<i64>,
    as_of: Option<Moment>,
    exact: bool,
    /// What did not answer, by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    missing: Option<&'a str>,
    /// The incident that lasts.
    incident: Option<String>,
    silence_ends_at: Option<Moment>,
    last_delivery: Option<DeliveryView<'a>>,
}

fn alert_view<'a>(summary: &AlertSummary<'a>, now_ms: i64) -> AlertView<'a> {
    let AlertSummary {
        name,
        alert,
        record,
        last,
    } = *summary;
    let condition = match record.state {
        AlertState::Ok => "ok",
        AlertState::Pending => "pending",
        AlertState::Firing => "firing",
        AlertState::Unknown => "unknown",
    };
    let silence_ends_at = record.silenced_until_ms(now_ms);
    let reading = &record.reading;
    AlertView {
        alert: name,
        watched: WatchedView::of(&alert.watched),
        when: WhenView::of(&alert.condition),
        for_seconds: alert.for_seconds,
        webhook: &alert.webhook,
        state: match silence_ends_at {
            Some(_) => "silenced",
            None => condition,
        },
        condition,
        changed_at: record.since_ms,
        value: reading.value,
        as_of: reading.as_of_ms,
        exact: reading.is_exact,
        missing: Some(reading.missing.as_str()).filter(|missing| !missing.is_empty()),
        incident: record.incident.map(|incident| incident_text(incident.id)),
        silence_ends_at,
        last_delivery: last.map(delivery_view),
    }
}

/// The JSON of an alert.
pub fn alert_json(summary: &AlertSummary<'_>, now_ms: i64) -> String {
    to_json(&alert_view(summary, now_ms))
}

/// The JSON of `GET /alerts`.
pub fn alerts_json(
    summaries: &[AlertSummary<'_>],
    missing: &[u32],
    page: &ListPage,
    now_ms: i64,
) -> String {
    #[derive(Serialize)]
    struct AlertsView<'a> {
        entries: Vec<AlertView<'a>>,
        /// Names the next page; `null` on the last.
        cursor: Option<String>,
        #[serde(skip_serializing_if = "<[u32]>::is_empty")]
        missing_partitions: MissingPartitions<'a>,
    }
    let (shown, cursor) = page.cut(summaries, |summary| summary.name.to_string());
    to_json(&AlertsView {
        entries: (shown.into_iter())
            .map(|summary| alert_view(summary, now_ms))
            .collect(),
        cursor,
        missing_partitions: missing,
    })
}

/// The JSON of deliveries, the last one first.
pub fn deliveries_json(
    deliveries: Vec<ScheduledDelivery>,
    missing: &[u32],
    page: &ListPage,
) -> String {
    #[derive(Serialize)]
    struct DeliveriesView<'a> {
        entries: Vec<DeliveryView<'a>>,
        /// Names the next page; `null` on the last.
        cursor: Option<String>,
        #[serde(skip_serializing_if = "<[u32]>::is_empty")]
        missing_partitions: MissingPartitions<'a>,
    }
    let key = |(delivery, _): &ScheduledDelivery| {
        format!("{}/{}", newest_first(delivery.created_ms), delivery.id())
    };
    let deliveries = in_order(deliveries, |one, other| key(one).cmp(&key(other)));
    let (shown, cursor) = page.cut(deliveries, key);
    to_json(&DeliveriesView {
        entries: shown.iter().map(delivery_view).collect(),
        cursor,
        missing_partitions: missing,
    })
}

/// The JSON of `POST /alerts/{alert}/test`.
pub fn tested_json(delivery: &Delivery) -> String {
    to_json(&delivery_view(&(delivery.clone(), None)))
}

/// The JSON of `DELETE /alerts/{alert}`.
pub fn deleted_json(name: &AlertName) -> String {
    #[derive(Serialize)]
    struct DeletedView<'a> {
        alert: &'a AlertName,
        status: &'static str,
    }
    to_json(&DeletedView {
        alert: name,
        status: "deleted",
    })
}
