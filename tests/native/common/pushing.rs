//! What leads push.

use tally_core::cluster::view::{DatacenterState, View};
use tally_core::counter::id::Datacenter;
use tally_core::counter::merge::{CellFacts, CellTotals};
use tally_core::sketch::Uniques;

/// The generation of the counters that are pushed.
pub const GENERATION: u64 = 1;

/// The state of a datacenter whose only cell has counted 1 with each write.
pub fn state_of(datacenter: &Datacenter, sequence: u64, as_of_ms: i64) -> View {
    let totals = CellTotals {
        generation: GENERATION,
        sequence,
        added: u128::from(sequence).into(),
        removed: 0.into(),
    };
    View::of(DatacenterState {
        generation: GENERATION,
        datacenter,
        cells: &[(0, totals)],
        as_of_ms,
        facts: CellFacts::written(as_of_ms),
        uniques: Uniques::new(),
    })
}
