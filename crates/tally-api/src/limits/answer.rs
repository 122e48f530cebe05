//! Verdicts, policies and refusals in answers: JSON, and the headers of the rate-limit draft.
//!
//! Source: draft-ietf-httpapi-ratelimit-headers-11 (`RateLimit-Policy`, `RateLimit`, the problem type), RFC 9651 for
//! their form, RFC 9110 10.2.3 for `Retry-After`.

use serde::Serialize;

use super::body::{DURABILITIES, SCOPES, on_errors};
use tally_core::counter::id::{CounterId, Datacenter};
use tally_core::limit::meter::{NEVER_MS, Verdict};
use tally_core::limit::policy::overrides::OverrideEffect;
use tally_core::limit::policy::{ALGORITHMS, Algorithm, OnError, Policy, word_of};
use tally_wire::names::override_pattern::OverridePattern;
use tally_wire::names::policy::PolicyName;
use tally_wire::problem::{Code, Problem};

/// Header with the quota of each policy.
pub const POLICY_HEADER: &str = "ratelimit-policy";

/// Header with the rest of it.
pub const LIMIT_HEADER: &str = "ratelimit";

/// Type of the problem of a refusal.
const QUOTA_EXCEEDED: &str = "https://iana.org/assignments/http-problem-types#quota-exceeded";

/// Which override a key has.
#[derive(Clone, Copy, Debug)]
pub struct OverriddenBy<'a> {
    /// Its pattern.
    pub pattern: &'a OverridePattern,
    /// What it promises.
    pub effect: OverrideEffect,
}

/// The result of one check.
#[derive(Clone, Copy, Debug)]
pub struct CheckResult<'a> {
    /// The policy's name.
    pub name: &'a PolicyName,
    /// The key.
    pub key: &'a CounterId,
    /// The policy of the key.
    pub policy: &'a Policy,
    /// The override that made it, if the key has one.
    pub over: Option<OverriddenBy<'a>>,
    /// Where it was decided.
    pub datacenter: &'a Datacenter,
    /// The verdict; `None` where the limiter could not be reached.
    pub verdict: Option<Verdict>,
}

/// [`CheckResult::is_allowed`] for a verdict under a policy.
pub fn is_allowed(policy: &Policy, verdict: Option<Verdict>) -> bool {
    let by_verdict = match verdict {
        Some(verdict) => verdict.is_allowed,
        None => policy.on_error == OnError::Open,
    };
    by_verdict || policy.is_shadow
}

#[derive(Serialize)]
struct View<'a> {
    /// Whether the caller may go on.
    allowed: bool,
    /// `null` where an override admits everything.
    limit: Option<u64>,
    /// What is left; `null` where the limiter could not be reached, or where there is no limit. After a check of a
    /// `global` limit: as its datacenter knew last, so it may be far too high or too low.
    remaining: Option<u64>,
    /// Milliseconds until more is left than now, if nobody consumes; 0 where all is.
    reset_after_ms: u64,
    /// 0 where it was admitted, otherwise milliseconds until the same check would be, if nobody consumes.
    retry_after_ms: u64,
    policy: &'a PolicyName,
    /// The pattern of the override that the key has, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    r#override: Option<&'a OverridePattern>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a CounterId>,
    datacenter: &'a Datacenter,
    /// Only with a policy that watches: `allowed` is true whatever the verdict.
    #[serde(skip_serializing_if = "Option::is_none")]
    shadow: Option<Shadow>,
    /// Only where the limiter could not be reached, and the policy is open then.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    degraded: bool,
}

#[derive(Serialize)]
struct Shadow {
    would_allow: bool,
}

impl CheckResult<'_> {
    /// Whether the caller may continue: the check was admitted, or the policy only observes, or it is open where the
    /// limiter cannot be reached.
    pub fn is_allowed(&self) -> bool {
        is_allowed(self.policy, self.verdict)
    }

    /// Whether it is refused because the limiter could not be reached.
    pub fn is_closed(&self) -> bool {
        self.verdict.is_none() && !self.is_allowed()
    }

    /// Whether the key has this override.
    fn is(&self, effect: OverrideEffect) -> bool {
        self.over.is_some_and(|over| over.effect == effect)
    }

    /// The limit of the key; `None` where it has none.
    pub(super) fn limit(&self) -> Option<u64> {
        if self.is(OverrideEffect::Blocked) {
            return Some(0);
        }
        Some(self.policy.limit).filter(|_| !self.is(OverrideEffect::Unlimited))
    }

    /// What is left of it; `None` where that is not known, or the key has no limit.
    pub(super) fn remaining(&self) -> Option<u64> {
        let verdict = self.verdict.filter(|_| self.limit().is_some());
        verdict.map(|verdict| verdict.remaining)
    }

    /// The policy as an item of [`POLICY_HEADER`]; `None` where the key has no limit. It says whether the policy is
    /// closed, so that clients know it while nothing answers.
    pub fn policy_item(&self) -> Option<String> {
        let limit = self.limit()?;
        let seconds = self.policy.window_ms / 1_000;
        let on_error = match self.policy.on_error {
            OnError::Open => "",
            OnError::Closed => ";tally-on-error=closed",
        };
        let per = match self.policy.algorithm {
            Algorithm::Concurrency => ";qu=\"concurrent-requests\"".to_owned(),
            _ => format!(";w={seconds}"),
        };
        Some(format!("\"{}\";q={limit}{per}{on_error}", self.name))
    }

    /// The rest of the quota as an item of [`LIMIT_HEADER`]; `None` where that is not known, or the key has no limit.
    pub fn limit_item(&self) -> Option<String> {
        let verdict = self.verdict.filter(|_| self.limit().is_some())?;
        let seconds = reset_after_ms(verdict).div_ceil(1_000);
        Some(format!(
            "\"{}\";r={};t={seconds}",
            self.name, verdict.remaining
        ))
    }

    /// When the same check may be admitted, for `Retry-After`: whole seconds, not before more quota returns; `None`
    /// where it was admitted.
    pub fn retry_after_seconds(&self) -> Option<u64> {
        let verdict = self.verdict.filter(|_| !self.is_allowed())?;
        let milliseconds = self.retry_after_ms(verdict).max(reset_after_ms(verdict));
        Some(milliseconds.div_ceil(1_000).max(1))
    }

    /// If a limiter applied a smaller, newer limit than this policy's, it has no time to give.
    fn retry_after_ms(&self, verdict: Verdict) -> u64 {
        if verdict.retry_after_ms == NEVER_MS {
            return u64::try_from(self.policy.window_ms).unwrap_or(0);
        }
        verdict.retry_after_ms
    }

    fn view(&self, with_key: bool) -> View<'_> {
        let verdict = self.verdict;
        let shadow = verdict.filter(|_| self.policy.is_shadow);
        View {
            allowed: self.is_allowed(),
            limit: self.limit(),
            remaining: self.remaining(),
            reset_after_ms: verdict.map_or(0, reset_after_ms),
            retry_after_ms: verdict.map_or(0, |verdict| self.retry_after_ms(verdict)),
            policy: self.name,
            r#override: self.over.map(|over| over.pattern),
            key: with_key.then_some(self.key),
            datacenter: self.datacenter,
            shadow: shadow.map(|verdict| Shadow {
                would_allow: verdict.is_allowed,
            }),
            degraded: verdict.is_none(),
        }
    }

    /// The JSON of an admitted check, and of a look without consumption.
    pub fn to_json(&self) -> String {
        to_json(&self.view(false))
    }

    /// The problem of a check that was refused.
    pub fn refused_json(&self) -> String {
        let wait_ms = self
            .verdict
            .map_or(0, |verdict| self.retry_after_ms(verdict));
        let detail = match self.over.filter(|_| self.is(OverrideEffect::Blocked)) {
            Some(over) => format!(
                "the override {} of policy {} blocks this key; try again in {wait_ms} ms",
                over.pattern, self.name
            ),
            None => format!(
                "the quota of policy {} is used up for this key; try again in {wait_ms} ms",
                self.name
            ),
        };
        let code = Code::QuotaExceeded;
        let view = self.view(false);
        to_json(&RefusedOne {
            r#type: QUOTA_EXCEEDED,
            title: code.title(),
            status: code.status(),
            detail,
            code: code.as_str(),
            violated: [self.name],
            allowed: view.allowed,
            limit: view.limit,
            remaining: view.remaining,
            reset_after_ms: view.reset_after_ms,
            retry_after_ms: view.retry_after_ms,
            policy: view.policy,
            r#override: view.r#override,
            datacenter: view.datacenter,
        })
    }
}

/// [`Refused`] of one check, field by field, because flattening is slow. A refusal has no `shadow`
/// and no `degraded`.
#[derive(Serialize)]
struct RefusedOne<'a> {
    r#type: &'static str,
    title: &'static str,
    status: u16,
    detail: String,
    code: &'static str,
    #[serde(rename = "violated-policies")]
    violated: [&'a PolicyName; 1],
    allowed: bool,
    limit: Option<u64>,
    remaining: Option<u64>,
    reset_after_ms: u64,
    retry_after_ms: u64,
    policy: &'a PolicyName,
    #[serde(skip_serializing_if = "Option::is_none")]
    r#override: Option<&'a OverridePattern>,
    datacenter: &'a Datacenter,
}

#[derive(Serialize)]
struct RefusedView<'a> {
    r#type: &'static str,
    title: &'static str,
    status: u16,
    detail: String,
    code: &'static str,
    #[serde(rename = "violated-policies")]
    violated: Vec<&'a PolicyName>,
}

impl<'a> RefusedView<'a> {
    fn new(detail: String, violated: Vec<&'a PolicyName>) -> Self {
        let code = Code::QuotaExceeded;
        Self {
            r#type: QUOTA_EXCEEDED,
            title: code.title(),
            status: code.status(),
            detail,
            code: code.as_str(),
            violated,
        }
    }
}

#[derive(Serialize)]
struct Refused<'a, T> {
    #[serde(flatten)]
    problem: RefusedView<'a>,
    #[serde(flatten)]
    rest: T,
}

#[derive(Serialize)]
struct ManyView<'a> {
    allowed: bool,
    checks: Vec<View<'a>>,
}

fn many_view<'a>(results: &'a [CheckResult<'a>]) -> ManyView<'a> {
    ManyView {
        allowed: results.iter().all(CheckResult::is_allowed),
        checks: results.iter().map(|one| one.view(true)).collect(),
    }
}

/// How long until more is left than now, milliseconds. It is at most the time until a refused check may be admitted,
/// because recalled quota returns before used quota does.
fn reset_after_ms(verdict: Verdict) -> u64 {
    if verdict.is_allowed {
        return verdict.reset_after_ms;
    }
    verdict.reset_after_ms.min(verdict.retry_after_ms)
}

/// The JSON of several checks that were admitted together.
pub fn many_json(results: &[CheckResult<'_>]) -> String {
    to_json(&many_view(results))
}

/// The problem of several checks of which one was refused, so that none consumed anything.
pub fn refused_many_json(results: &[CheckResult<'_>]) -> String {
    let refused = results.iter().filter(|one| !one.is_allowed());
    let mut violated: Vec<&PolicyName> = Vec::new();
    for one in refused {
        if !violated.contains(&one.name) {
            violated.push(one.name);
        }
    }
    let detail = "a quota is used up, so none of these checks consumed anything".to_owned();
    to_json(&Refused {
        problem: RefusedView::new(detail, violated),
        rest: many_view(results),
    })
}

#[derive(Serialize)]
struct PolicyView<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    policy: Option<&'a PolicyName>,
    limit: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    window_seconds: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl_seconds: Option<i64>,
    algorithm: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    burst: Option<u64>,
    scope: &'static str,
    on_error: &'static str,
    shadow: bool,
    precise: bool,
    durability: &'static str,
}

fn view_of<'a>(name: &'a PolicyName, policy: &Policy) -> PolicyView<'a> {
    let seconds = policy.window_ms / 1_000;
    let is_concurrency = policy.algorithm == Algorithm::Concurrency;
    PolicyView {
        policy: Some(name),
        limit: policy.limit,
        window_seconds: (!is_concurrency).then_some(seconds),
        ttl_seconds: is_concurrency.then_some(seconds),
        algorithm: word_of(policy.algorithm, ALGORITHMS),
        burst: (policy.algorithm == Algorithm::TokenBucket).then_some(policy.burst),
        scope: word_of(policy.scope, SCOPES),
        on_error: word_of(policy.on_error, on_errors(policy.scope)),
        shadow: policy.is_shadow,
        precise: policy.is_precise,
        durability: word_of(policy.durability, DURABILITIES),
    }
}

/// The JSON of a policy.
pub fn policy_json(name: &PolicyName, policy: &Policy) -> String {
    to_json(&view_of(name, policy))
}

/// The line of a policy in an export, whose `body` [`super::body::parse_policy`] reads.
pub fn policy_line(name: &PolicyName, policy: &Policy) -> String {
    #[derive(Serialize)]
    struct PolicyLine<'a> {
        policy: &'a PolicyName,
        body: PolicyView<'a>,
    }
    let line = PolicyLine {
        policy: name,
        body: PolicyView {
            policy: None,
            ..view_of(name, policy)
        },
    };
    let mut line = to_json(&line);
    line.push('\n');
    line
}

/// The JSON of a policy that was deleted.
pub fn deleted_json(name: &PolicyName) -> String {
    #[derive(Serialize)]
    struct DeletedView<'a> {
        policy: &'a PolicyName,
        status: &'static str,
    }
    to_json(&DeletedView {
        policy: name,
        status: "deleted",
    })
}

/// The JSON of a page of policies.
pub fn list_json(policies: &[(PolicyName, Policy)], cursor: Option<&str>) -> String {
    #[derive(Serialize)]
    struct ListView<'a> {
        entries: Vec<PolicyView<'a>>,
        cursor: Option<&'a str>,
    }
    let view = policies.iter().map(|(name, policy)| view_of(name, policy));
    to_json(&ListView {
        entries: view.collect(),
        cursor,
    })
}

/// Refuses a check of a policy that only holds take of.
///
/// # Errors
/// `needs-hold`.
pub fn check_takes(name: &PolicyName, policy: &Policy) -> Result<(), Problem> {
    if policy.algorithm != Algorithm::Concurrency {
        return Ok(());
    }
    let detail = format!(
        "policy {name} limits how many hold it. PUT /limits/{name} if it is not stored, then \
         POST /limits/{name}/{{key}}/holds without its fields"
    );
    Err(Problem::new(Code::NeedsHold, detail))
}

/// Refuses a cost that no limiter would admit: a policy admits at most its whole quota at once.
///
/// # Errors
/// `cost-exceeds-limit`.
pub fn check_cost(name: &PolicyName, policy: &Policy, cost: u64) -> Result<(), Problem> {
    if cost <= policy.capacity() {
        return Ok(());
    }
    let detail = format!(
        "policy {name} admits at most {} at once; send a smaller cost",
        policy.capacity()
    );
    Err(Problem::new(Code::CostExceedsLimit, detail))
}

fn to_json<T: Serialize>(view: &T) -> String {
    serde_json::to_string(view).unwrap_or_else(|_| "{}".to_owned())
}
