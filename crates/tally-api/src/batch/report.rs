//! The result of a batch: every record is either accepted or rejected. The first [`ERRORS_MAX`] rejected records are
//! reported with a sentence each, in the order of their numbers, and all of them by code and number.

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};
use tally_core::order::{in_order, put_in_order};

use super::lines::{LineNumbers, LineSet};
use tally_wire::problem::{Code, Problem};

/// The most errors that an answer explains with a sentence.
pub const ERRORS_MAX: usize = 100;

/// The most runs of rejected lines that an answer lists for each code: 1.8 MB at most. A log of 32 MiB with 200 bytes a
/// line has no more runs. Of further runs, the answer gives only the number.
pub const RUNS_MAX: usize = 100_000;

/// Why one record was not counted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LineError {
    /// Line, or element of the array, from 1.
    pub line: u64,
    /// The stable code.
    #[serde(serialize_with = "code_as_str")]
    pub code: Code,
    /// What to do about it.
    pub detail: String,
}

fn is_none(count: &u64) -> bool {
    *count == 0
}

fn code_as_str<S: Serializer>(code: &Code, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(code.as_str())
}

/// All records that were rejected with one code: `{"code","count","lines","unlisted"?}`, where `lines` is a text such
/// as `3,5-120`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RejectedRecords {
    /// The code.
    pub code: Code,
    /// How many.
    pub count: u64,
    /// Which.
    lines: LineSet,
}

impl RejectedRecords {
    /// Counts one line of any number as rejected, in the list of all codes.
    pub fn reject(all: &mut Vec<Self>, code: Code, line: u64) {
        Self::of_code(all, code, 1).insert(line, line);
    }

    /// Counts lines of a code, and returns the set that they belong in.
    fn of_code(all: &mut Vec<Self>, code: Code, count: u64) -> &mut LineSet {
        let known = all.iter().position(|known| known.code == code);
        let index = known.unwrap_or_else(|| {
            let (count, lines) = (0, LineSet::default());
            all.push(Self { code, count, lines });
            all.len() - 1
        });
        let rejected = &mut all[index];
        rejected.count += count;
        &mut rejected.lines
    }

    /// The first [`RUNS_MAX`] runs as a text, and how many lines it omits.
    fn lines_text(&self) -> (String, u64) {
        use std::fmt::Write;

        let (mut text, mut named) = (String::new(), 0);
        for (first, last) in self.lines.runs().take(RUNS_MAX) {
            let comma = if text.is_empty() { "" } else { "," };
            // Writing to a text never fails.
            let _ = match last == first {
                true => write!(text, "{comma}{first}"),
                false => write!(text, "{comma}{first}-{last}"),
            };
            named += last - first + 1;
        }
        (text, self.count.saturating_sub(named))
    }
}

impl Serialize for RejectedRecords {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (lines, unlisted) = self.lines_text();
        let fields = if unlisted > 0 { 4 } else { 3 };
        let mut object = serializer.serialize_struct("Rejected", fields)?;
        object.serialize_field("code", self.code.as_str())?;
        object.serialize_field("count", &self.count)?;
        object.serialize_field("lines", &lines)?;
        if unlisted > 0 {
            object.serialize_field("unlisted", &unlisted)?;
        }
        object.end()
    }
}

/// The answer to a batch:
/// `{"accepted","rejected","bots_ignored"?,"errors":[{"line","code","detail"}],"rejected_lines"?}`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BatchReport {
    /// How many records count.
    pub accepted: u64,
    /// How many do not.
    pub rejected: u64,
    /// Events that were left out because their user agent is a bot's, where there were any: neither accepted nor
    /// rejected.
    #[serde(skip_serializing_if = "is_none")]
    pub bots_ignored: u64,
    /// The first 100.
    pub errors: Vec<LineError>,
    /// All lines that were rejected, by their codes; left out where there are none. Send these, and only these, again.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rejected_lines: Vec<RejectedRecords>,
    /// The earliest time at which a rejected record could count, where its problem gives one.
    #[serde(skip)]
    pub retry_after_seconds: Option<u32>,
}

/// Whether the same record may count later. `too-many-counters` needs another body first.
fn may_count_later(code: Code) -> bool {
    matches!(code.status(), 429 | 500..)
}

impl BatchReport {
    /// The problem of a batch if records were rejected and none counts, and its JSON, which has the report too. `None`
    /// if a record counts, or if there was none to count. A code whose records may count later comes first, so that
    /// the sender repeats the batch; then the code of the most records does.
    pub fn refusal(&self) -> Option<(Problem, String)> {
        if self.accepted > 0 {
            return None;
        }
        let weight = |all: &RejectedRecords| (may_count_later(all.code), all.count);
        let first_of_most = self
            .rejected_lines
            .iter()
            .rev()
            .max_by_key(|all| weight(all));
        let code = first_of_most?.code;
        let error = self.errors.iter().find(|error| error.code == code);
        let why = error.map_or(code.title(), |error| error.detail.as_str());
        let line = error.map_or(1, |error| error.line);
        let rejected = self.rejected;
        let detail = format!("none of {rejected} was counted; the reason of number {line}: {why}");
        let mut problem = Problem::new(code, detail);
        if let Some(seconds) = self.retry_after_seconds.filter(|_| may_count_later(code)) {
            problem = problem.with_retry_after(seconds);
        }
        let (members, report) = (problem.to_json(), serde_json::to_string(self).ok()?);
        let json = [members.strip_suffix('}')?, report.strip_prefix('{')?].join(",");
        Some((problem, json))
    }

    /// Counts one record as rejected. Records come in the order of their numbers.
    pub fn reject(&mut self, line: u64, problem: &Problem) {
        self.record_rejected(problem, 1).insert(line, line);
        if self.errors.len() < ERRORS_MAX {
            self.errors.push(line_error(line, problem));
        }
    }

    fn record_rejected(&mut self, problem: &Problem, lines: u64) -> &mut LineSet {
        let code = problem.code();
        self.rejected += lines;
        let earliest = [self.retry_after_seconds, problem.retry_after_seconds()];
        self.retry_after_seconds = earliest.into_iter().flatten().min();
        RejectedRecords::of_code(&mut self.rejected_lines, code, lines)
    }

    /// The rejected lines before this one as a text such as `3,5-120`: their first [`ERRORS_MAX`] runs.
    pub fn rejected_before(&self, line: u64) -> String {
        let runs = |rejected: &RejectedRecords| rejected.lines.runs().collect::<Vec<_>>();
        let mut all: Vec<(u64, u64)> = self.rejected_lines.iter().flat_map(runs).collect();
        put_in_order(&mut all, Ord::cmp);
        let before = all.into_iter().filter(|(first, _)| *first < line);
        let texts =
            before
                .take(ERRORS_MAX)
                .map(|(first, last)| match last.min(line.saturating_sub(1)) {
                    last if last == first => first.to_string(),
                    last => format!("{first}-{last}"),
                });
        texts.collect::<Vec<String>>().join(",")
    }

    /// The bytes that the numbers of rejected lines use.
    pub fn memory_bytes(&self) -> u64 {
        let all = self.rejected_lines.iter();
        all.map(|rejected| rejected.lines.memory_bytes()).sum()
    }

    /// Turns accepted records into rejected ones: their cell failed after they were read. The errors stay the first of
    /// the whole batch. Costs a sort of at most twice [`ERRORS_MAX`] errors.
    pub fn fail(&mut self, lines: &LineNumbers, problem: &Problem) {
        self.accepted = self.accepted.saturating_sub(lines.count());
        let rejected = self.record_rejected(problem, lines.count());
        for (first, last) in lines.runs() {
            rejected.insert(first, last);
        }
        let first = lines.runs().flat_map(|(first, last)| first..=last);
        let first = first.take(ERRORS_MAX);
        self.errors
            .extend(first.map(|line| line_error(line, problem)));
        let errors = std::mem::take(&mut self.errors);
        self.errors = in_order(errors, |one, other| one.line.cmp(&other.line));
        self.errors.truncate(ERRORS_MAX);
    }
}

fn line_error(line: u64, problem: &Problem) -> LineError {
    LineError {
        line,
        code: problem.code(),
        detail: problem.detail().to_owned(),
    }
}
