//! The quota of hot keys that limiters have lent to this isolate: checks are admitted here without a call.
//!
//! Invariant: only lent quota is admitted here, and nothing is refused here. A check that needs more than is left goes
//! to its limiter as if there were no lent quota.
//!
//! Life of a lease: a key appears in the sample of hot keys. Its next check also asks for a lease. While checks come,
//! the lease is renewed about once a second. When they stop, the ticker returns it.

use std::cell::RefCell;

use super::resolved_check::ResolvedCheck;
use crate::kit::request_context::RequestContext;
use tally_api::metrics::Metric;
use tally_core::counter::id::Datacenter;
use tally_core::limit::borrowers::{Borrowers, DueRequest};
use tally_core::limit::hot::HotKeys;
use tally_core::limit::meter::Verdict;
use tally_host::{Host, State};
use tally_shared::call;
use tally_shared::concurrency::all_settled;
use tally_shared::lease_requests::lend;
use tally_shared::metrics;
use tally_shared::open_objects;

/// How long a limiter of the own datacenter may take: a later answer is of no use.
const LEND_MS_MAX: u64 = 500;

/// How often leases are checked for return, milliseconds: several times within the last eighth of a lease's second. And
/// how many times one request checks them, since the platform ends a request 30 s after its answer.
const TICK_MS: u64 = 50;
const TICKS_MAX: u32 = 400;

/// The most requests of one tick; and below, how many are sent at once. The rest is sent in the next one.
const REPORTS_MAX: usize = 1_000;
const REPORTS_AT_ONCE: usize = 32;

/// The isolate's parts.
#[derive(Default)]
struct LocalQuota {
    /// Created with the first hot key, for its datacenter: an isolate is in one, except in tests that name another.
    held: Option<(Datacenter, Borrowers)>,
    hot: HotKeys,
    is_ticking: bool,
}

/// The quota of this isolate.
struct IsolateQuota(RefCell<LocalQuota>);

impl State for IsolateQuota {
    fn begin(_host: &Host) -> Self {
        Self(RefCell::default())
    }
}

fn with_quota<T>(host: &Host, work: impl FnOnce(&mut LocalQuota) -> T) -> T {
    work(&mut host.state::<IsolateQuota>().0.borrow_mut())
}

impl LocalQuota {
    fn of(&mut self, datacenter: Option<&Datacenter>) -> Option<&mut Borrowers> {
        let (held_in, borrowers) = self.held.as_mut()?;
        (Some(&*held_in) == datacenter).then_some(borrowers)
    }

    /// Begins a part of a key, if the key is hot.
    fn begin_if_hot(&mut self, host: &Host, resolved: &ResolvedCheck) {
        if !self.hot.is_sample_due() {
            return;
        }
        let now_ms = host.now_ms();
        let key = (&resolved.to, resolved.name.as_str(), resolved.key.as_str());
        let is_moving = || call::limiters(host).are_changing();
        if !self.hot.record(open_objects::name_of(&key), now_ms) || is_moving() {
            return;
        }
        let Some(datacenter) = &resolved.to.datacenter else {
            return;
        };
        if self.held.is_none() {
            let borrowers = Borrowers::new(datacenter.as_str(), host.random());
            self.held = Some((datacenter.clone(), borrowers));
        }
        if let Some(borrowers) = self.of(Some(datacenter)) {
            // If there is no room, the limiter continues to decide each check.
            let _ = borrowers.begin(&resolved.check(), now_ms);
        }
    }
}

/// Admits a check from its part; `None` where its limiter must decide it.
pub fn take(context: &RequestContext, resolved: &ResolvedCheck) -> Option<Verdict> {
    if !resolved.policy.may_lease_to_isolates() {
        return None;
    }
    let (verdict, request) = with_quota(&context.host, |quota| {
        let now_ms = context.host.now_ms();
        let borrowers = quota.of(resolved.to.datacenter.as_ref());
        let taken = borrowers.map(|all| all.take(&resolved.check(), now_ms));
        let (verdict, request) = taken.unwrap_or_default();
        if verdict.is_none() {
            quota.begin_if_hot(&context.host, resolved);
        }
        (verdict, request)
    });
    if let Some(request) = request {
        send_soon(context, request);
    }
    if verdict.is_some() {
        metrics::count(&context.host, Metric::LimitLocalQuota);
    }
    verdict
}

/// Records a refund by a caller. The part of it that was lent quota is reported to the limiter with the next report.
/// Returns that part.
pub fn refund(host: &Host, resolved: &ResolvedCheck) -> u64 {
    let (name, key) = (resolved.name.as_str(), resolved.key.as_str());
    with_quota(host, |quota| {
        let borrowers = quota.of(resolved.to.datacenter.as_ref());
        borrowers.map_or(0, |borrowers| {
            borrowers.refund(name, key, resolved.cost, host.now_ms())
        })
    })
}

fn send_soon(context: &RequestContext, request: DueRequest) {
    let host = context.host.clone();
    let is_first = with_quota(&context.host, |quota| {
        !std::mem::replace(&mut quota.is_ticking, true)
    });
    // Created here, because a request may be ended before its work begins.
    let ticking = is_first.then(|| TickGuard(context.host.clone()));
    context.wait_until(async move {
        send(&host, request).await;
        if ticking.is_some() {
            tick(&host).await;
        }
    });
}

async fn send(host: &Host, request: DueRequest) {
    metrics::count(host, Metric::LimitMessage);
    let datacenter = with_quota(host, |quota| quota.held.as_ref().map(|held| held.0.clone()));
    let answer = lend(host, datacenter.as_ref(), &request, LEND_MS_MAX).await;
    with_quota(host, |quota| {
        if let Some((_, borrowers)) = &mut quota.held {
            // A lost message is repeated with the next request or report.
            let _ = borrowers.receive_outcome(&request, answer, host.now_ms());
        }
    });
}

/// Gives back parts of keys without checks.
async fn tick(host: &Host) {
    for _ in 0..TICKS_MAX {
        host.sleep_ms(TICK_MS).await;
        let requests = with_quota(host, |quota| {
            let (_, borrowers) = quota.held.as_mut()?;
            let requests = borrowers.due_requests(REPORTS_MAX, host.now_ms());
            (!borrowers.is_empty()).then_some(requests)
        });
        let Some(requests) = requests else { break };
        all_settled(
            requests.into_iter().map(|request| send(host, request)),
            REPORTS_AT_ONCE,
        )
        .await;
    }
}

/// Resets the flag when the ticks end, for whatever reason.
struct TickGuard(Host);

impl Drop for TickGuard {
    fn drop(&mut self) {
        with_quota(&self.0, |quota| quota.is_ticking = false);
    }
}
