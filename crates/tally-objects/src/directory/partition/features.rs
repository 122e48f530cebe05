//! What the rooms of features add to a partition of the directory. The partition knows them by this alone.

use std::rc::Rc;

use futures_util::future::LocalBoxFuture;

use super::super::alarm::Alarm;
use super::super::inboxes::Inboxes;
use super::super::root_places::RootPlaces;
use super::super::roots::Roots;
use crate::kit::store::Store;
use tally_core::counter::id::CounterId;
use tally_host::Host;
use tally_host::object::{IncomingCall, Object, Reply};
use tally_wire::audit::AuditEntry;
use tally_wire::fleet::FleetPart;
use tally_wire::messages::Fault;

/// The parts of a partition that features use.
pub(crate) struct PartitionParts<'a> {
    pub(crate) host: &'a Host,
    pub(crate) object: &'a Object,
    pub(crate) store: &'a Store,
    pub(crate) alarm: &'a Rc<Alarm>,
    pub(crate) roots: &'a Rc<Roots>,
    pub(crate) inboxes: &'a Rc<Inboxes>,
    pub(crate) places: &'a Rc<RootPlaces>,
}

/// The features of a build: their tables, and how they begin.
pub(crate) struct FeatureSet {
    /// The statements that create the tables.
    pub(crate) schema: &'static [&'static str],
    /// Begins them.
    pub(crate) begin: fn(&PartitionParts<'_>) -> Rc<dyn Features>,
}

/// A store of one feature in a partition, by the calls that it answers.
pub(crate) trait FeatureStore {
    /// Answers a call; [`Reply::Unknown`] for one of another store.
    fn answer(&self, arrived: &IncomingCall) -> Reply;

    /// Whether the store has a board of this name.
    fn has_board(&self, _name: &CounterId) -> Result<bool, Fault> {
        Ok(false)
    }
}

/// The features of a partition. Each method needs storage that can be read.
pub(crate) trait Features {
    /// Answers a call; [`Reply::Unknown`] for one that no feature answers.
    fn answer<'a>(&'a self, arrived: &'a IncomingCall) -> LocalBoxFuture<'a, Reply>;

    /// Whether there is a board of this name.
    fn has_board(&self, name: &CounterId) -> Result<bool, Fault>;

    /// Writes an entry of the audit log.
    fn record(&self, entry: &AuditEntry, account: &str) -> Result<(), Fault>;

    /// Adds what isolates have reported.
    fn add_to(&self, part: &mut FleetPart) -> Result<(), Fault>;

    /// Deletes what nobody needs any more.
    fn delete_old(&self) -> Result<(), Fault>;

    /// Does what is due. Failures are logged.
    fn ring(&self) -> LocalBoxFuture<'_, ()>;
}
