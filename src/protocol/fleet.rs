//! What a whole deployment has counted: how isolates report it, how that is kept, and how it is told.
//!
//! Invariants: what an isolate counted is in the deployment's sums once, however often its report comes, and never again less than it was
//! (so no sum falls while the parts of it are there; where one is not, no sum is told); what is kept is bounded by named numbers, however
//! many isolates there are; and a deployment in which nothing is counted reports nothing.
//!
//! Life of a number: an isolate counts it ([`super::metrics`]). At most every [`REPORT_EVERY_MS`] its [`Reporter`] makes a report of what
//! changed: a delta, with the isolate's incarnation and a sequence number. A partition of the directory adds it to the row of the
//! incarnation ([`IncarnationCounts::take`]), once, and says so. Until that is heard the same delta goes again, under the same number. The rows of
//! incarnations that are silent for [`FORGET_MS`] are folded into one. What an isolate had not reported when it ended is missing.
//!
//! | module | holds |
//! |---|---|
//! | `reporter` | what an isolate has told, and tells next |
//! | `incarnation` | what is kept of each isolate |
//! | `part` | what a partition knows of the deployment, and all of them together |
//! | `hot` | which counters were written most |
//! | `text` | the numbers as Prometheus reads them |

pub mod hot;
mod incarnation;
mod part;
mod reporter;
mod text;

use serde::{Deserialize, Serialize};

pub use incarnation::{IncarnationCounts, ReportOutcome};
pub use part::{Clock, Fleet, FleetPart, Moving, StoredSizes};
pub use reporter::{Reporter, Unsent};

use self::hot::HotTold;

/// How often an isolate reports while it counts something, milliseconds: 6 calls and rows a minute.
pub const REPORT_EVERY_MS: i64 = 10_000;

/// How long an incarnation is silent before its row is folded into that of all that were, milliseconds.
pub const FORGET_MS: i64 = 3_600_000;

/// How long an isolate stands by a report that nobody confirms, and by an incarnation that was not heard of, milliseconds: half of
/// [`FORGET_MS`], so whoever has one still knows whether it was counted.
pub const STAND_BY_MS: i64 = FORGET_MS / 2;

/// Incarnations that a partition keeps apart: 1,024 rows of up to 10 KB. More are refused, keep what they counted, and ask again.
pub const ISOLATES_MAX: u32 = 1_024;

/// Of cells in objects of their own one in so many tells its size: there may be millions, and each would be a row.
pub const CELLS_SAMPLED: u64 = 16;

/// Sizes of databases that an isolate holds until its next report.
pub const SIZES_MAX: usize = 64;

/// Gauges of one report: 64 of some 40 bytes.
pub const GAUGES_MAX: usize = 64;

/// How long a gauge is told that nobody repeats, milliseconds.
pub const GAUGE_MS_MAX: i64 = 600_000;

/// How long an isolate is told of after its last report, milliseconds: its clock, and that it runs.
pub const PRESENT_MS: i64 = 60_000;

/// From which offset on a clock is named, milliseconds: half of it is what a reader takes for the same moment.
pub const CLOCK_OFF_MS: i64 = 100;

/// What an isolate is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Role {
    /// It answers clients.
    Edge,
    /// Objects live in it, or it is the aggregator.
    Objects,
}

/// What a gauge is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum GaugeKind {
    /// Rows that an inbox has not counted yet, by its name.
    Backlog,
    /// When the oldest of them was acknowledged, unix milliseconds.
    OldestWaiting,
    /// How long a write of the canary took until a datacenter's view had it, milliseconds, by the reader's name; that of the slowest.
    Convergence,
}

/// A number that is so now, and not added up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gauge {
    /// What it is of.
    pub kind: GaugeKind,
    /// Whose it is.
    pub name: String,
    /// How much.
    pub value: u64,
    /// When it was so, unix milliseconds.
    pub at_ms: i64,
}

/// What an isolate says besides what it counted: the newest goes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct News {
    /// How far its clock is off, by the partition's.
    pub clock: Option<Clock>,
    /// What was written most.
    pub hot: HotTold,
    /// What is so now.
    pub gauges: Vec<Gauge>,
}

/// How large the database of an object is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Size {
    /// The object, by a hash of its kind and id below 2^52.
    pub object: u64,
    /// Its kind.
    pub kind: String,
    /// The size, bytes.
    pub bytes: u64,
}

/// An isolate's report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Which life of the isolate it is: drawn at random, below 2^52.
    pub incarnation: u64,
    /// The number of the report within it, from 1.
    pub sequence: u64,
    /// What the isolate is for.
    pub role: Role,
    /// By how much each series rose, by its number.
    pub rose: Vec<(u32, u64)>,
    /// What is so besides.
    pub news: News,
}
