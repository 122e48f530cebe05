//! The keys of an override, as they are stored and sent.

use serde::{Deserialize, Serialize};

use crate::problem::{Code, Problem};
use tally_core::counter::id::{COUNTER_ID_BYTES_MAX, CounterId};

const STAR: char = '*';

/// The keys of an override: a key, or a prefix and a star. A value of this type is always valid.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct OverridePattern(String);

impl OverridePattern {
    /// Returns the pattern, or why it is none.
    ///
    /// # Errors
    /// `invalid-pattern`.
    pub fn parse(text: impl Into<String>) -> Result<Self, Problem> {
        let text = text.into();
        let refuse = |detail: String| Err(Problem::new(Code::InvalidPattern, detail));
        let Some((prefix, rest)) = text.split_once(STAR) else {
            return match CounterId::parse(text) {
                Ok(key) => Ok(Self(key.as_str().to_owned())),
                Err(error) => refuse(format!("the pattern is no key: {error}")),
            };
        };
        if rest.contains(STAR) {
            return refuse(format!(
                "the pattern {text:?} has several stars; send one, at the end"
            ));
        }
        if !rest.is_empty() {
            return refuse(format!(
                "the pattern {text:?} has a star that is not at its end; send a key, or the beginning of keys and a star"
            ));
        }
        if text.len() > COUNTER_ID_BYTES_MAX || prefix.chars().any(char::is_control) {
            return refuse(format!(
                "a pattern has 1 to {COUNTER_ID_BYTES_MAX} bytes and no control characters"
            ));
        }
        Ok(Self(text))
    }

    /// The pattern as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The text without the star, and whether there is one.
    pub fn parts(&self) -> (&str, bool) {
        match self.0.strip_suffix(STAR) {
            Some(prefix) => (prefix, true),
            None => (&self.0, false),
        }
    }

    /// The pattern of these parts.
    ///
    /// # Errors
    /// As [`Self::parse`].
    pub fn of(text: &str, is_prefix: bool) -> Result<Self, Problem> {
        let star = if is_prefix { "*" } else { "" };
        Self::parse([text, star].concat())
    }

    /// Whether it is about this key.
    pub fn matches(&self, key: &str) -> bool {
        match self.parts() {
            (prefix, true) => key.starts_with(prefix),
            (text, false) => key == text,
        }
    }
}

impl TryFrom<String> for OverridePattern {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(text).map_err(|_| "not a pattern")
    }
}

impl From<OverridePattern> for String {
    fn from(pattern: OverridePattern) -> Self {
        pattern.0
    }
}

impl std::fmt::Display for OverridePattern {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.0)
    }
}
