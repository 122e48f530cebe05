//! The notes of one deployment and one way of counting, and which of them is that of a source.
//!
//! Invariant: a file is known by its device and its inode, and by the bytes before the end of what its note says. Of
//! what has neither, its first bytes say which note is its own. Where two files cannot be told apart that is said.

use base64::prelude::{BASE64_STANDARD, Engine};
use serde::Deserialize;

use crate::host::ImportHost;
use crate::note::{About, Note, NotedPart, TAIL_BYTES_MAX};
use crate::splitter::PART_BYTES_MAX;

/// What is imported, as it was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct LogSource {
    /// What the caller calls it.
    pub number: u32,
    /// Its name, as it was given.
    pub name: String,
    /// Where it is; empty for what is no file, as are the next two.
    #[serde(default)]
    pub path: String,
    /// Its device.
    #[serde(default)]
    pub dev: String,
    /// Its inode.
    #[serde(default)]
    pub ino: String,
    /// How it is packed.
    #[serde(default)]
    pub kind: Option<String>,
    /// How many bytes it has as it lies there.
    #[serde(default)]
    pub bytes: Option<u64>,
}

impl LogSource {
    /// Returns whether it can be read from any offset on.
    pub fn is_plain(&self) -> bool {
        !self.path.is_empty() && self.kind.is_none()
    }
}

/// The beginning of a source, behind a hole of zeros.
#[derive(Clone, Copy, Debug)]
pub struct Head<'a> {
    /// The bytes.
    pub bytes: &'a [u8],
    /// How long the hole is.
    pub hole: u64,
    /// Whether more bytes come later.
    pub is_growing: bool,
}

impl<'a> Head<'a> {
    fn first(self, host: &dyn ImportHost) -> String {
        let newline = self.bytes.iter().position(|byte| *byte == b'\n');
        let end = newline.map_or(self.bytes.len(), |at| at + 1);
        let line = self.bytes.get(..end.min(TAIL_BYTES_MAX));
        host.digest(line.unwrap_or_default())
    }

    /// Returns what stands before the end of a part.
    fn until(self, part: &NotedPart) -> Option<&'a [u8]> {
        let end = usize::try_from(part.end.checked_sub(self.hole)?).ok()?;
        self.bytes.get(..end)
    }
}

/// What was found.
#[derive(Debug)]
pub struct FoundNote {
    /// The note.
    pub note: Note,
    /// Where another file is that has what the note says, from which this one cannot be told.
    pub twin: Option<String>,
}

/// Returns the device and the inode of a note's name, and the hash of its first line.
fn parts_of(name: &str) -> Option<(&str, &str)> {
    let (rest, _) = name.rsplit_once('.')?;
    rest.rsplit_once('.')
}

/// Returns the note of a source, a new one where there is none; `None` if more of its bytes may show that it has what
/// another note says. `is_new`: it is no copy of another file.
pub fn find(
    host: &dyn ImportHost,
    source: &LogSource,
    head: Head<'_>,
    is_new: bool,
) -> Option<FoundNote> {
    let first = head.first(host);
    let inode = [source.dev.as_str(), source.ino.as_str()].join(".");
    let mut is_other = is_new;
    let mut found: Option<(Note, u64)> = None;
    let mut longer = None;
    let mut is_early = false;
    for name in host.names() {
        let Some((place, hash)) = parts_of(&name) else {
            continue;
        };
        let is_same = !source.ino.is_empty() && place == inode;
        if !is_same && (is_new || hash != first) {
            continue;
        }
        let note = Note::read(host, &name);
        let end = match is_same {
            true => u64::MAX,
            false => note.parts.last().map_or(0, |part| part.end),
        };
        if holds(host, &note, source, head, is_same) {
            let is_better = is_same || note.parts.iter().any(|part| !part.counted.is_empty());
            if is_better && end > found.as_ref().map_or(0, |(_, end)| *end) {
                found = Some((note, end));
            }
        } else if is_same {
            // The file was cut, or another one has its inode now.
            cut(host, note);
            is_other = true;
        } else {
            is_early |= head.is_growing && !source.is_plain() && may_hold(host, &note, head);
            if begins(&note, head.bytes) {
                longer = Some(note);
            }
        }
    }
    if is_early {
        return None;
    }
    if let (None, Some(note), false) = (&found, &longer, is_other) {
        let twin = Some(note.about.path.clone()).filter(|path| !path.is_empty());
        let twin = Some(twin.unwrap_or_else(|| "a log".to_owned()));
        return Some(FoundNote {
            note: longer.unwrap_or_else(|| Note::new(About::default(), Vec::new())),
            twin,
        });
    }
    Some(settle(host, source, head, found, (first, is_other)))
}

/// Returns the note that was found, as that of the source, or a new one.
fn settle(
    host: &dyn ImportHost,
    source: &LogSource,
    head: Head<'_>,
    found: Option<(Note, u64)>,
    (first, is_other): (String, bool),
) -> FoundNote {
    let found = match found {
        Some((note, end)) if end == u64::MAX || source.ino.is_empty() => {
            return FoundNote { note, twin: None };
        }
        Some((note, _)) => Some(note),
        None => None,
    };
    let twin = found.as_ref().and_then(|note| twin_of(host, note));
    let note = found.unwrap_or_else(|| {
        let begin = head.bytes.get(..TAIL_BYTES_MAX).unwrap_or(head.bytes);
        let about = About {
            file: host.digest(begin),
            head: BASE64_STANDARD.encode(begin),
            first,
            salt: if is_other {
                host.unique()
            } else {
                String::new()
            },
            ..About::default()
        };
        Note::new(about, Vec::new())
    });
    let note = match twin {
        Some(_) => note,
        None => bind(host, note, source),
    };
    FoundNote { note, twin }
}

/// Says that a file no longer has what its note says. A copy of it may.
pub fn cut(host: &dyn ImportHost, note: Note) {
    bind(host, note, &LogSource::default());
}

/// Names a note after the file that it is of, or after none.
fn bind(host: &dyn ImportHost, note: Note, source: &LogSource) -> Note {
    let LogSource { path, dev, ino, .. } = source.clone();
    let old = note.about.name.clone();
    let name = [&dev, ".", &ino, ".", &note.about.first, ".", &host.unique()].concat();
    let about = About {
        name,
        path,
        dev,
        ino,
        ..note.about
    };
    let mut note = Note::new(about, note.parts);
    note.write(host);
    if !old.is_empty() {
        host.remove(&old);
    }
    note
}

/// Whether a source has what a note is of: where it can be read anywhere, up to the end of that; otherwise as far as
/// its first bytes go. Parts of which nothing was counted, such as headers, say nothing where the file is another one.
fn holds(
    host: &dyn ImportHost,
    note: &Note,
    source: &LogSource,
    head: Head<'_>,
    is_same: bool,
) -> bool {
    let last = note.parts.last();
    if source.is_plain() {
        return last.is_none_or(|part| {
            let length = u64::try_from(part.tail_bytes).unwrap_or(u64::MAX);
            let tail = host.tail(source.number, part.end, length);
            tail.is_some_and(|tail| part.fits(host, &tail))
        });
    }
    let seen: Vec<(&NotedPart, &[u8])> = note
        .parts
        .iter()
        .filter_map(|part| Some((part, head.until(part)?)))
        .collect();
    let is_counted = seen.iter().any(|(part, _)| !part.counted.is_empty());
    let is_enough = is_same || head.bytes.len() >= PART_BYTES_MAX || is_counted;
    is_enough && seen.iter().all(|(part, bytes)| part.fits(host, bytes))
}

/// Whether a source that grows may have what a note is of once it has more bytes: so far it is the same.
fn may_hold(host: &dyn ImportHost, note: &Note, head: Head<'_>) -> bool {
    let known = BASE64_STANDARD.decode(&note.about.head).unwrap_or_default();
    let common = head.bytes.get(..known.len()).unwrap_or(head.bytes);
    let is_alike = |part: &NotedPart| {
        let seen = head.until(part);
        seen.is_none_or(|bytes| part.fits(host, bytes))
    };
    let is_more = note
        .parts
        .last()
        .is_some_and(|part| head.until(part).is_none());
    is_more && known.starts_with(common) && note.parts.iter().all(is_alike)
}

/// Whether a source that does not have all of what a note is of begins like that, as far as a line that was counted.
fn begins(note: &Note, head: &[u8]) -> bool {
    let known = BASE64_STANDARD.decode(&note.about.head).unwrap_or_default();
    let common = head.get(..known.len()).unwrap_or(head);
    let lines = common.iter().filter(|byte| **byte == b'\n').count();
    let first = note
        .parts
        .first()
        .and_then(|part| part.counted.lines().next());
    let is_counted = first
        .and_then(|line| usize::try_from(line).ok())
        .is_some_and(|line| line < lines);
    is_counted && known.starts_with(common)
}

/// The place of the file that a note is of, if that still has what the note says.
fn twin_of(host: &dyn ImportHost, note: &Note) -> Option<String> {
    let About { path, dev, ino, .. } = &note.about;
    if path.is_empty() {
        return None;
    }
    let last = note.parts.last();
    let (end, length) = last.map_or((0, 0), |part| (part.end, part.tail_bytes));
    let length = u64::try_from(length).unwrap_or(u64::MAX);
    let neighbor = host.neighbor([path, dev, ino], end, length)?;
    let fits = |part: &NotedPart| {
        neighbor
            .tail
            .as_ref()
            .is_some_and(|tail| part.fits(host, tail))
    };
    (neighbor.is_packed || last.is_none_or(fits)).then_some(neighbor.path)
}
