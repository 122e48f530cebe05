//! Replies of commands, and their JSON.
//!
//! They have the names that Redis gives them. The answer of an object to a call is another type: `host::object::Reply`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

/// A reply of Redis.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// Nothing.
    Nil,
    /// A whole number.
    Integer(i64),
    /// A text, or a status: JSON has one form for both.
    Text(String),
    /// Several.
    Array(Vec<Reply>),
    /// Why the command was not done: a code in capitals, then a sentence.
    Error(String),
}

/// The reply to a command, or its refusal.
pub type CommandResult = Result<Reply, Reply>;

/// The most bytes of the replies of a request, and of the values that are loaded for one command, as [`Reply::bytes`]
/// counts: an isolate has 128 MB and holds a few copies. A reply of 100,000 members and 8 MiB with scores has 14 MB.
pub const REPLIES_BYTES_MAX: usize = 16 * 1024 * 1024;

/// What one reply uses besides its text, bytes.
const REPLY_BYTES: usize = 16;

/// The beginning of an error where it is unknown whether the command was run.
pub const UNAVAILABLE: &str = "UNAVAILABLE";

/// The encoding of strings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// As JSON strings.
    Plain,
    /// In base64, as JSON strings: for clients that send `Upstash-Encoding: base64`. Errors stay as they are.
    Base64,
}

impl Reply {
    /// `OK`.
    pub fn ok() -> Self {
        Self::text("OK")
    }

    /// A text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// A text, or nothing.
    pub fn text_or_nil(text: Option<impl Into<String>>) -> Self {
        text.map_or(Self::Nil, Self::text)
    }

    /// 1 or 0.
    pub fn flag(is: bool) -> Self {
        Self::Integer(i64::from(is))
    }

    /// A count.
    pub fn count(count: usize) -> Self {
        Self::Integer(i64::try_from(count).unwrap_or(i64::MAX))
    }

    /// Texts, in order.
    pub fn texts(texts: impl IntoIterator<Item = String>) -> Self {
        Self::Array(texts.into_iter().map(Self::Text).collect())
    }

    /// Texts or nothing, in order.
    ///
    /// # Errors
    /// Where they have more than [`REPLIES_BYTES_MAX`] bytes together: the same text may occur many times.
    pub fn texts_or_nils<'a>(texts: impl Iterator<Item = Option<&'a str>>) -> CommandResult {
        let (mut replies, mut bytes) = (Vec::new(), 0);
        for text in texts {
            bytes += REPLY_BYTES + text.map_or(0, str::len);
            if bytes > REPLIES_BYTES_MAX {
                return Err(replies_too_large());
            }
            replies.push(Self::text_or_nil(text));
        }
        Ok(Self::Array(replies))
    }

    /// An error of the general kind.
    pub fn err(text: impl std::fmt::Display) -> Self {
        Self::Error(format!("ERR {text}"))
    }

    /// How many bytes it uses, about.
    pub fn bytes(&self) -> usize {
        REPLY_BYTES
            + match self {
                Self::Nil | Self::Integer(_) => 0,
                Self::Text(text) | Self::Error(text) => text.len(),
                Self::Array(replies) => replies.iter().map(Self::bytes).sum(),
            }
    }

    /// Returns whether it is an error.
    pub fn is_error(&self) -> bool {
        matches!(self, Self::Error(_))
    }

    /// The JSON of a command's answer: `{"result":…}` or `{"error":…}`.
    pub fn to_json(&self, encoding: Encoding) -> String {
        let mut json = String::new();
        self.write_answer(&mut json, encoding);
        json
    }

    /// Appends what [`Reply::to_json`] returns.
    pub fn write_answer(&self, json: &mut String, encoding: Encoding) {
        json.push_str(if self.is_error() {
            "{\"error\":"
        } else {
            "{\"result\":"
        });
        self.write(json, encoding);
        json.push('}');
    }

    fn write(&self, json: &mut String, encoding: Encoding) {
        match self {
            Self::Nil => json.push_str("null"),
            // Above 2^53 a JSON number would lose digits in JavaScript; a string does not.
            Self::Integer(number) if number.unsigned_abs() > SAFE_MAX => {
                write_text(json, &number.to_string(), encoding);
            }
            Self::Integer(number) => json.push_str(&number.to_string()),
            Self::Text(text) => write_text(json, text, encoding),
            Self::Error(text) => write_text(json, text, Encoding::Plain),
            Self::Array(replies) => {
                json.push('[');
                for (index, reply) in replies.iter().enumerate() {
                    if index > 0 {
                        json.push(',');
                    }
                    reply.write(json, encoding);
                }
                json.push(']');
            }
        }
    }
}

/// The largest whole number that JavaScript keeps exactly: 2^53 − 1.
const SAFE_MAX: u64 = (1 << 53) - 1;

fn write_text(json: &mut String, text: &str, encoding: Encoding) {
    let encoded = match encoding {
        Encoding::Plain => None,
        Encoding::Base64 => Some(STANDARD.encode(text)),
    };
    let text = encoded.as_deref().unwrap_or(text);
    json.push_str(&serde_json::to_string(text).unwrap_or_default());
}

/// The replies of a request are too large, or the values of a command's keys.
pub fn replies_too_large() -> Reply {
    let mebibytes = REPLIES_BYTES_MAX / (1024 * 1024);
    Reply::err(format!(
        "the replies of a request, or the values of a command's keys, have more than {mebibytes} MiB; nothing was done: send it in a separate request, or read less"
    ))
}
