//! What a deployment has once, at one partition of the directory or at each.
//!
//! | module | holds |
//! |---|---|
//! | [`api_keys`], [`shares`] | keys made by calls, and shares |
//! | [`gifts`] | who gave keys, shares, alerts and policies |
//! | [`policies`], [`overrides`] | the deployment's policies, and their overrides |
//! | [`secrets`] | keys of hashes and salts of visitors |
//! | [`audit_log`] | the audit log |
//! | [`alerts`], [`alert_store`] | alerts: evaluation, delivery, and their rows |
//! | [`object_part`] | the part of a partition that has these |
//! | [`metrics_push`], [`push_store`] | the push of the deployment's metrics, and its row |
//! | [`fleet_store`] | the reports of isolates to a partition of the directory |

pub(crate) mod alert_store;
pub(crate) mod alerts;
pub(crate) mod api_keys;
pub(crate) mod audit_log;
pub(crate) mod fleet_store;
pub(crate) mod gifts;
mod metrics_push;
pub(crate) mod object_part;
#[cfg(feature = "limits")]
mod overrides;
#[cfg(feature = "limits")]
pub(crate) mod policies;
pub(crate) mod push_store;
pub(crate) mod secrets;
mod shares;
