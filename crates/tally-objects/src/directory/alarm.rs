//! The alarm of a partition of the directory: it rings when the first of the partition's parts has something due.

use std::cell::RefCell;
use std::rc::{Rc, Weak};

use super::claim_store::ClaimStore;
use super::duty_store::DutyStore;
use super::root_places::RootPlaces;
use super::root_store::RootStore;
use super::root_sweep::progress::RootSweep;
use super::tablets::LeadSpreads;
use crate::kit::store::Store;
use tally_host::Host;
use tally_wire::messages::Fault;

/// Parts of an object that have something due at times.
pub(crate) trait Due {
    /// When the first of it is due, unix milliseconds.
    ///
    /// # Errors
    /// `Unavailable` where SQLite refuses.
    fn next_due_ms(&self) -> Result<Option<i64>, Fault>;
}

/// The alarm of a partition, and the parts that may have something due.
pub(crate) struct Alarm {
    store: Store,
    roots: RootStore,
    duties: DutyStore,
    claims: ClaimStore,
    spreads: Rc<LeadSpreads>,
    places: Rc<RootPlaces>,
    moves: Rc<RootSweep>,
    others: RefCell<Vec<Weak<dyn Due>>>,
}

impl Alarm {
    /// The alarm of an object.
    pub(super) fn new(
        host: &Host,
        store: &Store,
        spreads: Rc<LeadSpreads>,
        (places, moves): (Rc<RootPlaces>, Rc<RootSweep>),
    ) -> Self {
        Self {
            store: store.clone(),
            roots: RootStore::new(store),
            duties: DutyStore::new(store),
            claims: ClaimStore::new(host, store),
            spreads,
            places,
            moves,
            others: RefCell::default(),
        }
    }

    /// Rings for other parts too.
    pub(crate) fn also(&self, due: Weak<dyn Due>) {
        self.others.borrow_mut().push(due);
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
        let others: Vec<_> = self
            .others
            .borrow()
            .iter()
            .filter_map(Weak::upgrade)
            .collect();
        let mut first_ms = None;
        for other in others {
            first_ms = first_ms.into_iter().chain(other.next_due_ms()?).min();
        }
        let due_ms = [
            first_ms,
            self.roots.next_due_ms()?,
            self.duties.next_due_ms()?,
            self.claims.next_due_ms()?,
            self.spreads.next_due_ms(),
            self.moves.next_due_ms(&self.places),
        ];
        match due_ms.into_iter().flatten().min() {
            Some(due_ms) => self.store.set_alarm(due_ms.max(earliest_ms)).await,
            None => Ok(()),
        }
    }
}
