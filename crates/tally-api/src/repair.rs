//! Requests and answers of repairs: what was damaged, from where it was restored, and what is lost at most.

use serde::{Deserialize, Serialize};

use crate::fields::Moment;
use crate::json::read_object;
use crate::query::{PagedList, WRONG_CURSOR};
use tally_core::counter::id::CounterId;
use tally_wire::messages::{CellPart, DamagedTable, RootPart, TotalsFrom};
use tally_wire::names::object_at::ObjectAt;
use tally_wire::problem::{Code, Problem};

/// The most counters, or objects, of one call: each takes some calls, and the platform allows 10,000.
pub const COUNTERS_MAX: u32 = 500;

/// The extent of a repair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Extent {
    /// A counter.
    Counter(CounterId),
    /// All counters with this prefix, after a name.
    Prefix(String, Option<String>),
    /// Data that belongs to no counter, of objects with this prefix, after a name. Nothing is changed.
    Objects(String, Option<String>),
    /// Data that belongs to no counter, of one object. Damage is removed if that is asked for.
    Object(ObjectAt),
}

/// The parameters of a repair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepairRequest {
    /// The extent.
    pub extent: Extent,
    /// Whether nothing may be changed.
    pub is_dry: bool,
}

impl RepairRequest {
    /// What it changes, for the audit log; `None` where nothing may be changed.
    pub fn target(&self) -> Option<String> {
        let target = match &self.extent {
            Extent::Counter(counter) => counter.as_str().to_owned(),
            Extent::Prefix(prefix, _) | Extent::Objects(prefix, _) => prefix.clone(),
            Extent::Object(object) => object.to_string(),
        };
        Some(target).filter(|_| !self.is_dry)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wire {
    counter: Option<String>,
    prefix: Option<String>,
    objects: Option<String>,
    object: Option<String>,
    cursor: Option<String>,
    #[serde(default)]
    dry_run: bool,
    #[serde(default)]
    discard: bool,
}

/// Reads `{"counter": id}`, `{"prefix": text, "cursor"?: text}`, `{"objects": text, "cursor"?: text}` or `{"object":
/// name, "discard"?: bool}`, with `"dry_run"?: bool`. Objects are changed only with `discard`.
///
/// # Errors
/// `invalid-json`, `unknown-field`, `invalid-body`, `invalid-id`.
pub fn parse_repair(body: &[u8]) -> Result<RepairRequest, Problem> {
    let wire: Wire = read_object(body)?;
    let refuse = |detail: &str| Problem::new(Code::InvalidBody, detail);
    let extent = match (wire.counter, wire.prefix, wire.objects, wire.object) {
        (Some(counter), None, None, None) => Extent::Counter(CounterId::parse(&counter)?),
        (None, Some(prefix), None, None) => {
            let after = wire.cursor.as_deref().map(|cursor| {
                let after = PagedList::Repair.after_in(cursor, &prefix);
                after.ok_or_else(|| refuse(WRONG_CURSOR))
            });
            let after = after.transpose()?;
            Extent::Prefix(prefix, after)
        }
        (None, None, Some(prefix), None) => Extent::Objects(prefix, wire.cursor.clone()),
        (None, None, None, Some(name)) => {
            let object = ObjectAt::parse(&name);
            let shape = "object must be named as in the answer to {\"objects\": \"\"}, such as board/game or tablet/FRA/3";
            Extent::Object(object.ok_or_else(|| refuse(shape))?)
        }
        _ => {
            let shape = r#"the body must have one of counter, prefix, objects and object, with "dry_run" or without"#;
            return Err(refuse(shape));
        }
    };
    let after = wire.cursor.as_deref().map(ObjectAt::parse);
    if matches!(extent, Extent::Objects(..)) && after == Some(None) {
        return Err(refuse("cursor must be the cursor of the previous answer"));
    }
    let is_listed = matches!(extent, Extent::Prefix(..) | Extent::Objects(..));
    let is_object = matches!(extent, Extent::Object(_));
    if (wire.cursor.is_some() && !is_listed) || (wire.discard && !is_object) {
        let shape = "cursor needs prefix or objects, and is the cursor of the previous answer; discard needs object";
        return Err(refuse(shape));
    }
    Ok(RepairRequest {
        is_dry: wire.dry_run
            || matches!(extent, Extent::Objects(..))
            || (is_object && !wire.discard),
        extent,
    })
}

/// The name of a damaged part in answers.
trait PartName {
    fn name(self) -> &'static str;
}

impl PartName for RootPart {
    fn name(self) -> &'static str {
        match self {
            Self::Root => "root",
            Self::Memory => "memory",
            Self::Totals => "list",
        }
    }
}

impl PartName for CellPart {
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
}

/// The loss of the removal of a part.
fn loss_of(part: CellPart) -> &'static str {
    match part {
        CellPart::Totals => {
            "what the cell acknowledged after as_of (its lead reports 3 to 8 s after the last write, and within 60 s while it is written), \
             the newest minute of its history, and which of the last requests it has counted"
        }
        CellPart::Address | CellPart::Shards => "nothing that was counted",
        CellPart::Minutes => "counts by minute, of at most a day",
        CellPart::Hours => "counts by hour, of a day each",
        CellPart::Days => "counts by day, of 32 days each",
        CellPart::Uniques => {
            "unique elements of the cell: of a minute, hour or day, or of all time"
        }
        CellPart::Samples => "samples, of a minute or an hour each",
        CellPart::Breakdowns => "breakdowns, of an hour or a day each, or of all time",
        CellPart::Keys => "which keys it has counted: who repeats one of the last day counts again",
    }
}

/// The result for a cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CellReport {
    /// Its datacenter.
    pub datacenter: String,
    /// Its shard.
    pub shard: u8,
    /// What was damaged.
    pub damaged: Vec<CellPart>,
    /// The source of its totals.
    pub totals_from: TotalsFrom,
    /// The date of the snapshot that they are from, where that is the source.
    pub snapshot: Option<String>,
    /// Its remembered totals, as decimal strings: added and removed.
    pub remembered: Option<(String, String)>,
    /// The time of that memory, unix milliseconds.
    pub as_of_ms: Option<i64>,
}

/// The result for a counter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CounterReport {
    /// The counter.
    pub id: String,
    /// The damaged parts of its root.
    pub root: Vec<RootPart>,
    /// Datacenters whose leads returned their grants.
    pub sources: Vec<String>,
    /// Whether the root could be read, or was restored.
    pub has_root: bool,
    /// The date of the snapshot from which all of the root, or its value, was restored.
    pub snapshot: Option<String>,
    /// Whether all of the root is from the snapshot.
    pub is_from_snapshot: bool,
    /// Cells that were damaged.
    pub cells: Vec<CellReport>,
    /// What could not be checked, and why.
    pub failed: Vec<String>,
}

impl CounterReport {
    /// Whether no damage was found.
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
    #[serde(skip_serializing_if = "Option::is_none")]
    snapshot: Option<&'a str>,
    added: Option<&'a str>,
    removed: Option<&'a str>,
    as_of: Option<Moment>,
}

#[derive(Serialize)]
struct RootView<'a> {
    damaged: Vec<&'static str>,
    from: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    snapshot: Option<&'a str>,
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
    /// Counters, or objects, that were looked at.
    checked: usize,
    damaged: usize,
    repaired: usize,
    counters: Vec<CounterView<'a>>,
    /// Objects that are damaged, if the request names `objects`.
    #[serde(skip_serializing_if = "Option::is_none")]
    objects: Option<Vec<ObjectView<'a>>>,
    failed: &'a [String],
    cursor: Option<&'a str>,
}

fn cell_view(cell: &CellReport) -> CellView<'_> {
    let remembered = cell.remembered.as_ref();
    let is_lost = cell.damaged.contains(&CellPart::Totals);
    let totals = is_lost.then(|| match cell.totals_from {
        TotalsFrom::Remembered => TotalsView {
            from: cell.snapshot.as_ref().map_or("root", |_| "snapshot"),
            snapshot: cell.snapshot.as_deref(),
            added: remembered.map(|(added, _)| added.as_str()),
            removed: remembered.map(|(_, removed)| removed.as_str()),
            as_of: cell.as_of_ms,
        },
        from => TotalsView {
            from: match from {
                TotalsFrom::Kept | TotalsFrom::Memory => "memory",
                _ => "nothing",
            },
            snapshot: None,
            added: None,
            removed: None,
            as_of: None,
        },
    });
    let loss = |part: &CellPart| match (part, cell.totals_from) {
        (CellPart::Totals, TotalsFrom::Remembered) if cell.snapshot.is_some() => {
            "what the cell counted after as_of, the newest minute of its history, and which of the last requests it has counted"
        }
        (CellPart::Uniques, _) if cell.snapshot.is_some() => {
            "unique elements of the cell since the snapshot, and those of minutes, hours and days"
        }
        (_, TotalsFrom::Memory) if *part <= CellPart::Days => "nothing",
        (CellPart::Totals, TotalsFrom::Nothing) => "all that the cell had counted",
        (part, _) => loss_of(*part),
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
    let from = match (counter.has_root, counter.sources.is_empty()) {
        _ if !is_lost => Some("leads"),
        _ if counter.is_from_snapshot => Some("snapshot"),
        (false, _) => None,
        (true, false) => Some("leads"),
        (true, true) => Some("memory"),
    };
    let loss = |part: &RootPart| match (part, from) {
        (RootPart::Root, None) => {
            "nothing yet: no lead and no snapshot has it, or a lead did not answer. The counter stays refused"
        }
        (RootPart::Root, Some("snapshot")) => {
            "what was counted after the snapshot, history, samples, breakdowns, and which datacenter counted what: all of the value is what it was set to"
        }
        (RootPart::Root, _) if counter.snapshot.is_some() => {
            "what was counted after the snapshot: the value was set to what that says"
        }
        (RootPart::Root, Some("memory")) => "settings, and what sets and resets made of the value",
        (RootPart::Root, _) => {
            "what sets and resets did to the value, if several datacenters count. Datacenters that did not answer return with their next write; until then no read is exact"
        }
        (RootPart::Memory, _) => "nothing: each lead reports it again with its next write",
        (RootPart::Totals, _) => {
            "what had been counted at the beginnings of the last hours and days, for lists and tops"
        }
    };
    (!counter.root.is_empty()).then(|| RootView {
        damaged: counter.root.iter().map(|part| part.name()).collect(),
        from,
        snapshot: counter.snapshot.as_deref(),
        datacenters: &counter.sources,
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

/// The damage of an object, except that of counters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectReport {
    /// The object.
    pub object: ObjectAt,
    /// What is damaged.
    pub tables: Vec<DamagedTable>,
}

#[derive(Serialize)]
struct TableView<'a> {
    table: &'a str,
    rows: u64,
    names: &'a [String],
    /// What is lost where it is removed.
    lost: &'a str,
}

#[derive(Serialize)]
struct ObjectView<'a> {
    object: String,
    status: &'static str,
    damaged: Vec<TableView<'a>>,
}

fn object_view(report: &ObjectReport, is_dry: bool) -> ObjectView<'_> {
    let tables = report.tables.iter().map(|table| TableView {
        table: &table.table,
        rows: table.rows,
        names: &table.names,
        lost: &table.loss,
    });
    ObjectView {
        object: report.object.to_string(),
        status: if is_dry { "damaged" } else { "discarded" },
        damaged: tables.collect(),
    }
}

/// The findings of a repair.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// How many counters, or objects, were checked.
    pub checked: usize,
    /// Damaged counters.
    pub counters: Vec<CounterReport>,
    /// Damaged objects, where objects were checked.
    pub objects: Option<Vec<ObjectReport>>,
    /// What could not be checked.
    pub failed: Vec<String>,
    /// The name after which there are more.
    pub cursor: Option<String>,
}

impl Found {
    /// The answer to a repair.
    pub fn to_json(&self, is_dry: bool) -> String {
        let objects = self.objects.as_deref();
        let of_objects = objects.map_or(0, <[_]>::len);
        let repaired = self.counters.iter().filter(|one| one.is_done()).count();
        let report = ReportView {
            dry_run: is_dry,
            checked: self.checked,
            damaged: self.counters.len() + of_objects,
            repaired: if is_dry { 0 } else { repaired + of_objects },
            counters: self
                .counters
                .iter()
                .map(|one| counter_view(one, is_dry))
                .collect(),
            objects: objects
                .map(|objects| objects.iter().map(|one| object_view(one, is_dry)).collect()),
            failed: &self.failed,
            cursor: self.cursor.as_deref(),
        };
        serde_json::to_string(&report).unwrap_or_default()
    }
}
