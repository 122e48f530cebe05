//! Messages of reading and listing: from the edge to the aggregator, and from there to the roots.

use serde::{Deserialize, Serialize};

use super::call::Call;
use super::fault::Fault;
use crate::fleet::Snapshot;
use crate::health::Ailment;
use crate::names::Address;
use tally_core::cluster::root::Root;
use tally_core::counter::dimensions::DimensionName;
use tally_core::counter::history::Resolution;
use tally_core::counter::id::{CounterId, Datacenter};
use tally_core::counter::merge::{Origin, Part, Question, Range, join};
use tally_core::counter::total::{Sum as Total, Value};
use tally_core::isolate::views::{ViewQuestion, ViewedSum};
use tally_core::sketch::Uniques;

calls! {
    List => Vec<(CounterId, Root)>, "/list", |it| Address::Directory(it.partition);
    Read => Option<GlobalSum>, "/read", |_| Address::Aggregator;
    ReadEach => Vec<Result<Option<GlobalSum>, Fault>>, "/read-each", |_| Address::Aggregator;
    ReadMetrics => Snapshot, "/measure", |_| Address::Aggregator;
    CheckStorage => Option<Ailment>, "/check-storage", |it| Address::Directory(it.partition);
    WriteProof => (), "/write-proof", |it| Address::Directory(it.partition);
}

/// Edge → one partition of the directory: asks for faults of the aggregator's configuration or storage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckStorage {
    /// The partition.
    pub partition: u32,
}

/// Edge → one partition of the directory: has it write to storage, durably. Nothing reads what it writes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriteProof {
    /// The partition.
    pub partition: u32,
}

/// Aggregator → one partition: living counters in order of their names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct List {
    /// The partition.
    pub partition: u32,
    /// The prefix of their names.
    pub prefix: String,
    /// Only names after this one.
    pub after: Option<String>,
    /// The most counters.
    pub limit: u32,
}

/// Edge → aggregator: reads several counters, so that an object that hosts several is asked once. The answers are in
/// the order of the reads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadEach {
    /// The reads.
    pub reads: Vec<Read>,
    /// Count acknowledged events of queues first, and ask every datacenter.
    pub is_strong: bool,
}

/// The parts of a read; the root's generation is added on the way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename = "ReadParts+")]
pub struct ReadParts {
    /// The count within these seconds: (first, last).
    pub window: Option<(i64, i64)>,
    /// The union of the unique elements of these seconds: (first, last).
    pub uniques: Option<(i64, i64)>,
    /// These buckets.
    pub history: Option<Range>,
    /// Without sketches.
    pub totals_only: bool,
    /// Ask every datacenter, also those that push changes.
    pub reads_all: bool,
    /// The reader will not ask again, so nobody needs to push changes for it.
    pub is_passing: bool,
    /// The distribution of the samples of these seconds: (first, last).
    pub samples: Option<(i64, i64)>,
    /// The counts of the values of this dimension, in the window or else of all time.
    pub breakdown: Option<DimensionName>,
    /// What each cell stores.
    #[serde(default)]
    pub storage: bool,
    /// The samples by steps of this width instead of all together.
    #[serde(default)]
    pub step: Option<Resolution>,
}

impl ReadParts {
    /// The question to the cells of a generation.
    pub fn of(self, generation: u64) -> Question {
        Question {
            generation,
            window: self.window,
            uniques: self.uniques,
            history: self.history,
            totals_only: self.totals_only,
            samples: self.samples,
            breakdown: self.breakdown,
            storage: self.storage,
            step: self.step,
        }
    }

    /// Whether it asks about times, which only the leads store.
    pub fn is_about_times(self) -> bool {
        self.window.is_some()
            || self.history.is_some()
            || self.samples.is_some()
            || self.breakdown.is_some()
            || self.storage
    }
}

/// Edge → aggregator: sums a counter; `None` where it does not exist.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Read {
    /// The counter.
    pub counter: CounterId,
    /// Only this datacenter.
    pub datacenter: Option<Datacenter>,
    /// What to read.
    pub wanted: ReadParts,
}

impl Read {
    /// Whether leads must be asked, whatever their root knows. They must if the read is about times, which only leads
    /// store, and if it is about a single datacenter, which can be asked as fast as the root.
    pub fn reads_leads(&self) -> bool {
        self.wanted.is_about_times() || self.wanted.reads_all || self.datacenter.is_some()
    }
}

impl ViewQuestion for Read {
    fn counter(&self) -> &CounterId {
        &self.counter
    }

    fn is_light(&self) -> bool {
        !self.reads_leads() && !self.wanted.is_passing
    }
}

impl ViewedSum for GlobalSum {
    fn differs(&self, other: &Self) -> bool {
        (self.added(), self.value()) != (other.added(), other.value())
    }

    fn bytes(&self) -> usize {
        self.bytes()
    }
}

/// The sum of a counter over all datacenters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GlobalSum {
    /// The root that was read.
    pub root: Root,
    /// Each datacenter's sum; `None` for one that did not answer.
    pub datacenters: Vec<(Datacenter, Option<Part>)>,
    /// Whether it covers all datacenters, and not a single one.
    pub is_whole: bool,
    /// The unique elements of all datacenters. Where not all were asked, those that the root knew are included.
    pub uniques: Uniques,
    /// The unique elements of the window, of all of them.
    pub window_uniques: Uniques,
    /// Whether it includes every event that an inbox had acknowledged when the read began.
    pub is_drained: bool,
}

impl GlobalSum {
    /// The value from the datacenters that answered: the last set value and the counts since. For a single datacenter,
    /// its counts.
    pub fn value(&self) -> Value {
        let base = if self.is_whole {
            self.root.operations.base()
        } else {
            Value::default()
        };
        (self.datacenters.iter()).fold(base, |sum, (datacenter, part)| {
            sum.plus(self.value_of(datacenter, part.as_ref()))
        })
    }

    /// The sums of the datacenters that answered.
    pub fn parts(&self) -> impl Iterator<Item = &Part> {
        let parts = self.datacenters.iter();
        parts.filter_map(|(_, part)| part.as_ref())
    }

    /// The sum of all increments of all cells, without sets: its lowest 128 bits, for comparison with an earlier sum.
    pub fn added(&self) -> u128 {
        let cells = self.parts().flat_map(|part| &part.cells);
        cells
            .map(|(_, cell)| Total::from(cell.added))
            .sum::<Total>()
            .low_bits()
    }

    /// What one datacenter adds to the value.
    pub fn value_of(&self, datacenter: &Datacenter, part: Option<&Part>) -> Value {
        let beyond = |part: &Part| self.root.operations.beyond(datacenter, &part.cells);
        part.map_or_else(Value::default, beyond)
    }

    /// Whether a datacenter reported all that it has (it was asked, or has just pushed), and it is known which part of
    /// that counts.
    pub fn is_reported(&self, datacenter: &Datacenter, part: Option<&Part>) -> bool {
        part.is_some_and(Part::is_current) && self.root.operations.is_reconciled(datacenter)
    }

    /// Whether a datacenter reported counts that the last set or reset could not observe. No value includes them before
    /// the root has them.
    pub fn has_unreconciled(&self) -> bool {
        let mut parts = self.datacenters.iter();
        parts.any(|(datacenter, part)| {
            let is_current = part.as_ref().is_some_and(Part::is_current);
            is_current && !self.root.operations.is_reconciled(datacenter)
        })
    }

    /// Whether the counter has expired according to every datacenter; false while one does not answer or was not asked.
    /// The root ends it at its alarm; until then readers must not see the counter any more.
    pub fn has_lapsed(&self, now_ms: i64) -> bool {
        let mut last_write_ms = self.root.last_write_ms;
        for (_, part) in &self.datacenters {
            let Some(part) = part.as_ref().filter(|part| part.is_current()) else {
                return false;
            };
            last_write_ms = last_write_ms.max(part.facts.last_write_ms);
        }
        let ttl = self.root.settings.ttl.filter(|_| self.is_whole);
        ttl.is_some_and(|ttl| now_ms >= ttl.expires_at_ms(last_write_ms))
    }

    /// Its approximate size in memory.
    pub fn bytes(&self) -> usize {
        let parts = self.parts();
        let bytes = parts.map(|part| part.bytes() + 64 * part.cells.len());
        bytes.sum::<usize>() + self.uniques.rest_bytes() + self.window_uniques.rest_bytes() + 256
    }

    /// The most cells that were asked for it.
    pub fn cells(&self) -> u64 {
        let parts = self.datacenters.iter().map(|(_, part)| part.as_ref());
        let cells = parts.map(|part| part.map_or(1, |part| part.cells.len().max(1)));
        u64::try_from(cells.sum::<usize>()).unwrap_or(u64::MAX)
    }

    /// Joins the unique elements of all datacenters, where nobody needs those of each. 381 KB are then sent instead of
    /// 100 times 381 KB.
    pub fn join_uniques(&mut self) {
        for part in self
            .datacenters
            .iter_mut()
            .filter_map(|(_, part)| part.as_mut())
        {
            join(&mut self.uniques, std::mem::take(&mut part.uniques));
            let of_window = std::mem::take(&mut part.window_uniques);
            join(&mut self.window_uniques, of_window);
        }
    }

    /// Whether every datacenter was asked during this read.
    pub fn is_queried(&self) -> bool {
        self.parts().all(|part| part.origin == Origin::Queried)
    }
}

/// Edge → aggregator: the metrics of the isolate that answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadMetrics {}
