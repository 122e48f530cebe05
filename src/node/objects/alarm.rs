//! When the alarm of a partition of the directory rings: once the first thing is due of what its parts keep.

use std::rc::Rc;

use super::claim_store::ClaimStore;
use super::directory_tablets::LeadSpreads;
use super::duty_store::DutyStore;
use super::root_store::RootStore;
use super::secrets::SecretStore;
use super::store::Store;
use crate::host::Host;
use crate::protocol::messages::Fault;

/// The alarm of a partition, and whatever has something due.
pub(super) struct Alarm {
    store: Store,
    roots: RootStore,
    duties: DutyStore,
    claims: ClaimStore,
    secrets: SecretStore,
    spreads: Rc<LeadSpreads>,
}

impl Alarm {
    /// That of an object.
    pub(super) fn new(host: &Host, store: &Store, spreads: Rc<LeadSpreads>) -> Self {
        Self {
            store: store.clone(),
            roots: RootStore::new(store),
            duties: DutyStore::new(store),
            claims: ClaimStore::new(host, store),
            secrets: SecretStore::new(host, store),
            spreads,
        }
    }

    /// Sets the alarm for what is due next, if anything is, and not before `earliest_ms`.
    ///
    /// # Errors
    /// `Unavailable` where SQLite or the platform refuses.
    pub(super) async fn arm(&self, earliest_ms: i64) -> Result<(), Fault> {
        let due_ms = [
            self.roots.next_due_ms()?,
            self.duties.next_due_ms()?,
            self.claims.next_due_ms()?,
            self.secrets.next_due_ms()?,
            self.spreads.next_due_ms(),
        ];
        match due_ms.into_iter().flatten().min() {
            Some(due_ms) => self.store.set_alarm(due_ms.max(earliest_ms)).await,
            None => Ok(()),
        }
    }
}
