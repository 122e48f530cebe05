//! Caches which leads live apart: in objects of their own, though tablets host the others.
//!
//! Invariant: the cache may be wrong. An object that does not have the lead forwards the call, and the answer says
//! where the lead is. So a missing or wrong entry costs one more call.

use std::cell::RefCell;

use tally_core::counter::bounded_map::BoundedMap;
use tally_host::{Host, State};
use tally_wire::names::CellAddress;

/// The most leads in the cache: some 100 bytes each. One more clears it.
const KNOWN_MAX: usize = 1_024;

/// The cache of this isolate.
struct LeadsApartCache(RefCell<BoundedMap<CellAddress, (), KNOWN_MAX>>);

impl State for LeadsApartCache {
    fn begin(_host: &Host) -> Self {
        Self(RefCell::default())
    }
}

/// Whether a lead lives apart, as far as this isolate knows.
pub fn is_known(host: &Host, lead: &CellAddress) -> bool {
    let known = host.state::<LeadsApartCache>();
    let mut known = known.0.borrow_mut();
    !known.is_empty() && known.get(lead).is_some()
}

/// Caches where a lead lives, by its answer. Answers of other shards are ignored.
pub fn cache(host: &Host, cell: &CellAddress, is_apart: bool) {
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
