//! The row of the push of the deployment's metrics.
//!
//! Invariant: where no address is set, nothing is read.

use serde::{Deserialize, Serialize};

use crate::directory::values::DeploymentValues;
use crate::kit::store::Store;
use tally_host::Host;
use tally_wire::messages::{Fault, decode, encode};
use tally_wire::names::OTLP_URL;

/// The name of the row.
const ROW: &str = "otlp/push";

/// The state of the push. Stored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PushState {
    /// When the next push is due, unix milliseconds.
    pub(super) due_ms: i64,
    /// Since when the sums count, unix milliseconds, once a push had it: receivers take another time for a restart.
    pub(super) start_ms: Option<i64>,
    /// The time of the newest points that may have been sent, unix milliseconds: later points are later.
    pub(super) newest_ms: i64,
    /// How many pushes failed since the last one that did not.
    pub(super) failures: u32,
}

/// The row, in a partition of the directory.
pub(crate) struct PushStore {
    host: Host,
    values: DeploymentValues,
}

impl PushStore {
    /// The row in an object's database.
    pub(crate) fn new(host: &Host, store: &Store) -> Self {
        Self {
            host: host.clone(),
            values: DeploymentValues::new(store),
        }
    }

    /// The state; `None` before the first push is planned.
    ///
    /// # Errors
    /// `Unavailable` where SQLite refuses, `Unreadable` for a damaged row; as for all methods below.
    pub(super) fn get(&self) -> Result<Option<PushState>, Fault> {
        let body = self.values.get(ROW)?;
        body.map(|body| decode(&body)).transpose()
    }

    /// Stores the state.
    pub(super) fn put(&self, state: &PushState) -> Result<(), Fault> {
        self.values.put(ROW, encode(state)?)
    }

    /// When the next push is due, unix milliseconds, where this partition pushes.
    pub(crate) fn next_due_ms(&self) -> Result<Option<i64>, Fault> {
        match self.host.setting(OTLP_URL) {
            Some(_) => Ok(self.get()?.map(|state| state.due_ms)),
            None => Ok(None),
        }
    }
}
