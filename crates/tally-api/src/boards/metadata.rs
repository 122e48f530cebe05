//! Metadata of members: JSON of one line.
//!
//! Invariant: the result of [`compact`] has no line break. Answers, events and exports are lines, and the writer of a
//! member must not be able to break the lines of others.

use tally_core::board::member::METADATA_BYTES_MAX;
use tally_wire::problem::{Code, Problem};

/// JSON without the white space outside of its strings.
pub fn compact(json: &str) -> String {
    let (mut is_string, mut is_escaped) = (false, false);
    let keep = |sign: &char| {
        if is_string {
            is_string = is_escaped || *sign != '"';
            is_escaped = !is_escaped && *sign == '\\';
            return true;
        }
        is_string = *sign == '"';
        !sign.is_ascii_whitespace()
    };
    json.chars().filter(keep).collect()
}

/// Whether all strings of a JSON text consist of whole characters: `"\ud800"` is half of one.
fn has_whole_characters(json: &str) -> bool {
    let (mut rest, mut is_half) = (json, false);
    while let Some((before, after)) = rest.split_once('\\') {
        let unit = after.strip_prefix('u').and_then(|hex| hex.get(..4));
        let unit = unit.and_then(|hex| u32::from_str_radix(hex, 16).ok());
        let is_second = matches!(unit, Some(0xDC00..=0xDFFF));
        if is_second != is_half || (is_half && !before.is_empty()) {
            return false;
        }
        is_half = matches!(unit, Some(0xD800..=0xDBFF));
        let length = if unit.is_some() { 5 } else { 1 };
        rest = after.get(length..).unwrap_or_default();
    }
    !is_half
}

/// Metadata in the form that is stored.
///
/// # Errors
/// `invalid-body`.
pub fn parse_metadata(json: &str) -> Result<String, Problem> {
    let detail = if json.len() > METADATA_BYTES_MAX {
        format!("metadata has at most {METADATA_BYTES_MAX} bytes of JSON")
    } else if !has_whole_characters(json) {
        "metadata has a string with half a character, such as \"\\ud800\"; send complete characters"
            .to_owned()
    } else {
        return Ok(compact(json));
    };
    Err(Problem::new(Code::InvalidBody, detail))
}
