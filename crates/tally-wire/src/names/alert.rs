//! Names of alerts. A value of this type is always valid.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::problem::{Code, Problem};

/// The longest name, in bytes.
pub const ALERT_NAME_BYTES_MAX: usize = 64;

/// An alert's name: 1 to 64 ASCII letters, digits, `-`, `_`, `.` or `:`, neither `.` nor `..`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct AlertName(String);

impl AlertName {
    /// Parses a name, or says why the text is none.
    ///
    /// # Errors
    /// `invalid-id`.
    pub fn parse(text: impl Into<String>) -> Result<Self, Problem> {
        let text = text.into();
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
        let is_name = (1..=ALERT_NAME_BYTES_MAX).contains(&text.len())
            && text.bytes().all(is_allowed)
            && ![".", ".."].contains(&text.as_str());
        if is_name {
            return Ok(Self(text));
        }
        let detail = format!(
            "an alert's name has 1 to {ALERT_NAME_BYTES_MAX} letters, digits, `-`, `_`, `.` or `:`, and is neither `.` nor `..`"
        );
        Err(Problem::new(Code::InvalidId, detail))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for AlertName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl TryFrom<String> for AlertName {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(text).map_err(|_| "not an alert's name")
    }
}

impl From<AlertName> for String {
    fn from(name: AlertName) -> Self {
        name.0
    }
}

/// One alert, or all of them, which a path calls `*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AlertNames {
    /// All that the caller administers.
    All,
    /// This one.
    One(AlertName),
}

impl AlertNames {
    /// Parses a name or `*`.
    ///
    /// # Errors
    /// `invalid-id`.
    pub fn parse(text: impl Into<String>) -> Result<Self, Problem> {
        match text.into() {
            all if all == "*" => Ok(Self::All),
            name => AlertName::parse(name).map(Self::One),
        }
    }
}
