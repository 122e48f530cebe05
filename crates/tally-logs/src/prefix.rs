//! What carriers of logs write before a line: syslog, Kubernetes (CRI), Docker, Docker Compose.
//!
//! Invariant: what is known to be a prefix is taken off whole. Anything else stays, and the format of the line decides.
//! Sources: RFC 3164 and RFC 5424; Kubernetes, "CRI logging format"; Docker, "JSON File logging driver".

use std::borrow::Cow;

use serde::Deserialize;

use crate::hit::Unread;
use crate::json::{Text, object};
use crate::text::unmarked;
use crate::time::parse_any;

/// The types of requests with which lines of AWS's Application Load Balancers begin, before their time.
const BALANCED: [&str; 6] = ["http", "https", "h2", "grpcs", "ws", "wss"];

#[derive(Deserialize)]
struct Docker<'a> {
    #[serde(borrow)]
    log: Text<'a>,
}

/// Returns the line that a carrier's line carries.
///
/// # Errors
/// A part of a line that the carrier has split is no line.
pub fn carried(line: &[u8]) -> Result<Cow<'_, [u8]>, Unread> {
    let line = unmarked(line);
    if line.starts_with(b"{\"log\":\"") {
        let Docker { log } = object(line)?;
        return Ok(match log.0 {
            Cow::Borrowed(text) => Cow::Borrowed(text.trim_end().as_bytes()),
            Cow::Owned(text) => Cow::Owned(text.trim_end().as_bytes().to_vec()),
        });
    }
    if let Some((first, rest)) = word(line)
        && let Some((second, rest)) = word(rest)
    {
        if second == b"|" {
            return Ok(Cow::Borrowed(timeless(rest)));
        }
        if matches!(second, b"stdout" | b"stderr") && is_time(first) {
            return match word(rest) {
                Some((b"F", rest)) => Ok(Cow::Borrowed(rest)),
                _ => Err(Unread::Why(
                    "the line is a part of a longer one, which its carrier has split",
                )),
            };
        }
    }
    let line = timeless(line);
    Ok(Cow::Borrowed(syslog(line).unwrap_or(line)))
}

/// Returns a line without the time that a carrier writes before JSON, or before a line that begins with a time itself.
/// Other formats look for their own beginning behind a time.
fn timeless(line: &[u8]) -> &[u8] {
    let Some((_, rest)) = word(line).filter(|(first, _)| is_time(first)) else {
        return line;
    };
    let begins_with_time = match word(rest) {
        Some((first, rest)) if is_balanced(first) => {
            word(rest).is_some_and(|(next, _)| is_time(next))
        }
        Some((first, _)) => is_time(first),
        None => false,
    };
    match begins_with_time || rest.starts_with(b"{") {
        true => rest,
        false => line,
    }
}

/// Returns the message of a line of syslog: behind its priority, its time, its host and the name of its program.
fn syslog(line: &[u8]) -> Option<&[u8]> {
    let rest = match line.strip_prefix(b"<") {
        Some(rest) => {
            let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
            rest.get(digits..)?.strip_prefix(b">")?
        }
        None => line,
    };
    if let Some(rest) = rest.strip_prefix(b"1 ") {
        return rfc5424(rest);
    }
    // `Nov  1 12:30:05 `, or an ISO time.
    let after = match rest.get(..16) {
        Some(
            &[
                m0,
                _,
                _,
                b' ',
                _,
                d1,
                b' ',
                _,
                _,
                b':',
                _,
                _,
                b':',
                _,
                _,
                b' ',
            ],
        ) if m0.is_ascii_uppercase() && d1.is_ascii_digit() => rest.get(16..)?,
        _ => {
            let (time, rest) = word(rest)?;
            is_time(time).then_some(rest)?
        }
    };
    let (first, rest) = word(after)?;
    if first.ends_with(b":") {
        return Some(rest);
    }
    let (tag, rest) = word(rest)?;
    tag.ends_with(b":").then_some(rest)
}

/// Returns the message behind time, host, program, process, message's name and structured data.
fn rfc5424(line: &[u8]) -> Option<&[u8]> {
    let mut rest = line;
    for _ in 0..5 {
        rest = word(rest)?.1;
    }
    if let Some(rest) = rest.strip_prefix(b"- ") {
        return Some(unmarked(rest));
    }
    // A bracket within a value is escaped.
    let is_end = |bytes: &[u8]| bytes.ends_with(b"] ") && !bytes.starts_with(b"\\");
    let end = rest.windows(3).position(is_end)? + 3;
    let message = rest.get(end..).filter(|_| rest.starts_with(b"["));
    message.map(unmarked)
}

/// Whether a line that begins with this word is of an Application Load Balancer.
pub(crate) fn is_balanced(word: &[u8]) -> bool {
    BALANCED.iter().any(|known| known.as_bytes() == word)
}

pub(crate) fn is_time(word: &[u8]) -> bool {
    word.get(10) == Some(&b'T')
        && std::str::from_utf8(word).is_ok_and(|text| parse_any(text).is_some())
}

/// Returns the first word of a text, and what follows the spaces behind it.
fn word(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = text.iter().position(|byte| *byte == b' ')?;
    let (word, rest) = text.split_at(end);
    let spaces = rest.iter().take_while(|byte| **byte == b' ').count();
    (end > 0).then_some((word, rest.get(spaces..)?))
}
