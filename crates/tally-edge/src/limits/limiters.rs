//! The lanes of checks to limiters, and the refusals that an isolate caches.
//!
//! Invariant: a message of unknown outcome is not sent again, because it may have consumed. Its checks are answered by
//! the policy's rule for errors.

use std::cell::RefCell;
use std::rc::Rc;

use super::repeated_checks;
use super::resolved_check::ResolvedCheck;
use crate::kit::lanes::{LaneKind, Lanes, complete, linger};
use tally_api::limits::batch::{CheckBatch, gather_ms};
use tally_api::metrics::Metric;
use tally_core::counter::autoscale::FlushMeter;
use tally_core::counter::bounded_map::BoundedMap;
use tally_core::counter::id::{CounterId, Datacenter};
use tally_core::counter::nonces::Nonce;
use tally_core::limit::meter::Verdict;
use tally_core::limit::policy::Policy;
use tally_host::{Host, State};
use tally_shared::call_within;
use tally_shared::metrics;
use tally_wire::messages::{CheckAnswer, CheckKeys, Fault};
use tally_wire::names::LimiterAddress;
use tally_wire::names::policy::PolicyName;

/// How long a limiter of the own datacenter may take to decide a check, milliseconds: the caller waits for it.
pub const CHECK_MS_MAX: u64 = 1_500;

/// How long a limiter may take that asks the global one, milliseconds: two round trips around the world.
pub const GLOBAL_MS_MAX: u64 = 2_500;

/// How many limiters' batches are measured: 100 bytes each. A lane to a limiter without measurements does not gather.
const METERS_MAX: usize = 1_000;

/// The most refusals that an isolate caches: at most 1 KB each and an answer of 2 KB, so 30 MB.
const DENIALS_MAX: usize = 10_000;

/// The longest time for which a key is refused from memory: refunds and resets by others take effect by then.
const DENIAL_MS_MAX: i64 = 1_000;

/// The limits that an isolate caches.
#[derive(Default)]
struct LimitMemory {
    /// The rates of messages and checks of each lane.
    meters: BoundedMap<LimiterAddress, FlushMeter, METERS_MAX>,
    denials: BoundedMap<String, Denial, DENIALS_MAX>,
}

/// The cache of this isolate.
struct IsolateLimits(RefCell<LimitMemory>);

impl State for IsolateLimits {
    fn begin(_host: &Host) -> Self {
        Self(RefCell::default())
    }
}

/// Works with this isolate's cached limits.
fn with_limits<T>(host: &Host, work: impl FnOnce(&mut LimitMemory) -> T) -> T {
    work(&mut host.state::<IsolateLimits>().0.borrow_mut())
}

impl LimitMemory {
    /// How long a lane that has sent this many checks should gather, see [`gather_ms`]. A message costs both ends as
    /// much as several answers. Messages of a hot key carried 13 checks without gathering, and carry 30 with it.
    fn linger_ms(&mut self, to: &LimiterAddress, checks: u32, now_ms: i64) -> u32 {
        let meter = self.meters.entry(to, FlushMeter::default);
        meter.record(checks, now_ms);
        gather_ms(meter.per_second(now_ms))
    }
}

/// A refusal that is valid for a while.
struct Denial {
    policy: Rc<Policy>,
    cost: u64,
    verdict: Verdict,
    since_ms: i64,
    until_ms: i64,
}

/// The kind of lanes to limiters.
pub struct Limiters;

impl LaneKind for Limiters {
    type Target = LimiterAddress;
    type Batchable = CheckBatch;
    type Outcome = Result<Rc<CheckAnswer>, Fault>;
    type Watcher = ();

    fn lost() -> Self::Outcome {
        Err(Fault::Unavailable(
            "the request that carried this check was ended".to_owned(),
        ))
    }

    fn notify((): (), _: &Self::Outcome) {}

    async fn send(host: &Host, to: &LimiterAddress, nonce: Nonce, load: CheckBatch) {
        let CheckBatch {
            policies, demands, ..
        } = load;
        let check = CheckKeys {
            to: to.clone(),
            policies,
            demands,
            waits: false,
        };
        let checks = check.demands.iter().map(|demand| demand.times).sum();
        let outcome = send(host, &check, CHECK_MS_MAX).await.map(Rc::new);
        let linger_ms = with_limits(host, |limits| limits.linger_ms(to, checks, host.now_ms()));
        Lanes::<Self>::with(host, |lanes| {
            if let Some(lane) = lanes.known(to) {
                linger::<Self>(host, lane, linger_ms);
                complete::<Self>(host, lane, nonce, outcome);
            }
        });
    }
}

/// Sends a message to a limiter.
///
/// # Errors
/// The limiter's, or `Unavailable`.
pub async fn send(host: &Host, check: &CheckKeys, milliseconds: u64) -> Result<CheckAnswer, Fault> {
    metrics::count(host, Metric::LimitMessage);
    let checked = call_within(host, check, milliseconds).await;
    if let Ok(CheckAnswer { remote_calls, .. }) = &checked {
        metrics::add(host, Metric::LimitRemoteCall, u64::from(*remote_calls));
    }
    checked
}

/// The key of a refusal in the cache: the limiter, the policy's name and the key, none of which has control characters.
fn cache_key(to: &LimiterAddress, name: &PolicyName, key: &CounterId) -> String {
    let datacenter = to.datacenter.as_ref().map_or("", Datacenter::as_str);
    [datacenter, name.as_str(), key.as_str()].join("\0")
}

/// The cached refusal of a check, if there is one and it is still valid.
pub fn denied(host: &Host, resolved: &ResolvedCheck) -> Option<Verdict> {
    with_limits(host, |limits| {
        if limits.denials.is_empty() {
            return None;
        }
        let cache_key = cache_key(&resolved.to, &resolved.name, &resolved.key);
        let denial = limits.denials.get(&cache_key)?;
        let now_ms = host.now_ms();
        let holds = (denial.since_ms..denial.until_ms).contains(&now_ms)
            && resolved.cost >= denial.cost
            && *denial.policy == *resolved.policy;
        if !holds {
            return None;
        }
        let passed_ms = u64::try_from(now_ms.saturating_sub(denial.since_ms)).unwrap_or(0);
        Some(denial.verdict.later(passed_ms))
    })
}

/// Caches a refusal for a while.
pub fn cache_denial(host: &Host, resolved: &ResolvedCheck, verdict: Verdict) {
    let now_ms = host.now_ms();
    let waits_ms = i64::try_from(verdict.retry_after_ms).unwrap_or(DENIAL_MS_MAX);
    with_limits(host, |limits| {
        let denial = Denial {
            policy: resolved.policy.clone(),
            cost: resolved.cost,
            verdict,
            since_ms: now_ms,
            until_ms: now_ms.saturating_add(waits_ms.min(DENIAL_MS_MAX)),
        };
        let cache_key = cache_key(&resolved.to, &resolved.name, &resolved.key);
        limits.denials.insert(cache_key, denial);
    });
}

/// Drops a refusal: something was given back.
pub fn forget_denial(host: &Host, to: &LimiterAddress, name: &PolicyName, key: &CounterId) {
    repeated_checks::forget(host);
    with_limits(host, |limits| {
        limits.denials.remove(&cache_key(to, name, key))
    });
}
