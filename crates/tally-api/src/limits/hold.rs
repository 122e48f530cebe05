//! Holds as clients see them: their ids, their part of answers, and why a named call did nothing.

use std::fmt;

use serde::Serialize;

use super::answer::CheckResult;
use tally_core::callers::refused_key::kept_of_key;
use tally_core::counter::id::Datacenter;
use tally_core::limit::named::{CallAnswer, CallFault, CallName, Holders, OpenHolds};
use tally_wire::names::policy::PolicyName;
use tally_wire::problem::{Code, Problem};

/// The id of a hold: 32 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HoldId(pub CallName);

impl fmt::Display for HoldId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl HoldId {
    /// Parses an id.
    pub fn parse(text: &str) -> Option<Self> {
        let is_digit = |byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let is_written_so = text.len() == 32 && text.bytes().all(is_digit);
        let id = u128::from_str_radix(text, 16).ok();
        id.filter(|_| is_written_so)
            .map(|id| Self(id.to_be_bytes()))
    }
}

fn to_json<T: Serialize>(view: &T) -> String {
    serde_json::to_string(view).unwrap_or_else(|_| "{}".to_owned())
}

/// A hold that was opened.
#[derive(Serialize)]
struct HoldView {
    /// Names it, with the policy and the key. Several holds of one call have one id.
    id: String,
    /// What it takes; of several holds each takes the `cost` of its check.
    #[serde(skip_serializing_if = "Option::is_none")]
    amount: Option<u64>,
    /// When it ends by itself.
    expires_at: i64,
}

/// The member of an answer that names its hold.
pub fn hold_member(id: HoldId, amount: Option<u64>, ends_ms: i64) -> String {
    let view = HoldView {
        id: id.to_string(),
        amount,
        expires_at: ends_ms,
    };
    format!(",\"hold\":{}", to_json(&view))
}

/// The open holds of a key.
#[derive(Serialize)]
struct HeldView {
    /// What open holds take together.
    held: u64,
    /// How many there are.
    holds: u64,
    /// When the oldest was opened.
    oldest_at: Option<i64>,
}

/// The members of a look that are about open holds.
pub fn held_members(open: &OpenHolds) -> String {
    let view = to_json(&HeldView {
        held: open.amount,
        holds: open.count,
        oldest_at: (open.count > 0).then_some(open.oldest_ms),
    });
    format!(",{}", view.trim_matches(['{', '}']))
}

/// The open holds of a policy.
#[derive(Serialize)]
struct HeldKeysView<'a> {
    policy: &'a PolicyName,
    /// Where: each datacenter has its own holds of a policy with the scope `datacenter`.
    datacenter: &'a Datacenter,
    /// What open holds take together.
    held: u64,
    /// How many there are.
    holds: u64,
    /// When the oldest was opened.
    oldest_at: Option<i64>,
    /// How many keys hold anything.
    keys: u64,
    /// The keys that hold most, the first one first.
    rows: Vec<HolderView>,
    /// Whether all limiters have answered.
    complete: bool,
}

/// What a key holds.
#[derive(Serialize)]
struct HolderView {
    /// The key, with the network in place of an address.
    key: String,
    /// What its open holds take together.
    held: u64,
    /// How many there are.
    holds: u64,
    /// When the oldest was opened.
    oldest_at: i64,
}

/// The JSON of the open holds of a policy.
pub fn held_keys_json(
    policy: &PolicyName,
    datacenter: &Datacenter,
    holders: &Holders,
    is_complete: bool,
) -> String {
    let rows = holders.keys.iter().map(|(key, open)| HolderView {
        key: kept_of_key(key),
        held: open.amount,
        holds: open.count,
        oldest_at: open.oldest_ms,
    });
    to_json(&HeldKeysView {
        policy,
        datacenter,
        held: holders.all.amount,
        holds: holders.all.count,
        oldest_at: (holders.all.count > 0).then_some(holders.all.oldest_ms),
        keys: holders.count,
        rows: rows.collect(),
        complete: is_complete,
    })
}

/// The end of a hold.
#[derive(Serialize)]
struct SettledView<'a> {
    /// The id of the hold.
    hold: String,
    /// What it held.
    held: u64,
    /// What counts as used.
    settled: u64,
    /// What came back.
    returned: u64,
    /// How much more was used than there was room for.
    over: u64,
    /// `null` where an override lifts it.
    limit: Option<u64>,
    /// What is left after it; `null` where an override lifts the limit.
    remaining: Option<u64>,
    /// Milliseconds until more is left than now, if nobody consumes; 0 where all is.
    reset_after_ms: u64,
    policy: &'a PolicyName,
    datacenter: &'a Datacenter,
}

/// The answer to the end of a hold.
pub fn settled_json(id: HoldId, answer: &CallAnswer, result: &CheckResult<'_>) -> String {
    to_json(&SettledView {
        hold: id.to_string(),
        held: answer.held,
        settled: answer.settled,
        returned: answer.held.saturating_sub(answer.settled),
        over: answer.over,
        limit: result.limit(),
        remaining: result.remaining(),
        reset_after_ms: result.verdict.map_or(0, |verdict| verdict.reset_after_ms),
        policy: result.name,
        datacenter: result.datacenter,
    })
}

/// The problem of a named call that did nothing.
pub fn call_problem(fault: CallFault) -> Problem {
    let (code, detail) = match fault {
        CallFault::Reused => (
            Code::IdempotencyKeyReused,
            "this key was used for another request; send another key with another request",
        ),
        CallFault::Full => (
            Code::Overloaded,
            "the limiter has no room for another hold or Idempotency-Key of this key; nothing was taken, try again later",
        ),
        CallFault::PartFull => (
            Code::Overloaded,
            "your account has as many holds and Idempotency-Keys of this key as all others have left; nothing was taken, \
             try again later",
        ),
        CallFault::NoHold => (
            Code::HoldNotFound,
            "this key of the policy has no such hold; nothing was changed",
        ),
        CallFault::Settled => (
            Code::HoldSettled,
            "the hold was settled or released before; nothing was changed",
        ),
        CallFault::Ended => (
            Code::HoldEnded,
            "the time of the hold is over, and `on_expiry` has decided; nothing was changed",
        ),
    };
    Problem::new(code, detail)
}
