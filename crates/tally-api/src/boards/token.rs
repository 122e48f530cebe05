//! Opaque texts: versions of boards, cursors, tags of members.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use tally_core::board::key::Key;
use tally_wire::messages::{BoardSeen, MemberCondition, PeriodOf, Ranked};
use tally_wire::problem::{Code, Problem};

/// The first characters of a board's version; no version of a counter begins so.
const VERSION: &str = "b1.";

/// The longest cursor that is read: a member of 1,024 bytes, which `ZADD` may have written, in base64, with some room.
const CURSOR_BYTES_MAX: usize = 1_536;

/// The writes that a board's answer includes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoardVersion {
    /// The generation of the board.
    pub generation: u64,
    /// The number of its layout.
    pub layout: u64,
    /// The sequence of each of its shards; 0 where that is not known.
    pub sequences: Vec<u64>,
}

impl BoardVersion {
    /// The version of an answer.
    pub fn of(seen: &BoardSeen) -> Self {
        Self {
            generation: seen.generation,
            layout: seen.layout.number,
            sequences: match seen.sequences.is_empty() {
                true => vec![seen.sequence],
                false => seen.sequences.clone(),
            },
        }
    }
}

impl std::fmt::Display for BoardVersion {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{VERSION}{:x}", self.generation)?;
        if self.layout > 0 {
            write!(formatter, ".{:x}", self.layout)?;
        }
        for sequence in &self.sequences {
            write!(formatter, ".{sequence:x}")?;
        }
        Ok(())
    }
}

/// Parses a version; `None` for other texts.
pub(super) fn parse_version(text: &str) -> Option<BoardVersion> {
    let is_short = text.len() <= CURSOR_BYTES_MAX;
    let numbers = text.strip_prefix(VERSION).filter(|_| is_short)?.split('.');
    let numbers: Option<Vec<u64>> = numbers
        .map(|text| u64::from_str_radix(text, 16).ok())
        .collect();
    let version = match numbers?.as_slice() {
        [generation, sequence] => BoardVersion {
            generation: *generation,
            layout: 0,
            sequences: vec![*sequence],
        },
        [generation, layout, sequences @ ..] => BoardVersion {
            generation: *generation,
            layout: *layout,
            sequences: sequences.to_vec(),
        },
        _ => return None,
    };
    (version.to_string() == text).then_some(version)
}

/// The cursor that continues after a member, in the period of its answer.
pub fn cursor_of(row: &Ranked, period: &PeriodOf) -> String {
    let key = Key::new(row.score, row.tie, &row.member);
    let mut bytes = postcard::to_allocvec(&(&key.sort_key, &key.member)).unwrap_or_default();
    if period.end > 0 {
        bytes.extend(postcard::to_allocvec(&period.start).unwrap_or_default());
    }
    URL_SAFE_NO_PAD.encode(bytes)
}

/// The position that a cursor names, and the beginning of its period where it says that; `None` for other texts.
pub(super) fn parse_cursor(text: &str) -> Option<(Key, Option<i64>)> {
    let is_short = text.len() <= CURSOR_BYTES_MAX;
    let bytes = URL_SAFE_NO_PAD.decode(text).ok().filter(|_| is_short)?;
    let ((place, member), rest) = postcard::take_from_bytes(&bytes).ok()?;
    let start = match rest {
        [] => None,
        rest => Some(postcard::from_bytes(rest).ok()?),
    };
    let key = Key {
        sort_key: place,
        member,
    };
    key.score().map(|_| (key, start))
}

/// A member's tag in the form of `ETag`.
pub fn tag_text(tag: u64) -> String {
    format!("\"{tag:016x}\"")
}

/// The required state of a member, from the value of `If-Match`: `*`, or one tag in quotes.
///
/// # Errors
/// `invalid-precondition` for anything else.
pub fn parse_if_match(header: &str) -> Result<MemberCondition, Problem> {
    let text = header.trim_matches([' ', '\t']);
    if text == "*" {
        return Ok(MemberCondition::There);
    }
    let digits = text
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'));
    let tag = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
    tag.filter(|tag| tag_text(*tag) == text)
        .map(MemberCondition::Tagged)
        .ok_or_else(|| {
            let detail = "send `*`, or the `ETag` of a member, in quotes, as `If-Match`";
            Problem::new(Code::InvalidPrecondition, detail)
        })
}
