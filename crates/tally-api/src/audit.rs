//! Requests and answers about the audit log.

use serde::Serialize;

use crate::access::Caller;
use crate::fields::Moment;
use crate::json::to_json;
use crate::query::{PagedList, Query, wrong_cursor};
use tally_wire::audit::{AUDIT_MS, AuditEntry, CallOutcome, Span, TARGET_BYTES_MAX, log_key_at};
use tally_wire::problem::{Code, Problem};

/// The entry of a call that begins.
pub fn begun(caller: &Caller, call: &str, target: &str, at_ms: i64, number: u64) -> AuditEntry {
    let holder = caller.holder();
    let mut end = target.len().min(TARGET_BYTES_MAX);
    while !target.is_char_boundary(end) {
        end -= 1;
    }
    AuditEntry {
        at_ms,
        number,
        by: holder.map(|holder| holder.name.clone()).unwrap_or_default(),
        key: holder.and_then(|holder| holder.id),
        call: call.to_owned(),
        target: target.get(..end).unwrap_or_default().to_owned(),
        outcome: CallOutcome::Unknown,
    }
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
        /// The id of that key, where a call has made it.
        key_id: Option<String>,
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
            key_id: key.map(|id| id.to_string()),
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
