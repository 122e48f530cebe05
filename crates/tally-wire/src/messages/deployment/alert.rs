//! Messages about alerts. An alert is stored in one partition of the directory, which its name decides.

use serde::{Deserialize, Serialize};

use crate::alerts::{Alert, AlertPut, Delivery, ScheduledDelivery};
use crate::messages::call::Call;
use crate::names::Address;
use crate::names::alert::AlertName;
use crate::rights::{AdminRights, Gift, KeyId};
use tally_core::alert::record::AlertRecord;
use tally_core::counter::ledger::WriteKey;

calls! {
    PutAlert => AlertPutOutcome, "/alert-put", |it| Address::Alert(&it.name);
    GetAlert => Option<AlertDetails>, "/alert-get", |it| Address::Alert(&it.name);
    DeleteAlert => bool, "/alert-delete", |it| Address::Alert(&it.name);
    SilenceAlert => Option<AlertDetails>, "/alert-silence", |it| Address::Alert(&it.name);
    TestAlert => Option<Delivery>, "/alert-test", |it| Address::Alert(&it.name);
    DeliveriesOf => Vec<ScheduledDelivery>, "/alert-deliveries-of", |it| Address::Alert(&it.name);
    EndAlerts => Vec<AlertName>, "/alert-end", |it| Address::Directory(it.partition);
    ListAlerts => Vec<AlertDetails>, "/alert-list", |it| Address::Directory(it.partition);
    ListDeliveries => Vec<ScheduledDelivery>, "/alert-deliveries", |it| Address::Directory(it.partition);
    AllAlerts => (Vec<AlertDetails>, Vec<u32>), "/alert-list-all", |_| Address::Aggregator;
    AllDeliveries => DeliveriesListed, "/alert-deliveries-all", |_| Address::Aggregator;
}

/// An alert in the answer of its partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AlertDetails {
    /// Its name.
    pub name: AlertName,
    /// What it watches.
    pub alert: Alert,
    /// Its state, without the measured series.
    pub record: AlertRecord,
    /// Its last delivery.
    pub last: Option<ScheduledDelivery>,
}

/// Deliveries of several alerts, newest first, and the partitions that did not answer.
pub type DeliveriesListed = (Vec<ScheduledDelivery>, Vec<u32>);

/// Edge → partition of the alert: create or replace it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PutAlert {
    /// Its name.
    pub name: AlertName,
    /// The alert.
    pub put: AlertPut,
    /// The stored alert that the sender has read, if any. No other alert may be replaced.
    pub over: Option<Alert>,
    /// The name of this step of an import: it is done once.
    pub once: Option<WriteKey>,
    /// Who puts it: the alert ends with the key.
    pub gift: Gift,
}

/// The result of a put.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AlertPutOutcome {
    /// It is new.
    Created(Box<AlertDetails>),
    /// It was there.
    Replaced(Box<AlertDetails>),
    /// There are too many.
    Full,
    /// A new one needs a secret.
    NeedsSecret,
    /// The stored alert is not the one that the sender has read.
    Changed,
    /// The caller's part of the table is full.
    PartFull,
}

/// Edge → partition of the alert: reads the alert, if it exists.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetAlert {
    /// Its name.
    pub name: AlertName,
}

/// Edge → partition of the alert: deletes it, with its deliveries. The answer says whether it existed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeleteAlert {
    /// Its name.
    pub name: AlertName,
}

/// Edge → partition of the alert: suspends its deliveries for a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SilenceAlert {
    /// Its name.
    pub name: AlertName,
    /// The time, milliseconds; 0 ends a silence.
    pub for_ms: i64,
}

/// Edge → partition of the alert: delivers a test, once. The answer is its result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestAlert {
    /// Its name.
    pub name: AlertName,
}

/// Edge → partition of the alert: its deliveries, newest first, and the time of each one's next attempt, unix
/// milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeliveriesOf {
    /// Its name.
    pub name: AlertName,
}

/// Edge → one partition: deletes the alerts that these keys put. The answer names them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndAlerts {
    /// The partition.
    pub partition: u32,
    /// The keys.
    pub givers: Vec<KeyId>,
    /// What the caller administers: the answer names no other alert.
    pub of: AdminRights,
}

/// Aggregator → one partition: its alerts, in order of their names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListAlerts {
    /// The partition.
    pub partition: u32,
}

/// Aggregator → one partition: the last deliveries of those of its alerts that a caller administers, newest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListDeliveries {
    /// The partition.
    pub partition: u32,
    /// The alerts.
    pub of: AdminRights,
}

/// Edge → aggregator: the alerts of all partitions in order of their names, and the partitions that did not answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllAlerts {}

/// Edge → aggregator: the last deliveries of all alerts that a caller administers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllDeliveries {
    /// The alerts.
    pub of: AdminRights,
}
