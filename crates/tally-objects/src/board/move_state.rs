//! What an object of a board keeps in memory while members move.

use super::state::Loaded;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use tally_core::board::directory::SegmentDirectory;
use tally_core::handover::copies::CopyTarget;
use tally_wire::messages::ShardState;

/// How many members or records one message of a move holds: at most about 2 MB each.
pub(super) const PAGE: u64 = 1_000;

/// How long a copy may make no progress, milliseconds: the platform ends an alarm that takes very long without a
/// notice, and then the move is cancelled. Between two steps are at most three commands.
const SILENT_MS_MAX: i64 = 30_000;

/// The state of moves in an object's memory: a move whose owner or target has lost it is cancelled.
#[derive(Default)]
pub(super) struct BoardMoves {
    /// When the owner last made a step of copying, unix milliseconds; 0 if it is not copying.
    pub(super) carried_ms: Cell<i64>,
    /// The number of shards that the reports of shards require; 0 for the present number.
    pub(super) wanted: Cell<u32>,
    /// When the owner moves next, or checks whether it should; unix milliseconds.
    pub(super) due_ms: Cell<i64>,
    /// When a shard last reported.
    pub(super) reported_ms: Cell<i64>,
    /// Whether this object had to delete everything: its layout has ended, and a late message must not fill it
    /// again.
    pub(super) is_over: Cell<bool>,
    /// The progress of a target.
    pub(super) receiving: RefCell<Option<ReceiveProgress>>,
}

/// The progress of a target that receives members.
pub(super) struct ReceiveProgress {
    pub(super) target: CopyTarget,
    /// The number of each period here, by its beginning.
    pub(super) epochs: BTreeMap<i64, (i64, Epoch)>,
}

/// A period that a target receives.
pub(super) struct Epoch {
    pub(super) end: i64,
    pub(super) directory: SegmentDirectory,
    pub(super) members: u64,
    pub(super) bytes: u64,
}

impl BoardMoves {
    /// Whether the owner is copying members now.
    pub(super) fn is_carrying(&self, now_ms: i64) -> bool {
        now_ms.saturating_sub(self.carried_ms.get()) < SILENT_MS_MAX
    }

    pub(super) fn is_receiving(&self) -> bool {
        self.receiving.borrow().is_some()
    }
}

/// The present state of a board, for its shards.
pub(super) fn is_now(loaded: &Loaded) -> ShardState {
    let Loaded { head, role, .. } = loaded;
    ShardState {
        layout: role.layout,
        generation: head.generation,
        sequence: head.sequence,
        settings: head.settings,
        placing: role.placing.clone(),
    }
}
