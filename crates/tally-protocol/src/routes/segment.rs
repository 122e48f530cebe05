//! One segment of a path, decoded once and strictly.

use super::super::problem::{Code, Problem};

/// The byte whose two hexadecimal digits stand behind a `%`.
pub(crate) fn escaped(after: &[u8]) -> Option<u8> {
    let digits = after
        .get(..2)
        .filter(|digits| digits.iter().all(u8::is_ascii_hexdigit))?;
    u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

/// Decodes one percent-encoded path segment, strictly: with a lenient decoder two different URLs could name the same
/// counter by accident.
///
/// # Errors
/// `invalid-id` for a `%` without two hexadecimal digits, and for bytes that are not UTF-8.
pub fn decode_segment(segment: &str) -> Result<String, Problem> {
    let mut bytes = Vec::with_capacity(segment.len());
    let mut rest = segment.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        if byte != b'%' {
            bytes.push(byte);
            rest = after;
            continue;
        }
        let Some(value) = escaped(after) else {
            let detail =
                "the id has a `%` without two hexadecimal digits; write a literal `%` as %25";
            return Err(Problem::new(Code::InvalidId, detail));
        };
        bytes.push(value);
        rest = after.get(2..).unwrap_or_default();
    }
    String::from_utf8(bytes).map_err(|_| {
        Problem::new(
            Code::InvalidId,
            "the id, once percent-decoded, is not UTF-8",
        )
    })
}
