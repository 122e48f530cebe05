//! Members of an import that are not written yet.

use tally_core::board::settings::ScoreRule;
use tally_core::counter::id::CounterId;
use tally_wire::messages::MemberWrite;

/// Members of one board that are not written yet, with the numbers of their lines.
pub(super) struct Members {
    pub(super) board: CounterId,
    pub(super) is_refused: bool,
    /// How the board keeps scores, if its line came before.
    pub(super) keep: Option<ScoreRule>,
    /// The first line of the group that is written at once.
    pub(super) first: Option<u64>,
    /// The number of writes of the group's lines, including those of expired members, so that a later repeat has the
    /// same groups.
    pub(super) size: usize,
    /// The hash of the group's lines.
    pub(super) lines: u64,
    pub(super) writes: Vec<(u64, MemberWrite)>,
}

impl Members {
    /// An empty group of a board, with its rule for scores if that is known.
    pub(super) fn of(board: CounterId, keep: Option<ScoreRule>) -> Self {
        Self {
            board,
            is_refused: false,
            keep,
            first: None,
            size: 0,
            lines: 0,
            writes: Vec::new(),
        }
    }
}
