//! Policies and checks as clients send them.

use serde::Deserialize;

use crate::json::{WholeNumber, present, read_object};
use tally_core::counter::id::CounterId;
use tally_core::limit::named::HOLD_SECONDS_MAX;
use tally_core::limit::policy::{
    ALGORITHMS, Algorithm, Durability, LIMIT_MAX, OnError, Policy, PolicyFault, Scope, Words,
    word_of,
};
use tally_wire::names::policy::PolicyName;
use tally_wire::problem::{Code, Problem};

/// The most checks of one call. All of them are held for one answer: 100 keys of 512 bytes are 51 KB.
pub const CHECKS_MAX: usize = 100;

/// All fields of all these bodies: one reader for all takes less code than one for each. Enums are strings here,
/// because for another JSON type an enum would report malformed JSON. For a field of a policy `null` is the default.
/// Fields that only some calls know may not be `null`, because `null` would look like a missing field to the others.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wire {
    #[serde(default, deserialize_with = "present")]
    policy: Option<String>,
    #[serde(default, deserialize_with = "present")]
    key: Option<String>,
    #[serde(default, deserialize_with = "present")]
    cost: Option<WholeNumber>,
    /// How much may be consumed in a window.
    limit: Option<WholeNumber>,
    window_seconds: Option<WholeNumber>,
    /// `sliding-window`: never more than `limit` in any interval of the window's length; quota returns up to a sixtieth
    /// of the window late. `fixed-window`: in each window of the clock, so up to twice that around a boundary.
    /// `token-bucket`: never more than `burst + limit * t / window` in any interval of length t (GCRA).
    algorithm: Option<String>,
    /// What a full token bucket holds; `limit` where it is missing.
    burst: Option<WholeNumber>,
    /// `global`: all datacenters together, by leases, without a trip around the world for each check.
    scope: Option<String>,
    /// What to answer where the limiter cannot be reached. Where it is missing: `open`, but `closed` for the scope
    /// `global`. A datacenter that has spent its lease refuses whatever this says.
    on_error: Option<String>,
    /// Judge and count, but refuse nobody.
    shadow: Option<bool>,
    /// A sliding window without the sixtieth; for limits up to 1,000.
    precise: Option<bool>,
    /// `memory`: a crash of a limiter may forget what was consumed in the last second. `commit`: nothing.
    durability: Option<String>,
    /// What a hold takes, or what was used of it.
    #[serde(default, deserialize_with = "present")]
    amount: Option<WholeNumber>,
    /// How long a hold lasts; of the algorithm `concurrency` the time of a hold that names none.
    #[serde(default, deserialize_with = "present")]
    ttl_seconds: Option<WholeNumber>,
    /// `settle`: a hold that is not settled in its time is used. `release`: it comes back.
    #[serde(default, deserialize_with = "present")]
    on_expiry: Option<String>,
    #[serde(default, deserialize_with = "present")]
    hold: Option<Box<Wire>>,
    #[serde(default, deserialize_with = "present")]
    checks: Option<Vec<Wire>>,
}

impl Wire {
    fn read(body: &[u8]) -> Result<Self, Problem> {
        if body.trim_ascii().is_empty() {
            return Ok(Self::default());
        }
        read_object(body)
    }

    fn refuse(&self, is_cost_known: bool, is_line: bool) -> Result<(), Problem> {
        let of_policy =
            self.algorithm.as_deref() == Some(word_of(Algorithm::Concurrency, ALGORITHMS));
        self.refuse_all(&[
            ("policy", self.policy.is_some() && !is_line),
            ("key", self.key.is_some() && !is_line),
            ("cost", self.cost.is_some() && !is_cost_known),
            ("amount", self.amount.is_some()),
            ("ttl_seconds", self.ttl_seconds.is_some() && !of_policy),
            ("on_expiry", self.on_expiry.is_some()),
            ("hold", self.hold.is_some()),
            ("checks", self.checks.is_some()),
        ])
    }

    /// Refuses all fields except those of a hold.
    fn refuse_but_hold(&self, is_amount_known: bool, is_time_known: bool) -> Result<(), Problem> {
        self.refuse_all(&[
            ("policy", self.policy.is_some()),
            ("key", self.key.is_some()),
            ("cost", self.cost.is_some()),
            ("amount", self.amount.is_some() && !is_amount_known),
            ("ttl_seconds", self.ttl_seconds.is_some() && !is_time_known),
            ("on_expiry", self.on_expiry.is_some() && !is_time_known),
            ("hold", self.hold.is_some()),
            ("checks", self.checks.is_some()),
            ("limit", self.has_policy()),
        ])
    }

    fn refuse_all(&self, strange: &[(&str, bool)]) -> Result<(), Problem> {
        match strange.iter().find(|(_, is_there)| *is_there) {
            Some((name, _)) => Err(Problem::new(
                Code::UnknownField,
                format!("this call does not know the field {name:?}"),
            )),
            None => Ok(()),
        }
    }

    fn has_policy(&self) -> bool {
        self.limit.is_some()
            || self.window_seconds.is_some()
            || self.algorithm.is_some()
            || self.burst.is_some()
            || self.scope.is_some()
            || self.on_error.is_some()
            || self.shadow.is_some()
            || self.precise.is_some()
            || self.durability.is_some()
    }

    /// The policy in the body, if there is one.
    fn policy(&self) -> Result<Option<Policy>, Problem> {
        if !self.has_policy() {
            return Ok(None);
        }
        let needed = |name: &str| {
            let detail = format!("a policy needs {name:?}, a whole number");
            Problem::new(Code::InvalidPolicy, detail)
        };
        let WholeNumber(limit) = self.limit.ok_or_else(|| needed("limit"))?;
        let algorithm = choice("algorithm", self.algorithm.as_deref(), ALGORITHMS)?;
        let (window, name) = match algorithm {
            Algorithm::Concurrency => (self.ttl_seconds, "ttl_seconds"),
            _ => (self.window_seconds, "window_seconds"),
        };
        let WholeNumber(seconds) = window.ok_or_else(|| needed(name))?;
        if algorithm == Algorithm::Concurrency {
            if self.window_seconds.is_some() {
                let detail = "concurrency has no window_seconds; ttl_seconds is the time of a hold";
                return Err(Problem::new(Code::InvalidPolicy, detail));
            }
            check_time(seconds)?;
        }
        let scope = choice("scope", self.scope.as_deref(), SCOPES)?;
        let on_error = choice("on_error", self.on_error.as_deref(), on_errors(scope))?;
        let durability = choice("durability", self.durability.as_deref(), DURABILITIES)?;
        if self.burst.is_some() && algorithm != Algorithm::TokenBucket {
            let detail = "burst needs the algorithm token-bucket; leave it out";
            return Err(Problem::new(Code::InvalidPolicy, detail));
        }
        let policy = Policy {
            limit,
            window_ms: i64::try_from(seconds)
                .ok()
                .and_then(|seconds| seconds.checked_mul(1_000))
                .unwrap_or(i64::MAX),
            algorithm,
            burst: self.burst.map_or(limit, |burst| burst.0),
            scope,
            on_error,
            is_shadow: self.shadow.unwrap_or(false),
            is_precise: self.precise.unwrap_or(false),
            durability,
        };
        policy.check().map_err(problem_of)?;
        Ok(Some(policy))
    }

    /// The cost, 1 where missing.
    fn cost(&self) -> Result<u64, Problem> {
        match self.cost {
            Some(WholeNumber(0)) => Err(Problem::new(
                Code::InvalidCost,
                "cost must be 1 or more; to look without consuming send GET",
            )),
            cost => Ok(cost.map_or(1, |cost| cost.0)),
        }
    }
}

fn problem_of(fault: PolicyFault) -> Problem {
    let PolicyFault { field, min, max } = fault;
    let detail = if max == 0 {
        format!("{field} needs the algorithm sliding-window")
    } else {
        format!("{field} must be a whole number from {min} to {max} here")
    };
    Problem::new(Code::InvalidPolicy, detail)
}

/// What becomes of a hold that is not settled in its time: whether it comes back.
const EXPIRIES: Words<bool> = &[("settle", false), ("release", true)];

/// The time of a hold that names none, unless the policy does.
const HOLD_SECONDS: u64 = 60;

pub(super) const SCOPES: Words<Scope> =
    &[("datacenter", Scope::Datacenter), ("global", Scope::Global)];

pub(super) const DURABILITIES: Words<Durability> = &[
    ("memory", Durability::Memory),
    ("commit", Durability::Commit),
];

/// A global limit is closed on errors unless the policy says otherwise.
pub(super) const fn on_errors(scope: Scope) -> Words<OnError> {
    match scope {
        Scope::Datacenter => &[("open", OnError::Open), ("closed", OnError::Closed)],
        Scope::Global => &[("closed", OnError::Closed), ("open", OnError::Open)],
    }
}

/// The value of a field that knows some words; the first where it is missing.
fn choice<T: Copy>(name: &str, sent: Option<&str>, known: Words<T>) -> Result<T, Problem> {
    let found = match sent {
        None => known.first(),
        Some(word) => known.iter().find(|(known, _)| *known == word),
    };
    found.map(|(_, value)| *value).ok_or_else(|| {
        let words: Vec<String> = known.iter().map(|(word, _)| format!("{word:?}")).collect();
        let detail = format!("{name} must be {}", words.join(" or "));
        Problem::new(Code::InvalidPolicy, detail)
    })
}

/// Returns the policy of `PUT /limits/{policy}`: `{"limit": n, "window_seconds": n, "algorithm"?, "burst"?, "scope"?,
/// "on_error"?, "shadow"?, "precise"?, "durability"?}`. Missing fields have their defaults: a sliding window, the limit
/// as burst, scope datacenter, memory durability; where the limiter cannot be reached open, but closed for a global
/// limit.
///
/// # Errors
/// `invalid-json`, `unknown-field`, `invalid-body`, `invalid-policy`.
pub fn parse_policy(body: &[u8]) -> Result<Policy, Problem> {
    let wire = Wire::read(body)?;
    wire.refuse(false, false)?;
    wire.policy()?.ok_or_else(|| {
        let detail = "send {\"limit\": <number>, \"window_seconds\": <number>}";
        Problem::new(Code::InvalidPolicy, detail)
    })
}

/// What a check asks for: the cost, and the policy if the body has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckRequest {
    /// The cost, 1 or more.
    pub cost: u64,
    /// The policy in the body.
    pub policy: Option<Policy>,
}

impl Default for CheckRequest {
    /// A cost of one, by the policy of that name.
    fn default() -> Self {
        Self {
            cost: 1,
            policy: None,
        }
    }
}

/// Returns the check of `POST /limits/{policy}/{key}`, or of `…/refund`: `{"cost"?: n}`, with the fields of a policy
/// where the caller keeps the policy in its own code. An empty body costs 1.
///
/// # Errors
/// As [`parse_policy`], and `invalid-cost`.
pub fn parse_check(body: &[u8]) -> Result<CheckRequest, Problem> {
    let wire = Wire::read(body)?;
    wire.refuse(true, false)?;
    Ok(CheckRequest {
        cost: wire.cost()?,
        policy: wire.policy()?,
    })
}

/// One check of several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckLine {
    /// The policy's name.
    pub policy: PolicyName,
    /// The key.
    pub key: CounterId,
    /// What it asks for.
    pub asks: CheckRequest,
}

/// What a hold asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HoldRequest {
    /// How much is held, 1 or more.
    pub amount: u64,
    /// For how long, seconds; `None` where the policy says that, or 60.
    ttl_seconds: Option<u64>,
    /// Whether all comes back if it is not settled in its time.
    pub is_returned: bool,
}

impl HoldRequest {
    /// How long the hold lasts under a policy, milliseconds.
    pub fn length_ms(&self, policy: &Policy) -> i64 {
        let seconds = match (self.ttl_seconds, policy.algorithm) {
            (None, Algorithm::Concurrency) => return policy.window_ms,
            (seconds, _) => seconds.unwrap_or(HOLD_SECONDS),
        };
        i64::try_from(seconds.saturating_mul(1_000)).unwrap_or(i64::MAX)
    }

    fn of(wire: &Wire) -> Result<Self, Problem> {
        let ttl_seconds = wire.ttl_seconds.map(|seconds| seconds.0);
        ttl_seconds.map_or(Ok(()), check_time)?;
        let on_expiry = choice("on_expiry", wire.on_expiry.as_deref(), EXPIRIES);
        Ok(Self {
            amount: match wire.amount {
                Some(WholeNumber(0)) => {
                    let detail = "amount must be 1 or more; to look without holding send GET";
                    return Err(Problem::new(Code::InvalidCost, detail));
                }
                amount => amount.map_or(1, |amount| amount.0),
            },
            ttl_seconds,
            is_returned: on_expiry
                .map_err(|problem| Problem::new(Code::InvalidBody, problem.detail()))?,
        })
    }
}

fn check_time(seconds: u64) -> Result<(), Problem> {
    if (1..=HOLD_SECONDS_MAX).contains(&seconds) {
        return Ok(());
    }
    let detail = format!("ttl_seconds must be from 1 to {HOLD_SECONDS_MAX}, not {seconds}");
    Err(Problem::new(Code::InvalidBody, detail))
}

/// Returns the hold of `POST /limits/{policy}/{key}/holds`: `{"amount"?: n, "ttl_seconds"?: n, "on_expiry"?: "settle"
/// or "release"}`. An empty body holds 1.
///
/// # Errors
/// `invalid-json`, `unknown-field`, `invalid-body`, `invalid-cost`.
pub fn parse_hold(body: &[u8]) -> Result<HoldRequest, Problem> {
    let wire = Wire::read(body)?;
    wire.refuse_but_hold(true, true)?;
    HoldRequest::of(&wire)
}

/// Returns what was used of a hold, of `POST …/settle`: `{"amount"?: n}`; nothing where all of it was.
///
/// # Errors
/// As [`parse_hold`].
pub fn parse_settlement(body: &[u8]) -> Result<Option<u64>, Problem> {
    let wire = Wire::read(body)?;
    wire.refuse_but_hold(true, false)?;
    match wire.amount {
        Some(WholeNumber(amount)) if amount > LIMIT_MAX => {
            let detail = format!("amount must be from 0 to {LIMIT_MAX}, not {amount}");
            Err(Problem::new(Code::InvalidCost, detail))
        }
        amount => Ok(amount.map(|amount| amount.0)),
    }
}

/// Returns the checks of `POST /limits`: `{"checks": [{"policy", "key", "cost"?, …}…]}`, 1 to [`CHECKS_MAX`]; and how
/// they hold their costs, with `"hold": {"ttl_seconds"?, "on_expiry"?}`.
///
/// # Errors
/// As [`parse_check`], and `invalid-id`; says which check is wrong.
pub fn parse_checks(body: &[u8]) -> Result<(Vec<CheckLine>, Option<HoldRequest>), Problem> {
    let refuse = |detail: String| Problem::new(Code::InvalidBody, detail);
    let wire = Wire::read(body)?;
    let hold = wire.hold.as_deref().map(|hold| {
        hold.refuse_but_hold(false, true)?;
        HoldRequest::of(hold)
    });
    let hold = hold.transpose()?;
    let checks = wire.checks.unwrap_or_default();
    if checks.is_empty() || checks.len() > CHECKS_MAX {
        return Err(refuse(format!(
            "send {{\"checks\": [{{\"policy\", \"key\", \"cost\"}}…]}} with 1 to {CHECKS_MAX} checks"
        )));
    }
    let mut lines = Vec::with_capacity(checks.len());
    for (number, check) in checks.into_iter().enumerate() {
        let line = line_of(check).map_err(|problem| {
            let detail = format!("check {}: {}", number + 1, problem.detail());
            Problem::new(problem.code(), detail)
        })?;
        lines.push(line);
    }
    Ok((lines, hold))
}

fn line_of(mut wire: Wire) -> Result<CheckLine, Problem> {
    wire.refuse(true, true)?;
    let missing = |name: &str| Problem::new(Code::InvalidBody, format!("{name} is missing"));
    let policy = wire.policy.take().ok_or_else(|| missing("policy"))?;
    let key = wire.key.take().ok_or_else(|| missing("key"))?;
    Ok(CheckLine {
        policy: PolicyName::parse(policy)?,
        key: CounterId::parse(key)?,
        asks: CheckRequest {
            cost: wire.cost()?,
            policy: wire.policy()?,
        },
    })
}
