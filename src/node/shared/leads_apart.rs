//! Which leads this isolate has heard to live apart: in objects of their own, though tablets host the others.
//!
//! Invariant: a guess. Whoever is asked for a lead that is not there sends the call on, and the answer says where the
//! lead is; so what is forgotten, or was never heard, costs one more call.

use std::cell::RefCell;

use crate::core::counter::bounded_map::BoundedMap;
use crate::host::{Host, State};
use crate::protocol::names::CellAddress;

/// Leads that are remembered: some 100 bytes each. With one more all others are forgotten.
const KNOWN_MAX: usize = 1_024;

/// Those of this isolate.
struct LeadsApartCache(RefCell<BoundedMap<CellAddress, (), KNOWN_MAX>>);

impl State for LeadsApartCache {
    fn begin(_host: &Host) -> Self {
        Self(RefCell::default())
    }
}

/// Whether a lead is said to live apart.
pub fn is_known(host: &Host, lead: &CellAddress) -> bool {
    let known = host.state::<LeadsApartCache>();
    let known = known.0.borrow();
    !known.is_empty() && known.contains_key(lead)
}

/// Learns from an answer of a lead where it lives. What shards say is of no lead.
pub fn learn(host: &Host, cell: &CellAddress, is_apart: bool) {
    if !cell.is_lead() || is_known(host, cell) == is_apart {
        return;
    }
    let known = host.state::<LeadsApartCache>();
    let mut known = known.0.borrow_mut();
    match is_apart {
        true => drop(known.insert(cell.clone(), ())),
        false => drop(known.remove(cell)),
    }
}
