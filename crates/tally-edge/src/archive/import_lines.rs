//! The lines of an imported file, as its pieces arrive.

use std::collections::VecDeque;
use tally_api::batch::split::BYTE_ORDER_MARK;
use tally_api::export::LINE_BYTES_MAX;
use tally_wire::problem::Problem;

/// How many lines are imported at once.
pub(super) const LINES_AT_ONCE: usize = 64;

/// How many bytes of lines are in memory, without the last line: 64 sketches of 64 KB.
const HELD_BYTES_MAX: usize = 4 << 20;

/// The body, cut into lines.
#[derive(Default)]
pub(super) struct Lines {
    /// The beginning of a line.
    rest: Vec<u8>,
    /// Whether the present line is too long to be stored.
    is_too_long: bool,
    /// Lines with their numbers; `None` for one that was too long.
    whole: VecDeque<(u64, Option<Vec<u8>>)>,
    bytes: usize,
    pub(super) number: u64,
}

impl Lines {
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<(), Problem> {
        let mut parts = bytes.split(|byte| *byte == b'\n').peekable();
        while let Some(part) = parts.next() {
            if self.rest.len().saturating_add(part.len()) > LINE_BYTES_MAX {
                self.is_too_long = true;
                self.rest.clear();
            }
            if !self.is_too_long {
                self.rest.extend_from_slice(part);
            }
            if parts.peek().is_some() {
                self.end_line();
            }
        }
        Ok(())
    }

    fn end_line(&mut self) {
        self.number += 1;
        let mut line = std::mem::take(&mut self.rest);
        if self.number == 1 && line.starts_with(BYTE_ORDER_MARK) {
            line.drain(..BYTE_ORDER_MARK.len());
        }
        // An editor may have written line breaks of two characters.
        line.pop_if(|last| *last == b'\r');
        self.bytes = self.bytes.saturating_add(line.len());
        let is_too_long = std::mem::take(&mut self.is_too_long);
        self.whole
            .push_back((self.number, (!is_too_long).then_some(line)));
    }

    pub(super) fn finish(&mut self) {
        if !self.rest.is_empty() || self.is_too_long {
            self.end_line();
        }
    }

    /// The number of the first line that is not imported yet.
    pub(super) fn next_number(&self) -> u64 {
        let first = self.whole.front().map(|(number, _)| *number);
        first.unwrap_or(self.number.saturating_add(1))
    }

    /// The next lines to import: none until there are as many as are imported at once, or the body has ended. The
    /// groups depend on the lines only.
    pub(super) fn take(&mut self, is_end: bool) -> Vec<(u64, Option<Vec<u8>>)> {
        let mut some = Vec::new();
        let (mut bytes, mut is_full) = (0_usize, false);
        for (_, line) in self.whole.iter().take(LINES_AT_ONCE) {
            if bytes > HELD_BYTES_MAX {
                is_full = true;
                break;
            }
            bytes = bytes.saturating_add(line.as_ref().map_or(0, Vec::len));
            some.push(());
        }
        if some.len() < LINES_AT_ONCE && !is_full && !is_end {
            return Vec::new();
        }
        self.bytes = self.bytes.saturating_sub(bytes);
        self.whole.drain(..some.len()).collect()
    }
}
