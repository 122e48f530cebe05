//! The audit log of administrative calls: caller, call, time, target, outcome.
//!
//! Invariants: an entry holds no address, no secret and nothing of a body. It is written before the call acts, or in
//! the same commit. So a call that acted is missing only if the log could not be reached until the isolate ended.

use serde::{Deserialize, Serialize};

use super::access::Caller;
use super::api_key::KeyId;
use super::fields::Moment;
use super::problem::{Code, Problem};
use super::public::to_json;
use super::query::{PagedList, Query, wrong_cursor};

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
    /// The outcome of a call with this answer.
    pub fn of<T>(answer: &Result<T, Problem>) -> Self {
        match answer {
            Ok(_) => Self::Done,
            Err(problem) if problem.code().status() < 500 => Self::Refused(problem.code().status()),
            Err(_) => Self::Unknown,
        }
    }

    fn as_str(self) -> &'static str {
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
    /// The entry of a call that begins.
    pub fn begun(caller: &Caller, call: &str, target: &str, at_ms: i64, number: u64) -> Self {
        let holder = caller.holder();
        let mut end = target.len().min(TARGET_BYTES_MAX);
        while !target.is_char_boundary(end) {
            end -= 1;
        }
        Self {
            at_ms,
            number,
            by: holder.map(|holder| holder.name.clone()).unwrap_or_default(),
            key: holder.and_then(|holder| holder.id),
            call: call.to_owned(),
            target: target.get(..end).unwrap_or_default().to_owned(),
            outcome: CallOutcome::Unknown,
        }
    }

    /// Its key in the log: keys are in order of time.
    pub fn log_key(&self) -> String {
        log_key_at(self.at_ms, self.number)
    }
}

fn log_key_at(at_ms: i64, number: u64) -> String {
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

/// Reads `from`, `to` (times, both included), `limit` and `cursor`.
///
/// # Errors
/// `invalid-query`.
pub fn parse_span(query: &str, now_ms: i64) -> Result<Span, Problem> {
    let query = Query::parse(query, &["from", "to", "limit", "cursor"])?;
    let refuse = |detail: &str| Problem::new(Code::InvalidQuery, detail);
    let oldest_ms = now_ms.saturating_sub(AUDIT_MS);
    let from_ms = (query.unix_seconds("from")?).map_or(0, |second| second.max(0) * 1_000);
    // The second of `to` is included.
    let to_ms = (query.unix_seconds("to")?).map_or(i64::MAX, |second| second.max(0) * 1_000 + 999);
    if from_ms > to_ms {
        return Err(refuse("from must not be after to"));
    }
    let from_ms = from_ms.max(oldest_ms);
    let mut before = log_key_at(to_ms.saturating_add(1), 0);
    if let Some(cursor) = PagedList::Audit.after(&query)? {
        let digits = |byte: u8| byte.is_ascii_hexdigit() || byte == b'/';
        if cursor.len() > 64 || !cursor.bytes().all(digits) {
            return wrong_cursor();
        }
        before = before.min(cursor.to_owned());
    }
    Ok(Span {
        from: log_key_at(from_ms, 0),
        before,
        limit: query.limit()?,
    })
}

/// The JSON of a page, newest first; `has_more` where there are older ones.
pub fn acts_json(entries: &[AuditEntry], has_more: bool) -> String {
    #[derive(Serialize)]
    struct View<'a> {
        began_at: Moment,
        /// The name of the key; empty where the deployment is open.
        by: &'a str,
        /// The key's id, where a call has made it.
        key: Option<String>,
        /// The method and the path, with its parameters in braces.
        call: &'a str,
        /// The id, prefix or name that it was about, at most 256 bytes.
        target: &'a str,
        /// `unknown` while it is under way, and where nobody knows how it ended.
        outcome: &'static str,
        /// Of a refused one.
        #[serde(skip_serializing_if = "Option::is_none")]
        status: Option<u16>,
    }
    #[derive(Serialize)]
    struct Page<'a> {
        entries: Vec<View<'a>>,
        /// Names the next page; `null` on the last.
        cursor: Option<String>,
    }
    let view = |entry| {
        let AuditEntry {
            at_ms,
            by,
            key,
            call,
            target,
            outcome,
            ..
        }: &AuditEntry = entry;
        View {
            began_at: *at_ms,
            by,
            key: key.map(|id| id.to_string()),
            call,
            target,
            outcome: outcome.as_str(),
            status: match outcome {
                CallOutcome::Refused(status) => Some(*status),
                CallOutcome::Unknown | CallOutcome::Done => None,
            },
        }
    };
    let last = entries.last().filter(|_| has_more);
    to_json(&Page {
        entries: entries.iter().map(view).collect(),
        cursor: last.map(|entry| PagedList::Audit.cursor(&entry.log_key())),
    })
}
