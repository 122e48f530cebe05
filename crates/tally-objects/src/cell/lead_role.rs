//! The place of a lead as it is known at one cell.

use std::cell::{Cell, RefCell};

use super::store::LoadedCell;
use futures_util::lock::Mutex;
use tally_core::cluster::tablets::LeadPlace;
use tally_core::counter::id::{CounterId, Datacenter};
use tally_host::object::Reply;
use tally_wire::messages::{Fault, LeadPresence, decode};
use tally_wire::names::{CellAddress, LeadAt};

/// The name of a lead.
#[derive(Clone)]
pub(super) struct LeadName {
    pub(super) counter: CounterId,
    pub(super) datacenter: Datacenter,
}

impl LeadName {
    /// The lead of a cell's datacenter.
    pub(super) fn of(cell: &CellAddress) -> Self {
        Self {
            counter: cell.counter.clone(),
            datacenter: cell.datacenter.clone(),
        }
    }

    /// The lead at a place.
    pub(super) fn at(&self, place: LeadPlace) -> LeadAt {
        LeadAt {
            counter: self.counter.clone(),
            datacenter: self.datacenter.clone(),
            place,
        }
    }
}

/// The place of a lead, seen from here.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum LeadRole {
    /// Here, or never moved.
    Here,
    /// Unknown: there are no rows of it here.
    Unknown,
    /// It was handed to that place.
    Away(LeadPlace),
}

/// The known state of a lead's place, at one cell.
#[derive(Default)]
pub(super) struct LeadPlaceState {
    pub(super) presence: RefCell<Option<LeadPresence>>,
    /// Its place at the last search, while there are no rows of it here; in memory only, and possibly outdated.
    pub(super) cached_location: Cell<Option<LeadPlace>>,
    /// The newest spread under which no rows of the lead were found elsewhere; in memory only.
    pub(super) located_epoch: Cell<Option<u32>>,
    /// How often this place has handed over the rows of the lead, or has answered that it has none; in memory only.
    /// Requests from before the last such answer are void.
    pub(super) handovers: Cell<u64>,
    /// Held during a search.
    pub(super) locating: Mutex<()>,
    /// Held while the former place is notified that the transfer is complete.
    pub(super) confirming: Mutex<()>,
}

impl LeadPlaceState {
    /// Takes over the stored state. A place without rows in use voids what it has begun.
    pub(super) fn adopt(&self, loaded: &LoadedCell) {
        // Rows that were arriving are deleted.
        let presence = loaded.presence.clone();
        let presence = presence.filter(|presence| *presence != LeadPresence::Arriving);
        let is_here = match presence {
            Some(LeadPresence::Here { .. }) => true,
            Some(_) => false,
            None => loaded.address.is_some() || !loaded.cell.is_blank(),
        };
        if !is_here {
            self.handovers.set(self.handovers.get() + 1);
            self.located_epoch.set(None);
        }
        self.set(presence);
    }

    pub(super) fn presence(&self) -> Option<LeadPresence> {
        self.presence.borrow().clone()
    }

    pub(super) fn set(&self, presence: Option<LeadPresence>) {
        self.presence.replace(presence);
    }

    /// Caches the lead's place, which is not here. `None` makes the next caller request it again.
    pub(super) fn cache_location(&self, place: Option<LeadPlace>) {
        self.cached_location.set(place);
    }

    /// Refuses calls of a lead that was handed to another place.
    pub(super) fn is_not_away(&self) -> Result<(), Fault> {
        match &*self.presence.borrow() {
            Some(LeadPresence::Leaving { to, .. }) => Err(Fault::Moved(*to)),
            _ => Ok(()),
        }
    }

    pub(super) fn handover_count(&self) -> u64 {
        self.handovers.get()
    }

    /// Refuses work that began before the last handover: before the lead, or the answer that it is not here, was sent
    /// to another place.
    pub(super) fn has_no_handover_since(&self, handover_count: u64) -> Result<(), Fault> {
        match self.handovers.get() == handover_count {
            true => Ok(()),
            false => Err(moving()),
        }
    }

    /// Records that the lead is nowhere else, by this spread.
    pub(super) fn located_under(&self, epoch: u32) {
        self.located_epoch.set(Some(epoch));
    }

    /// The newest spread for which it is known that the lead is nowhere else.
    pub(super) fn located_epoch(&self) -> Option<u32> {
        let here = match &*self.presence.borrow() {
            Some(LeadPresence::Here { epoch, .. }) => Some(*epoch),
            _ => None,
        };
        self.located_epoch.get().max(here)
    }
}

/// The refusal of a call that may succeed once the lead has moved.
pub(super) fn moving() -> Fault {
    Fault::Unavailable("the counter is moving to another object".to_owned())
}

/// The place to which a call must go, if that is its answer.
pub(super) fn moved_to(reply: &Reply) -> Option<LeadPlace> {
    let Reply::Answer(bytes) = reply else {
        return None;
    };
    // The encoding of a fault begins with a one.
    bytes.first().filter(|first| **first == 1)?;
    match decode::<Result<(), Fault>>(bytes) {
        Ok(Err(Fault::Moved(place))) => Some(place),
        _ => None,
    }
}
