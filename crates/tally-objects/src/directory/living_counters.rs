//! The number of a partition's living counters, counted from time to time.
//!
//! Invariant: a count reads all roots, a row each, so the more there are the rarer it is done: at most 10,000 rows a
//! minute. Larger counts are stored, because an idle object loses its memory.

use std::cell::Cell;

use super::root_store::RootStore;
use super::values::DeploymentValues;
use crate::kit::store::Store;
use tally_core::counter::id::BEFORE_CALLERS;
use tally_host::Host;
use tally_wire::messages::{Fault, decode, encode};

/// Name of the row.
const LIVING: &str = "living";

/// How long a count of no counters is used, milliseconds, and by how many counters that time grows by the same.
const COUNT_EVERY: (i64, u64) = (10_000, 1_667);

/// The number from which on the count is stored.
const STORED_MIN: u64 = 1_000;

/// The number, and when it was counted, unix milliseconds.
type Counted = (u64, i64);

/// The count of a partition.
pub(super) struct LivingCounters {
    host: Host,
    values: DeploymentValues,
    roots: RootStore,
    known: Cell<Option<Counted>>,
}

impl LivingCounters {
    /// The count of an object.
    pub(super) fn new(host: &Host, store: &Store) -> Self {
        Self {
            host: host.clone(),
            values: DeploymentValues::new(store),
            roots: RootStore::new(store),
            known: Cell::default(),
        }
    }

    /// How many counters of clients live, and how long ago they were counted, milliseconds.
    ///
    /// # Errors
    /// `Unavailable` where SQLite refuses.
    pub(super) fn count(&self) -> Result<(u64, u64), Fault> {
        let now_ms = self.host.now_ms();
        let known = match self.known.get() {
            Some(known) => Some(known),
            None => self.stored()?,
        };
        if let Some((count, at_ms)) = known {
            let (every_ms, counters) = COUNT_EVERY;
            let good_ms = every_ms.saturating_mul(1 + i64::try_from(count / counters).unwrap_or(0));
            let age_ms = now_ms.saturating_sub(at_ms);
            if (0..good_ms).contains(&age_ms) {
                self.known.set(known);
                return Ok((count, age_ms.unsigned_abs()));
            }
        }
        let count = self.roots.count_after(BEFORE_CALLERS)?;
        self.known.set(Some((count, now_ms)));
        if count >= STORED_MIN {
            self.values.put(LIVING, encode(&(count, now_ms))?)?;
        }
        Ok((count, 0))
    }

    fn stored(&self) -> Result<Option<Counted>, Fault> {
        let body = self.values.get(LIVING)?;
        body.map(|body| decode(&body)).transpose()
    }
}
