//! What was done so far, for the summary.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;
use tally_logs::filter::Reason;
use tally_logs::reader::ReadPart;

/// How many lines are shown of each kind that was not counted.
const SHOWN_MAX: usize = 5;

/// How many counters the summary names.
const TOP: usize = 10;

/// Counters of which the summary knows how often they were counted. Where there are more the smaller half is forgotten:
/// one that comes again after that begins anew, so a top of a log with more names than this may name a counter lower
/// than it is.
const COUNTERS_KEPT_MAX: usize = 200_000;

/// What earlier runs have counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Before {
    /// How many lines.
    pub lines: u64,
    /// How many bytes at the beginning.
    pub bytes: u64,
}

/// A line that was not counted, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ShownLine {
    /// The file.
    pub file: String,
    /// The line's number in it.
    pub line: u64,
    /// A sentence, or the code of the service with its sentence.
    pub why: String,
    /// Its beginning, where the line cannot be read.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub text: String,
}

/// A file that could not be read, or not to its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Failed {
    /// Its name.
    pub file: String,
    /// Why.
    pub why: String,
}

/// A counter, and how often it was counted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TopCount {
    /// The counter.
    pub id: String,
    /// How often.
    pub count: u64,
}

/// What was done.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Totals {
    /// Lines that were read.
    pub lines: u64,
    /// Lines that are no requests, such as comments.
    pub others: u64,
    /// Lines that this run has counted.
    pub counted: u64,
    /// What was counted before.
    pub counted_before: Before,
    /// Lines that cannot be read.
    pub unreadable: u64,
    /// Files whose last line has no newline.
    pub unfinished: u64,
    /// Whole lines that were read and not sent, because the import was interrupted.
    pub unsent: u64,
    /// Lines that were left out, by reason.
    pub left_out: BTreeMap<&'static str, u64>,
    /// By how much lines were ahead of the server's clock.
    pub ahead_ms: i64,
    /// Lines that the service refused, by code.
    pub rejected: BTreeMap<String, u64>,
    /// How many files have which format.
    pub formats: BTreeMap<&'static str, u64>,
    /// Files that could not be read.
    pub failed: Vec<Failed>,
    /// Some lines that cannot be read.
    pub unread: Vec<ShownLine>,
    /// Some lines that the service refused.
    pub refused: Vec<ShownLine>,
    /// How many counters were counted.
    pub counters: u64,
    /// Whether that is exact: where some were forgotten, some of those were counted twice here.
    pub counters_exact: bool,
    /// Those that were counted most.
    pub top: Vec<TopCount>,
    #[serde(skip)]
    known: HashMap<String, u64>,
    #[serde(skip)]
    forgotten: u64,
}

impl Totals {
    /// Returns totals of nothing.
    pub fn new() -> Self {
        let reasons = Reason::ALL
            .into_iter()
            .filter(|reason| *reason != Reason::Request);
        Self {
            left_out: reasons.map(|reason| (reason.name(), 0)).collect(),
            ..Self::default()
        }
    }

    /// Adds what was read of a part. `before`: how many lines the file has before it.
    pub fn read(&mut self, part: &ReadPart, file: &str, before: u64) {
        self.lines += u64::from(part.lines);
        self.others += u64::from(part.others);
        self.unreadable += u64::from(part.unreadable);
        for (reason, count) in Reason::ALL.into_iter().zip(part.left) {
            // Few logs have lines without a request whose status is asked for.
            if count > 0 {
                *self.left_out.entry(reason.name()).or_default() += u64::from(count);
            }
        }
        let room = SHOWN_MAX.saturating_sub(self.unread.len());
        self.unread
            .extend(part.unread.iter().take(room).map(|line| ShownLine {
                file: file.to_owned(),
                line: before + u64::from(line.number) + 1,
                why: line.why.clone(),
                text: line.text.clone(),
            }));
    }

    /// Adds lines that the service refused.
    pub fn reject(&mut self, code: &str, lines: u64) {
        *self.rejected.entry(code.to_owned()).or_default() += lines;
    }

    /// Adds one of them as an example: the first of its code.
    pub fn show_refused(&mut self, code: &str, shown: ShownLine) {
        let is_known = |known: &ShownLine| known.why.starts_with(code);
        if self.refused.len() < SHOWN_MAX && !self.refused.iter().any(is_known) {
            self.refused.push(shown);
        }
    }

    /// Adds counts of a counter.
    pub fn count(&mut self, id: &str, count: u64) {
        match self.known.get_mut(id) {
            Some(known) => *known += count,
            None => {
                self.known.insert(id.to_owned(), count);
            }
        }
    }

    /// Forgets the counters that were counted least, where there are too many.
    pub fn forget(&mut self) {
        if self.known.len() <= COUNTERS_KEPT_MAX {
            return;
        }
        let mut counts: Vec<u64> = self.known.values().copied().collect();
        let middle = counts.len() / 2;
        let (_, least, _) = counts.select_nth_unstable(middle);
        let least = *least;
        let before = self.known.len();
        let mut room = COUNTERS_KEPT_MAX / 2;
        self.known.retain(|_, count| {
            let is_kept = *count > least || (*count == least && room > 0);
            room = room.saturating_sub(usize::from(is_kept));
            is_kept
        });
        self.forgotten += u64::try_from(before - self.known.len()).unwrap_or_default();
    }

    /// Brings what is said of counters to where it is now.
    pub fn settle(&mut self) {
        let mut top: Vec<(&String, &u64)> = self.known.iter().collect();
        top.sort_by(|one, other| other.1.cmp(one.1).then(one.0.cmp(other.0)));
        let named = |(id, count): (&String, &u64)| TopCount {
            id: id.clone(),
            count: *count,
        };
        self.top = top.into_iter().take(TOP).map(named).collect();
        self.counters = self.counters_so_far();
        self.counters_exact = self.forgotten == 0;
    }

    /// Returns how many counters were counted.
    pub fn counters_so_far(&self) -> u64 {
        u64::try_from(self.known.len()).unwrap_or_default() + self.forgotten
    }
}
