//! What a connection listens to.
//!
//! Invariant: the client hears of a channel, or of a pattern, from its confirmation until it unsubscribes. One stream
//! of the service brings its messages, so each arrives once: a client that subscribes again opens no second stream.

use std::rc::Rc;

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

/// A channel or a pattern, and the stream that brings its messages.
struct Heard {
    name: String,
    stream: Rc<Subscription>,
}

/// Channels and patterns, in the order of their commands.
#[derive(Default)]
pub struct Subscriptions {
    channels: Vec<Heard>,
    patterns: Vec<Heard>,
}

fn position(known: &[Heard], name: &str) -> Option<usize> {
    known.iter().position(|heard| heard.name == name)
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

    fn of(&self, is_pattern: bool) -> &Vec<Heard> {
        match is_pattern {
            true => &self.patterns,
            false => &self.channels,
        }
    }

    fn of_mut(&mut self, is_pattern: bool) -> &mut Vec<Heard> {
        match is_pattern {
            true => &mut self.patterns,
            false => &mut self.channels,
        }
    }

    /// The stream that a client needs for what it wants, besides the streams that it has; `None` where it needs none.
    pub fn missing(&self, wanted: &Subscription) -> Option<Subscription> {
        let is_pattern = wanted.is_pattern;
        let mut channels: Vec<String> = Vec::new();
        for name in &wanted.channels {
            if position(self.of(is_pattern), name).is_none() && !channels.contains(name) {
                channels.push(name.clone());
            }
        }
        (!channels.is_empty()).then_some(Subscription {
            is_pattern,
            channels,
        })
    }

    /// Adds what a client wants, of which `stream` brings the part that was missing, and confirms each.
    pub fn add(&mut self, wanted: &Subscription, stream: &Subscription, out: &mut Encoder) {
        let word = match wanted.is_pattern {
            true => "psubscribe",
            false => "subscribe",
        };
        let stream = Rc::new(stream.clone());
        for name in &wanted.channels {
            let known = self.of_mut(wanted.is_pattern);
            if position(known, name).is_none() {
                known.push(Heard {
                    name: name.clone(),
                    stream: stream.clone(),
                });
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
            true => {
                let all = self.of(is_pattern).iter();
                all.map(|heard| heard.name.clone()).collect()
            }
            false => names,
        };
        if names.is_empty() {
            self.confirm(word, None, out);
        }
        for name in names {
            let known = self.of_mut(is_pattern);
            known.retain(|heard| heard.name != name);
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

    /// Whether a stream brings something that is listened to.
    pub fn is_heard(&self, stream: &Subscription) -> bool {
        let known = self.of(stream.is_pattern);
        known.iter().any(|heard| *heard.stream == *stream)
    }

    /// Whether a name is listened to, by this stream.
    fn hears(&self, name: &str, stream: &Subscription) -> bool {
        let known = self.of(stream.is_pattern);
        position(known, name).is_some_and(|at| *known[at].stream == *stream)
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
                } if self.hears(&pattern, stream) => {
                    out.push(4);
                    ["pmessage", &pattern, &channel, &payload]
                        .iter()
                        .for_each(|word| out.text(word));
                }
                KeyMessage::Of {
                    pattern: None,
                    channel,
                    payload,
                } if self.hears(&channel, stream) => {
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
