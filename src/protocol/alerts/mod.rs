//! Alerts: what is asked and answered, where a webhook may lead, and how a delivery is signed.
//!
//! | module | holds |
//! |---|---|
//! | [`name`] | names of alerts |
//! | [`body`] | an alert as clients send it |
//! | [`webhook`] | which addresses a webhook may have |
//! | [`delivery`] | what is delivered, and what became of it |
//! | [`answer`] | what clients are answered |

pub mod answer;
pub mod body;
pub mod delivery;
pub mod name;
pub mod webhook;

pub use body::{Alert, AlertPut, Secret, Watched};
pub use delivery::{Attempt, Delivery, Event, EventKind, Outcome, Outgoing};
pub use name::AlertName;

/// Alerts of one partition of the directory, at most: 2,048 of the deployment, and 128 readings a minute of an object that takes 1,000
/// messages a second.
pub const ALERTS_MAX: usize = 128;

/// Deliveries that are told of an alert, and of all: 100 of at most 1 KB.
pub const DELIVERIES_MAX: usize = 100;

/// Deliveries of one alert that wait, at most. Where there are more, its receiver is told what is so once there is room.
pub const WAITING_MAX: usize = 20;

/// The longest silence: 30 days.
pub const SILENCE_SECONDS_MAX: u64 = 2_592_000;
