//! Alerts as they are stored and sent, their deliveries, and the addresses that a webhook may have.
//!
//! | module | holds |
//! |---|---|
//! | `alert` | an alert, its subject and its secret |
//! | `delivery` | deliveries and their outcome |
//! | `digest` | what was counted in a day or a week |
//! | [`webhook`] | which addresses a webhook may have |

mod alert;
mod delivery;
mod digest;
pub mod webhook;

pub use alert::{
    ALERTS_MAX, Alert, AlertPut, DELIVERIES_MAX, SECRET_BYTES_MIN, Secret, WAITING_MAX, Watched,
};
pub use delivery::{
    AlertEvent, Attempt, Delivery, EventKind, Outcome, ScheduledDelivery, incident_text, refusal_of,
};
pub use digest::{CountDigest, DigestCount};
pub use webhook::Outgoing;
