//! Opaque texts: versions of boards, cursors, tags of members.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::core::board::key::Key;
use crate::protocol::messages::{MemberIs, Ranked};
use crate::protocol::problem::{Code, Problem};

/// What a version of a board begins with: no version of a counter does.
const VERSION: &str = "b1.";

/// The longest cursor that is read: a key of 512 bytes in base64, and room.
const CURSOR_BYTES_MAX: usize = 1_024;

/// The version of a board: generation and sequence.
pub(super) fn version_of(generation: u64, sequence: u64) -> String {
    format!("{VERSION}{generation:x}.{sequence:x}")
}

/// The generation and the sequence of a version; `None` for a text that is none.
pub(super) fn parse_version(text: &str) -> Option<(u64, u64)> {
    let (generation, sequence) = text.strip_prefix(VERSION)?.split_once('.')?;
    let number = |text: &str| u64::from_str_radix(text, 16).ok();
    let version = (number(generation)?, number(sequence)?);
    (version_of(version.0, version.1) == text).then_some(version)
}

/// The cursor that leads to what stands behind a member.
pub fn cursor_of(row: &Ranked) -> String {
    let key = Key::new(row.score, row.tie, &row.member);
    let bytes = postcard::to_allocvec(&(&key.place, &key.member)).unwrap_or_default();
    URL_SAFE_NO_PAD.encode(bytes)
}

/// The place that a cursor names; `None` for a text that is no cursor.
pub(super) fn parse_cursor(text: &str) -> Option<Key> {
    let is_short = text.len() <= CURSOR_BYTES_MAX;
    let bytes = URL_SAFE_NO_PAD.decode(text).ok().filter(|_| is_short)?;
    let (place, member) = postcard::from_bytes(&bytes).ok()?;
    let key = Key { place, member };
    key.score().map(|_| key)
}

/// A member's tag, as `ETag` has it.
pub fn tag_text(tag: u64) -> String {
    format!("\"{tag:016x}\"")
}

/// How a member must be, by the value of `If-Match`: `*`, or one tag in quotes.
///
/// # Errors
/// `invalid-precondition` for anything else.
pub fn parse_if_match(header: &str) -> Result<MemberIs, Problem> {
    let text = header.trim_matches([' ', '\t']);
    if text == "*" {
        return Ok(MemberIs::There);
    }
    let digits = text
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'));
    let tag = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
    tag.filter(|tag| tag_text(*tag) == text)
        .map(MemberIs::Tagged)
        .ok_or_else(|| {
            let detail = "send `*`, or the `ETag` of a member, in quotes, as `If-Match`";
            Problem::new(Code::InvalidPrecondition, detail)
        })
}
