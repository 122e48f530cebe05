//! Keyspace notifications: the events of each command, and the subscriptions to them. Source: "Redis keyspace
//! notifications", and `notifyKeyspaceEvent` of Redis 7.0.
//!
//! An event is sent on two channels: that of its key, with the name of the event, and that of the event, with the key.

use std::collections::BTreeSet;

use crate::command::{Act, Command};
use crate::space::{KeyspaceEntry, Space, StoredValue, whole};
use crate::{glob, sorted, window};
use tally_core::order::set_of;
use tally_wire::messages::{Channels, SetChange};
use tally_wire::redis::Reply;
use tally_wire::segment::decode_segment;

/// The most channels and patterns of one stream.
pub const CHANNELS_COUNT_MAX: usize = 100;

/// The most bytes of the channels and patterns of one stream. The message that opens the stream is a header: in base64,
/// 11 KB of the 16 KB that the headers of a request may have.
pub const CHANNELS_BYTES_MAX: usize = 8 * 1024;

/// The most bytes after the first stars of the patterns of one stream, as [`glob::repeated_bytes`] counts. 16 such
/// streams use up what all streams may have together.
pub const REPEATED_BYTES_MAX: usize = 256;

/// The longest channel that is compared with patterns that have other characters after a star, bytes. All streams have
/// 4,096 bytes after stars. So one event takes 4,096 × 1,024 steps, about 10 ms at 2.3 ns each. 1,000 patterns of 1,024
/// bytes that are each compared once take 1 million steps besides, about 2 ms.
pub const CHANNEL_COMPARED_BYTES_MAX: usize = 1_024;

/// The prefixes of the two kinds of channels: there is one database.
const OF_KEYS: &str = "__keyspace@0__:";
const OF_EVENTS: &str = "__keyevent@0__:";

/// Their common prefix.
const OF_EITHER: &str = "__key";

/// A comment that keeps a stream open.
pub const PING: &str = ": ping\n\n";

/// An event of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyEvent {
    /// Redis's name of the event.
    pub name: String,
    /// The key.
    pub key: String,
}

impl KeyEvent {
    /// An event of this name.
    pub fn new(name: &str, key: &str) -> Self {
        Self {
            name: name.to_owned(),
            key: key.to_owned(),
        }
    }
}

/// The subscription of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscription {
    /// Whether these are patterns.
    pub is_pattern: bool,
    /// The channels, or the patterns.
    pub channels: Vec<String>,
}

impl From<Channels> for Subscription {
    fn from(Channels { is_pattern, names }: Channels) -> Self {
        Self {
            is_pattern,
            channels: names,
        }
    }
}

impl From<Subscription> for Channels {
    fn from(subscription: Subscription) -> Self {
        Self {
            is_pattern: subscription.is_pattern,
            names: subscription.channels,
        }
    }
}

impl Subscription {
    /// Reads the path of a request after the mount point, if it asks for a stream: `/subscribe/<channel>`. A part that
    /// does not begin a channel continues the one before, so that a key may have slashes.
    ///
    /// # Errors
    /// The text of an error of Redis.
    pub fn of_path(path: &str) -> Option<Result<Self, String>> {
        let (command, rest) = path.trim_start_matches('/').split_once('/')?;
        let is_pattern = match command.to_ascii_lowercase().as_str() {
            "subscribe" => false,
            "psubscribe" => true,
            _ => return None,
        };
        Some(Self::parse(is_pattern, rest))
    }

    fn parse(is_pattern: bool, rest: &str) -> Result<Self, String> {
        let mut channels: Vec<String> = Vec::new();
        for segment in rest.split('/') {
            let segment = decode_segment(segment).map_err(|_| "ERR invalid path".to_owned())?;
            match channels.last_mut() {
                Some(before) if !segment.starts_with(OF_EITHER) => {
                    before.push('/');
                    before.push_str(&segment);
                }
                _ => channels.push(segment),
            }
        }
        Self::new(is_pattern, channels)
    }

    /// A subscription to these channels, or patterns.
    ///
    /// # Errors
    /// The text of an error of Redis.
    pub fn new(is_pattern: bool, channels: Vec<String>) -> Result<Self, String> {
        if channels.len() > CHANNELS_COUNT_MAX {
            return Err(format!(
                "ERR a stream has at most {CHANNELS_COUNT_MAX} channels; open another one for the rest"
            ));
        }
        if channels.iter().map(String::len).sum::<usize>() > CHANNELS_BYTES_MAX {
            return Err(format!(
                "ERR the channels of a stream have at most {CHANNELS_BYTES_MAX} bytes; open another one for the rest"
            ));
        }
        for channel in &channels {
            if let Err(Reply::Error(text)) = glob::check_length(channel) {
                return Err(text);
            }
        }
        let is_ours = |channel: &String| {
            let begins = glob::literal_prefix(channel);
            [OF_KEYS, OF_EVENTS].iter().any(|kind| match is_pattern {
                true => begins.starts_with(kind) || kind.starts_with(begins),
                false => channel.starts_with(kind),
            })
        };
        if !channels.iter().all(is_ours) {
            return Err(format!(
                "ERR messages are not what Tally is for: the channels here are {OF_KEYS}<key> and {OF_EVENTS}<event>"
            ));
        }
        let parsed = Self {
            is_pattern,
            channels,
        };
        if parsed.repeated_bytes() > REPEATED_BYTES_MAX {
            return Err(format!(
                "ERR the patterns of a stream have at most {REPEATED_BYTES_MAX} bytes after their first stars; begin \
                 them with longer prefixes, or open another stream for the rest"
            ));
        }
        Ok(parsed)
    }

    /// How many bytes of its patterns may be compared again from each byte of a channel.
    pub fn repeated_bytes(&self) -> usize {
        let patterns = self.channels.iter().filter(|_| self.is_pattern);
        patterns.map(|pattern| glob::repeated_bytes(pattern)).sum()
    }

    /// For each channel, the prefix of the keys that a listener needs the right to read: for events all keys.
    pub fn prefixes(&self) -> impl Iterator<Item = &str> {
        self.channels.iter().map(|channel| {
            let begins = match self.is_pattern {
                true => glob::literal_prefix(channel),
                false => channel,
            };
            begins.strip_prefix(OF_KEYS).unwrap_or_default()
        })
    }

    /// The first frame of a stream.
    pub fn greeting(&self) -> String {
        let word = if self.is_pattern {
            "psubscribe"
        } else {
            "subscribe"
        };
        let frames = (1..).zip(&self.channels).map(|(count, channel)| {
            let count: i32 = count;
            frame(&[word, channel, &count.to_string()])
        });
        frames.collect()
    }

    /// The frames of an event; empty where the stream does not listen to it. A channel longer than
    /// [`CHANNEL_COMPARED_BYTES_MAX`] matches no pattern that has other characters after a star.
    pub fn frames(&self, event: &KeyEvent) -> String {
        let KeyEvent { name, key } = event;
        let mut frames = String::new();
        for (kind, target, payload) in [(OF_KEYS, key, name), (OF_EVENTS, name, key)] {
            let channel = [kind, target.as_str()].concat();
            let is_long = channel.len() > CHANNEL_COMPARED_BYTES_MAX;
            let may_match = |wanted: &str| !is_long || glob::repeated_bytes(wanted) == 0;
            for wanted in &self.channels {
                if self.is_pattern && may_match(wanted) && glob::matches(wanted, &channel) {
                    frames += &frame(&["pmessage", wanted, &channel, payload]);
                } else if !self.is_pattern && *wanted == channel {
                    frames += &frame(&["message", wanted, payload]);
                }
            }
        }
        frames
    }

    /// The last frame of a stream that is not read fast enough.
    pub fn farewell(&self) -> String {
        let first = self.channels.first().map_or("", String::as_str);
        let why = "ERR this stream was not read fast enough and has ended: subscribe again";
        frame(&["error", first, why])
    }
}

/// A message of a stream, as [`Subscription::frames`] and [`Subscription::farewell`] make it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyMessage {
    /// An event.
    Of {
        /// The pattern that the channel matches; `None` where the channel itself is listened to.
        pattern: Option<String>,
        /// The channel.
        channel: String,
        /// The name of the event, or the key.
        payload: String,
    },
    /// The stream was not read fast enough, and ends.
    Farewell,
}

/// The messages in the data of a stream of this subscription: complete frames. A line's end in a key has become `\n`.
pub fn messages_in(stream: &Subscription, data: &str) -> Vec<KeyMessage> {
    let frames = data.split("\n\n").filter_map(|frame| {
        let text = frame.strip_prefix("data: ")?.replace("\ndata: ", "\n");
        message_of(stream, &text)
    });
    frames.collect()
}

/// Words are joined by commas, and keys may have commas too. Names of events have none.
fn message_of(stream: &Subscription, text: &str) -> Option<KeyMessage> {
    if text.starts_with("error,") {
        return Some(KeyMessage::Farewell);
    }
    let channel_and_payload = |rest: &str| {
        let parts = match rest.starts_with(OF_KEYS) {
            true => rest.rsplit_once(','),
            false => rest.split_once(','),
        };
        parts.map(|(channel, payload)| (channel.to_owned(), payload.to_owned()))
    };
    if let Some(rest) = text.strip_prefix("message,") {
        let (channel, payload) = channel_and_payload(rest)?;
        return Some(KeyMessage::Of {
            pattern: None,
            channel,
            payload,
        });
    }
    let rest = text.strip_prefix("pmessage,")?;
    stream.channels.iter().find_map(|pattern| {
        let rest = rest.strip_prefix(pattern.as_str())?.strip_prefix(',')?;
        let (channel, payload) = channel_and_payload(rest)?;
        glob::matches(pattern, &channel).then(|| KeyMessage::Of {
            pattern: Some(pattern.clone()),
            channel,
            payload,
        })
    })
}

/// Words as one message of server-sent events. Source: HTML standard, "Interpreting an event stream": each line has a
/// field of its own.
fn frame(words: &[&str]) -> String {
    let text = words.join(",").replace(['\n', '\r'], "\ndata: ");
    format!("data: {text}\n\n")
}

/// The event of a command, besides that of a removal.
fn name_of(command: &str) -> String {
    let name = match command {
        "SETEX" | "PSETEX" | "SETNX" | "MSET" | "MSETNX" | "GETSET" => "set",
        "INCR" | "DECR" | "DECRBY" | "INCREX" => "incrby",
        "HMSET" => "hset",
        "HPEXPIRE" | "HEXPIREAT" | "HPEXPIREAT" | "HGETEX" => "hexpire",
        "PEXPIRE" | "EXPIREAT" | "PEXPIREAT" | "GETEX" => "expire",
        "ZINCRBY" => "zincr",
        "PFMERGE" => "pfadd",
        other => return other.to_ascii_lowercase(),
    };
    name.to_owned()
}

/// Whether a command sets the expiries of fields, and so may delete them.
fn ends_fields(name: &str) -> bool {
    name == "HGETEX" || name_of(name) == "hexpire"
}

/// The effect of a command on the first of its keys.
pub fn of_command(command: &Command, args: &[String]) -> KeyEvent {
    KeyEvent {
        name: name_of(command.name),
        key: args.get(1).cloned().unwrap_or_default(),
    }
}

/// The effect of a command on its sorted set.
pub fn of_set(command: &Command, args: &[String], change: SetChange) -> Vec<KeyEvent> {
    if change == SetChange::Same {
        return Vec::new();
    }
    let mut event = of_command(command, args);
    if command.name == "ZADD" && sorted::increases(args) {
        event.name = "zincr".to_owned();
    }
    let gone = (change == SetChange::Emptied).then(|| KeyEvent::new("del", &event.key));
    [event].into_iter().chain(gone).collect()
}

/// The effects of a command on the keys that were loaded for it.
pub fn of_keys(command: &Command, args: &[String], before: &Space, after: &Space) -> Vec<KeyEvent> {
    let changed = set_of(after.changed());
    let mut keys = command.keys_of(args).unwrap_or_default();
    if command.name.ends_with("STORE") {
        keys.truncate(1);
    }
    let (mut events, mut gone) = (Vec::new(), BTreeSet::new());
    for key in keys.into_iter().filter(|key| changed.contains(key)) {
        let names = match (before.get(key), after.get(key)) {
            (before, Some(after)) => names_of(command, args, before, after),
            (_, None) if command.name == "SET" => {
                ["set", "expire", "expired"].map(str::to_owned).into()
            }
            (_, None) if gone.insert(key) => {
                let part = match command.name {
                    "HDEL" | "SREM" => Some(name_of(command.name)),
                    name if ends_fields(name) => Some("hdel".to_owned()),
                    _ => None,
                };
                part.into_iter().chain(["del".to_owned()]).collect()
            }
            _ => Vec::new(),
        };
        events.extend(names.iter().map(|name| KeyEvent::new(name, key)));
    }
    events
}

/// The events of a key that exists after a command has changed it.
fn names_of(
    command: &Command,
    args: &[String],
    before: Option<&KeyspaceEntry>,
    after: &KeyspaceEntry,
) -> Vec<String> {
    let is_other = before.is_none_or(|before| before.value != after.value);
    let end_before = before.and_then(|before| before.expires_ms);
    let ends_otherwise = after.expires_ms.is_some() && after.expires_ms != end_before;
    let mut names = Vec::new();
    let gets_end = match (command.act, command.name) {
        (Act::Script, _) => {
            names.extend(is_other.then(|| of_script(&after.value).to_owned()));
            ends_otherwise
        }
        (_, "GETEX") if after.expires_ms.is_none() => {
            names.extend(end_before.map(|_| "persist".to_owned()));
            false
        }
        (_, "INCREX") => {
            names.push(match window::is_float(args) {
                true => "incrbyfloat".to_owned(),
                false => name_of(command.name),
            });
            let persists = end_before.is_some() && after.expires_ms.is_none();
            names.extend(persists.then(|| "persist".to_owned()));
            ends_otherwise
        }
        (_, name) if ends_fields(name) => {
            let fields = |entry: &KeyspaceEntry| entry.value.fields().len();
            let has_fewer = before.is_some_and(|before| fields(before) > fields(after));
            let persists = args[2].eq_ignore_ascii_case("PERSIST");
            names.push(match (has_fewer, persists) {
                (true, _) => "hdel".to_owned(),
                (false, true) => "hpersist".to_owned(),
                (false, false) => name_of(name),
            });
            false
        }
        (_, "SADD") if !is_other => false,
        (_, "SET" | "SETEX" | "PSETEX") => {
            names.push(name_of(command.name));
            let keeps = args.iter().skip(3);
            after.expires_ms.is_some()
                && !keeps
                    .into_iter()
                    .any(|word| word.eq_ignore_ascii_case("KEEPTTL"))
        }
        _ => {
            names.push(name_of(command.name));
            false
        }
    };
    names.extend(gets_end.then(|| "expire".to_owned()));
    names
}

/// The event of a value that a rate-limit script has changed.
fn of_script(value: &StoredValue) -> &'static str {
    match value {
        StoredValue::Text(text) if whole(text).is_some() => "incrby",
        StoredValue::Text(_) => "set",
        StoredValue::Hash(_) | StoredValue::Timed(_) => "hset",
        StoredValue::Set(_) | StoredValue::Sorted => "sadd",
    }
}
