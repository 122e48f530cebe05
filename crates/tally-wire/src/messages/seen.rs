//! The versions of writes and reads, and the refusal where a version was not reached.

use super::cell::Flushed;
use super::read::GlobalSum;
use crate::names::CellAddress;
use crate::problem::{Code, Problem};
use crate::version::{SHORT, SeenCell, Version};
use tally_core::cluster::operation::Cells;
use tally_core::counter::id::Datacenter;

impl Version {
    /// The version of a write.
    pub fn of_write(cell: &CellAddress, flushed: &Flushed) -> Self {
        Self::of([SeenCell {
            datacenter: cell.datacenter.clone(),
            shard: cell.shard,
            generation: flushed.generation,
            sequence: flushed.outcome.sequence,
        }])
        .with_operations(flushed.operations)
    }

    /// The version of a read: every cell that answered. If none did, it holds only the generation, so that a view of an
    /// older generation does not cover it.
    pub fn of_sum(sum: &GlobalSum) -> Self {
        let mut cells = Vec::new();
        for (datacenter, part) in &sum.datacenters {
            for (shard, totals) in part.iter().flat_map(|part| &part.cells) {
                cells.push(SeenCell {
                    datacenter: datacenter.clone(),
                    shard: *shard,
                    generation: totals.generation,
                    sequence: totals.sequence,
                });
            }
        }
        let generation = sum.root.generation;
        let named = |datacenter: &Datacenter, shard| SeenCell {
            datacenter: datacenter.clone(),
            shard,
            generation,
            sequence: 0,
        };
        if cells.is_empty() {
            cells.push(named(&Datacenter::local(), 0));
        }
        let mut version = Self::of(cells).with_operations(sum.root.operations.number());
        let is_short = |(datacenter, cells): &(Datacenter, Cells)| {
            let seen = |shard| version.sequence_of(&named(datacenter, shard));
            let mut cells = cells.iter();
            cells.any(|(shard, totals)| seen(*shard) < totals.sequence)
        };
        if let Some(home) = &sum.root.home
            && sum.root.held.iter().any(is_short)
        {
            let operations = version.operations;
            let cells = version.cells.into_iter().chain([named(home, SHORT)]);
            version = Self::of(cells).with_operations(operations);
        }
        version
    }
}

/// The refusal of a reader whose version was not reached within so many milliseconds. It says which cell is behind, and
/// carries the version that was seen.
pub fn not_reached(required: &Version, sum: &GlobalSum, waited_ms: u64) -> Problem {
    let seen = Version::of_sum(sum);
    let generation = sum.root.generation;
    let behind = match seen.lacks(generation, required) {
        Some(cell) if cell.generation != generation => format!(
            "generation {} of the counter is named and {generation} was seen",
            cell.generation
        ),
        Some(_) if !seen.has_operations_of(generation, required) => format!(
            "operation {} is named and {} was seen",
            required.operations, seen.operations
        ),
        Some(cell) => format!(
            "shard {} of {} is named at {} and was seen at {}",
            cell.shard,
            cell.datacenter,
            cell.sequence,
            seen.sequence_of(cell)
        ),
        None => "what is missing came too late".to_owned(),
    };
    let detail = format!(
        "the version was not reached within {waited_ms} ms: {behind}; try again, or read without at_least what `seen` names"
    );
    Problem::new(Code::VersionNotReached, detail).with_seen(seen.encode())
}
