//! How far a partition is with the moves of leads that get no calls.

use serde::{Deserialize, Serialize};

use tally_core::counter::id::CounterId;

/// Name of the deployment value that holds the progress during a sweep.
pub(in crate::directory) const SWEEP: &str = "sweep";

/// How many counters are handled together.
pub(in crate::directory) const COUNTERS_AT_ONCE: u32 = 16;

/// How long after a change of the number of tablets the first ones wait, milliseconds: leads with writes move by
/// themselves.
const BEGIN_MS: i64 = 30_000;

/// The time between two steps, milliseconds: 16 in half a second are 2 million a day in each partition.
const NEXT_MS: i64 = 500;

/// The time before it begins again where leads were left, milliseconds.
const AGAIN_MS: i64 = 300_000;

/// The progress. Stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::directory) struct Sweep {
    /// The last counter that was handled.
    pub(in crate::directory) after: Option<String>,
    /// Whether a lead before that did not move.
    pub(in crate::directory) has_left: bool,
    /// The time of the next step, unix milliseconds.
    pub(in crate::directory) next_ms: i64,
}

impl Sweep {
    /// A sweep that begins.
    pub(in crate::directory) fn begin(now_ms: i64) -> Self {
        Self {
            after: None,
            has_left: false,
            next_ms: now_ms.saturating_add(BEGIN_MS),
        }
    }

    /// The progress after these counters; `None` once all have moved.
    pub(in crate::directory) fn go_on(
        self,
        looked_at: &[CounterId],
        has_left: bool,
        now_ms: i64,
    ) -> Option<Self> {
        let has_left = self.has_left || has_left;
        let is_last = looked_at.len() < usize::try_from(COUNTERS_AT_ONCE).unwrap_or(usize::MAX);
        match (is_last, has_left) {
            (true, false) => None,
            (true, true) => Some(Self {
                after: None,
                has_left: false,
                next_ms: now_ms.saturating_add(AGAIN_MS),
            }),
            (false, has_left) => Some(Self {
                after: looked_at.last().map(|last| last.as_str().to_owned()),
                has_left,
                next_ms: now_ms.saturating_add(NEXT_MS),
            }),
        }
    }
}
