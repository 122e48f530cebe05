//! What a caller administers, as a value that is sent to the partitions.
//!
//! Invariant: [`AdminRights::cover`] says what `Caller::may_watch` of the API's access says. So a
//! partition filters before it cuts a list, and a caller learns nothing of the alerts of others, not how many there are
//! either.

use serde::{Deserialize, Serialize};

use super::scope::PrefixKind;
use crate::alerts::Watched;
use crate::names::limit_right;

/// What a caller administers. Part of messages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdminRights {
    /// The prefixes of the counters.
    pub counters: Vec<String>,
    /// The prefixes of the limits, by their names for access: see [`limit_right`].
    pub limits: Vec<String>,
}

impl AdminRights {
    /// Returns whether the caller administers an alert that watches this.
    pub fn cover(&self, watched: &Watched) -> bool {
        match watched {
            Watched::Counter(counter) => begins(&self.counters, counter.as_str()),
            Watched::Prefix(prefix) => begins(&self.counters, prefix),
            Watched::Policy(policy) => begins(&self.limits, &limit_right(policy, None)),
        }
    }

    /// Returns whether the caller administers all that a key or a share with this prefix may do.
    pub fn cover_prefix(&self, prefix: &str) -> bool {
        let prefixes = match PrefixKind::of(prefix) {
            PrefixKind::Limits => &self.limits,
            PrefixKind::Counters => &self.counters,
        };
        begins(prefixes, prefix)
    }
}

fn begins(prefixes: &[String], text: &str) -> bool {
    prefixes
        .iter()
        .any(|prefix| text.starts_with(prefix.as_str()))
}
