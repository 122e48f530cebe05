//! Names: of counters and of datacenters. A value of these types is always valid.

use serde::{Deserialize, Serialize};

/// The longest counter id, in bytes of UTF-8.
pub const COUNTER_ID_BYTES_MAX: usize = 512;

/// The first character of the ids of the service's own counters. No caller can use it, and it sorts before all ids of
/// callers.
const OWN: char = '\u{1}';

/// The ids of the service's own counters are before this text, those of callers after it: it is a control character.
pub const BEFORE_CALLERS: &str = "\u{1f}";

/// The longest datacenter name, in bytes: colos have 3, region names of a deployment at most 16.
pub const DATACENTER_BYTES_MAX: usize = 16;

/// A counter's name: 1 to 512 bytes of UTF-8 without control characters, neither `.` nor `..`
/// (URL parsers swallow those two).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CounterId(String);

impl CounterId {
    /// Returns the id, or why it is not one.
    ///
    /// # Errors
    /// A sentence for the caller: empty, too long, control characters, `.` or `..`.
    pub fn parse(text: impl Into<String>) -> Result<Self, IdError> {
        let text = text.into();
        if text.is_empty() {
            return Err(IdError::Empty);
        }
        if text.len() > COUNTER_ID_BYTES_MAX {
            return Err(IdError::TooLong(text.len()));
        }
        if text == "." || text == ".." {
            return Err(IdError::Dots);
        }
        if text.chars().any(char::is_control) {
            return Err(IdError::Control);
        }
        Ok(Self(text))
    }

    /// The id of one of the service's own counters.
    ///
    /// # Errors
    /// As [`CounterId::parse`].
    pub fn own(name: &str) -> Result<Self, IdError> {
        Self::parse(name).map(|Self(name)| Self(format!("{OWN}{name}")))
    }

    /// The id in a message or a row: a caller's or the service's own.
    ///
    /// # Errors
    /// As [`CounterId::parse`].
    pub fn stored(text: impl Into<String>) -> Result<Self, IdError> {
        let text = text.into();
        match text.strip_prefix(OWN) {
            Some(name) => Self::own(name),
            None => Self::parse(text),
        }
    }

    /// Whether it is one of the service's own counters.
    pub fn is_own(&self) -> bool {
        self.0.starts_with(OWN)
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for CounterId {
    type Error = IdError;
    fn try_from(text: String) -> Result<Self, IdError> {
        Self::stored(text)
    }
}

impl From<CounterId> for String {
    fn from(id: CounterId) -> Self {
        id.0
    }
}

impl std::fmt::Display for CounterId {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// Why a text is not a counter id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// It has no bytes.
    #[error("an id needs at least one byte")]
    Empty,
    /// It has this many bytes, more than [`COUNTER_ID_BYTES_MAX`].
    #[error("an id has at most {max} bytes of UTF-8, this one has {0}", max = COUNTER_ID_BYTES_MAX)]
    TooLong(usize),
    /// It is `.` or `..`.
    #[error("`.` and `..` cannot be ids, because URL parsers remove them from paths")]
    Dots,
    /// It holds a control character.
    #[error("an id may not hold control characters")]
    Control,
}

/// The datacenter where a request entered: a colo such as `FRA`, or [`Datacenter::local`] if the platform names none.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Datacenter(String);

impl Datacenter {
    /// Returns the datacenter of that name: 1 to 16 ASCII letters, digits or `-`, upper-cased;
    /// `None` for anything else.
    pub fn parse(name: &str) -> Option<Self> {
        let right_size = (1..=DATACENTER_BYTES_MAX).contains(&name.len());
        let right_bytes = name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        (right_size && right_bytes).then(|| Self(name.to_ascii_uppercase()))
    }

    /// The datacenter of a machine without a name from the platform.
    pub fn local() -> Self {
        Self("LOCAL".to_owned())
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Datacenter {
    type Error = &'static str;
    fn try_from(name: String) -> Result<Self, Self::Error> {
        Self::parse(&name).ok_or("a datacenter has 1 to 16 letters, digits or `-`")
    }
}

impl From<Datacenter> for String {
    fn from(datacenter: Datacenter) -> Self {
        datacenter.0
    }
}

impl std::fmt::Display for Datacenter {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.0)
    }
}
