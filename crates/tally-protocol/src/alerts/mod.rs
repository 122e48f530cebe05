//! Alerts: requests and answers, the addresses that a webhook may have, and the signature of deliveries.
//!
//! | module | holds |
//! |---|---|
//! | [`name`] | names of alerts |
//! | [`body`] | an alert as clients send it |
//! | [`rights`] | what a caller administers, as a value |
//! | [`webhook`] | which addresses a webhook may have |
//! | [`delivery`] | deliveries and their outcome |
//! | [`answer`] | answers to clients |

pub mod answer;
pub mod body;
pub mod delivery;
pub mod name;
pub mod rights;
pub mod webhook;

pub use body::{Alert, AlertPut, Secret, Watched};
pub use delivery::{AlertEvent, Attempt, Delivery, EventKind, Outcome, Outgoing};
pub use name::{AlertName, AlertNames};
pub use rights::AdminRights;

/// The most alerts of one partition of the directory: 2,048 in the deployment. They are 128 measurements a minute for
/// an object that takes 1,000 messages a second.
pub const ALERTS_MAX: u64 = 128;

/// The most deliveries that an answer lists, of one alert or of all: 100 of at most 1 KB.
pub const DELIVERIES_MAX: usize = 100;

/// The most waiting deliveries of one alert. Beyond that, the receiver gets the current state once there is room.
pub const WAITING_MAX: usize = 20;

/// The longest silence: 30 days.
pub const SILENCE_SECONDS_MAX: u64 = 2_592_000;
