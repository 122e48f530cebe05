//! The audit log of administrative calls: caller, call, time, target, outcome.
//!
//! Invariants: an entry holds no address, no secret and nothing of a body. It is written before the call acts, or in
//! the same commit. So a call that acted is missing only if the log could not be reached until the isolate ended.

use serde::{Deserialize, Serialize};

use crate::rights::KeyId;

/// How long an entry is kept: 400 days.
pub const AUDIT_MS: i64 = 400 * 86_400_000;

/// The most entries: 100,000 of at most 700 bytes are 70 MB in one partition of the directory. Beyond that, entries of
/// the account with the most go: those of its refused calls first, then its oldest.
pub const AUDIT_ROWS_MAX: u64 = 100_000;

/// The most bytes of a target that are kept.
pub const TARGET_BYTES_MAX: usize = 256;

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CallOutcome {
    /// Not reported: the call is under way, its isolate has ended, or a part of the service did not answer.
    Unknown,
    /// It was done.
    Done,
    /// It was refused with this status, and nothing was done.
    Refused(u16),
}

impl CallOutcome {
    /// The outcome of a call with an answer of this status.
    pub const fn of(status: u16) -> Self {
        match status {
            0..400 => Self::Done,
            400..500 => Self::Refused(status),
            _ => Self::Unknown,
        }
    }

    /// Its name in answers.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Done => "done",
            Self::Refused(_) => "refused",
        }
    }
}

/// One entry. A stored format and a part of messages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditEntry {
    /// When it began, unix milliseconds.
    pub at_ms: i64,
    /// Distinguishes entries of the same millisecond.
    pub number: u64,
    /// The key, by its name; empty where the deployment is open.
    pub by: String,
    /// The key's id, where it was made by a call.
    pub key: Option<KeyId>,
    /// The method and the template of the call.
    pub call: String,
    /// The target: an id, a prefix, a name.
    pub target: String,
    /// How it ended.
    pub outcome: CallOutcome,
}

impl AuditEntry {
    /// Its key in the log: keys are in order of time.
    pub fn log_key(&self) -> String {
        log_key_at(self.at_ms, self.number)
    }
}

/// The key of an entry in the log.
pub fn log_key_at(at_ms: i64, number: u64) -> String {
    format!("{:015}/{number:016x}", at_ms.max(0))
}

/// The part of the log that is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// The key of the first entry.
    pub from: String,
    /// The first key after the last entry.
    pub before: String,
    /// The most of them.
    pub limit: u32,
}
