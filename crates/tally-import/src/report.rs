//! The report of a body: which of its lines are refused, with which code and why.

use std::collections::HashMap;

use serde::Deserialize;

#[derive(Deserialize)]
struct Rejected {
    code: String,
    lines: String,
}

#[derive(Deserialize)]
struct LineError {
    line: u32,
    code: String,
    #[serde(default)]
    detail: String,
}

/// What the service says of a body.
#[derive(Deserialize, Default)]
pub struct IngestReport {
    #[serde(default)]
    rejected_lines: Vec<Rejected>,
    #[serde(default)]
    errors: Vec<LineError>,
}

/// Returns the lines that `3,5-7` names, up to the last of a body.
pub fn lines_of(text: &str, last: u32) -> impl Iterator<Item = u32> + '_ {
    text.split(',').flat_map(move |part| {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let number = |text: &str| text.parse::<u32>().unwrap_or(u32::MAX);
        number(from)..=number(to).min(last)
    })
}

impl IngestReport {
    /// Returns the codes of refused lines, by their places in a body of that many lines.
    pub fn codes(&self, lines: usize) -> HashMap<usize, &str> {
        let last = u32::try_from(lines).unwrap_or(u32::MAX);
        let named = self.rejected_lines.iter().flat_map(|rejected| {
            let places = lines_of(&rejected.lines, last).filter_map(place_of);
            places.map(|place| (place, rejected.code.as_str()))
        });
        named.collect()
    }

    /// Returns why a line is refused: its code, and what the service says of it.
    pub fn reason(&self, code: &str, place: usize) -> String {
        let is_it = |error: &&LineError| place_of(error.line) == Some(place);
        let error = self.errors.iter().find(is_it);
        match (code, error.map_or("", |error| error.detail.as_str())) {
            ("idempotency-key-reused", _) => {
                "idempotency-key-reused: it was imported with other options".to_owned()
            }
            (code, "") => code.to_owned(),
            (code, detail) => [code, ": ", detail].concat(),
        }
    }

    /// Returns lines that are ahead of the server's clock, by their places, and by how many milliseconds they are.
    pub fn ahead(&self) -> impl Iterator<Item = (usize, i64)> + '_ {
        let errors = self
            .errors
            .iter()
            .filter(|error| error.code == "clock-skew");
        errors.filter_map(|error| {
            let words: Vec<&str> = error.detail.split(' ').collect();
            let ahead = words
                .windows(3)
                .find(|words| words[1] == "ms" && words[2] == "ahead");
            let ahead_ms = ahead.and_then(|words| words[0].parse::<i64>().ok())?;
            Some((place_of(error.line)?, ahead_ms))
        })
    }
}

/// Returns the place of a line of a body, whose first line is number 1.
fn place_of(line: u32) -> Option<usize> {
    usize::try_from(line).ok()?.checked_sub(1)
}
