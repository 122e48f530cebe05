//! The Durable Object that hosts the leads of many counters.

use crate::host::Host;
use crate::host::object::{Arrived, Object, Reply, Shell};

/// A tablet, as the platform sees it.
pub struct Tablet {}

impl Shell for Tablet {
    fn start(_object: Object, _host: Host) -> Self {
        Self {}
    }

    async fn answer(&self, _arrived: Arrived) -> Reply {
        Reply::Unknown
    }
}
