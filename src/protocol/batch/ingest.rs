//! The queries of `/ingest`: which format the lines have, and which of their fields count. Only known
//! values are taken; others are refused with the list of the known ones.

use super::super::problem::{Code, Problem};
use super::Record;
use super::clf::LogLine;
use super::logpush::{LogpushLine, parse_ndjson};
use super::split::Splitter;

/// The format of the lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Common or Combined Log Format.
    Clf,
    /// One event per line, with its own time.
    Ndjson,
    /// Cloudflare Logpush.
    Logpush,
}

/// The field that names the counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyField {
    /// The request target without its query, as logged.
    Path,
}

/// The field that uniques are counted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UniqueField {
    /// The client's address, as logged.
    Ip,
    /// None: no uniques are counted.
    None,
}

/// How the lines of one body are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ingest {
    /// The format of the lines.
    pub format: Format,
    /// The field that names the counter.
    pub key: KeyField,
    /// The field that uniques are counted by.
    pub unique: UniqueField,
}

impl Ingest {
    /// Returns what the query values ask for. `format` is needed; `key` is `path` and `unique` is `none`
    /// where missing.
    ///
    /// # Errors
    /// `invalid-query` that names the parameter and its known values.
    pub fn from_query(
        format: Option<&str>,
        key: Option<&str>,
        unique: Option<&str>,
    ) -> Result<Self, Problem> {
        let format = match format {
            Some("clf") => Format::Clf,
            Some("ndjson") => Format::Ndjson,
            Some("logpush") => Format::Logpush,
            other => return Err(unknown("format", other, "`clf`, `ndjson` or `logpush`")),
        };
        let key = match key {
            None | Some("path") => KeyField::Path,
            other => return Err(unknown("key", other, "`path`")),
        };
        let unique = match unique {
            Some("ip") => UniqueField::Ip,
            None | Some("none") => UniqueField::None,
            other => return Err(unknown("unique", other, "`ip` or `none`")),
        };
        Ok(Self {
            format,
            key,
            unique,
        })
    }

    /// Returns what the queries ask for, each by its own name: a body under them is another under others.
    pub fn asked(&self) -> [&'static str; 3] {
        let format = match self.format {
            Format::Clf => "clf",
            Format::Ndjson => "ndjson",
            Format::Logpush => "logpush",
        };
        let key = match self.key {
            KeyField::Path => "path",
        };
        let unique = match self.unique {
            UniqueField::Ip => "ip",
            UniqueField::None => "none",
        };
        [format, key, unique]
    }

    /// Returns the splitter for such a body: log lines are lines even where one begins with `[`.
    pub fn splitter(&self) -> Splitter {
        match self.format {
            Format::Clf => Splitter::lines(),
            Format::Ndjson | Format::Logpush => Splitter::detect(),
        }
    }

    /// Returns what one line counts; `None` for a line that is no record (Logpush's destination check).
    ///
    /// # Errors
    /// As [`LogLine::parse`], [`LogpushLine::parse`] and [`parse_ndjson`].
    pub fn read<'a>(&self, line: &'a [u8]) -> Result<Option<Record<'a>>, Problem> {
        let KeyField::Path = self.key;
        match self.format {
            Format::Clf => LogLine::parse(line).map(|line| Some(line.record(self.unique))),
            Format::Ndjson => parse_ndjson(line, self.unique).map(Some),
            Format::Logpush => {
                LogpushLine::parse(line).map(|line| line.map(|line| line.record(self.unique)))
            }
        }
    }
}

fn unknown(parameter: &str, value: Option<&str>, known: &str) -> Problem {
    let detail = match value {
        None => format!("`{parameter}` is needed: {known}"),
        Some(value) => {
            let shown: String = value.chars().take(48).collect();
            format!("`{parameter}` is {known}, not `{shown}`")
        }
    };
    Problem::new(Code::InvalidQuery, detail)
}
