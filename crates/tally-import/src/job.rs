//! One file of an import: what it begins with, where it goes on, its parts.

use std::collections::BTreeMap;

use tally_logs::formats::LogLines;
use tally_logs::reader::LogReader;

use crate::host::{Failure, ImportHost};
use crate::note::{Note, NotedPart, TAIL_BYTES_MAX};
use crate::notes::LogSource;
use crate::options::CountSettings;
use crate::part::{PartContext, Work, read};
use crate::splitter::{LineSplitter, PART_BYTES_MAX, Piece};

/// What a format is told by.
pub const SAMPLE_BYTES: usize = 64 * 1024;

/// A file that is being imported.
pub struct Job {
    /// What was opened.
    pub source: LogSource,
    /// Its first bytes behind a hole of zeros, until it has begun.
    pub head: Vec<u8>,
    /// How long the hole is.
    pub hole: u64,
    /// What is noted of it.
    pub note: Note,
    /// How its lines are read.
    pub settings: CountSettings,
    /// As [`PartContext::marks`].
    pub marks: [String; 2],
    /// Whether it is followed.
    pub is_followed: bool,
    /// Whether it was said that its lines are ahead.
    pub is_late: bool,
    /// Its bytes.
    pub splitter: LineSplitter,
    /// The parts that are on their way.
    pub works: BTreeMap<u32, Work>,
    reader: Option<LogReader>,
    state: String,
    /// The bytes before the end of what was taken, and where that is.
    pub tail: Vec<u8>,
    /// Where what was taken ends.
    pub end: u64,
    lines: u64,
    next: u32,
}

/// Returns the last bytes of a text, by which it is known again.
fn last(bytes: &[u8]) -> &[u8] {
    let from = bytes.len().saturating_sub(TAIL_BYTES_MAX);
    bytes.get(from..).unwrap_or_default()
}

fn length(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

impl Job {
    /// Returns the job of a source.
    pub fn new(source: LogSource, is_followed: bool) -> Self {
        Self {
            source,
            head: Vec::new(),
            hole: 0,
            note: Note::new(Default::default(), Vec::new()),
            settings: CountSettings::default(),
            marks: Default::default(),
            is_followed,
            is_late: false,
            splitter: LineSplitter::default(),
            works: BTreeMap::new(),
            reader: None,
            state: String::new(),
            tail: Vec::new(),
            end: 0,
            lines: 0,
            next: 1,
        }
    }

    /// Takes bytes of its beginning. Returns whether they are enough to begin.
    pub fn look(&mut self, bytes: &[u8]) -> bool {
        // What was said of the end of its bytes is over: here are more.
        self.splitter.push(&[]);
        let zeros = match self.head.is_empty() {
            true => bytes.iter().take_while(|byte| **byte == 0).count(),
            false => 0,
        };
        self.hole += u64::try_from(zeros).unwrap_or_default();
        self.head
            .extend_from_slice(bytes.get(zeros..).unwrap_or_default());
        let enough = match self.source.is_plain() {
            true => SAMPLE_BYTES,
            false => PART_BYTES_MAX,
        };
        self.head.len() >= enough
    }

    /// Begins where an earlier run has ended; returns from where on its bytes are needed, beyond those that are known.
    ///
    /// # Errors
    /// For settings that cannot be read.
    pub fn start(&mut self, host: &dyn ImportHost) -> Result<Option<u64>, Failure> {
        let is_plain = self.source.is_plain();
        let parts = &self.note.parts;
        let undone = parts
            .iter()
            .position(|part| !self.is_done(part))
            .unwrap_or(parts.len());
        let before = undone
            .checked_sub(1)
            .and_then(|at| parts.get(at))
            .filter(|_| is_plain);
        let from = parts
            .get(undone)
            .map(|part| part.start)
            .or(before.map(|part| part.end));
        self.end = from.filter(|_| is_plain).unwrap_or_default();
        self.state = before.map(|part| part.state.clone()).unwrap_or_default();
        self.lines = match is_plain {
            true => parts
                .iter()
                .take(undone)
                .map(|part| u64::from(part.lines))
                .sum(),
            false => 0,
        };
        self.reader = Some(self.settings.reader(&self.state)?);
        let wanted: Vec<u64> = parts.iter().map(|part| part.end).collect();
        let head = std::mem::take(&mut self.head);
        if is_plain {
            self.splitter = LineSplitter::new(self.end, wanted);
            let length = self
                .end
                .min(u64::try_from(TAIL_BYTES_MAX).unwrap_or_default());
            self.tail = host
                .tail(self.source.number, self.end, length)
                .unwrap_or_default();
            return Ok(Some(self.end));
        }
        self.splitter = LineSplitter::new(self.hole, wanted);
        self.splitter.push(&head);
        Ok(None)
    }

    /// Returns whether more bytes may come behind its first ones, later.
    pub fn is_growing(&self) -> bool {
        self.is_followed || self.splitter.is_idle()
    }

    fn is_done(&self, part: &NotedPart) -> bool {
        part.settled
            .as_ref()
            .is_some_and(|settled| self.marks.contains(settled))
    }

    /// Returns the number of the next part that is not done; `None` where more bytes are needed.
    ///
    /// # Errors
    /// As [`LineSplitter::take`], by the name of the file.
    pub fn next(&mut self, shared: &mut Shared<'_>) -> Result<Option<u32>, Failure> {
        while let Some(Piece { start, bytes }) = self.take()? {
            let mut tail = if start == self.end {
                std::mem::take(&mut self.tail)
            } else {
                Vec::new()
            };
            tail.extend_from_slice(last(&bytes));
            self.tail = last(&tail).to_vec();
            self.end = start + length(&bytes);
            self.forget_others(shared.host, start);
            let lines_before = self.lines;
            let newlines = bytes.iter().filter(|byte| **byte == b'\n').count();
            let newlines = u32::try_from(newlines).unwrap_or(u32::MAX);
            self.lines += u64::from(newlines);
            let known = self.note.part(start).cloned();
            if let Some(part) = known.as_ref().filter(|part| self.is_done(part)) {
                shared.totals.counted_before.bytes += length(&bytes);
                self.state.clone_from(&part.state);
                continue;
            }
            return self
                .begin(shared, (start, &bytes), (lines_before, newlines), known)
                .map(Some);
        }
        Ok(None)
    }

    fn take(&mut self) -> Result<Option<Piece>, Failure> {
        self.splitter.take().map_err(|why| {
            let Failure { exit, message } = why;
            let name = &self.source.name;
            Failure::new(
                exit,
                format!("{name}: {message}; the lines before it are counted"),
            )
        })
    }

    /// Forgets what is noted from a part on whose bytes are others: the file is another one from there on, which begins
    /// alike.
    fn forget_others(&mut self, host: &dyn ImportHost, start: u64) {
        let (end, tail) = (self.end, std::mem::take(&mut self.tail));
        let is_other = self
            .note
            .part(start)
            .is_some_and(|known| known.end < end || (known.end == end && !known.fits(host, &tail)));
        self.tail = tail;
        if is_other {
            self.note.forget(host, start);
        }
    }

    fn begin(
        &mut self,
        shared: &mut Shared<'_>,
        (start, bytes): (u64, &[u8]),
        (lines_before, lines): (u64, u32),
        known: Option<NotedPart>,
    ) -> Result<u32, Failure> {
        let mut reader = match self.reader.take() {
            Some(reader) => reader,
            None => self.settings.reader(&self.state)?,
        };
        if reader.lines.state() != self.state {
            reader.lines = LogLines::new(self.settings.log_format()?, &self.state);
        }
        let read_part = read(shared.host, &self.settings, &mut reader, bytes);
        let before = std::mem::replace(&mut self.state, reader.lines.state().to_owned());
        self.reader = Some(reader);
        let part = known.unwrap_or_else(|| NotedPart {
            start,
            end: self.end,
            lines,
            tail_bytes: self.tail.len(),
            tail: shared.host.digest(&self.tail),
            ..NotedPart::default()
        });
        self.note.open(NotedPart {
            state: self.state.clone(),
            settled: None,
            ..part
        });
        self.note.put(shared.host, start);
        let mut context = self.context(shared, 0, false);
        let work = Work::new(
            &mut context,
            (start, bytes),
            lines_before,
            before,
            read_part,
        );
        let number = self.next;
        self.next += 1;
        self.works.insert(number, work);
        Ok(number)
    }

    /// Returns what its parts share.
    pub fn context<'a>(
        &'a mut self,
        shared: &'a mut Shared<'_>,
        now_ms: i64,
        is_stopping: bool,
    ) -> PartContext<'a> {
        PartContext {
            host: shared.host,
            totals: shared.totals,
            offset_ms: shared.offset_ms,
            note: &mut self.note,
            settings: &self.settings,
            marks: &self.marks,
            file: &self.source.name,
            is_followed: self.is_followed,
            is_late: &mut self.is_late,
            now_ms,
            is_stopping,
        }
    }
}

/// What all files share.
pub struct Shared<'a> {
    /// Files.
    pub host: &'a dyn ImportHost,
    /// What was done.
    pub totals: &'a mut crate::totals::Totals,
    /// As [`PartContext::offset_ms`].
    pub offset_ms: &'a mut Option<i64>,
}
