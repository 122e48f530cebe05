//! Alerts, pure: when a number is over its threshold, how that changes an alert, and when a notice is sent. Time and
//! randomness are arguments.
//!
//! | module | holds |
//! |---|---|
//! | [`condition`] | what is measured, and when it is over its threshold |
//! | [`digest`] | when a digest is due, and of which time it is |
//! | [`samples`] | rates, by what had been counted a while ago |
//! | [`record`] | what an alert is: its state, its incident, and the notices that were sent |
//! | [`backoff`] | when a delivery is tried again |

pub mod backoff;
pub mod condition;
pub mod digest;
pub mod record;
pub mod samples;
