//! Repairs as they are asked for and answered: what was damaged, from where it was put back, and what is lost at most.

use serde::{Deserialize, Serialize};

use super::batch::json::read_object;
use super::messages::{CellPart, RootPart, TotalsFrom};
use super::problem::{Code, Problem};
use crate::core::counter::id::CounterId;

/// Counters that one call looks at: each is some calls, and the platform allows 10,000.
pub const COUNTERS_MAX: u32 = 500;

/// What is to be repaired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Extent {
    /// A counter.
    Counter(CounterId),
    /// All counters whose names begin so, after a name.
    Prefix(String, Option<String>),
}

/// A repair that is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepairRequest {
    /// What.
    pub extent: Extent,
    /// Whether nothing is to be changed.
    pub is_dry: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wire {
    counter: Option<String>,
    prefix: Option<String>,
    cursor: Option<String>,
    #[serde(default)]
    dry_run: bool,
}

/// Reads `{"counter": id}` or `{"prefix": text, "cursor"?: text}`, with `"dry_run"?: bool`.
///
/// # Errors
/// `invalid-json`, `unknown-field`, `invalid-body`, `invalid-id`.
pub fn parse_repair(body: &[u8]) -> Result<RepairRequest, Problem> {
    let Wire {
        counter,
        prefix,
        cursor,
        dry_run,
    } = read_object(body)?;
    let extent = match (counter, prefix, &cursor) {
        (Some(counter), None, None) => Extent::Counter(CounterId::parse(&counter)?),
        (None, Some(prefix), _) => Extent::Prefix(prefix, cursor),
        _ => {
            let shape = r#"the body must be {"counter": id} or {"prefix": text, "cursor": that of the answer before}, with "dry_run" or without"#;
            return Err(Problem::new(Code::InvalidBody, shape));
        }
    };
    Ok(RepairRequest {
        extent,
        is_dry: dry_run,
    })
}

impl RootPart {
    fn name(self) -> &'static str {
        match self {
            Self::Root => "root",
            Self::Memory => "memory",
            Self::Totals => "list",
        }
    }
}

impl CellPart {
    fn name(self) -> &'static str {
        match self {
            Self::Totals => "totals",
            Self::Address => "address",
            Self::Minutes => "minutes",
            Self::Hours => "hours",
            Self::Days => "days",
            Self::Uniques => "uniques",
            Self::Samples => "samples",
            Self::Breakdowns => "breakdowns",
            Self::Keys => "keys",
            Self::Shards => "shards",
        }
    }

    /// What is lost with it.
    fn loss(self) -> &'static str {
        match self {
            Self::Totals => {
                "what the cell acknowledged after as_of (its lead tells the root 3 to 8 s after the last write, and within 60 s while it is written), \
                 the newest minute of its history, and which of the last requests it has counted"
            }
            Self::Address | Self::Shards => "nothing that was counted",
            Self::Minutes => "counts by minute, of at most a day",
            Self::Hours => "counts by hour, of a day each",
            Self::Days => "counts by day, of 32 days each",
            Self::Uniques => {
                "unique elements of the cell: of a minute, hour or day, or of all time"
            }
            Self::Samples => "samples, of a minute or an hour each",
            Self::Breakdowns => "breakdowns, of an hour or a day each, or of all time",
            Self::Keys => "which keys it has counted: who repeats one of the last day counts again",
        }
    }
}

/// What became of a cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CellReport {
    /// Its datacenter.
    pub datacenter: String,
    /// Its shard.
    pub shard: u8,
    /// What was damaged.
    pub damaged: Vec<CellPart>,
    /// From where its totals are.
    pub totals_from: TotalsFrom,
    /// What is remembered that it had counted, as decimal strings: added and removed.
    pub remembered: Option<(String, String)>,
    /// Of when that is, unix milliseconds.
    pub as_of_ms: Option<i64>,
}

/// What became of a counter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CounterReport {
    /// The counter.
    pub id: String,
    /// What of its root was damaged.
    pub root: Vec<RootPart>,
    /// Datacenters whose leads told what they had been granted.
    pub told_by: Vec<String>,
    /// Whether the root could be read, or was put back.
    pub has_root: bool,
    /// Cells that were damaged.
    pub cells: Vec<CellReport>,
    /// What could not be looked at, and why.
    pub failed: Vec<String>,
}

impl CounterReport {
    /// Whether nothing was damaged, as far as could be seen.
    pub fn is_whole(&self) -> bool {
        self.root.is_empty() && self.cells.is_empty() && self.failed.is_empty()
    }

    fn is_done(&self) -> bool {
        self.failed.is_empty() && (self.has_root || self.root.is_empty())
    }
}

#[derive(Serialize)]
struct CellView<'a> {
    datacenter: &'a str,
    shard: u8,
    damaged: Vec<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    totals: Option<TotalsView<'a>>,
    lost: Vec<&'static str>,
}

#[derive(Serialize)]
struct TotalsView<'a> {
    from: &'static str,
    added: Option<&'a str>,
    removed: Option<&'a str>,
    as_of: Option<i64>,
}

#[derive(Serialize)]
struct RootView<'a> {
    damaged: Vec<&'static str>,
    from: Option<&'static str>,
    datacenters: &'a [String],
    lost: Vec<&'static str>,
}

#[derive(Serialize)]
struct CounterView<'a> {
    id: &'a str,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    root: Option<RootView<'a>>,
    cells: Vec<CellView<'a>>,
    failed: &'a [String],
}

#[derive(Serialize)]
struct ReportView<'a> {
    dry_run: bool,
    checked: usize,
    damaged: usize,
    repaired: usize,
    counters: Vec<CounterView<'a>>,
    failed: &'a [String],
    cursor: Option<&'a str>,
}

fn cell_view(cell: &CellReport) -> CellView<'_> {
    let remembered = cell.remembered.as_ref();
    let is_lost = cell.damaged.contains(&CellPart::Totals);
    let totals = is_lost.then(|| match cell.totals_from {
        TotalsFrom::Remembered => TotalsView {
            from: "root",
            added: remembered.map(|(added, _)| added.as_str()),
            removed: remembered.map(|(_, removed)| removed.as_str()),
            as_of: cell.as_of_ms,
        },
        from => TotalsView {
            from: match from {
                TotalsFrom::Kept | TotalsFrom::Memory => "memory",
                _ => "nothing",
            },
            added: None,
            removed: None,
            as_of: None,
        },
    });
    let loss = |part: &CellPart| match (part, cell.totals_from) {
        (_, TotalsFrom::Memory) if *part <= CellPart::Days => "nothing",
        (CellPart::Totals, TotalsFrom::Nothing) => "all that the cell had counted",
        (part, _) => part.loss(),
    };
    CellView {
        datacenter: &cell.datacenter,
        shard: cell.shard,
        damaged: cell.damaged.iter().map(|part| part.name()).collect(),
        totals,
        lost: cell.damaged.iter().map(loss).collect(),
    }
}

fn root_view(counter: &CounterReport) -> Option<RootView<'_>> {
    let is_lost = counter.root.contains(&RootPart::Root);
    let from = match (counter.has_root, counter.told_by.is_empty()) {
        _ if !is_lost => Some("leads"),
        (false, _) => None,
        (true, false) => Some("leads"),
        (true, true) => Some("memory"),
    };
    let loss = |part: &RootPart| match (part, from) {
        (RootPart::Root, None) => "nothing yet: no lead could be asked, so it stays refused",
        (RootPart::Root, Some("memory")) => "settings, and what sets and resets made of the value",
        (RootPart::Root, _) => {
            "what sets and resets made of the value, where several datacenters count; \
             datacenters that were not asked are back with their next write, and no read is exact any more where there may be such"
        }
        (RootPart::Memory, _) => "nothing: each lead tells it again with its next write",
        (RootPart::Totals, _) => {
            "what had been counted at the beginnings of the last hours and days, for lists and tops"
        }
    };
    (!counter.root.is_empty()).then(|| RootView {
        damaged: counter.root.iter().map(|part| part.name()).collect(),
        from,
        datacenters: &counter.told_by,
        lost: counter.root.iter().map(loss).collect(),
    })
}

fn counter_view(counter: &CounterReport, is_dry: bool) -> CounterView<'_> {
    CounterView {
        id: &counter.id,
        status: match (counter.is_done(), is_dry) {
            (false, _) => "failed",
            (true, true) => "damaged",
            (true, false) => "repaired",
        },
        root: root_view(counter),
        cells: counter.cells.iter().map(cell_view).collect(),
        failed: &counter.failed,
    }
}

/// The answer to a repair.
pub fn repair_json(
    is_dry: bool,
    checked: usize,
    damaged: &[CounterReport],
    failed: &[String],
    cursor: Option<&str>,
) -> String {
    let report = ReportView {
        dry_run: is_dry,
        checked,
        damaged: damaged.len(),
        repaired: match is_dry {
            true => 0,
            false => damaged.iter().filter(|one| one.is_done()).count(),
        },
        counters: damaged
            .iter()
            .map(|one| counter_view(one, is_dry))
            .collect(),
        failed,
        cursor,
    };
    serde_json::to_string(&report).unwrap_or_default()
}
