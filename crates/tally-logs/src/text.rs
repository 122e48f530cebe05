//! Marks at the beginning of texts, text in UTF-16, and what servers escape in their logs.

use std::borrow::Cow;

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

/// How many first bytes show that a file is a tar archive.
pub const TAR_HEAD_BYTES: usize = 265;

/// Returns whether these bytes begin a tar archive: its magic and version contain a zero, as no text does. Source:
/// POSIX, "pax", ustar Interchange Format; GNU tar, "Basic Tar Format".
pub fn is_tar(head: &[u8]) -> bool {
    let magic = head.get(257..TAR_HEAD_BYTES).unwrap_or_default();
    magic.starts_with(b"ustar") && magic.contains(&0)
}

/// Returns a text as it was before a server escaped it for its log: nginx writes `\x22`, Apache `\"`, `\\`, `\n` and
/// `\xe9`. What is no such escape stays. Sources: nginx, `log_format`; Apache HTTP Server, "Custom Log Formats".
pub(crate) fn unescaped(text: &[u8]) -> Cow<'_, [u8]> {
    let Some(first) = text.iter().position(|byte| *byte == b'\\') else {
        return Cow::Borrowed(text);
    };
    let (plain, mut rest) = text.split_at(first);
    let mut whole = plain.to_vec();
    while let Some((byte, after)) = rest.split_first() {
        let (byte, after) = match (byte, after) {
            (b'\\', [b'x', high, low, after @ ..]) if hex(*high, *low).is_some() => {
                (hex(*high, *low).unwrap_or_default(), after)
            }
            (b'\\', [sign, after @ ..]) if named(*sign).is_some() => {
                (named(*sign).unwrap_or_default(), after)
            }
            _ => (*byte, after),
        };
        whole.push(byte);
        rest = after;
    }
    Cow::Owned(whole)
}

/// Returns a text as it was before HAProxy escaped it for its log: `"` is `#22` there, and `#` is `#23`. Source:
/// HAProxy, "Non-printable characters".
pub(crate) fn unescaped_of_haproxy(text: &[u8]) -> Cow<'_, [u8]> {
    if !text.contains(&b'#') {
        return Cow::Borrowed(text);
    }
    let (mut whole, mut rest) = (Vec::new(), text);
    while let Some((byte, after)) = rest.split_first() {
        let (byte, after) = match (byte, after) {
            (b'#', [high, low, after @ ..]) if hex(*high, *low).is_some() => {
                (hex(*high, *low).unwrap_or_default(), after)
            }
            _ => (*byte, after),
        };
        whole.push(byte);
        rest = after;
    }
    Cow::Owned(whole)
}

/// Returns the byte behind a backslash and a sign.
fn named(sign: u8) -> Option<u8> {
    Some(match sign {
        b'"' | b'\\' => sign,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 8,
        b'v' => 11,
        b'f' => 12,
        _ => return None,
    })
}

pub(crate) fn hex(high: u8, low: u8) -> Option<u8> {
    let digit = |sign: u8| {
        char::from(sign)
            .to_digit(16)
            .and_then(|digit| u8::try_from(digit).ok())
    };
    Some(digit(high)? << 4 | digit(low)?)
}

/// What is said of a text in UTF-16.
pub const UTF16: &str =
    "the body is UTF-16, which is not read here: convert it by `iconv -f UTF-16 -t UTF-8`";
