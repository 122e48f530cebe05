//! Which policies and alerts of a partition were put by an import under a key: a repeat of the import puts none of them
//! again. Also which restore a key is of.
//!
//! Invariant: a step is recorded in the commit of its put, and kept as long as keys are. The first such put creates the
//! table.

use crate::cell::ledger::kept_ms;
use crate::kit::store::{Store, integer};
use tally_core::counter::ledger::WriteKey;
use tally_host::Host;
use tally_wire::messages::{ClaimRestore, Fault};

/// The most steps of a partition that are remembered, about 60 bytes each: two imports of all policies that may be.
pub const IMPORT_STEPS_MAX: i64 = 20_000;

const SCHEMA: [&str; 2] = [
    "CREATE TABLE IF NOT EXISTS import_steps (key BLOB PRIMARY KEY, until_ms INTEGER NOT NULL) WITHOUT ROWID",
    "CREATE INDEX IF NOT EXISTS import_steps_by_time ON import_steps (until_ms)",
];

/// The steps of a partition.
#[derive(Clone)]
pub(crate) struct ImportSteps {
    host: Host,
    store: Store,
}

impl ImportSteps {
    /// The steps in an object's database.
    pub(crate) fn new(host: &Host, store: &Store) -> Self {
        Self {
            host: host.clone(),
            store: store.clone(),
        }
    }

    /// Whether a step was done before; none is without a key.
    ///
    /// # Errors
    /// `Unavailable` where SQLite refuses, or where too many steps are remembered for another one.
    pub(crate) fn is_done(&self, key: Option<WriteKey>) -> Result<bool, Fault> {
        let Some(key) = key else { return Ok(false) };
        for statement in SCHEMA {
            self.store.run(statement, vec![])?;
        }
        let now_ms = self.host.now_ms();
        let old = "DELETE FROM import_steps WHERE until_ms <= ?";
        self.store.run(old, vec![now_ms.into()])?;
        let sql = "SELECT count(*), count(*) FILTER (WHERE key = ?) FROM import_steps";
        let rows = self.store.run(sql, vec![key.0.to_vec().into()])?;
        let counts = rows.first().map_or(&[][..], Vec::as_slice);
        let [all, own] = [0, 1].map(|index| counts.get(index).and_then(integer).unwrap_or(0));
        if own == 0 && all >= IMPORT_STEPS_MAX {
            let full = "too many imported policies and alerts are remembered; try again later";
            return Err(Fault::Unavailable(full.to_owned()));
        }
        Ok(own > 0)
    }

    /// Binds a key to one restore. Returns whether it is not bound to another one.
    ///
    /// # Errors
    /// As [`Self::is_done`].
    pub(crate) fn claim(&self, claim: &ClaimRestore) -> Result<bool, Fault> {
        let (key, restore) = (Some(claim.key), Some(claim.restore));
        if self.is_done(key)? {
            return self.is_done(restore);
        }
        self.store.atomically(|| {
            self.record(key)?;
            self.record(restore)
        })?;
        Ok(true)
    }

    /// Records a step. The caller makes it one commit with the put.
    ///
    /// # Errors
    /// `Unavailable` where SQLite refuses.
    pub(crate) fn record(&self, key: Option<WriteKey>) -> Result<(), Fault> {
        let Some(key) = key else { return Ok(()) };
        let until_ms = self.host.now_ms().saturating_add(kept_ms(&self.host));
        let values = vec![key.0.to_vec().into(), until_ms.into()];
        let sql = "INSERT OR REPLACE INTO import_steps VALUES (?, ?)";
        self.store.run(sql, values).map(|_| ())
    }
}
