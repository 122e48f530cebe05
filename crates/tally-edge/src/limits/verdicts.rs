//! The number of allowed and refused checks of each stored policy, minute by minute, and the keys that were refused
//! most.
//!
//! Invariant: a check is counted once, in this isolate's memory, and sent at most once to the counters of its policy.
//! So these never hold more than was judged. Counts that an isolate had not sent when it ended are missing, and so are
//! counts that were sent and not confirmed, or refused.
//!
//! Life: the counts of a first check are sent a second later, those of a busy isolate every [`SEND_MS`]. The counters
//! are the service's own ([`names::verdicts`]): no caller can name them, and they are in no list, top or sum. Checks
//! with an inline policy are not counted, because any caller may give it any name.

use std::cell::RefCell;

use super::resolved_check::ResolvedCheck;
use crate::bulk::sender;
use crate::kit::isolate::known_of;
use crate::kit::request_context::RequestContext;
use tally_api::batch::addressed::{Addressed, RehashedElements};
use tally_api::metrics::Metric;
use tally_core::callers::refused_key::kept_of_key;
use tally_core::counter::bounded_map::BoundedMap;
use tally_core::counter::dimensions::{DimensionLog, DimensionName, Stamp};
use tally_core::counter::flush::Load;
use tally_core::counter::id::Datacenter;
use tally_core::limit::meter::Verdict;
use tally_core::sketch::{TopValues, VALUES_MAX};
use tally_host::{Host, State};
use tally_shared::call_within;
use tally_shared::concurrency::all_in_order;
use tally_shared::metrics;
use tally_wire::messages::{Operate, Operation};
use tally_wire::names;
use tally_wire::names::policy::PolicyName;
use tally_wire::names::{CellAddress, VerdictKind};
use tally_wire::shell_limits::OPERATE_MS_MAX;

/// How long a busy isolate collects its counts, milliseconds: a row for each policy and kind in that time.
pub const SEND_MS: i64 = 10_000;

/// How long an isolate collects its counts if it has sent nothing for [`SEND_MS`], milliseconds.
const FIRST_MS: i64 = 1_000;

/// How late a sending request may be before another one sends, milliseconds.
const LATE_MS: i64 = 1_000;

/// The most policies with counts: 100 bytes each, and 200 KB of keys if many are refused.
const POLICIES_MAX: usize = 1_000;

/// The results of a minute.
struct Minute {
    /// A second of it, unix time.
    second: i64,
    counts: [u64; VerdictKind::ALL.len()],
    refused: TopValues,
}

/// The counts that are not sent yet.
#[derive(Default)]
struct UnsentVerdicts {
    policies: BoundedMap<PolicyName, Vec<Minute>, POLICIES_MAX>,
    /// When they are sent, unix milliseconds.
    due_ms: i64,
    /// When counts were sent last.
    sent_ms: i64,
}

/// The counts of this isolate.
struct IsolateVerdicts(RefCell<UnsentVerdicts>);

impl State for IsolateVerdicts {
    fn begin(_host: &Host) -> Self {
        Self(RefCell::default())
    }
}

fn with<T>(host: &Host, work: impl FnOnce(&mut UnsentVerdicts) -> T) -> T {
    work(&mut host.state::<IsolateVerdicts>().0.borrow_mut())
}

impl UnsentVerdicts {
    fn record(&mut self, policy: &PolicyName, key: &str, kind: VerdictKind, now_ms: i64) {
        let minutes = self.policies.entry(policy, Vec::new);
        let second = now_ms.div_euclid(1_000);
        let is_of = |minute: &Minute| minute.second.div_euclid(60) == second.div_euclid(60);
        if !minutes.last().is_some_and(is_of) {
            minutes.push(Minute {
                second,
                counts: [0; VerdictKind::ALL.len()],
                refused: TopValues::default(),
            });
        }
        let Some(minute) = minutes.last_mut() else {
            return;
        };
        let known = VerdictKind::ALL.iter().position(|known| *known == kind);
        if let Some(count) = known.and_then(|index| minute.counts.get_mut(index)) {
            *count += 1;
        }
        if kind == VerdictKind::Refused {
            minute.refused.add(key, 1);
            if minute.refused.len() > 2 * VALUES_MAX {
                minute.refused.prune(VALUES_MAX);
            }
        }
    }

    /// After how many milliseconds this request must send them; `None` if another request does.
    fn due_in_ms(&mut self, now_ms: i64) -> Option<u64> {
        let is_due = now_ms - LATE_MS..=now_ms + SEND_MS;
        if is_due.contains(&self.due_ms) {
            return None;
        }
        let since_ms = now_ms.saturating_sub(self.sent_ms);
        let wait_ms = match (0..SEND_MS).contains(&since_ms) {
            true => (SEND_MS - since_ms).max(FIRST_MS),
            false => FIRST_MS,
        };
        self.due_ms = now_ms + wait_ms;
        u64::try_from(wait_ms).ok()
    }
}

/// Records the result of a check in the counts.
pub fn record(context: &RequestContext, resolved: &ResolvedCheck, verdict: Option<Verdict>) {
    let host = &context.host;
    let (metric, kind) = match verdict {
        Some(verdict) if verdict.is_allowed => (Metric::LimitAllowed, VerdictKind::Allowed),
        Some(_) => (Metric::LimitRefused, VerdictKind::Refused),
        None => (Metric::LimitError, VerdictKind::Error),
    };
    metrics::count(host, metric);
    let is_stored = resolved.name == resolved.client_name;
    if !is_stored {
        return;
    }
    let now_ms = host.now_ms();
    let due_in_ms = with(host, |gathered| {
        gathered.record(&resolved.name, resolved.key.as_str(), kind, now_ms);
        gathered.due_in_ms(now_ms)
    });
    if let Some(due_in_ms) = due_in_ms {
        let (host, here) = (host.clone(), context.datacenter());
        context.wait_until(async move {
            host.sleep_ms(due_in_ms).await;
            send(&host, &here).await;
        });
    }
}

/// Sends this isolate's counts to the counters of a datacenter. Counts that cannot be sent are lost.
pub async fn send(host: &Host, datacenter: &Datacenter) {
    let policies = with(host, |gathered| {
        (gathered.due_ms, gathered.sent_ms) = (i64::MIN, host.now_ms());
        std::mem::take(&mut gathered.policies)
    });
    let mut loads = Vec::new();
    for (policy, minutes) in policies.iter() {
        for (index, kind) in VerdictKind::ALL.into_iter().enumerate() {
            let load = load_of(minutes, index, kind);
            let Some(counter) = names::verdicts(policy, kind).filter(|_| load.added > 0) else {
                continue;
            };
            let mut to = CellAddress::lead(&counter, datacenter);
            let known = known_of(host, &counter);
            to.shard = known.own_shard(known.shards_in(datacenter));
            loads.push(Addressed {
                to,
                load,
                rehashed: RehashedElements::default(),
            });
        }
    }
    if !loads.is_empty() {
        let _missing = sender::count_many(host, loads, None, false).await;
    }
}

/// Ends the counters of a policy that is deleted. A counter that does not answer stays; its keys are forgotten later in
/// any case.
pub async fn forget(context: &RequestContext, policy: &PolicyName) {
    let host = &context.host;
    with(host, |gathered| gathered.policies.remove(policy));
    let counters = VerdictKind::ALL.map(|kind| names::verdicts(policy, kind));
    let ends = counters.into_iter().flatten().map(|counter| Operate {
        counter,
        datacenter: context.datacenter(),
        operation: Operation::Delete,
        key: None,
        condition: None,
    });
    let ends: Vec<Operate> = ends.collect();
    let ending = ends
        .iter()
        .map(|end| call_within(host, end, OPERATE_MS_MAX));
    let _missing = all_in_order(ending).await;
}

/// The counts of a kind in these minutes, as a load for its counter.
fn load_of(minutes: &[Minute], index: usize, kind: VerdictKind) -> Load {
    let mut load = Load::default();
    for minute in minutes {
        let count = u128::from(minute.counts.get(index).copied().unwrap_or(0));
        if count == 0 {
            continue;
        }
        load.added += count;
        load.past.push((minute.second, count));
        if kind == VerdictKind::Refused {
            push_keys(&mut load.dimensions, minute);
        }
    }
    load
}

fn push_keys(log: &mut DimensionLog, minute: &Minute) {
    let mut keys = TopValues::default();
    for (key, counted) in minute.refused.values() {
        keys.add(&kept_of_key(key), counted.count);
    }
    keys.prune(VALUES_MAX);
    for (key, counted) in keys.values() {
        let value = (DimensionName::REFUSED_KEY.as_str(), key);
        log.push(Stamp::Past(minute.second), counted.count, [value]);
    }
}
