//! Sets of line numbers of a body: those that a counter's sum came from, and those that were rejected.
//!
//! Invariant: no line is lost, so a failure can name its lines at any later time.

use super::length;

/// Rising line numbers, as runs of consecutive lines. A run takes a few bytes; a further line of a run takes none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LineNumbers {
    count: u64,
    /// The first line of the last run. Without lines, it and `last` are 0.
    first: u64,
    last: u64,
    /// The runs before the last: for each, the distance of its beginning from the end of the previous run, and by how
    /// much it is longer than one line, as LEB128.
    runs: Vec<u8>,
    /// Where the last of these runs ends.
    runs_end: u64,
}

impl LineNumbers {
    /// Returns these lines, which must rise; others are skipped.
    pub fn of(lines: impl IntoIterator<Item = u64>) -> Self {
        let mut numbers = Self::default();
        for line in lines {
            numbers.push(line);
        }
        numbers
    }

    /// How many lines.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Adds a line that comes after all the others, and returns how many bytes more are used.
    pub fn push(&mut self, line: u64) -> u64 {
        if line <= self.last {
            return 0;
        }
        self.count += 1;
        if self.first > 0 && line == self.last + 1 {
            self.last = line;
            return 0;
        }
        let before = self.runs.capacity();
        if self.first > 0 {
            leb128(&mut self.runs, self.first - self.runs_end);
            leb128(&mut self.runs, self.last - self.first);
            self.runs_end = self.last;
        }
        (self.first, self.last) = (line, line);
        length(self.runs.capacity() - before)
    }

    /// The runs, rising: first and last line of each.
    pub fn runs(&self) -> impl Iterator<Item = (u64, u64)> {
        let mut bytes = self.runs.iter();
        let mut end = 0;
        let stored = std::iter::from_fn(move || {
            let first = end + from_leb128(&mut bytes)?;
            end = first + from_leb128(&mut bytes)?;
            Some((first, end))
        });
        stored.chain((self.first > 0).then_some((self.first, self.last)))
    }
}

fn leb128(bytes: &mut Vec<u8>, mut number: u64) {
    loop {
        let [low, ..] = (number & 0x7f).to_le_bytes();
        number >>= 7;
        if number == 0 {
            return bytes.push(low);
        }
        bytes.push(low | 0x80);
    }
}

fn from_leb128<'a>(bytes: &mut impl Iterator<Item = &'a u8>) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let byte = *bytes.next()?;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

/// A set of lines, a bit for each: 2 MiB at most, as a body of 32 MiB has 16 million lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LineSet(Vec<u64>);

impl LineSet {
    /// Adds the lines from the first to the last.
    pub fn insert(&mut self, first: u64, last: u64) {
        for line in first..=last {
            let Ok(word) = usize::try_from(line / 64) else {
                return;
            };
            if self.0.len() <= word {
                self.0.resize(word + 1, 0);
            }
            if let Some(bits) = self.0.get_mut(word) {
                *bits |= 1 << (line % 64);
            }
        }
    }

    /// The bytes that it uses.
    pub fn memory_bytes(&self) -> u64 {
        length(self.0.capacity()) * 8
    }

    /// The runs of neighbours, rising: first and last line of each.
    pub fn runs(&self) -> impl Iterator<Item = (u64, u64)> {
        let mut from = 0;
        std::iter::from_fn(move || {
            let first = self.next(from, true)?;
            from = self.next(first, false).unwrap_or(self.end());
            Some((first, from - 1))
        })
    }

    fn end(&self) -> u64 {
        length(self.0.len()) * 64
    }

    /// The next line from `line` on that is in the set, or the next that is not.
    fn next(&self, line: u64, is_in: bool) -> Option<u64> {
        let mut at = line;
        while at < self.end() {
            let word = usize::try_from(at / 64)
                .ok()
                .and_then(|at| self.0.get(at))?;
            let bits = if is_in { *word } else { !*word };
            match bits >> (at % 64) {
                0 => at = (at / 64 + 1) * 64,
                rest => return Some(at + u64::from(rest.trailing_zeros())),
            }
        }
        None
    }
}
