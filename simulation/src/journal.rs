//! The log of a world, step by step, and its figures.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

/// Lines that a log keeps; what comes later is counted. A world of 100,000 messages has about 400,000.
const LINES_MAX: usize = 1_000_000;

/// What was done, in numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Messages that arrived at objects and at the aggregator, by path; repeated ones too.
    pub messages: BTreeMap<String, u64>,
    /// Bytes of these messages and of the answers to them, by path.
    pub bytes: BTreeMap<String, u64>,
    /// Messages and answers that got lost.
    pub lost: u64,
    /// Messages that were delivered twice.
    pub repeated: u64,
    /// Statements of SQL that were run.
    pub statements: u64,
    /// Rows that they wrote, without those of indexes.
    pub rows_written: u64,
    /// Commits.
    pub commits: u64,
    /// Statements that failed because storage was out.
    pub failed_statements: u64,
    /// Alarms that rang.
    pub alarms: u64,
    /// Objects that were started, again too.
    pub starts: u64,
    /// Objects and isolates that crashed.
    pub crashes: u64,
    /// Objects and isolates that were evicted.
    pub evictions: u64,
    /// Requests of clients that arrived.
    pub requests: u64,
    /// Messages of the queue that were delivered, again too.
    pub delivered: u64,
    /// Texts that reached clients by streams.
    pub texts: u64,
    /// Lines in the log of the service: warnings and errors.
    pub log_counts: (u64, u64),
}

impl Figures {
    /// All messages together.
    pub fn all_messages(&self) -> u64 {
        self.messages.values().sum()
    }
}

/// A call that an isolate or an object made, by true time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotedCall {
    /// The caller.
    pub from: String,
    /// The encoded message.
    pub message: Vec<u8>,
    /// When it was sent, unix milliseconds.
    pub sent_ms: i64,
    /// When an answer arrived that is no refusal; `None` if none has.
    pub answered_ms: Option<i64>,
    /// When it failed: a refusal arrived, or it was known that no answer will.
    pub failed_ms: Option<i64>,
}

/// A step forward of the clock that an object reads: the clock was stepped, or the object starts in another isolate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotedStep {
    /// The binding of the object.
    pub binding: &'static str,
    /// When, unix milliseconds.
    pub at_ms: i64,
    /// How far, milliseconds.
    pub forward_ms: i64,
}

/// The log, where one is kept, and the figures.
#[derive(Default)]
pub struct Journal {
    /// The path of the calls to note.
    noted_path: Cell<Option<&'static str>>,
    calls: RefCell<Vec<NotedCall>>,
    steps: RefCell<Vec<NotedStep>>,
    is_kept: Cell<bool>,
    is_shown: Cell<bool>,
    lines: RefCell<Vec<String>>,
    left_out: Cell<u64>,
    errors: RefCell<Vec<String>>,
    figures: RefCell<Figures>,
}

impl Journal {
    /// Keeps a log from now on; `is_shown` prints it to standard error too.
    pub fn keep(&self, is_shown: bool) {
        self.is_kept.set(true);
        self.is_shown.set(is_shown);
    }

    /// Notes a line, which is made only where it is kept.
    pub fn record(&self, now_us: u64, line: impl FnOnce() -> String) {
        if !self.is_kept.get() {
            return;
        }
        let line = format!("{:>9}.{:03} ms  {}", now_us / 1_000, now_us % 1_000, line());
        if self.is_shown.get() {
            eprintln!("{line}");
        }
        let mut lines = self.lines.borrow_mut();
        if lines.len() < LINES_MAX {
            lines.push(line);
        } else {
            self.left_out.set(self.left_out.get() + 1);
        }
    }

    /// The lines so far, and how many were left out after them.
    pub fn lines(&self) -> (Vec<String>, u64) {
        (self.lines.borrow().clone(), self.left_out.get())
    }

    /// Notes the calls of a path from now on.
    pub fn note_calls(&self, path: &'static str) {
        self.noted_path.set(Some(path));
    }

    /// The calls that were noted so far.
    pub fn calls(&self) -> Vec<NotedCall> {
        self.calls.borrow().clone()
    }

    /// Notes a call, if its path is noted. Returns its number.
    pub(crate) fn note_call(
        &self,
        path: &str,
        message: &[u8],
        from: impl FnOnce() -> String,
        sent_ms: i64,
    ) -> Option<usize> {
        self.noted_path.get().filter(|noted| *noted == path)?;
        let mut calls = self.calls.borrow_mut();
        calls.push(NotedCall {
            from: from(),
            message: message.to_vec(),
            sent_ms,
            answered_ms: None,
            failed_ms: None,
        });
        Some(calls.len() - 1)
    }

    /// Notes that a call was answered, or failed.
    pub(crate) fn note_end(&self, number: Option<usize>, is_answered: bool, now_ms: i64) {
        let Some(number) = number else { return };
        let call = &mut self.calls.borrow_mut()[number];
        match is_answered {
            true => call.answered_ms = Some(now_ms),
            false => call.failed_ms = Some(now_ms),
        }
    }

    /// Notes a step forward of the clock of an object.
    pub(crate) fn note_step(&self, step: NotedStep) {
        self.steps.borrow_mut().push(step);
    }

    /// The steps that were noted so far.
    pub fn steps(&self) -> Vec<NotedStep> {
        self.steps.borrow().clone()
    }

    /// The service has said that something failed.
    pub fn error(&self, text: &str) {
        let mut errors = self.errors.borrow_mut();
        if errors.len() < LINES_MAX {
            errors.push(text.to_owned());
        }
    }

    /// What the service has said that failed.
    pub fn errors(&self) -> Vec<String> {
        self.errors.borrow().clone()
    }

    /// Changes the figures.
    pub fn count(&self, change: impl FnOnce(&mut Figures)) {
        change(&mut self.figures.borrow_mut());
    }

    /// Counts a message of so many bytes.
    pub fn count_message(&self, path: &str, bytes: usize) {
        let figures = &mut *self.figures.borrow_mut();
        add(&mut figures.messages, path, 1);
        add(&mut figures.bytes, path, bytes);
    }

    /// Counts the answer to a message, of so many bytes.
    pub fn count_answer(&self, path: &str, bytes: usize) {
        add(&mut self.figures.borrow_mut().bytes, path, bytes);
    }

    /// The figures so far.
    pub fn figures(&self) -> Figures {
        self.figures.borrow().clone()
    }
}

fn add(sums: &mut BTreeMap<String, u64>, path: &str, more: usize) {
    let more = u64::try_from(more).unwrap_or(u64::MAX);
    match sums.get_mut(path) {
        Some(sum) => *sum += more,
        None => {
            sums.insert(path.to_owned(), more);
        }
    }
}
