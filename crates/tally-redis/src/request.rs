//! The forms of a request: a JSON array, an array of arrays, or a path.

use std::fmt;

use serde::Deserializer;
use serde::de::{Error, Visitor};
use serde_json::value::RawValue;

use tally_wire::messages::Arguments;
use tally_wire::segment::decode_segment;

/// The longest command, in bytes of its JSON: the same as for any small body.
pub const COMMAND_BYTES_MAX: usize = 1024 * 1024;

/// The longest body of a pipeline or a transaction, in bytes: an isolate has 128 MB, and holds a few copies of it.
pub const PIPELINE_BYTES_MAX: usize = 8 * COMMAND_BYTES_MAX;

/// The most commands of a pipeline or a transaction.
pub const COMMANDS_MAX: usize = 1_000;

/// Commands that arrived together over a connection.
#[derive(Debug, PartialEq, Eq)]
pub struct CommandBatch {
    /// The words of each.
    pub commands: Vec<Arguments>,
    /// Whether they are a transaction: no other command runs between them.
    pub is_transaction: bool,
}

/// The content of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RedisRequest {
    /// One command; its answer is an object.
    One(Arguments),
    /// Several, each by itself.
    Pipeline(Vec<Arguments>),
    /// Several, as a transaction: no other command runs between them.
    Transaction(Vec<Arguments>),
}

impl RedisRequest {
    /// Its commands.
    pub fn commands(&self) -> &[Arguments] {
        match self {
            Self::One(args) => std::slice::from_ref(args),
            Self::Pipeline(commands) | Self::Transaction(commands) => commands,
        }
    }

    /// Reads a request from its path after the mount point, its query and its body.
    ///
    /// # Errors
    /// The text of an error of Redis.
    pub fn parse(path: &str, query: &str, body: &[u8]) -> Result<Self, String> {
        match path.trim_matches('/') {
            "" => one(body).map(Self::One),
            "pipeline" => several(body).map(Self::Pipeline),
            "multi-exec" => several(body).map(Self::Transaction),
            path => of_path(path, query, body).map(Self::One),
        }
    }
}

fn one(body: &[u8]) -> Result<Arguments, String> {
    let values: Vec<&RawValue> = serde_json::from_slice(body)
        .map_err(|_| "ERR failed to parse command: send a JSON array of its words".to_owned())?;
    arguments(&values)
}

fn several(body: &[u8]) -> Result<Vec<Arguments>, String> {
    let invalid = |_| {
        "ERR failed to parse pipeline request: send a JSON array of commands, each an array of its words"
            .to_owned()
    };
    let commands: Vec<&RawValue> = serde_json::from_slice(body).map_err(invalid)?;
    if commands.is_empty() {
        return Err("ERR empty pipeline request".to_owned());
    }
    if commands.len() > COMMANDS_MAX {
        return Err(format!(
            "ERR a request has at most {COMMANDS_MAX} commands; send the rest in another one"
        ));
    }
    if commands
        .iter()
        .any(|command| command.get().len() > COMMAND_BYTES_MAX)
    {
        return Err(format!(
            "ERR a command has at most {COMMAND_BYTES_MAX} bytes of JSON; nothing was done"
        ));
    }
    let read = |command: &&RawValue| {
        let values: Vec<&RawValue> = serde_json::from_str(command.get()).map_err(invalid)?;
        arguments(&values)
    };
    commands.iter().map(read).collect()
}

fn arguments(values: &[&RawValue]) -> Result<Arguments, String> {
    if values.is_empty() {
        return Err("ERR empty command".to_owned());
    }
    values.iter().map(|value| argument(value)).collect()
}

/// A string as it is; anything else as its source text, so that no digit of a number is lost.
fn argument(value: &RawValue) -> Result<String, String> {
    let text = value.get();
    if text.starts_with('"') {
        let read = serde_json::Deserializer::from_str(text).deserialize_bytes(LossyText);
        return read.map_err(|_| "ERR failed to parse command".to_owned());
    }
    Ok(text.to_owned())
}

/// Reads a string that may hold a lone surrogate: JavaScript can cut a string between two surrogates, and sends
/// `"\ud83d"`. The surrogate becomes U+FFFD, as in JavaScript's own UTF-8.
struct LossyText;

impl Visitor<'_> for LossyText {
    type Value = String;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a string")
    }

    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<String, E> {
        /// The first of the three bytes of a lone surrogate.
        const HALF: u8 = 0xed;
        let mut text = String::with_capacity(bytes.len());
        for chunk in bytes.utf8_chunks() {
            text.push_str(chunk.valid());
            if chunk.invalid().first() == Some(&HALF) {
                text.push(char::REPLACEMENT_CHARACTER);
            }
        }
        Ok(text)
    }
}

/// `/SET/key/value?EX=100`: a body is the last argument, pairs of the query follow.
fn of_path(path: &str, query: &str, body: &[u8]) -> Result<Arguments, String> {
    let mut arguments = path
        .split('/')
        .map(|segment| decode_segment(segment).map_err(|_| "ERR invalid path".to_owned()))
        .collect::<Result<Arguments, String>>()?;
    if !body.is_empty() {
        let body = std::str::from_utf8(body).map_err(|_| "ERR the body is not UTF-8".to_owned())?;
        arguments.push(body.to_owned());
    }
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        if name == TOKEN {
            continue;
        }
        arguments.push(name.into_owned());
        if !value.is_empty() {
            arguments.push(value.into_owned());
        }
    }
    Ok(arguments)
}

/// The parameter of the query in which a key may be sent.
pub const TOKEN: &str = "_token";

/// The key in a query.
pub fn token_of(query: &str) -> Option<String> {
    let mut pairs = form_urlencoded::parse(query.as_bytes());
    let found = pairs.find(|(name, _)| name == TOKEN);
    found.map(|(_, value)| value.into_owned())
}

/// The query without the key: a request that is sent again after its key was rotated is the same.
pub fn without_token(query: &str) -> String {
    let pairs = form_urlencoded::parse(query.as_bytes());
    let pairs = pairs.filter(|(name, _)| name != TOKEN);
    form_urlencoded::Serializer::new(String::new())
        .extend_pairs(pairs)
        .finish()
}
