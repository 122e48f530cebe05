//! An isolate's report, and the bounds of what is stored of all reports.

use serde::{Deserialize, Serialize};

use super::clock::Clock;
use tally_core::cluster::hot::HotReport;

/// How often an isolate reports while it counts something, milliseconds: 6 calls and rows a minute.
pub const REPORT_EVERY_MS: i64 = 10_000;

/// How long an incarnation is silent before its row is folded into the common row, milliseconds.
pub const FORGET_MS: i64 = 3_600_000;

/// How long an isolate repeats an unconfirmed report, and keeps an incarnation without confirmation, milliseconds. It
/// is half of [`FORGET_MS`], so the partition that has the row still knows whether the report was counted.
pub const STAND_BY_MS: i64 = FORGET_MS / 2;

/// The most incarnations with rows of their own in a partition: 1,024 rows of up to 10 KB. Further isolates are
/// refused, keep their counts, and try again.
pub const ISOLATES_MAX: u32 = 1_024;

/// One in so many cells with objects of their own reports its size. There may be millions of such cells, and each
/// report is a row.
pub const CELLS_SAMPLED: u64 = 16;

/// The most database sizes that an isolate collects until its next report.
pub const SIZES_MAX: usize = 64;

/// Gauges of one report: 64 of some 40 bytes.
pub const GAUGES_MAX: usize = 64;

/// How long the longest wait of a datacenter's changes is shown, milliseconds.
const WAIT_SHOWN_MS: u64 = 60_000;

/// How long a gauge without updates is shown, milliseconds.
pub const GAUGE_MS_MAX: i64 = 600_000;

/// How long an isolate's clock and presence are shown after its last report, milliseconds.
pub const PRESENT_MS: i64 = 60_000;

/// The role of an isolate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Role {
    /// It answers clients.
    Edge,
    /// It runs objects, or is the aggregator.
    Objects,
}

/// The kind of a gauge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum GaugeKind {
    /// Rows that an inbox has not counted yet, by its name.
    Backlog,
    /// When the oldest of them was acknowledged, unix milliseconds.
    OldestWaiting,
    /// How long a write of the canary took until a datacenter's view included it, milliseconds, by the reader's name;
    /// the slowest.
    Convergence,
    /// How long the oldest change of a counter waited for its root, milliseconds, by the datacenter of its lead; the
    /// longest.
    Unreported,
    /// How far the canary's estimate of unique elements is off, parts of a million, by the reader's name.
    EstimateError,
}

impl Gauge {
    /// Whether this one is shown instead of the other, which has the same name: the newer one, and of waits the longer
    /// one, since many leads of a datacenter measure theirs.
    pub fn replaces(&self, other: &Self) -> bool {
        let is_later = self.at_ms > other.at_ms;
        match self.kind {
            GaugeKind::Unreported if self.at_ms.abs_diff(other.at_ms) < WAIT_SHOWN_MS => {
                self.value > other.value || self.value == other.value && is_later
            }
            _ => is_later,
        }
    }
}

/// A current value, which is not summed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gauge {
    /// Its kind.
    pub kind: GaugeKind,
    /// What it belongs to.
    pub name: String,
    /// The value.
    pub value: u64,
    /// When it was measured, unix milliseconds.
    pub at_ms: i64,
}

/// What a report holds besides counts. The newest report replaces what former ones held.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportExtras {
    /// The offset of its clock from the partition's.
    pub clock: Option<Clock>,
    /// The counters written most.
    pub hot: HotReport,
    /// Current values.
    pub gauges: Vec<Gauge>,
}

/// The size of an object's database.
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
    /// The incarnation of the isolate: drawn at random, below 2^52.
    pub incarnation: u64,
    /// The sequence number of the report within it, from 1.
    pub sequence: u64,
    /// The role of the isolate.
    pub role: Role,
    /// By how much each series rose, by its number.
    pub rose: Vec<(u32, u64)>,
    /// Current values besides.
    pub news: ReportExtras,
}

/// The counters of another isolate, in a message. Latencies and refusals are not included: only the edge has clients.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Distinguishes builds with different counters, whose numbers must not be mixed up.
    pub layout: u64,
    /// When its isolate began, unix seconds.
    pub begun_seconds: i64,
    /// The counts, in the order of the layout.
    pub counts: Vec<u64>,
}
