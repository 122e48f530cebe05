//! Exports of GoatCounter: CSV, a visit a row.
//!
//! Identified by the row of names, whose first is `Path` behind the version of the format, `2Path`. A session takes the
//! place of the address. A `Path` without a leading slash is the name of an event. Sources: GoatCounter, "CSV export"
//! and "Events".

use std::borrow::Cow;

use crate::hit::{Hit, Unread, marked};
use crate::time::parse_any;

/// The columns of the rows that come next, by their names.
#[derive(Default)]
pub(crate) struct RowNames(Vec<String>);

impl RowNames {
    /// Returns the visit of a row; `None` for the row of names.
    pub(crate) fn read<'a>(&mut self, line: &'a [u8]) -> Result<Option<Hit<'a>>, Unread> {
        marked(line, |line| self.read_text(line))
    }

    fn read_text(&mut self, line: &str) -> Result<Option<Hit<'static>>, Unread> {
        let cells = cells_of(line);
        let digits = |name: &str| {
            name.trim_start_matches(|sign: char| sign.is_ascii_digit())
                .to_owned()
        };
        if cells.first().is_some_and(|first| digits(first) == "Path") {
            self.0 = cells.iter().map(|name| digits(name)).collect();
            return Ok(None);
        }
        let mut cells: Vec<Option<String>> = cells.into_iter().map(Some).collect();
        let mut cell = |name: &str| {
            let at = self.0.iter().position(|known| known == name)?;
            let cell = cells.get_mut(at).and_then(Option::take);
            cell.filter(|cell| !matches!(cell.as_str(), "" | "-"))
        };
        let path = cell("Path").ok_or(Unread::Why(
            "the row has no `Path`, or names of columns are missing",
        ))?;
        let date = cell("Date").and_then(|date| parse_any(&date));
        let (target, name) = match path.starts_with('/') {
            true => (Ok(Cow::Owned(path)), None),
            false => (Err("the row is an event, not a request"), Some(path)),
        };
        let at_ms = date.ok_or(Unread::Why("`Date` is no real time"))?;
        let mut hit = Hit::at(at_ms, target);
        hit.path = name.map(Cow::Owned);
        hit.visitor = cell("Session").map(Cow::Owned);
        hit.method = Cow::Borrowed("GET");
        hit.status = Cow::Borrowed("200");
        hit.referrer = Cow::Owned(cell("Referrer").unwrap_or_default());
        let is_bot = cell("Bot").is_some_and(|kind| kind != "0");
        let user_agent = cell("UserAgent").or(cell("Browser"));
        hit.user_agent = match is_bot {
            true => Some(Cow::Borrowed("bot")),
            false => user_agent.and_then(agent_of).map(Cow::Owned),
        };
        let country = cell("Location").unwrap_or_default();
        hit.country = Cow::Owned(country.chars().take(2).collect());
        Ok(Some(hit))
    }
}

/// Returns a browser's user agent: as it was sent, or by its name and version, such as `Firefox 140`. Which of them are
/// programs is a column of its own.
fn agent_of(text: String) -> Option<String> {
    if text.contains('/') {
        return Some(text);
    }
    let (name, version) = text.rsplit_once(' ')?;
    Some(["Mozilla/5.0 ", name, "/", version].concat())
}

/// Returns the cells of a row of CSV (RFC 4180, without line breaks inside quotes).
fn cells_of(row: &str) -> Vec<String> {
    let mut cells = vec![String::new()];
    let mut is_quoted = false;
    let mut signs = row.chars().peekable();
    while let Some(sign) = signs.next() {
        let Some(cell) = cells.last_mut() else { break };
        match sign {
            '"' if is_quoted && signs.peek() == Some(&'"') => cell.extend(signs.next()),
            '"' if is_quoted => is_quoted = false,
            '"' if cell.is_empty() => is_quoted = true,
            ',' if !is_quoted => cells.push(String::new()),
            _ => cell.push(sign),
        }
    }
    cells
}
