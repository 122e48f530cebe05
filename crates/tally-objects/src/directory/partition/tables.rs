//! What the parts of a partition share: its tables, and where its roots and leads are.

use std::rc::Rc;

use super::super::root_bundle::RootBundles;
use super::super::root_places::RootPlaces;
use super::super::tablets::LeadSpreads;
use super::super::totals::{DirectoryTotals, totals_schema};
use crate::kit::storage_guard::StorageGuard;
use crate::kit::store::Store;
use tally_host::Host;
use tally_host::object::Object;
use tally_wire::messages::Fault;

/// The tables of a partition.
pub(super) struct PartitionTables {
    schema: [&'static [&'static str]; 2],
    pub(super) store: Store,
    storage: StorageGuard,
    pub(super) spreads: Rc<LeadSpreads>,
    pub(super) places: Rc<RootPlaces>,
}

impl PartitionTables {
    /// Opens the tables, which `schema` creates where there are none.
    pub(super) fn open(schema: [&'static [&'static str]; 2], object: &Object, host: &Host) -> Self {
        let store = Store::new(object.clone());
        let bundles = RootBundles::new(host, &store, DirectoryTotals::wide_columns());
        let tables = Self {
            schema,
            storage: StorageGuard::default(),
            spreads: Rc::new(LeadSpreads::new(host, &store)),
            places: Rc::new(RootPlaces::new(host, &store, bundles)),
            store,
        };
        tables.reload();
        tables
    }

    /// Reads again what memory holds of the rows.
    pub(super) fn reload(&self) {
        self.storage.record(self.prepare());
    }

    /// Whether storage can be read; `reload` runs first where it could not before.
    ///
    /// # Errors
    /// As [`StorageGuard::check`].
    pub(super) fn check(&self, reload: impl FnOnce()) -> Result<(), Fault> {
        self.storage.check(reload)
    }

    /// Creates the tables where there are none.
    ///
    /// # Errors
    /// `Unreadable` for a schema that this build does not know, `Unavailable` where SQLite refuses.
    fn prepare(&self) -> Result<(), Fault> {
        let is_new = !self.store.has_schema()?;
        if is_new {
            let totals = totals_schema();
            self.store
                .create_schema(&[self.schema[0], self.schema[1], &[totals.as_str()]].concat())?;
        }
        // First, because a new partition has no counts yet.
        self.spreads.open(is_new)?;
        self.places.open(is_new)
    }
}
