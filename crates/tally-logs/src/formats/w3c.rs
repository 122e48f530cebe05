//! The W3C's extended format: IIS, which writes its columns with spaces, and CloudFront, which writes them with tabs.
//!
//! Identified by `#Fields:`, which names the columns, and which a server may write again in mid-file. Without it, by
//! the columns of CloudFront. A line is a request if it has as many columns as were named, among them `date`, `time`
//! and `cs-uri-stem`. Times are UTC. Sources: W3C, "Extended Log File Format"; AWS, "CloudFront standard logging".

use std::borrow::Cow;

use crate::hit::{Hit, Unread, marked, said, visitor};
use crate::time::parse_any;

const NAMES: &str = "#Fields:";
const CLOUDFRONT: &str = "date time x-edge-location sc-bytes c-ip cs-method cs(Host) cs-uri-stem sc-status cs(Referer) \
                          cs(User-Agent) cs-uri-query";

/// The columns that are read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Column {
    Date,
    Time,
    Stem,
    Query,
    Address,
    Method,
    Status,
    Referrer,
    UserAgent,
    Country,
    Other,
}

fn column_of(name: &str) -> Column {
    match name {
        "date" => Column::Date,
        "time" => Column::Time,
        "cs-uri-stem" => Column::Stem,
        "cs-uri-query" => Column::Query,
        "c-ip" => Column::Address,
        "cs-method" => Column::Method,
        "sc-status" => Column::Status,
        "cs(Referer)" => Column::Referrer,
        "cs(User-Agent)" => Column::UserAgent,
        "c-country" => Column::Country,
        _ => Column::Other,
    }
}

/// The columns of the lines that come next.
pub(crate) struct Columns {
    columns: Vec<Column>,
    /// Whether they were named: otherwise a line may have more of them.
    are_named: bool,
}

impl Default for Columns {
    fn default() -> Self {
        Self {
            columns: CLOUDFRONT.split(' ').map(column_of).collect(),
            are_named: false,
        }
    }
}

impl Columns {
    /// Returns the request of a line; `None` for a comment. A line that names columns changes those of the next.
    pub(crate) fn read<'a>(&mut self, line: &'a [u8]) -> Result<Option<Hit<'a>>, Unread> {
        marked(line, |line| self.read_text(line))
    }

    fn read_text<'a>(&mut self, line: &'a str) -> Result<Option<Hit<'a>>, Unread> {
        if line.starts_with('#') {
            if let Some(names) = line.strip_prefix(NAMES) {
                self.columns = names.split_whitespace().map(column_of).collect();
                self.are_named = true;
            }
            return Ok(None);
        }
        let cells = cells_of(line);
        let (have, want) = (cells.len(), self.columns.len());
        // Without names only CloudFront's columns are known, which tabs separate. A date and a time before a line of
        // another format would be taken for its first two.
        if !self.are_named && !line.contains('\t') {
            return Err(Unread::Why(
                "no `#Fields` named the columns, and tabs, as CloudFront writes them, separate none",
            ));
        }
        if have < want || (self.are_named && have > want) {
            return Err(Unread::Why(
                "the line has not as many columns as `#Fields` names",
            ));
        }
        let cell = |wanted: Column| {
            let at = self.columns.iter().position(|column| *column == wanted)?;
            let cell = cells.get(at).copied();
            cell.filter(|cell| !matches!(*cell, "" | "-"))
        };
        let (date, time) = (cell(Column::Date), cell(Column::Time));
        let at_ms = date
            .zip(time)
            .and_then(|(date, time)| parse_any(&[date, "T", time].concat()))
            .ok_or(Unread::Why(
                "the line has no `date` and `time` that are real",
            ))?;
        let stem = cell(Column::Stem).ok_or(Unread::Why("the line has no `cs-uri-stem`"))?;
        let target = match cell(Column::Query) {
            Some(query) => Cow::Owned([stem, "?", query].concat()),
            None => Cow::Borrowed(stem),
        };
        let text = |wanted| Cow::Borrowed(cell(wanted).unwrap_or_default());
        let mut hit = Hit::at(at_ms, Ok(target));
        hit.visitor = cell(Column::Address).and_then(visitor);
        hit.method = text(Column::Method);
        hit.status = text(Column::Status);
        hit.referrer = text(Column::Referrer);
        if self.columns.contains(&Column::UserAgent) {
            hit.user_agent = Some(said(decoded(cell(Column::UserAgent).unwrap_or_default())));
        }
        hit.country = text(Column::Country);
        Ok(Some(hit))
    }
}

/// Returns the cells of a line, between tabs or spaces; quotes may hold spaces.
fn cells_of(line: &str) -> Vec<&str> {
    if line.contains('\t') {
        return line.split('\t').collect();
    }
    let mut cells = Vec::new();
    let mut rest = line.trim_end();
    while !rest.is_empty() {
        let quoted = rest.strip_prefix('"').and_then(|rest| rest.split_once('"'));
        let (cell, after) = match quoted {
            Some((cell, after)) => (cell, after.strip_prefix(' ').unwrap_or(after)),
            None => rest.split_once(' ').unwrap_or((rest, "")),
        };
        cells.push(cell);
        rest = after;
    }
    cells
}

/// Returns a user agent as it was sent: IIS writes `+` for its spaces, CloudFront encodes it, and its percent signs
/// once more.
fn decoded(text: &str) -> Cow<'_, str> {
    if !text.contains(['%', '+']) {
        return Cow::Borrowed(text);
    }
    let encoded = ["=", &text.replace("%25", "%")].concat();
    let mut pairs = form_urlencoded::parse(encoded.as_bytes());
    pairs.next().map_or(Cow::Borrowed(text), |(_, value)| {
        Cow::Owned(value.into_owned())
    })
}
