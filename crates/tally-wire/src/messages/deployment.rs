//! Messages about the deployment: alerts, keys, shares, secrets, and its counts.

mod alert;
mod api_key;
mod fleet;
mod secrets;
mod share;

pub use alert::{
    AlertDetails, AlertPutOutcome, AllAlerts, AllDeliveries, DeleteAlert, DeliveriesListed,
    DeliveriesOf, EndAlerts, GetAlert, ListAlerts, ListDeliveries, PutAlert, SilenceAlert,
    TestAlert,
};
pub use api_key::{
    AddAuditEntry, CallAudited, EffectiveKeys, FindApiKey, FindHeldKey, ListAuditEntries, ListKeys,
    MakeKey, ReplaceKey, RevokeKey, Revoked, UseKey,
};
pub use fleet::{AskFleet, CountsTaken, FleetOf, ReportCounts, ReportSizes, WakePush};
pub use secrets::{GetSecrets, RotateKey, Secrets};
pub use share::{DeleteShare, GetShare, ListShares, PutShare, SharePut};
