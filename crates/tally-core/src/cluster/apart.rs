//! Which leads live apart: in objects of their own because they are hot, while tablets host the other leads of their
//! datacenter.
//!
//! Invariant: for each lead the number of its moves, out and back, is stored. It only rises. While it is odd the lead
//! lives apart. The epoch of a move is the sum of the spread's epoch and this number, so each change makes it rise. The
//! record of a lead that is back is removed only after the epoch of the spread has risen by this number.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::tablets::LeadPlace;
use crate::counter::id::{CounterId, Datacenter};
use crate::order::map_of;

/// The most leads of one datacenter that live apart, for each partition: 1,024 objects of a datacenter with 16
/// partitions.
pub const APART_OF_DATACENTER_MAX: usize = 64;

/// The most records of a partition: about 40 bytes each, in one row.
pub const APART_MAX: usize = 1_024;

/// The moves of a lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct LeadRecord {
    /// How often it was moved.
    moves: u32,
    /// The generation of its counter when it was hot.
    generation: u64,
}

/// The leads of a partition's counters that live apart, or did. Stored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeadsApart(BTreeMap<(CounterId, Datacenter), LeadRecord>);

/// Whether a lead with this number of moves lives apart.
pub fn is_apart(moves: u32) -> bool {
    moves % 2 == 1
}

impl LeadsApart {
    /// The number of moves of a lead; 0 without a record.
    pub fn moves(&self, counter: &CounterId, datacenter: &Datacenter) -> u32 {
        self.record(counter, datacenter)
            .map_or(0, |record| record.moves)
    }

    /// The generation in the record of a lead which lives apart.
    pub fn generation(&self, counter: &CounterId, datacenter: &Datacenter) -> Option<u64> {
        let record = self.record(counter, datacenter);
        record
            .filter(|record| is_apart(record.moves))
            .map(|record| record.generation)
    }

    fn record(&self, counter: &CounterId, datacenter: &Datacenter) -> Option<&LeadRecord> {
        // The usual case, without a look-up: that needs a copy of both names.
        if self.0.is_empty() {
            return None;
        }
        self.0.get(&(counter.clone(), datacenter.clone()))
    }

    /// Records that a lead moves out, or back. Returns false, without any change, if too many live apart.
    pub fn move_lead(
        &mut self,
        (counter, datacenter): (&CounterId, &Datacenter),
        generation: u64,
        apart: bool,
    ) -> bool {
        let moves = self.moves(counter, datacenter);
        if is_apart(moves) == apart {
            return true;
        }
        if moves == 0 && !self.has_room(datacenter) {
            return false;
        }
        let record = LeadRecord {
            moves: moves.saturating_add(1),
            generation,
        };
        self.0.insert((counter.clone(), datacenter.clone()), record);
        true
    }

    fn has_room(&self, datacenter: &Datacenter) -> bool {
        self.0.len() < APART_MAX && self.of(datacenter).len() < APART_OF_DATACENTER_MAX
    }

    /// The counters that have a record of their lead in this datacenter.
    pub fn of(&self, datacenter: &Datacenter) -> Vec<CounterId> {
        let own = self.0.keys().filter(|(_, at)| at == datacenter);
        own.map(|(counter, _)| counter.clone()).collect()
    }

    /// Removes the record of a lead that is back. Returns by how much the epoch of the spread must rise before that.
    pub fn forget(&mut self, counter: &CounterId, datacenter: &Datacenter) -> u32 {
        let forgotten = self.0.remove(&(counter.clone(), datacenter.clone()));
        forgotten.map_or(0, |record| record.moves)
    }

    /// The records of the leads of one counter.
    #[must_use]
    pub fn of_counter(&self, counter: &CounterId) -> Self {
        let own = self.0.iter().filter(|((of, _), _)| of == counter);
        Self(map_of(own.map(|(lead, record)| (lead.clone(), *record))))
    }

    /// Removes the records of a counter's leads: another partition has the counter now, with all records. Returns
    /// whether there was any.
    pub fn forget_counter(&mut self, counter: &CounterId) -> bool {
        let before = self.0.len();
        self.0.retain(|(of, _), _| of != counter);
        self.0.len() < before
    }

    /// Takes over the records of a counter that moves here from another partition: for each lead the larger number of
    /// moves. So there may be more than [`APART_MAX`] records: at most those of all partitions together.
    pub fn join(&mut self, others: &Self) {
        for (lead, record) in &others.0 {
            let known = self
                .0
                .get(lead)
                .is_some_and(|own| own.moves >= record.moves);
            if !known {
                self.0.insert(lead.clone(), *record);
            }
        }
    }
}

/// The present place and the earlier places of a lead with this number of moves, by its places in the spreads.
pub fn placed(
    moves: u32,
    tablet: LeadPlace,
    mut former_places: Vec<LeadPlace>,
) -> (LeadPlace, Vec<LeadPlace>) {
    if moves == 0 || tablet == LeadPlace::Own {
        return (tablet, former_places);
    }
    let (place, other) = match is_apart(moves) {
        true => (LeadPlace::Own, tablet),
        false => (tablet, LeadPlace::Own),
    };
    former_places.retain(|before| *before != place && *before != other);
    former_places.insert(0, other);
    (place, former_places)
}
