//! Names of policies. A value of this type is always valid.

use serde::{Deserialize, Serialize};

use crate::protocol::problem::{Code, Problem};

/// The longest name of a policy, in bytes: it stands in two headers of each answer.
pub const POLICY_NAME_BYTES_MAX: usize = 64;

/// A policy's name: 1 to 64 ASCII letters, digits, `-`, `_`, `.` or `:`, neither `.` nor `..`. All of them may
/// stand in a string of a structured field as they are (RFC 9651, 3.3.3), and in a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PolicyName(String);

impl PolicyName {
    /// Returns the name, or why it is none.
    ///
    /// # Errors
    /// `invalid-id`.
    pub fn parse(text: impl Into<String>) -> Result<Self, Problem> {
        let text = text.into();
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
        let is_name = (1..=POLICY_NAME_BYTES_MAX).contains(&text.len())
            && text.bytes().all(is_allowed)
            && text != "."
            && text != "..";
        if is_name {
            Ok(Self(text))
        } else {
            let detail = format!(
                "a policy's name has 1 to {POLICY_NAME_BYTES_MAX} letters, digits, `-`, `_`, `.` or `:`, and is neither `.` nor `..`"
            );
            Err(Problem::new(Code::InvalidId, detail))
        }
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for PolicyName {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(text).map_err(|_| "not a policy's name")
    }
}

impl From<PolicyName> for String {
    fn from(name: PolicyName) -> Self {
        name.0
    }
}

impl std::fmt::Display for PolicyName {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.0)
    }
}
