//! Commands in the bytes that arrive: arrays of strings. Each string is read by `redis-protocol`.
//!
//! Invariants: a word is taken from the bytes as soon as it is complete, so no byte is read more often than the reads
//! that its word arrives in. Arrays do not nest, so no depth of a client's choice is followed. After an error of the
//! protocol nothing more is read, because nobody knows where the next command begins.
//!
//! Inline commands, which are lines of text, are refused: a page of a browser could send them in the body of a request
//! to this machine.

use redis_protocol::resp2::decode::decode_range;
use redis_protocol::resp2::types::RangeFrame;
use tally_redis::request::COMMAND_BYTES_MAX;
use tally_wire::messages::Arguments;

/// The most words of a command.
pub const WORDS_MAX: usize = 100_000;

/// The most words of a command before the client has authenticated, as in Redis.
pub const WORDS_UNKNOWN_MAX: usize = 10;

/// The longest command before the client has authenticated, bytes, as in Redis.
pub const UNKNOWN_BYTES_MAX: usize = 16 * 1024;

/// The longest line that says how many words, or bytes, follow.
const HEADER_BYTES_MAX: usize = 32;

/// What a word takes besides its bytes.
pub const WORD_BYTES: usize = size_of::<String>() + 16;

/// The end of a line.
const LINE_END: &[u8] = b"\r\n";

/// How much a client may send as one command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandBounds {
    words_max: usize,
    bytes_max: usize,
}

impl CommandBounds {
    /// Those of a client that may run commands, and of one of which that is not known.
    pub const fn of(is_known: bool) -> Self {
        match is_known {
            true => Self {
                words_max: WORDS_MAX,
                bytes_max: COMMAND_BYTES_MAX,
            },
            false => Self {
                words_max: WORDS_UNKNOWN_MAX,
                bytes_max: UNKNOWN_BYTES_MAX,
            },
        }
    }
}

/// A command that has arrived, or the error that it gets: its words are not UTF-8.
pub type Arrived = Result<Arguments, String>;

/// Why the connection must end: an error in Redis's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProtocolError(pub String);

/// A command that is arriving.
#[derive(Default)]
pub struct Framing {
    words: Arguments,
    /// How many words are to come. 0 between two commands.
    left: usize,
    /// The bytes of the command so far.
    bytes: usize,
    /// Whether a word is not UTF-8.
    is_binary: bool,
}

impl Framing {
    /// Takes the next complete command from the beginning of these bytes, or what is there of it. Returns how many
    /// bytes were taken.
    ///
    /// # Errors
    /// If they are no command, or one that is too large.
    pub fn take(
        &mut self,
        bytes: &[u8],
        bounds: CommandBounds,
    ) -> Result<(usize, Option<Arrived>), ProtocolError> {
        let mut taken = 0;
        loop {
            let rest = bytes.get(taken..).unwrap_or_default();
            let Some(part) = self.part(rest, bounds)? else {
                return Ok((taken, None));
            };
            taken += part;
            self.bytes += part;
            if self.left == 0 && !self.words.is_empty() {
                return Ok((taken, Some(self.complete())));
            }
        }
    }

    /// Whether a command has begun to arrive.
    pub fn is_inside(&self) -> bool {
        self.left > 0
    }

    /// How many bytes of memory the words of the command that arrives take.
    pub fn held_bytes(&self) -> usize {
        let words = self.words.len().saturating_mul(WORD_BYTES);
        words.saturating_add(if self.is_inside() { self.bytes } else { 0 })
    }

    fn complete(&mut self) -> Arrived {
        let words = std::mem::take(&mut self.words);
        match std::mem::take(&mut self.is_binary) {
            true => Err("ERR the words of a command are UTF-8 here; nothing was done".to_owned()),
            false => Ok(words),
        }
    }

    /// Takes the head of a command, or its next word. `None` where it is not complete.
    fn part(
        &mut self,
        bytes: &[u8],
        bounds: CommandBounds,
    ) -> Result<Option<usize>, ProtocolError> {
        match self.left {
            0 => self.head(bytes, bounds.words_max),
            _ => self.word(bytes, bounds.bytes_max),
        }
    }

    fn head(&mut self, bytes: &[u8], words_max: usize) -> Result<Option<usize>, ProtocolError> {
        let Some(first) = bytes.first() else {
            return Ok(None);
        };
        if *first != b'*' {
            return Err(error(
                "commands are arrays of strings here; lines of text are not read",
            ));
        }
        let Some(end) = line_end(bytes) else {
            return too_long(bytes, HEADER_BYTES_MAX, "too big mbulk count string");
        };
        let count = std::str::from_utf8(bytes.get(1..end).unwrap_or_default());
        let count = count.ok().and_then(|count| count.parse::<i64>().ok());
        let count = count.ok_or_else(|| error("invalid multibulk length"))?;
        // Redis skips a command of no words.
        let count = usize::try_from(count).unwrap_or(0);
        if count > words_max {
            return Err(error(&format!(
                "invalid multibulk length: a command has at most {words_max} words here"
            )));
        }
        (self.left, self.bytes) = (count, 0);
        Ok(Some(end + LINE_END.len()))
    }

    fn word(&mut self, bytes: &[u8], bytes_max: usize) -> Result<Option<usize>, ProtocolError> {
        let Some(first) = bytes.first() else {
            return Ok(None);
        };
        if *first != b'$' {
            let first = char::from(*first).escape_default();
            return Err(error(&format!("expected '$', got '{first}'")));
        }
        let room = bytes_max.saturating_sub(self.bytes);
        let invalid = || error("invalid bulk length");
        match decode_range(bytes) {
            Ok(Some((_, taken))) if taken > room => Err(too_large(bytes_max)),
            Ok(Some((RangeFrame::BulkString((from, to)), taken))) => {
                let text = bytes.get(from..to).ok_or_else(invalid)?;
                if bytes.get(to..taken) != Some(LINE_END) {
                    return Err(error("a string does not end with the end of a line"));
                }
                let word = String::from_utf8(text.to_vec());
                self.is_binary |= word.is_err();
                self.words.push(word.unwrap_or_default());
                self.left -= 1;
                Ok(Some(taken))
            }
            Ok(Some(_)) | Err(_) => Err(invalid()),
            Ok(None) if line_end(bytes).is_none() => {
                too_long(bytes, HEADER_BYTES_MAX, "too big bulk count string")
            }
            Ok(None) if bytes.len().max(announced(bytes)) > room => Err(too_large(bytes_max)),
            Ok(None) => Ok(None),
        }
    }
}

/// How many bytes a word has, by its head, with the head and the end of its line.
fn announced(bytes: &[u8]) -> usize {
    let end = line_end(bytes).unwrap_or_default();
    let length = std::str::from_utf8(bytes.get(1..end).unwrap_or_default());
    let length = length.ok().and_then(|length| length.parse::<usize>().ok());
    let around = end.saturating_add(2 * LINE_END.len());
    length.unwrap_or_default().saturating_add(around)
}

fn line_end(bytes: &[u8]) -> Option<usize> {
    let head = bytes.get(..HEADER_BYTES_MAX).unwrap_or(bytes);
    head.windows(LINE_END.len()).position(|two| two == LINE_END)
}

fn too_long(bytes: &[u8], bytes_max: usize, what: &str) -> Result<Option<usize>, ProtocolError> {
    match bytes.len() >= bytes_max {
        true => Err(error(what)),
        false => Ok(None),
    }
}

fn too_large(bytes_max: usize) -> ProtocolError {
    error(&format!(
        "invalid bulk length: a command has at most {bytes_max} bytes here"
    ))
}

fn error(what: &str) -> ProtocolError {
    ProtocolError(format!("ERR Protocol error: {what}"))
}
