//! The parameters of an export and of an import.

use crate::query::Query;
use tally_core::counter::contents::ContentsWanted;
use tally_core::counter::history::Resolution;
use tally_wire::problem::{Code, Problem};

/// The parameters of `GET /export`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportQuery {
    /// The prefix of names.
    pub prefix: String,
    /// Only counters after this one.
    pub cursor: Option<String>,
    /// The most counters.
    pub limit: Option<u64>,
    /// What is read of each counter besides totals.
    pub wanted: ContentsWanted,
    /// Whether alerts are included.
    pub alerts: bool,
    /// Whether large numbers are strings.
    pub strings: bool,
    /// Whether the answer is CSV instead of NDJSON.
    pub is_csv: bool,
}

fn refuse<T>(detail: &str) -> Result<T, Problem> {
    Err(Problem::new(Code::InvalidQuery, detail))
}

impl ExportQuery {
    /// Reads a query; `now` is unix seconds.
    ///
    /// # Errors
    /// `invalid-query`.
    pub fn parse(query: &str, now: i64) -> Result<Self, Problem> {
        let known = [
            "prefix", "cursor", "limit", "history", "uniques", "samples", "alerts", "format",
            "numbers",
        ];
        let query = Query::parse(query, &known)?;
        let flag = |name: &str| match query.get(name) {
            None | Some("0") => Ok(false),
            Some("1") => Ok(true),
            Some(_) => refuse(&format!("{name} can only be 1 or 0")),
        };
        let (history, minutes_from) = match query.get("history") {
            None | Some("0") => (false, None),
            Some("1") => (true, None),
            Some("minutes") => (true, Some(Resolution::Day.start_of(now))),
            Some(_) => {
                return refuse("history can only be 1, or `minutes` to add the minutes of today");
            }
        };
        let limit = match query.get("limit").map(str::parse::<u64>) {
            None => None,
            Some(Ok(limit)) if limit > 0 => Some(limit),
            Some(_) => return refuse("limit must be a whole number from 1"),
        };
        let is_csv = match query.get("format") {
            None | Some("ndjson") => false,
            Some("csv") => true,
            Some(_) => return refuse("format can only be `ndjson` or `csv`"),
        };
        let alerts = flag("alerts")?;
        if alerts && query.get("prefix").is_some_and(|prefix| !prefix.is_empty()) {
            return refuse("alerts have no prefix: ask for them without `prefix`");
        }
        let (uniques, samples) = (flag("uniques")?, flag("samples")?);
        if is_csv && (history || uniques || samples || alerts) {
            return refuse(
                "format=csv has values only: leave history, uniques, samples and alerts out",
            );
        }
        Ok(Self {
            prefix: query.get("prefix").unwrap_or_default().to_owned(),
            cursor: query.get("cursor").map(str::to_owned),
            limit,
            wanted: ContentsWanted {
                history,
                minutes_from,
                uniques,
                samples,
            },
            alerts,
            strings: query.numbers_as_strings()?,
            is_csv,
        })
    }
}

/// What an import does with a counter that exists already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ImportMode {
    /// The counter stays, and the line is refused.
    #[default]
    Create,
    /// The counter is deleted first.
    Replace,
    /// The line is added to it; its settings stay.
    Add,
}

impl ImportMode {
    /// Its name in a query.
    pub fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Replace => "replace",
            Self::Add => "add",
        }
    }
}

/// Reads the mode of an import; the default is `create`.
///
/// # Errors
/// `invalid-query`.
pub fn import_mode(text: Option<&str>) -> Result<ImportMode, Problem> {
    match text {
        None | Some("create") => Ok(ImportMode::Create),
        Some("replace") => Ok(ImportMode::Replace),
        Some("add") => Ok(ImportMode::Add),
        Some(_) => refuse("mode can only be `create`, `replace` or `add`"),
    }
}
