//! What earlier runs have imported of one file, so that a run goes on where the last one ended, days later too.
//!
//! Invariant: lines are noted before they are sent, and as counted only once that was acknowledged. What was noted and
//! not acknowledged is sent again, the same lines under the same key. Keys are forgotten by the server after a day: a
//! note is not. A line that is not noted as counted was not counted.
//!
//! A note is a file of JSON lines, each of which has what changed: of the file (`about`), or a part of it.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::bits::Bits;
use crate::host::ImportHost;
use crate::options::CountSettings;
use crate::splitter::{PART_BYTES_MAX, PART_LINES_MAX};

/// How many bytes before an offset a file is recognized by.
pub const TAIL_BYTES_MAX: usize = 4_096;

/// A note is written anew once it has so many lines more than twice its parts.
const CHANGES_MAX: usize = 200;

/// What a note is of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// The note's own name.
    #[serde(skip)]
    pub name: String,
    /// The hash of what the file begins with.
    pub file: String,
    /// That, by which another file is told from it, in base64.
    pub head: String,
    /// The hash of the first line.
    pub first: String,
    /// What makes the keys of this note others than those of a file that begins alike.
    pub salt: String,
    /// Some counters that the file counted: a deployment that has none of them has lost its data.
    pub ids: Vec<String>,
    /// Where the file lay; empty for what is no file, as are the next two.
    pub path: String,
    /// Its device.
    pub dev: String,
    /// Its inode.
    pub ino: String,
}

/// Lines that were sent, and of which nobody knows yet what became.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sent {
    /// Under which key.
    pub key: String,
    /// Which lines.
    pub lines: Bits,
    /// How they were read.
    pub settings: CountSettings,
    /// What the format knew before them.
    pub state: String,
}

/// A part of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotedPart {
    /// Where it begins.
    pub start: u64,
    /// Where it ends.
    pub end: u64,
    /// How many lines it has.
    pub lines: u32,
    /// How many bytes before its end are hashed.
    pub tail_bytes: usize,
    /// Their hash.
    pub tail: String,
    /// What the format knows after it.
    pub state: String,
    /// The lines that were counted.
    pub counted: Bits,
    /// The hash of the settings by which all others were left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled: Option<String>,
    /// What was sent and not yet acknowledged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent: Option<Sent>,
}

impl NotedPart {
    /// Returns whether the bytes before its end are those that were there.
    pub fn fits(&self, host: &dyn ImportHost, bytes: &[u8]) -> bool {
        let from = bytes.len().checked_sub(self.tail_bytes);
        let tail = from.and_then(|from| bytes.get(from..));
        tail.is_some_and(|tail| host.digest(tail) == self.tail)
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Change<'a> {
    About(Box<Cow<'a, About>>),
    Part(Box<Cow<'a, NotedPart>>),
}

fn line_of(change: &Change<'_>) -> String {
    serde_json::to_string(change).unwrap_or_default() + "\n"
}

/// What is known of one file, for one way of counting.
#[derive(Debug)]
pub struct Note {
    /// What it is of.
    pub about: About,
    /// Its parts, in their order.
    pub parts: Vec<NotedPart>,
    changes: usize,
}

impl Note {
    /// Returns a note of these parts.
    pub fn new(about: About, parts: Vec<NotedPart>) -> Self {
        Self {
            about,
            parts,
            changes: 0,
        }
    }

    /// Reads a note. A line that cannot be read was written while the machine failed: what it would say was not
    /// acknowledged.
    pub fn read(host: &dyn ImportHost, name: &str) -> Self {
        let mut about = About::default();
        let mut parts: BTreeMap<u64, NotedPart> = BTreeMap::new();
        for line in host.read(name).lines() {
            match serde_json::from_str(line) {
                Ok(Change::About(known)) => about = known.into_owned(),
                Ok(Change::Part(part)) => {
                    parts.insert(part.start, part.into_owned());
                }
                Err(_) => {}
            }
        }
        about.name = name.to_owned();
        let mut note = Self::new(about, Vec::new());
        for part in parts.into_values() {
            // A part that became one with the part before it lies within that.
            if part.start >= note.parts.last().map_or(0, |last| last.end) {
                note.parts.push(part);
            }
        }
        note
    }

    /// Writes all of it.
    pub fn write(&mut self, host: &dyn ImportHost) {
        let mut text = line_of(&Change::About(Box::new(Cow::Borrowed(&self.about))));
        for part in &self.parts {
            text += &line_of(&Change::Part(Box::new(Cow::Borrowed(part))));
        }
        host.write(&self.about.name, &text);
        self.changes = self.parts.len() + 1;
    }

    fn append(&mut self, host: &dyn ImportHost, line: &str) {
        host.append(&self.about.name, line);
        self.changes += 1;
        if self.changes > 2 * self.parts.len() + CHANGES_MAX {
            self.write(host);
        }
    }

    /// Notes what has changed of the file.
    pub fn note_about(&mut self, host: &dyn ImportHost) {
        let line = line_of(&Change::About(Box::new(Cow::Borrowed(&self.about))));
        self.append(host, &line);
    }

    /// Returns the part that begins at an offset.
    pub fn part(&mut self, start: u64) -> Option<&mut NotedPart> {
        self.parts.iter_mut().rfind(|part| part.start == start)
    }

    /// Adds a part, or returns the one that is known.
    pub fn open(&mut self, part: NotedPart) {
        match self.part(part.start) {
            Some(known) => *known = part,
            None => self.parts.push(part),
        }
    }

    /// Notes what has changed of a part. Small ones that are settled alike become one.
    pub fn put(&mut self, host: &dyn ImportHost, start: u64) {
        let Some(at) = self.parts.iter().rposition(|part| part.start == start) else {
            return;
        };
        if let Some(joined) = self.joined(at) {
            self.parts.splice(at - 1..=at, [joined]);
            let line = self
                .parts
                .get(at - 1)
                .map(|part| Change::Part(Box::new(Cow::Borrowed(part))));
            let line = line.as_ref().map(line_of).unwrap_or_default();
            return self.append(host, &line);
        }
        let part = self
            .parts
            .get(at)
            .map(|part| Change::Part(Box::new(Cow::Borrowed(part))));
        let line = part.as_ref().map(line_of).unwrap_or_default();
        self.append(host, &line);
    }

    /// Returns a part and the one before it as one, if they are settled alike and small.
    fn joined(&self, at: usize) -> Option<NotedPart> {
        let part = self.parts.get(at)?;
        let before = self.parts.get(at.checked_sub(1)?)?;
        let lines = before.lines.saturating_add(part.lines);
        let bytes = usize::try_from(part.end - before.start).ok()?;
        let is_alike = part.settled.is_some() && before.settled == part.settled;
        if !is_alike || before.end != part.start || bytes > PART_BYTES_MAX || lines > PART_LINES_MAX
        {
            return None;
        }
        let mut counted = before.counted.clone();
        counted.add_behind(before.lines, &part.counted);
        Some(NotedPart {
            start: before.start,
            lines,
            counted,
            ..part.clone()
        })
    }

    /// Forgets the parts that end after an offset.
    pub fn forget(&mut self, host: &dyn ImportHost, offset: u64) {
        self.parts.retain(|part| part.end <= offset);
        self.write(host);
    }
}
