//! What became of a batch: every record is either accepted or rejected, and the first
//! [`ERRORS_MAX`] rejected ones are named, in the order of their numbers.

use super::super::order::in_order;
use serde::{Serialize, Serializer};

use super::super::problem::{Code, Problem};
use super::length;

/// The most errors that an answer names, and the most record numbers that a counter remembers: those
/// beyond the first 100 of a counter can never be among the first 100 of the batch.
pub const ERRORS_MAX: usize = 100;

/// Why one record was not counted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LineError {
    /// The record's number: of its line, or of its element in an array; from 1.
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

/// The answer to a batch: `{"accepted","rejected","bots_ignored"?,"errors":[{"line","code","detail"}]}`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// How many records count.
    pub accepted: u64,
    /// How many do not.
    pub rejected: u64,
    /// How many were left out because their user agent is a bot's: neither accepted nor rejected.
    #[serde(skip_serializing_if = "is_none")]
    pub bots_ignored: u64,
    /// The first of the rejected, at most [`ERRORS_MAX`].
    pub errors: Vec<LineError>,
    /// How many of the rejected have each code, for the metrics. Clients are not told.
    #[serde(skip)]
    pub rejected_by: Vec<(Code, u64)>,
}

impl Report {
    /// Counts one record as rejected. Records come in the order of their numbers.
    pub fn reject(&mut self, line: u64, problem: &Problem) {
        self.note_rejected(problem.code(), 1);
        if self.errors.len() < ERRORS_MAX {
            self.errors.push(line_error(line, problem));
        }
    }

    fn note_rejected(&mut self, code: Code, lines: u64) {
        self.rejected += lines;
        match self
            .rejected_by
            .iter_mut()
            .find(|(known, _)| *known == code)
        {
            Some((_, count)) => *count += lines,
            None => self.rejected_by.push((code, lines)),
        }
    }

    /// Turns accepted records into rejected ones: their cell failed after they were read. The errors
    /// stay the first of the whole batch. Costs a sort of at most twice [`ERRORS_MAX`] errors.
    pub fn fail(&mut self, lines: &LineNumbers, problem: &Problem) {
        self.accepted = self.accepted.saturating_sub(lines.count);
        self.note_rejected(problem.code(), lines.count);
        self.errors
            .extend(lines.first.iter().map(|&line| line_error(line, problem)));
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

/// Which records a counter's sum came from: how many, and the numbers of the first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LineNumbers {
    /// How many records.
    pub count: u64,
    /// The first [`ERRORS_MAX`] of their numbers, rising.
    pub first: Vec<u64>,
}

impl LineNumbers {
    /// One record.
    pub(crate) fn one(line: u64) -> Self {
        Self {
            count: 1,
            first: vec![line],
        }
    }

    /// Adds a record, and returns the bytes that this holds more.
    pub(crate) fn push(&mut self, line: u64) -> u64 {
        self.count += 1;
        if self.first.len() == ERRORS_MAX {
            return 0;
        }
        let before = self.first.capacity();
        self.first.push(line);
        length(self.first.capacity() - before) * 8
    }
}
