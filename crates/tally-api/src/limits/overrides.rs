//! Overrides as clients see them: patterns, bodies, answers, and lines of an export.

use serde::{Deserialize, Serialize};

use crate::json::{Time, WholeNumber, present, read_object};
use tally_core::limit::named::HOLD_SECONDS_MAX;
use tally_core::limit::policy::overrides::{Override, OverrideEffect};
use tally_core::limit::policy::{Algorithm, Policy, PolicyFault};
use tally_wire::names::override_pattern::OverridePattern;
use tally_wire::names::policy::PolicyName;
use tally_wire::problem::{Code, Problem};

/// The most overrides of a policy: with keys of 30 bytes 10 MB of rows in one partition of the directory. An isolate
/// keeps 1.25 bytes of each, and those of the keys that it checks.
pub const OVERRIDES_MAX: u64 = 100_000;

/// The most overrides of all policies together: 100 MB of rows.
pub const OVERRIDES_OF_ALL_MAX: u64 = 1_000_000;

/// The most overrides of a policy that isolates get together with it: at most 55 KB. With more, an isolate asks for
/// those of a key.
pub const OVERRIDES_TOGETHER_MAX: u64 = 100;

/// What keys are promised instead of what their policy promises.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OverrideWire {
    /// Instead of the policy's.
    #[serde(default, deserialize_with = "present")]
    limit: Option<WholeNumber>,
    /// Instead of the policy's.
    #[serde(default, deserialize_with = "present")]
    window_seconds: Option<WholeNumber>,
    /// Instead of the policy's, of the algorithm `concurrency`.
    #[serde(default, deserialize_with = "present")]
    ttl_seconds: Option<WholeNumber>,
    /// Instead of the policy's, of the algorithm `token-bucket`; `limit` of the override where it is missing.
    #[serde(default, deserialize_with = "present")]
    burst: Option<WholeNumber>,
    /// Everything is admitted.
    #[serde(default, deserialize_with = "present")]
    unlimited: Option<bool>,
    /// Nothing is admitted.
    #[serde(default, deserialize_with = "present")]
    blocked: Option<bool>,
    /// When the override ends; it lasts until it is deleted where this is missing.
    #[serde(default, deserialize_with = "present")]
    ends_at: Option<Time>,
}

fn refuse<T>(detail: impl Into<String>) -> Result<T, Problem> {
    Err(Problem::new(Code::InvalidOverride, detail))
}

/// Returns the override of `PUT /limits/{policy}/overrides/{pattern}` for a policy: `{"limit"?, "window_seconds"?,
/// "burst"?, "ends_at"?}`, or `{"unlimited": true}`, or `{"blocked": true}`. What has ended by `now_ms` is refused.
///
/// # Errors
/// `invalid-json`, `unknown-field`, `invalid-body`, `invalid-override`.
pub fn parse_override(body: &[u8], policy: &Policy, now_ms: i64) -> Result<Override, Problem> {
    let wire: OverrideWire = read_object(body)?;
    // Whole seconds, as an export has them.
    let ends_ms = wire
        .ends_at
        .map(|Time(at_ms)| at_ms - at_ms.rem_euclid(1_000));
    if let Some(ends_ms) = ends_ms.filter(|ends_ms| *ends_ms <= now_ms) {
        return refuse(format!(
            "ends_at is {ends_ms} in unix milliseconds, which is past; send a time that is to come, or leave it out"
        ));
    }
    Ok(Override {
        effect: wire.effect(policy)?,
        ends_ms,
    })
}

impl OverrideWire {
    fn effect(&self, policy: &Policy) -> Result<OverrideEffect, Problem> {
        let fields = [
            ("limit", self.limit.is_some()),
            ("window_seconds", self.window_seconds.is_some()),
            ("ttl_seconds", self.ttl_seconds.is_some()),
            ("burst", self.burst.is_some()),
        ];
        let sent = fields.iter().find(|(_, is_sent)| *is_sent);
        let sent = sent.map(|(name, _)| *name);
        let words = [
            ("unlimited", self.unlimited, OverrideEffect::Unlimited),
            ("blocked", self.blocked, OverrideEffect::Blocked),
        ];
        let mut chosen = words
            .iter()
            .filter(|(_, is_true, _)| *is_true == Some(true));
        match (chosen.next(), chosen.next(), sent) {
            (Some(_), Some(_), _) => refuse("send unlimited or blocked, not both"),
            (Some((word, ..)), None, Some(field)) => {
                refuse(format!("send {word} or {field}, not both"))
            }
            (Some((.., effect)), None, None) => Ok(*effect),
            (None, _, None) => refuse(
                "an override needs a limit, a window_seconds or a burst, or \"unlimited\": true, or \"blocked\": true",
            ),
            (None, _, Some(_)) => self.limited(policy),
        }
    }

    fn limited(&self, policy: &Policy) -> Result<OverrideEffect, Problem> {
        let is_concurrency = policy.algorithm == Algorithm::Concurrency;
        if self.burst.is_some() && policy.algorithm != Algorithm::TokenBucket {
            return refuse("burst needs a policy of the algorithm token-bucket; leave it out");
        }
        let (window, other) = if is_concurrency {
            (self.ttl_seconds, self.window_seconds)
        } else {
            (self.window_seconds, self.ttl_seconds)
        };
        if other.is_some() {
            return refuse(if is_concurrency {
                "a policy of the algorithm concurrency has ttl_seconds, and no window_seconds"
            } else {
                "the policy has window_seconds; ttl_seconds is of the algorithm concurrency"
            });
        }
        let milliseconds = |WholeNumber(seconds): WholeNumber| {
            let ms = i64::try_from(seconds).ok();
            ms.and_then(|seconds| seconds.checked_mul(1_000))
                .unwrap_or(i64::MAX)
        };
        let effect = OverrideEffect::Limited {
            limit: self.limit.map(|limit| limit.0),
            window_ms: window.map(milliseconds),
            burst: self.burst.map(|burst| burst.0),
        };
        let replaced = Override {
            effect,
            ends_ms: None,
        };
        replaced.replace_in(policy).check().or_else(refuse_value)?;
        if is_concurrency && window.is_some_and(|WholeNumber(seconds)| seconds > HOLD_SECONDS_MAX) {
            return refuse(format!("ttl_seconds must be from 1 to {HOLD_SECONDS_MAX}"));
        }
        Ok(effect)
    }
}

fn refuse_value(fault: PolicyFault) -> Result<(), Problem> {
    let PolicyFault { field, min, max } = fault;
    refuse(format!(
        "{field} must be a whole number from {min} to {max} here; to admit nothing send \"blocked\": true, and to admit \
         everything \"unlimited\": true"
    ))
}

/// An override. What it does not name is as in the policy.
#[derive(Serialize)]
struct OverrideView<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    policy: Option<&'a PolicyName>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pattern: Option<&'a OverridePattern>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    window_seconds: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl_seconds: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    burst: Option<u64>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    unlimited: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    blocked: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    ends_at: Option<i64>,
}

fn view_of<'a>(
    name: &'a PolicyName,
    algorithm: Algorithm,
    pattern: &'a OverridePattern,
    over: &Override,
) -> OverrideView<'a> {
    let (limit, window_ms, burst) = match over.effect {
        OverrideEffect::Limited {
            limit,
            window_ms,
            burst,
        } => (limit, window_ms, burst),
        _ => (None, None, None),
    };
    let seconds = window_ms.map(|window_ms| window_ms / 1_000);
    let is_concurrency = algorithm == Algorithm::Concurrency;
    OverrideView {
        policy: Some(name),
        pattern: Some(pattern),
        limit,
        window_seconds: seconds.filter(|_| !is_concurrency),
        ttl_seconds: seconds.filter(|_| is_concurrency),
        burst,
        unlimited: over.effect == OverrideEffect::Unlimited,
        blocked: over.effect == OverrideEffect::Blocked,
        ends_at: over.ends_ms,
    }
}

fn to_json<T: Serialize>(view: &T) -> String {
    serde_json::to_string(view).unwrap_or_else(|_| "{}".to_owned())
}

/// The JSON of an override of a policy.
pub fn override_json(
    name: &PolicyName,
    policy: &Policy,
    pattern: &OverridePattern,
    over: &Override,
) -> String {
    to_json(&view_of(name, policy.algorithm, pattern, over))
}

/// The JSON of an override that was deleted.
pub fn override_deleted_json(name: &PolicyName, pattern: &OverridePattern) -> String {
    #[derive(Serialize)]
    struct OverrideDeletedView<'a> {
        policy: &'a PolicyName,
        pattern: &'a OverridePattern,
        status: &'static str,
    }
    to_json(&OverrideDeletedView {
        policy: name,
        pattern,
        status: "deleted",
    })
}

/// The JSON of a page of a policy's overrides.
pub fn overrides_json(
    name: &PolicyName,
    policy: &Policy,
    overrides: &[(OverridePattern, Override)],
    cursor: Option<&str>,
) -> String {
    #[derive(Serialize)]
    struct OverridesView<'a> {
        entries: Vec<OverrideView<'a>>,
        cursor: Option<&'a str>,
    }
    let views = overrides.iter();
    let views = views.map(|(pattern, over)| view_of(name, policy.algorithm, pattern, over));
    to_json(&OverridesView {
        entries: views.collect(),
        cursor,
    })
}

/// The line of an override in an export, whose `body` [`parse_override`] reads.
pub fn override_line(
    name: &PolicyName,
    algorithm: Algorithm,
    pattern: &OverridePattern,
    over: &Override,
) -> String {
    let body = OverrideView {
        policy: None,
        pattern: None,
        ends_at: None,
        ..view_of(name, algorithm, pattern, over)
    };
    let mut body = to_json(&body);
    if let Some(ends_ms) = over.ends_ms {
        let comma = if body.len() > 2 { "," } else { "" };
        let end = format!("{comma}\"ends_at\":{}", ends_ms.div_euclid(1_000));
        body.insert_str(body.len().saturating_sub(1), &end);
    }
    let (policy, pattern) = (to_json(name), to_json(pattern));
    format!("{{\"policy\":{policy},\"override\":{pattern},\"body\":{body}}}\n")
}
