//! The bytes of replies.
//!
//! Invariant: what a client has sent never ends a line of a reply, so no word of a client becomes a reply of its own.
//!
//! `redis-protocol` encodes too, but from frames whose maps and sets are hash tables: those lose the order of Redis's
//! replies, and a copy of each reply would be made for them.

/// The version of the protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// RESP2.
    #[default]
    Two,
    /// RESP3.
    Three,
}

impl Protocol {
    /// Its number.
    pub fn number(self) -> i64 {
        match self {
            Self::Two => 2,
            Self::Three => 3,
        }
    }
}

/// Replies, one after the other.
#[derive(Default)]
pub struct Encoder {
    /// The version of the protocol in which the next reply is written.
    pub protocol: Protocol,
    bytes: Vec<u8>,
}

impl Encoder {
    /// Takes what was written.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }

    /// What was written.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn is_three(&self) -> bool {
        self.protocol == Protocol::Three
    }

    fn line(&mut self, kind: u8, text: &str) {
        self.bytes.push(kind);
        self.bytes.extend_from_slice(text.as_bytes());
        self.bytes.extend_from_slice(b"\r\n");
    }

    fn count(&mut self, kind: u8, count: usize) {
        self.line(kind, &count.to_string());
    }

    /// Nothing, instead of a text.
    pub fn nil(&mut self) {
        let nil: &[u8] = if self.is_three() {
            b"_\r\n"
        } else {
            b"$-1\r\n"
        };
        self.bytes.extend_from_slice(nil);
    }

    /// Nothing, instead of an array.
    pub fn nil_array(&mut self) {
        let nil: &[u8] = if self.is_three() {
            b"_\r\n"
        } else {
            b"*-1\r\n"
        };
        self.bytes.extend_from_slice(nil);
    }

    /// A whole number.
    pub fn integer(&mut self, number: i64) {
        self.line(b':', &number.to_string());
    }

    /// A status, which is one line.
    pub fn status(&mut self, text: &str) {
        self.line(b'+', &one_line(text));
    }

    /// An error, which is one line.
    pub fn error(&mut self, text: &str) {
        self.line(b'-', &one_line(text));
    }

    /// A text.
    pub fn text(&mut self, text: &str) {
        self.count(b'$', text.len());
        self.bytes.extend_from_slice(text.as_bytes());
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// A number with a point, as it is written here.
    pub fn double(&mut self, text: &str) {
        if self.is_three() {
            self.line(b',', &one_line(text));
        } else {
            self.text(text);
        }
    }

    /// A text for people.
    pub fn verbatim(&mut self, text: &str) {
        const KIND: &str = "txt:";
        if self.is_three() {
            self.count(b'=', KIND.len() + text.len());
            self.bytes.extend_from_slice(KIND.as_bytes());
            self.bytes.extend_from_slice(text.as_bytes());
            self.bytes.extend_from_slice(b"\r\n");
        } else {
            self.text(text);
        }
    }

    /// The head of an array: so many replies follow.
    pub fn array(&mut self, count: usize) {
        self.count(b'*', count);
    }

    /// The head of a set: so many replies follow.
    pub fn set(&mut self, count: usize) {
        let kind = if self.is_three() { b'~' } else { b'*' };
        self.count(kind, count);
    }

    /// The head of a map: so many pairs of replies follow.
    pub fn map(&mut self, pairs: usize) {
        if self.is_three() {
            self.count(b'%', pairs);
        } else {
            self.count(b'*', pairs * 2);
        }
    }

    /// The head of what is sent without being asked for: so many replies follow.
    pub fn push(&mut self, count: usize) {
        let kind = if self.is_three() { b'>' } else { b'*' };
        self.count(kind, count);
    }
}

/// The text without ends of lines, as Redis writes errors.
fn one_line(text: &str) -> std::borrow::Cow<'_, str> {
    match text.contains(['\r', '\n']) {
        true => text.replace(['\r', '\n'], " ").into(),
        false => text.into(),
    }
}
