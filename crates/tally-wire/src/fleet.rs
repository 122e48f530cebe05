//! The counts of a whole deployment: how isolates report them, how they are stored, and how they are shown.
//!
//! Invariants:
//! - What an isolate counted is in the deployment's sums once, for any number of repeats of its report, and never
//!   decreases. So no sum falls while all partitions answer. If one does not answer, no sum is shown.
//! - What is stored is bounded by named numbers, for any number of isolates.
//! - A deployment in which nothing is counted reports nothing.
//!
//! Life of a number: an isolate counts it in its metrics. At most every [`REPORT_EVERY_MS`] its reporter
//! makes a report of the changes: a delta, with the isolate's incarnation and a sequence number. A partition of the
//! directory adds it once to the row of the incarnation ([`IncarnationCounts::take`]) and confirms it. Until then the
//! same delta is sent again under the same number. The rows of incarnations that are silent for [`FORGET_MS`] are
//! folded into one. Counts that an isolate had not reported when it ended are lost.
//!
//! | module | holds |
//! |---|---|
//! | `clock` | how far a clock is off |
//! | `report` | an isolate's report |
//! | `incarnation` | the stored counts of each isolate |
//! | `part` | the data of one partition, and of all of them together |

mod clock;
mod incarnation;
mod part;
mod report;

pub use clock::{CLOCK_OFF_MS, Clock};
pub use incarnation::{IncarnationCounts, ReportOutcome};
pub use part::{Fleet, FleetPart, MovingLeads, StoredSizes};
pub use report::{
    CELLS_SAMPLED, Counts, FORGET_MS, GAUGE_MS_MAX, GAUGES_MAX, Gauge, GaugeKind, ISOLATES_MAX,
    PRESENT_MS, REPORT_EVERY_MS, ReportExtras, Role, SIZES_MAX, STAND_BY_MS, Size, Snapshot,
};
