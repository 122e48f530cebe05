//! What a connection listens to.
//!
//! Invariant: the client hears of a channel, or of a pattern, from its confirmation until it unsubscribes, whichever
//! stream of the service brings the messages.

use crate::encoder::Encoder;
use tally_redis::notifications::{CHANNELS_COUNT_MAX, KeyMessage, Subscription, messages_in};

/// The most channels and patterns of a connection.
pub const SUBSCRIBED_MAX: usize = CHANNELS_COUNT_MAX;

/// What a command of subscriptions asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// `SUBSCRIBE`
    Channels,
    /// `PSUBSCRIBE`
    Patterns,
    /// `UNSUBSCRIBE`
    NoChannels,
    /// `PUNSUBSCRIBE`
    NoPatterns,
}

/// Channels and patterns, in the order of their commands.
#[derive(Default)]
pub struct Subscriptions {
    channels: Vec<String>,
    patterns: Vec<String>,
}

impl Subscriptions {
    /// How many there are.
    pub fn count(&self) -> usize {
        self.channels.len() + self.patterns.len()
    }

    /// How many channels there are.
    pub fn channels(&self) -> usize {
        self.channels.len()
    }

    /// How many patterns there are.
    pub fn patterns(&self) -> usize {
        self.patterns.len()
    }

    /// Whether those of a stream may be added.
    pub fn has_room(&self, stream: &Subscription) -> bool {
        self.count() + stream.channels.len() <= SUBSCRIBED_MAX
    }

    /// The error of a connection that listens to enough.
    pub fn full() -> String {
        format!(
            "ERR a connection listens to at most {SUBSCRIBED_MAX} channels here; open another one"
        )
    }

    fn of(&mut self, is_pattern: bool) -> &mut Vec<String> {
        match is_pattern {
            true => &mut self.patterns,
            false => &mut self.channels,
        }
    }

    /// Adds those of a stream, and confirms each.
    pub fn add(&mut self, stream: &Subscription, out: &mut Encoder) {
        let word = match stream.is_pattern {
            true => "psubscribe",
            false => "subscribe",
        };
        for name in &stream.channels {
            let known = self.of(stream.is_pattern);
            if !known.contains(name) {
                known.push(name.clone());
            }
            self.confirm(word, Some(name), out);
        }
    }

    /// Removes those names, or all where none is named, and confirms each.
    pub fn remove(&mut self, wanted: Wanted, names: Vec<String>, out: &mut Encoder) {
        let is_pattern = wanted == Wanted::NoPatterns;
        let word = match is_pattern {
            true => "punsubscribe",
            false => "unsubscribe",
        };
        let names = match names.is_empty() {
            true => self.of(is_pattern).clone(),
            false => names,
        };
        if names.is_empty() {
            self.confirm(word, None, out);
        }
        for name in names {
            self.of(is_pattern).retain(|known| *known != name);
            self.confirm(word, Some(&name), out);
        }
    }

    fn confirm(&self, word: &str, name: Option<&str>, out: &mut Encoder) {
        out.push(3);
        out.text(word);
        match name {
            Some(name) => out.text(name),
            None => out.nil(),
        }
        out.integer(i64::try_from(self.count()).unwrap_or(i64::MAX));
    }

    /// Whether one of a stream's is listened to.
    pub fn is_heard(&self, stream: &Subscription) -> bool {
        let known = match stream.is_pattern {
            true => &self.patterns,
            false => &self.channels,
        };
        stream.channels.iter().any(|name| known.contains(name))
    }

    /// Writes the messages in the data of a stream. Returns whether the stream has said that it ends.
    pub fn hear(&self, stream: &Subscription, data: &str, out: &mut Encoder) -> bool {
        let mut has_ended = false;
        for message in messages_in(stream, data) {
            match message {
                KeyMessage::Farewell => has_ended = true,
                KeyMessage::Of {
                    pattern: Some(pattern),
                    channel,
                    payload,
                } if self.patterns.contains(&pattern) => {
                    out.push(4);
                    ["pmessage", &pattern, &channel, &payload]
                        .iter()
                        .for_each(|word| out.text(word));
                }
                KeyMessage::Of {
                    pattern: None,
                    channel,
                    payload,
                } if self.channels.contains(&channel) => {
                    out.push(3);
                    ["message", &channel, &payload]
                        .iter()
                        .for_each(|word| out.text(word));
                }
                KeyMessage::Of { .. } => {}
            }
        }
        has_ended
    }
}
