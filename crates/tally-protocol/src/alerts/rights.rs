//! Which alerts a caller administers, as a value that is sent to the partitions.
//!
//! Invariant: [`AlertRights::cover`] says what [`Caller::may_watch`](crate::access::Caller::may_watch) says. So a
//! partition filters before it cuts a list, and a caller learns nothing of the alerts of others, not how many there are
//! either.

use serde::{Deserialize, Serialize};

use super::Watched;
use crate::names::limit_right;

/// The alerts that a caller administers. Part of messages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AlertRights {
    /// The prefixes of the counters.
    pub counters: Vec<String>,
    /// The prefixes of the limits, by their names for access: see [`limit_right`].
    pub limits: Vec<String>,
}

impl AlertRights {
    /// Returns whether the caller administers an alert that watches this.
    pub fn cover(&self, watched: &Watched) -> bool {
        let any = |prefixes: &[String], text: &str| {
            prefixes
                .iter()
                .any(|prefix| text.starts_with(prefix.as_str()))
        };
        match watched {
            Watched::Counter(counter) => any(&self.counters, counter.as_str()),
            Watched::Prefix(prefix) => any(&self.counters, prefix),
            Watched::Policy(policy) => any(&self.limits, &limit_right(policy, None)),
        }
    }
}
