//! Keys, shares, alerts, and the state of the deployment.
//!
//! | module | holds |
//! |---|---|
//! | [`api_keys`], [`key_budget`] | keys that calls make, their holders, and their budgets |
//! | [`callers`] | who makes a request |
//! | [`shares`] | keys for reading one prefix, and their holders |
//! | [`givers`] | refusals of what a key makes |
//! | [`audit`] | the audit log |
//! | [`alerts`] | alerts, and their deliveries |
//! | [`health`] | whether this edge can work |
//! | [`metrics`] | metrics of the service |
//! | [`hot`] | the counters that are written most now |
//! | [`fleet_state`] | the state of the deployment for operators |
//! | [`canary`] | measurement of convergence |

pub(crate) mod alerts;
pub(crate) mod api_keys;
pub(crate) mod audit;
pub(crate) mod callers;
pub(crate) mod canary;
pub(crate) mod fleet_state;
pub(crate) mod givers;
pub(crate) mod health;
pub(crate) mod hot;
pub(crate) mod key_budget;
pub(crate) mod metrics;
pub(crate) mod shares;
