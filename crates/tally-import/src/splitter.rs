//! Bytes as parts of whole lines. A part is what is sent, and counted once, under one key.
//!
//! Invariant: where parts end depends on the bytes alone, not on how they arrive: so a repeat makes the same parts, and
//! the same keys. A file that was cut under a program that goes on at its old place begins with a hole of zeros: no
//! part has them.

use std::collections::VecDeque;

use crate::host::{Exit, Failure};

/// A body has at most 32 MiB (`BULK_BYTES_MAX`), and a line of a log grows to twice its size in it.
pub const PART_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Sums of more lines might take more than a section of a body (`SECTION_BYTES_MAX`): 10,000 × some 800 bytes are 8 MB.
pub const PART_LINES_MAX: u32 = 10_000;

/// A part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Where it begins.
    pub start: u64,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// What the end of the bytes so far means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogEnding {
    /// More bytes come.
    Open,
    /// No more come soon: the whole lines so far are a part.
    Idle,
    /// No more come, and whoever writes the last line has not ended it.
    Unfinished,
    /// No more come: the last line needs no newline.
    Closed,
}

/// Cuts bytes into parts.
#[derive(Debug, Default)]
pub struct LineSplitter {
    rest: Vec<u8>,
    offset: u64,
    /// Ends that parts must have, which an earlier run has sent.
    wanted: VecDeque<u64>,
    /// How many bytes of the rest were looked at, how many lines they have, and where the last of them ends.
    seen: usize,
    lines: u32,
    end: usize,
    /// What no part has: how the bytes so far end.
    ending: Option<LogEnding>,
}

impl LineSplitter {
    /// Returns a splitter of bytes from an offset on. `wanted`: ends that parts must have.
    pub fn new(offset: u64, wanted: impl IntoIterator<Item = u64>) -> Self {
        let mut wanted: Vec<u64> = wanted.into_iter().filter(|end| *end > offset).collect();
        wanted.sort_unstable();
        Self {
            offset,
            wanted: wanted.into(),
            ..Self::default()
        }
    }

    /// Takes bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.rest.extend_from_slice(bytes);
        self.ending = None;
    }

    /// Says how the bytes so far end.
    pub fn ends(&mut self, ending: LogEnding) {
        self.ending = Some(ending);
    }

    /// Returns whether no more bytes come soon.
    pub fn is_idle(&self) -> bool {
        self.ending == Some(LogEnding::Idle)
    }

    /// Returns how many whole lines no part has yet, and whether a line behind them has no newline where the bytes end.
    pub fn rest(&self) -> (u64, bool) {
        let lines = self.rest.iter().filter(|byte| **byte == b'\n').count();
        let is_unfinished = self.rest.last().is_some_and(|byte| *byte != b'\n');
        (
            u64::try_from(lines).unwrap_or(u64::MAX),
            is_unfinished && self.ending.is_some(),
        )
    }

    /// Returns the next part; `None` where more bytes are needed to know it.
    ///
    /// # Errors
    /// A line of more than 16 MiB is none of a log.
    pub fn take(&mut self) -> Result<Option<Piece>, Failure> {
        let is_last = self.ending.is_some();
        // What an earlier run has sent as one part is one part again, and its end is still to come.
        let is_cut = is_last && !self.is_idle();
        if self.rest.first() == Some(&0) {
            let zeros = self.rest.iter().take_while(|byte| **byte == 0).count();
            self.cut(zeros);
        }
        while self.wanted.front().is_some_and(|end| *end <= self.offset) {
            self.wanted.pop_front();
        }
        let known = self.wanted.front().map(|end| end - self.offset);
        let known = known.and_then(|length| usize::try_from(length).ok());
        let end = match known.filter(|length| *length <= self.rest.len()) {
            Some(length) => Some(length),
            None if self.wanted.is_empty() || is_cut => self.end_of_lines(is_last)?,
            None => None,
        };
        let is_closed = self.ending == Some(LogEnding::Closed) && !self.rest.is_empty();
        Ok(end.or(is_closed.then_some(self.rest.len())).map(|length| {
            let start = self.offset;
            Piece {
                start,
                bytes: self.cut(length),
            }
        }))
    }

    fn cut(&mut self, length: usize) -> Vec<u8> {
        let rest = self.rest.split_off(length.min(self.rest.len()));
        let bytes = std::mem::replace(&mut self.rest, rest);
        self.offset += u64::try_from(bytes.len()).unwrap_or_default();
        (self.seen, self.lines, self.end) = (0, 0, 0);
        bytes
    }

    fn end_of_lines(&mut self, is_last: bool) -> Result<Option<usize>, Failure> {
        while self.lines < PART_LINES_MAX {
            let unseen = self.rest.get(self.seen..).unwrap_or_default();
            let newline = unseen.iter().position(|byte| *byte == b'\n');
            let at = newline.map(|place| self.seen + place);
            match at {
                Some(at) if at < PART_BYTES_MAX => {
                    self.lines += 1;
                    (self.seen, self.end) = (at + 1, at + 1);
                    continue;
                }
                None => self.seen = self.rest.len(),
                Some(_) => {}
            }
            if self.rest.len() >= PART_BYTES_MAX {
                if self.end > 0 {
                    return Ok(Some(self.end));
                }
                if let Some(at) = at {
                    return Ok(Some(at + 1));
                }
                if self.rest.len() > 4 * PART_BYTES_MAX {
                    let why = "a line has more than 16 MiB: this is no log";
                    return Err(Failure::new(Exit::Partly, why));
                }
            }
            return Ok(Some(self.end).filter(|end| is_last && *end > 0));
        }
        Ok(Some(self.end))
    }
}
