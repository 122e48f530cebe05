//! Names of policies. A value of this type is always valid.

use serde::{Deserialize, Serialize};

use crate::problem::{Code, Problem};
use tally_core::limit::policy::{ALGORITHMS, Policy, word_of};

/// The longest name of a policy, in bytes: it stands in two headers of each answer.
pub const POLICY_NAME_BYTES_MAX: usize = 64;

/// A letter, and a window of at most 2,592,000 seconds.
const KIND_BYTES_MAX: usize = 8;

/// A policy's name: 1 to 64 ASCII letters, digits, `-`, `_`, `.` or `:`, neither `.` nor `..`. All of them may
/// stand in a string of a structured field as they are (RFC 9651, 3.3.3), and in a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PolicyName(String);

impl PolicyName {
    /// Returns the name, or why it is none.
    ///
    /// # Errors
    /// `invalid-policy`.
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
            Err(Problem::new(Code::InvalidPolicy, detail))
        }
    }

    /// The name under which keys are counted if their checks bring this policy in their bodies. It separates them from
    /// the keys of the stored policy of that name, and from those counted by another algorithm. No client's name has a
    /// tilde. Callers without a key get a capital letter, and so are separate too. Otherwise they could lift or use up
    /// the operator's limits with a policy of their own, such as a bucket that refills at once.
    #[must_use]
    pub fn counted_inline(&self, policy: &Policy, has_key: bool) -> Self {
        let name = if policy.is_precise {
            "precise"
        } else {
            word_of(policy.algorithm, ALGORITHMS)
        };
        let kind = name.get(..1).unwrap_or_default();
        let kind = if has_key {
            kind.to_owned()
        } else {
            kind.to_ascii_uppercase()
        };
        Self(format!("{}~{kind}{}", self.0, policy.window_ms / 1_000))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for PolicyName {
    type Error = &'static str;

    /// From a message: a client's name, or [`PolicyName::counted_inline`].
    fn try_from(text: String) -> Result<Self, Self::Error> {
        let (name, kind) = text.split_once('~').unwrap_or((&text, ""));
        if kind.len() > KIND_BYTES_MAX || !kind.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            return Err("not a way to count");
        }
        Self::parse(name).map_err(|_| "not a policy's name")?;
        Ok(Self(text))
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
