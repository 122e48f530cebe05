//! The file of an export, which an import reads: NDJSON, one counter, policy or member per line, and a last line with
//! their number.
//!
//! Invariant: a counter that is imported where there is none, and exported again, has the same line. So a line holds no
//! value that changes with time alone.
//!
//! | module | holds |
//! |---|---|
//! | `line` | parsing of lines |
//! | `query` | the parameters of a call |

mod line;
mod query;

use std::collections::BTreeMap;

use base64::prelude::{BASE64_STANDARD, Engine};
use serde::{Serialize, Serializer};

pub use line::{CounterLine, ExportEnd, Line, name_of, parse_line};
pub use query::{ExportQuery, ImportMode, import_mode};

use crate::fields::moment_of;
use crate::number::Exact;
use crate::public::SettingsView;
use tally_core::cluster::root::Root;
use tally_core::counter::contents::Contents;
use tally_core::counter::id::{CounterId, Datacenter};
use tally_core::counter::settings::TtlMode;
use tally_core::counter::total::{JAVASCRIPT_SAFE_MAX, Sum, Value};
use tally_core::sketch::TopValues;
use tally_wire::messages::ExportedCounter;
use tally_wire::problem::Problem;

/// The longest line, bytes: one of unique elements in all classes has 512 KB.
pub const LINE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The most refused lines that an answer names, and the most left-out counters that an export names.
const NAMED_MAX: usize = 100;

/// The checksum of an export up to its last line: CRC-32 as in gzip.
#[derive(Debug, Default)]
pub struct Checksum(flate2::Crc);

impl Checksum {
    /// Adds bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The checksum in the form of the last line.
    pub fn text(&self) -> String {
        format!("crc32:{:08x}", self.0.sum())
    }
}

/// An amount: a number, or a decimal string where the reader asked for strings and a JavaScript number could not hold
/// it exactly.
#[derive(Clone, Copy)]
struct Amount(u128, bool);

impl Amount {
    fn is_nothing(&self) -> bool {
        self.0 == 0
    }
}

impl Serialize for Amount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.1 && self.0 > JAVASCRIPT_SAFE_MAX {
            true => serializer.collect_str(&self.0),
            false => serializer.serialize_u128(self.0),
        }
    }
}

/// Buckets.
struct Buckets<'a>(&'a [(i64, u128)], bool);

impl Buckets<'_> {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Serialize for Buckets<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let pairs = self.0.iter();
        serializer
            .collect_seq(pairs.map(|(start, amount)| (moment_of(*start), Amount(*amount, self.1))))
    }
}

/// A breakdown.
#[derive(Serialize)]
struct BreakdownView<'a> {
    values: Vec<(&'a str, Amount, Amount)>,
    #[serde(skip_serializing_if = "Amount::is_nothing")]
    rest: Amount,
    #[serde(skip_serializing_if = "Amount::is_nothing")]
    absent_max: Amount,
}

impl<'a> BreakdownView<'a> {
    fn of(values: &'a TopValues, strings: bool) -> Self {
        let each = values.values();
        let amount = |amount: u128| Amount(amount, strings);
        Self {
            values: each
                .map(|(value, counted)| (value, amount(counted.count), amount(counted.error)))
                .collect(),
            rest: amount(values.rest()),
            absent_max: amount(values.absent_max()),
        }
    }
}

/// The counts of a datacenter.
#[derive(Serialize)]
struct DatacenterView<'a> {
    id: &'a Datacenter,
    added: Exact,
    removed: Exact,
    #[serde(skip_serializing_if = "Option::is_none")]
    updated_at: Option<i64>,
    #[serde(skip_serializing_if = "Buckets::is_empty")]
    minutes: Buckets<'a>,
    #[serde(skip_serializing_if = "Buckets::is_empty")]
    hours: Buckets<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hours_kept_from_at: Option<i64>,
    #[serde(skip_serializing_if = "Buckets::is_empty")]
    days: Buckets<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    days_kept_from_at: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    uniques: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    samples: Vec<(i64, String)>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    breakdowns: BTreeMap<&'a str, BreakdownView<'a>>,
}

/// A counter.
#[derive(Serialize)]
struct CounterView<'a> {
    id: &'a CounterId,
    value: Exact,
    #[serde(skip_serializing_if = "Option::is_none")]
    base: Option<Exact>,
    created_at: i64,
    settings: SettingsView,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl_set_at: Option<i64>,
    /// Present only where it is false.
    #[serde(skip_serializing_if = "Option::is_none")]
    exact: Option<bool>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unreachable: Vec<&'a Datacenter>,
    datacenters: Vec<DatacenterView<'a>>,
}

fn some_from(from: i64) -> Option<i64> {
    (from > i64::MIN).then_some(from)
}

/// What a datacenter adds to the value: its sum, less what the last set or reset had observed.
fn beyond(root: &Root, datacenter: &Datacenter, contents: &Contents) -> (Sum, Sum) {
    if !root.operations.is_reconciled(datacenter) {
        return (Sum::ZERO, Sum::ZERO);
    }
    let (added, removed) = root.operations.observed(datacenter);
    (contents.added.minus(added), contents.removed.minus(removed))
}

/// The value of an exported counter, of the datacenters that answered.
pub fn value_of(exported: &ExportedCounter) -> Value {
    let base = exported.root.operations.base();
    let parts = exported.datacenters.iter();
    let parts = parts.filter_map(|(datacenter, contents)| Some((datacenter, contents.as_ref()?)));
    parts.fold(base, |value, (datacenter, contents)| {
        let (added, removed) = beyond(&exported.root, datacenter, contents);
        value.plus(Value::new(added, removed))
    })
}

/// The line of a counter, with its line break.
pub fn counter_line(exported: &ExportedCounter, strings: bool) -> String {
    let root = &exported.root;
    let is_reported = |(datacenter, contents): &'_ (Datacenter, Option<Contents>)| {
        contents.is_some() && root.datacenters.contains(datacenter)
    };
    let mut datacenters = Vec::new();
    for (id, contents) in exported.datacenters.iter().filter(|part| is_reported(part)) {
        let Some(contents) = contents else { continue };
        let (added, removed) = beyond(root, id, contents);
        let samples = contents.samples.iter();
        let breakdowns = contents.breakdowns.iter();
        datacenters.push(DatacenterView {
            id,
            added: Exact::new(Value::new(added, 0), strings),
            removed: Exact::new(Value::new(removed, 0), strings),
            updated_at: some_from(contents.last_write_ms).filter(|at_ms| *at_ms > 0),
            minutes: Buckets(&contents.minutes, strings),
            hours: Buckets(&contents.hours, strings),
            hours_kept_from_at: some_from(contents.hours_from).map(moment_of),
            days: Buckets(&contents.days, strings),
            days_kept_from_at: some_from(contents.days_from).map(moment_of),
            uniques: (!contents.uniques.is_empty())
                .then(|| BASE64_STANDARD.encode(contents.uniques.to_bytes())),
            samples: samples
                .map(|(hour, body)| (moment_of(*hour), BASE64_STANDARD.encode(body)))
                .collect(),
            breakdowns: breakdowns
                .map(|(name, values)| (name.as_str(), BreakdownView::of(values, strings)))
                .collect(),
        });
    }
    let silent = exported.datacenters.iter();
    let base = root.operations.has_base().then(|| root.operations.base());
    let ttl = root.settings.ttl;
    let view = CounterView {
        id: &exported.counter,
        value: Exact::new(value_of(exported), strings),
        base: base.map(|base| Exact::new(base, strings)),
        created_at: root.created_at_ms,
        settings: SettingsView::of(root, strings),
        ttl_set_at: ttl
            .filter(|ttl| ttl.mode == TtlMode::Fixed)
            .map(|ttl| ttl.set_at_ms),
        exact: (!exported.is_exact).then_some(false),
        unreachable: silent
            .filter(|(_, contents)| contents.is_none())
            .map(|(datacenter, _)| datacenter)
            .collect(),
        datacenters,
    };
    let mut line = serde_json::to_string(&view).unwrap_or_default();
    line.push('\n');
    line
}

/// A field of CSV, in quotes where needed. Source: RFC 4180, section 2. A spreadsheet reads a text that begins with one
/// of the signs below as a formula; a leading quote prevents that.
pub fn csv_field(text: &str) -> String {
    let is_formula = text.starts_with(['=', '+', '-', '@']) && text.parse::<f64>().is_err();
    let guard = if is_formula { "'" } else { "" };
    match text.contains([',', '"', '\n', '\r']) || is_formula {
        true => format!("\"{guard}{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

/// Media type of rows of values.
pub const CSV: &str = "text/csv; charset=utf-8";

/// The columns of [`counter_csv`].
pub const CSV_HEAD: &str = "id,value,created_at,updated_at,exact\n";

/// A counter as a row of values.
pub fn counter_csv(exported: &ExportedCounter) -> String {
    let parts = exported.datacenters.iter();
    let written = parts.filter_map(|(_, contents)| some_from(contents.as_ref()?.last_write_ms));
    let updated_at = written
        .max()
        .filter(|at_ms| *at_ms > 0)
        .map(|at_ms| at_ms.to_string());
    format!(
        "{},{},{},{},{}\n",
        csv_field(exported.counter.as_str()),
        value_of(exported),
        exported.root.created_at_ms,
        updated_at.unwrap_or_default(),
        exported.is_exact
    )
}

/// The end of an export.
#[derive(Clone, Debug, Default)]
pub struct Ending {
    /// Counters in it.
    pub counters: u64,
    /// Policies in it.
    pub policies: u64,
    /// Overrides in it.
    pub overrides: u64,
    /// Alerts in it.
    pub alerts: u64,
    /// Boards in it.
    pub boards: u64,
    /// Counters that could not be read completely.
    pub inexact: u64,
    /// The first counters that could not be read at all, and are left out.
    pub unreachable: Vec<CounterId>,
    /// Partitions whose counters are missing.
    pub missing_partitions: Vec<u32>,
    /// The cursor of the next part, if this is not the end of the data.
    pub cursor: Option<String>,
    /// Why it ends early.
    pub why: Option<String>,
}

impl Ending {
    /// Adds a counter that is left out.
    pub fn leave_out(&mut self, counter: &CounterId) {
        if self.unreachable.len() < NAMED_MAX {
            self.unreachable.push(counter.clone());
        }
    }

    /// The last line.
    pub fn line(&self, checksum: &Checksum) -> String {
        #[derive(Serialize)]
        struct EndView<'a> {
            end: bool,
            counters: u64,
            #[serde(skip_serializing_if = "is_zero")]
            policies: u64,
            #[serde(skip_serializing_if = "is_zero")]
            overrides: u64,
            #[serde(skip_serializing_if = "is_zero")]
            alerts: u64,
            #[serde(skip_serializing_if = "is_zero")]
            boards: u64,
            checksum: String,
            complete: bool,
            #[serde(skip_serializing_if = "is_zero")]
            inexact: u64,
            #[serde(skip_serializing_if = "<[_]>::is_empty")]
            unreachable: &'a [CounterId],
            #[serde(skip_serializing_if = "<[_]>::is_empty")]
            missing_partitions: &'a [u32],
            #[serde(skip_serializing_if = "Option::is_none")]
            cursor: Option<&'a str>,
            #[serde(skip_serializing_if = "Option::is_none")]
            why: Option<&'a str>,
        }
        let is_end = self.cursor.is_none();
        let view = EndView {
            end: is_end,
            counters: self.counters,
            policies: self.policies,
            overrides: self.overrides,
            alerts: self.alerts,
            boards: self.boards,
            checksum: checksum.text(),
            complete: is_end && self.inexact == 0 && self.missing_partitions.is_empty(),
            inexact: self.inexact,
            unreachable: &self.unreachable,
            missing_partitions: &self.missing_partitions,
            cursor: self.cursor.as_deref(),
            why: self.why.as_deref(),
        };
        let mut line = serde_json::to_string(&view).unwrap_or_default();
        line.push('\n');
        line
    }

    /// The last row of CSV that lacks counters: why, in its first field; `None` where none are missing.
    pub fn csv_line(&self) -> Option<String> {
        let mut why: Vec<String> = self.why.iter().cloned().collect();
        if let Some(cursor) = &self.cursor {
            why.push(format!("continue with cursor={cursor}"));
        }
        if !self.missing_partitions.is_empty() {
            let missing = &self.missing_partitions;
            why.push(format!(
                "partitions {missing:?} of the directory did not answer"
            ));
        }
        if !self.unreachable.is_empty() {
            let names: Vec<&str> = self.unreachable.iter().map(CounterId::as_str).collect();
            why.push(format!("{} could not be read", names.join(", ")));
        }
        let text = csv_field(&format!("# not complete: {}", why.join("; ")));
        (!why.is_empty()).then(|| text + ",,,,\n")
    }
}

#[cfg_attr(
    not(target_arch = "wasm32"),
    expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "serde hands fields over by reference"
    )
)]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// The result of an import.
#[derive(Debug, Default)]
pub struct Report {
    /// Lines that were read.
    pub lines: u64,
    /// Counters that were imported.
    pub counters: u64,
    /// Policies that were.
    pub policies: u64,
    /// Overrides that were.
    pub overrides: u64,
    /// Alerts that were.
    pub alerts: u64,
    /// The names of alerts whose lines have no secret: new alerts need one set.
    pub alerts_without_secret: Vec<String>,
    /// Boards that were.
    pub boards: u64,
    /// Members of boards that were.
    pub members: u64,
    /// How many lines were refused.
    pub rejected: u64,
    /// The first refused lines: line, name and reason.
    pub refused: Vec<(u64, Option<String>, Problem)>,
    /// Whether the file agrees with its last line; `None` where it had no last line.
    pub is_whole: Option<bool>,
}

impl Report {
    /// Adds a line that was refused.
    pub fn reject(&mut self, line: u64, name: Option<String>, why: Problem) {
        self.rejected += 1;
        if self.refused.len() < NAMED_MAX {
            self.refused.push((line, name, why));
        }
    }

    /// The problem of an import of which nothing was imported because lines were refused, and its JSON, which has the
    /// report too; `None` otherwise. A code whose lines may be imported later comes first, so that the sender repeats
    /// the body.
    pub fn refusal(&self) -> Option<(Problem, String)> {
        let imported = [
            self.counters,
            self.policies,
            self.overrides,
            self.alerts,
            self.boards,
            self.members,
        ];
        if imported.into_iter().any(|count| count > 0) {
            return None;
        }
        let is_for_now = |(_, _, why): &&(u64, Option<String>, Problem)| {
            matches!(why.code().status(), 429 | 500..)
        };
        let first = self.refused.iter().find(is_for_now);
        let (line, _, why) = first.or(self.refused.first())?;
        let detail = format!(
            "none of {} lines was imported; the reason of line {line}: {}",
            self.rejected,
            why.detail()
        );
        let mut problem = Problem::new(why.code(), detail);
        if let Some(seconds) = why.retry_after_seconds() {
            problem = problem.with_retry_after(seconds);
        }
        let (members, report) = (problem.to_json(), self.to_json());
        let json = [members.strip_suffix('}')?, report.strip_prefix('{')?].join(",");
        Some((problem, json))
    }

    /// The JSON of the answer.
    pub fn to_json(&self) -> String {
        #[derive(Serialize)]
        struct RefusedView<'a> {
            line: u64,
            #[serde(skip_serializing_if = "Option::is_none")]
            id: Option<&'a str>,
            code: &'static str,
            detail: &'a str,
        }
        #[derive(Serialize)]
        struct ReportView<'a> {
            lines: u64,
            counters: u64,
            policies: u64,
            #[serde(skip_serializing_if = "is_zero")]
            overrides: u64,
            #[serde(skip_serializing_if = "is_zero")]
            alerts: u64,
            /// Alerts whose lines have no secret. Those that were there keep theirs; of new ones nobody knows it: put
            /// one.
            #[serde(skip_serializing_if = "<[_]>::is_empty")]
            alerts_without_secret: &'a [String],
            boards: u64,
            members: u64,
            rejected: u64,
            refused: Vec<RefusedView<'a>>,
            complete: Option<bool>,
        }
        let refused = self.refused.iter().map(|(line, id, why)| RefusedView {
            line: *line,
            id: id.as_deref(),
            code: why.code().as_str(),
            detail: why.detail(),
        });
        let report = ReportView {
            lines: self.lines,
            counters: self.counters,
            policies: self.policies,
            overrides: self.overrides,
            alerts: self.alerts,
            alerts_without_secret: &self.alerts_without_secret,
            boards: self.boards,
            members: self.members,
            rejected: self.rejected,
            refused: refused.collect(),
            complete: self.is_whole,
        };
        serde_json::to_string(&report).unwrap_or_default()
    }
}
