//! One segment of a path, decoded once and strictly.

use crate::problem::{Code, Problem};

/// The bytes of a percent-encoded text, and whether it has a `%` without two hexadecimal digits, which stays.
pub fn percent_decoded(text: &str) -> (Vec<u8>, bool) {
    let (mut bytes, mut has_bare) = (Vec::with_capacity(text.len()), false);
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let escaped = match byte {
            b'%' => after.split_first_chunk().and_then(escaped),
            _ => None,
        };
        has_bare |= byte == b'%' && escaped.is_none();
        let (value, behind) = escaped.unwrap_or((byte, after));
        bytes.push(value);
        rest = behind;
    }
    (bytes, has_bare)
}

/// The byte of two hexadecimal digits, and what follows them.
fn escaped<'a>((digits, behind): (&[u8; 2], &'a [u8])) -> Option<(u8, &'a [u8])> {
    let is_hex = digits.iter().all(u8::is_ascii_hexdigit);
    let digits = std::str::from_utf8(digits).ok().filter(|_| is_hex)?;
    Some((u8::from_str_radix(digits, 16).ok()?, behind))
}

/// Decodes one percent-encoded path segment, strictly: with a lenient decoder two different URLs could name the same
/// counter by accident.
///
/// # Errors
/// `invalid-id` for a `%` without two hexadecimal digits, and for bytes that are not UTF-8.
pub fn decode_segment(segment: &str) -> Result<String, Problem> {
    let (bytes, has_bare) = percent_decoded(segment);
    if has_bare {
        let detail = "the id has a `%` without two hexadecimal digits; write a literal `%` as %25";
        return Err(Problem::new(Code::InvalidId, detail));
    }
    String::from_utf8(bytes).map_err(|_| {
        Problem::new(
            Code::InvalidId,
            "the id, once percent-decoded, is not UTF-8",
        )
    })
}
