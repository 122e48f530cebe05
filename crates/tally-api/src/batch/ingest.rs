//! The queries of `/ingest`: the format of the lines, and which of their fields count. Only known values are accepted;
//! a refusal lists them.

use std::borrow::Cow;

use super::BulkRecord;
use super::ndjson::{UniqueField, parse_ndjson};
use super::split::Splitter;
use crate::dimensions::of_request;
use crate::json::{bytes_of, problem_of_line};
use tally_core::counter::dimensions::Dimensions;
use tally_core::counter::id::CounterId;
use tally_logs::fields::{LogField, LoggedRequest};
use tally_logs::formats::{clf, logpush};
use tally_logs::hit::Hit;
use tally_wire::problem::{Code, Problem};

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
    /// The site: all lines count for one counter, [`Ingest::site`].
    Site,
}

/// How the lines of one body are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ingest {
    /// The format of the lines.
    pub format: Format,
    /// The field that names the counter.
    pub key: KeyField,
    /// The field that uniques are counted by.
    pub unique: UniqueField,
    /// The dimensions that lines count.
    pub by: Vec<LogField>,
    /// The site's own host, and the counter of [`KeyField::Site`].
    pub site: Option<CounterId>,
}

impl Ingest {
    /// Returns what the query values ask for. `format` is needed; `id` is `path` and `unique` is `none`
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
            Some("site") => KeyField::Site,
            other => return Err(unknown("id", other, "`path` or `site`")),
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
            by: Vec::new(),
            site: None,
        })
    }

    /// The same, with the query values `by` and `site`.
    ///
    /// # Errors
    /// `invalid-query`; `invalid-id` for a site that is no counter's name.
    pub fn saying(self, by: Option<&str>, site: Option<&str>) -> Result<Self, Problem> {
        let refuse = |detail: &str| Err(Problem::new(Code::InvalidQuery, detail));
        let known = LogField::ALL.map(LogField::name).join(", ");
        let Some(by) = by.map_or(Some(Vec::new()), LogField::list) else {
            return refuse(&format!("by is a list of some of {known}, each once"));
        };
        let site = site.map(CounterId::parse).transpose()?;
        if self.format == Format::Ndjson && !(by.is_empty() && site.is_none()) {
            return refuse("NDJSON lines say `by` and `id` themselves; leave by and site out");
        }
        if self.key == KeyField::Site && site.is_none() {
            return refuse("id=site needs site, the id of the counter, such as example.com");
        }
        if self.format == Format::Clf && by.contains(&LogField::Country) {
            return refuse("lines of clf say no country; leave it out of by");
        }
        Ok(Self { by, site, ..self })
    }

    /// Returns the queries, each by its own name: the same body with other queries is another request. Dimensions and
    /// the site are omitted where they are not asked for, so that the identity of a body without them never changes.
    pub fn query_values(&self) -> Vec<&str> {
        let format = match self.format {
            Format::Clf => "clf",
            Format::Ndjson => "ndjson",
            Format::Logpush => "logpush",
        };
        let key = match self.key {
            KeyField::Path => "path",
            KeyField::Site => "site",
        };
        let unique = match self.unique {
            UniqueField::Ip => "ip",
            UniqueField::None => "none",
        };
        let site = self.site.as_ref().map(CounterId::as_str);
        let by = self.by.iter().map(|field| field.name());
        [format, key, unique]
            .into_iter()
            .chain(site)
            .chain(by)
            .collect()
    }

    /// Returns the splitter for such a body: log lines are lines even where one begins with `[`.
    pub fn splitter(&self) -> Splitter {
        match self.format {
            Format::Clf => Splitter::lines(),
            Format::Ndjson | Format::Logpush => Splitter::detect(),
        }
    }

    /// Returns what one line counts; `None` for a line that is no record, such as Logpush's destination check.
    ///
    /// # Errors
    /// As [`clf::read`], [`logpush::read`] and [`parse_ndjson`].
    pub fn read<'a>(&self, line: &'a [u8]) -> Result<Option<BulkRecord<'a>>, Problem> {
        let hit = match self.format {
            Format::Clf => clf::read(line).map(Some),
            Format::Logpush => logpush::read(line),
            Format::Ndjson => return parse_ndjson(line, self.unique).map(Some),
        };
        match hit {
            Ok(Some(hit)) => self.record(hit).map(Some),
            Ok(None) => Ok(None),
            Err(unread) => Err(problem_of_line(&unread)),
        }
    }

    /// Returns what a request counts: one, for its path or the site.
    fn record<'a>(&self, hit: Hit<'a>) -> Result<BulkRecord<'a>, Problem> {
        let key = match (&hit.target, self.key, &self.site) {
            (Err(why), ..) => return Err(Problem::new(Code::InvalidLine, *why)),
            (Ok(_), KeyField::Site, Some(site)) => Cow::Owned(site.as_str().to_owned()),
            _ => hit.path(),
        };
        Ok(BulkRecord {
            key,
            delta: 1,
            dimensions: match self.by.is_empty() {
                true => Dimensions::default(),
                false => {
                    let site = self.site.as_ref().map(CounterId::as_str);
                    of_request(&LoggedRequest::from(&hit), &self.by, site)
                }
            },
            unique: hit
                .visitor
                .filter(|_| self.unique == UniqueField::Ip)
                .map(bytes_of),
            at_ms: Some(hit.at_ms),
            id: None,
            sample: None,
            ttl_if_new: None,
        })
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
