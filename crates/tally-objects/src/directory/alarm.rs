//! The alarm of a partition of the directory: it rings when the first of the partition's parts has something due.

use std::rc::Rc;

use super::claim_store::ClaimStore;
use super::duty_store::DutyStore;
use super::root_places::RootPlaces;
use super::root_store::RootStore;
use super::root_sweep::progress::{self, RootSweep};
use super::tablets::LeadSpreads;
use crate::archive::snapshots::Snapshots;
use crate::deployment::alert_store::AlertStore;
use crate::deployment::secrets::SecretStore;
use crate::kit::store::Store;
use tally_host::Host;
use tally_wire::messages::Fault;

/// The alarm of a partition, and the parts that may have something due.
pub(crate) struct Alarm {
    store: Store,
    roots: RootStore,
    duties: DutyStore,
    claims: ClaimStore,
    secrets: SecretStore,
    alerts: AlertStore,
    spreads: Rc<LeadSpreads>,
    snapshots: Rc<Snapshots>,
    places: Rc<RootPlaces>,
    moves: Rc<RootSweep>,
}

impl Alarm {
    /// The alarm of an object.
    pub(super) fn new(
        host: &Host,
        store: &Store,
        alerts: &AlertStore,
        spreads: Rc<LeadSpreads>,
        snapshots: Rc<Snapshots>,
        (places, moves): (Rc<RootPlaces>, Rc<RootSweep>),
    ) -> Self {
        Self {
            store: store.clone(),
            roots: RootStore::new(store),
            duties: DutyStore::new(store),
            claims: ClaimStore::new(host, store),
            secrets: SecretStore::new(host, store),
            alerts: alerts.clone(),
            spreads,
            snapshots,
            places,
            moves,
        }
    }

    /// Makes the alarm ring by then.
    ///
    /// # Errors
    /// `Unavailable` where the platform refuses.
    pub(super) async fn ring_by(&self, at_ms: i64) -> Result<(), Fault> {
        self.store.set_alarm_by(at_ms).await
    }

    /// Sets the alarm for the next due time, if there is one, but not before `earliest_ms`.
    ///
    /// # Errors
    /// `Unavailable` where SQLite or the platform refuses.
    pub(crate) async fn arm(&self, earliest_ms: i64) -> Result<(), Fault> {
        let due_ms = [
            self.roots.next_due_ms()?,
            self.duties.next_due_ms()?,
            self.claims.next_due_ms()?,
            self.secrets.next_due_ms()?,
            self.alerts.next_due_ms()?,
            self.spreads.next_due_ms(),
            self.snapshots.next_due_ms()?,
            progress::next_due_ms(&self.places, &self.moves),
        ];
        match due_ms.into_iter().flatten().min() {
            Some(due_ms) => self.store.set_alarm(due_ms.max(earliest_ms)).await,
            None => Ok(()),
        }
    }
}
