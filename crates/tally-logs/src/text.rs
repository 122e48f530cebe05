//! Marks at the beginning of texts, and text in UTF-16.

/// The byte order mark of UTF-8, which some programs write at the beginning of a file; it is not part of the text.
/// Source: RFC 8259, section 8.1.
pub const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Returns a text without a mark at its beginning. Files that were joined have one at the beginning of a line.
pub fn unmarked(text: &[u8]) -> &[u8] {
    text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text)
}

/// Returns whether a text that begins with these bytes is UTF-16: by its mark, or because each other of its first bytes
/// is zero, as of Latin letters. Neither begins a text in UTF-8.
pub fn is_utf16(head: &[u8]) -> bool {
    match head {
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => true,
        [a, 0, b, 0, ..] => *a != 0 && *b != 0,
        [0, a, 0, b, ..] => *a != 0 && *b != 0,
        _ => false,
    }
}

/// What is said of a text in UTF-16.
pub const UTF16: &str =
    "the body is UTF-16, which is not read here: convert it by `iconv -f UTF-16 -t UTF-8`";
