//! The Durable Object of one limiter: a partition of the keys of a datacenter, or of global keys.
//!
//! Invariants: verdicts are decided one after the other, in order of arrival, from memory. Consumption is written
//! within [`COMMIT_MS`], so a crash loses at most that much. A stop in order loses nothing if storage takes writes.
//! Under a policy with `commit`, and for quota lent to a datacenter, consumption is written before the answer.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::rc::Rc;

use futures_util::future::LocalBoxFuture;

use super::store::{LimiterStore, empty_table};
use crate::kit::storage_guard::StorageGuard;
use crate::kit::store::Store;
use tally_core::cluster::spread::{LimiterCounts, Spread};
use tally_core::counter::bounded_map::BoundedMap;
use tally_core::counter::id::CounterId;
use tally_core::limit::borrowers::Borrowers;
use tally_core::limit::meter::Verdict;
use tally_core::limit::named::Holders;
use tally_core::limit::policy::{Durability, Policy, Scope};
use tally_core::limit::table::{self, Commit, Full, Table};
use tally_host::Host;
use tally_host::dispatch;
use tally_host::object::{IncomingCall, Object, Reply, Shell};
use tally_shared::call;
use tally_shared::flag_guard::FlagGuard;
use tally_shared::memory::{self, MemoryKind};
use tally_wire::messages::{
    CheckAnswer, CheckKeys, DemandKind, DemandOutcome, EndReservation, Fault, ForwardCheck,
    GiveKey, KeyDemand, LeaseReport, ListHolders, RecallLease, Reserve,
};
use tally_wire::names::policy::PolicyName;

/// How long consumption may be in memory only, milliseconds. So at most one row is written per second and limiter, for
/// any number of verdicts.
pub(super) const COMMIT_MS: u64 = 1_000;

/// The most rows of one commit: 64 of at most 1 MB hold twice the content of a table.
const ROWS_AT_ONCE: usize = 64;

/// A policy's name and a key.
pub(super) type LimitKey = (PolicyName, CounterId);

/// One limiter, as the platform sees it.
pub struct Limiter {
    core: Rc<LimiterCore>,
}

/// One limiter.
pub(super) struct LimiterCore {
    pub(super) host: Host,
    pub(super) object: Object,
    pub(super) rows: LimiterStore,
    pub(super) table: RefCell<Table>,
    /// The known numbers of limiters.
    pub(super) spread: RefCell<Spread>,
    /// Keys that were taken over from their former limiters and share a meter here.
    pub(super) taken_over: RefCell<BoundedMap<LimitKey, (), TAKEN_OVER_MAX>>,
    /// Keys with a recall in progress.
    pub(super) recalling: RefCell<HashSet<LimitKey>>,
    /// The part of the table that could not be written.
    unwritten: RefCell<Option<Commit>>,
    /// The leases of this limiter for global limits; created when first needed.
    pub(super) borrowers: RefCell<Option<Borrowers>>,
    storage: StorageGuard,
    is_ticking: Cell<bool>,
    is_reporting: Cell<bool>,
}

impl Limiter {
    /// Starts the object from what is stored.
    pub fn start(object: Object, host: Host) -> Self {
        let core = LimiterCore {
            spread: RefCell::new(Spread::new(call::limiters(&host))),
            taken_over: RefCell::default(),
            host,
            rows: LimiterStore::new(Store::new(object.clone())),
            object,
            table: RefCell::new(empty_table()),
            recalling: RefCell::default(),
            unwritten: RefCell::default(),
            borrowers: RefCell::default(),
            storage: StorageGuard::default(),
            is_ticking: Cell::new(false),
            is_reporting: Cell::new(false),
        };
        let core = Rc::new(core);
        let weak_core = Rc::downgrade(&core);
        let id = core.object.platform().id();
        memory::start(&core.host, MemoryKind::Limiters, id, move || {
            if let Some(core) = weak_core.upgrade() {
                core.table.replace(empty_table());
                core.borrowers.take();
            }
        });
        core.load();
        Self { core }
    }
}

impl Shell for Limiter {
    fn answer(&self, arrived: IncomingCall) -> LocalBoxFuture<'_, Reply> {
        Box::pin(async move {
            let core = &self.core;
            dispatch!(&arrived, message, {
                CheckKeys => core.on_check(message, None).await,
                ForwardCheck => core.on_forward_check(message).await,
                GiveKey => core.on_hand_over(message).await,
                Reserve => core.on_reserve(message).await,
                EndReservation => core.on_end(message),
                LeaseReport => core.on_lease(message).await,
                RecallLease => core.on_recall(message),
                ListHolders => core.on_list_holders(message),
            })
        })
    }

    fn reload(&self) {
        self.core.load();
    }

    fn before_stop(&self) -> LocalBoxFuture<'_, ()> {
        Box::pin(async move {
            self.core.commit_or_complain();
            self.core.return_leases().await;
        })
    }
}

/// The most keys that share meters and were taken over, 100 bytes each. Beyond it all are forgotten. If they are taken
/// over again, their use counts twice.
pub(super) const TAKEN_OVER_MAX: usize = 10_000;

/// The options of a demand.
#[derive(Clone, Copy)]
pub(super) struct DemandOptions {
    /// Whether it may wait for other limiters.
    pub(super) waits: bool,
    /// Whether another limiter has forwarded it; it is not forwarded again.
    pub(super) is_forwarded: bool,
}

/// A demand with the policy that it names.
#[derive(Clone, Copy)]
pub(super) struct NamedDemand<'a> {
    pub(crate) name: &'a PolicyName,
    pub(super) policy: &'a Policy,
    pub(super) key_demand: &'a KeyDemand,
}

impl<'a> NamedDemand<'a> {
    pub(super) fn all(
        policies: &'a [(PolicyName, Policy)],
        demands: &'a [KeyDemand],
    ) -> Result<Vec<Self>, Fault> {
        let find = |key_demand: &'a KeyDemand| {
            let number = usize::try_from(key_demand.policy).unwrap_or(usize::MAX);
            let (name, policy) = policies
                .get(number)
                .ok_or_else(|| Fault::Broken("a demand names no policy".to_owned()))?;
            Ok(Self {
                name,
                policy,
                key_demand,
            })
        };
        demands.iter().map(find).collect()
    }

    pub(super) fn check(&self) -> table::Check<'a> {
        table::Check {
            name: self.name.as_str(),
            policy: self.policy,
            key: self.key_demand.key.as_str(),
            cost: self.key_demand.cost,
            owner: self.key_demand.owner,
        }
    }
}

impl LimiterCore {
    fn load(&self) {
        let loaded = self.rows.load(
            memory::share(&self.host, MemoryKind::Limiters),
            self.host.now_ms(),
        );
        let loaded = loaded.and_then(|table| Ok((table, self.rows.received_counts()?)));
        self.storage.record(loaded.map(|(table, received)| {
            self.table.replace(table);
            if let Some((counts, received_ms)) = received {
                self.spread
                    .borrow_mut()
                    .receive(counts, received_ms, self.host.now_ms());
            }
        }));
    }

    pub(crate) fn readable(&self) -> Result<(), Fault> {
        self.storage.check(|| self.load())
    }

    /// Decides. A check that another limiter has forwarded, with its number of limiters, is not forwarded again.
    pub(super) async fn on_check(
        self: &Rc<Self>,
        check: Result<CheckKeys, Fault>,
        forwarder_counts: Option<LimiterCounts>,
    ) -> Result<CheckAnswer, Fault> {
        let CheckKeys {
            to,
            policies,
            demands,
            waits,
        } = check?;
        self.readable()?;
        self.merge_counts(forwarder_counts)?;
        let mut answer = CheckAnswer {
            outcomes: Vec::with_capacity(demands.len()),
            remote_calls: 0,
        };
        let mut must_commit = false;
        for demand in NamedDemand::all(&policies, &demands)? {
            let is_global = demand.policy.scope == Scope::Global && to.datacenter.is_some();
            let outcome = if is_global {
                self.judge_global(&to, &demand, waits, &mut answer.remote_calls)
                    .await
            } else {
                must_commit |= demand.policy.durability == Durability::Commit
                    || demand.key_demand.kind.must_commit();
                let options = DemandOptions {
                    waits,
                    is_forwarded: forwarder_counts.is_some(),
                };
                self.judge_here(&to, &demand, options, &mut answer.remote_calls)
                    .await
            };
            answer.outcomes.push(outcome);
        }
        self.written(must_commit)?;
        Ok(answer)
    }

    fn on_list_holders(&self, list: Result<ListHolders, Fault>) -> Result<Holders, Fault> {
        let ListHolders { name, most, .. } = list?;
        self.readable()?;
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let table = self.table.borrow();
        Ok(table.holders(name.as_str(), most, self.host.now_ms()))
    }

    pub(super) fn judge(&self, demand: &NamedDemand<'_>) -> DemandOutcome {
        let now_ms = self.host.now_ms();
        let check = demand.check();
        let mut table = self.table.borrow_mut();
        match demand.key_demand.kind {
            DemandKind::Consume => judge_all(demand.key_demand.times, || {
                let verdict = table.check(&check, now_ms);
                verdict.unwrap_or_else(|Full| Full::verdict(check.policy))
            }),
            DemandKind::Look => looked(&table, &check, table.peek(&check, now_ms), now_ms),
            DemandKind::Call(call) => DemandOutcome::Called(table.call(&check, &call, now_ms)),
            DemandKind::Refund => outcome_of(table.refund(&check, now_ms)),
            DemandKind::Forget => outcome_of(table.reset(&check, now_ms)),
        }
    }

    /// Makes sure that changes are written, now or soon.
    pub(super) fn written(self: &Rc<Self>, now: bool) -> Result<(), Fault> {
        if now {
            self.commit()?;
        }
        self.tick();
        Ok(())
    }

    /// Writes the changes. Changes that could not be written are kept, and written first the next time.
    fn commit(&self) -> Result<(), Fault> {
        for _ in 0..ROWS_AT_ONCE {
            let kept = self.unwritten.borrow_mut().take();
            let Some(commit) = kept.or_else(|| self.table.borrow_mut().commit()) else {
                break;
            };
            if let Err(fault) = self.rows.write(&commit) {
                self.unwritten.replace(Some(commit));
                return Err(fault);
            }
        }
        Ok(())
    }

    /// As [`Self::commit`]. A failure is logged.
    fn commit_or_complain(&self) {
        if let Err(fault) = self.commit() {
            self.host.fail(&format!("a limiter: {fault}"));
        }
    }

    fn is_idle(&self) -> bool {
        let borrowers = self.borrowers.borrow();
        let holds = borrowers
            .as_ref()
            .is_some_and(|borrowers| !borrowers.is_empty());
        !holds && self.unwritten.borrow().is_none() && !self.table.borrow().is_dirty()
    }

    /// Commits and reports each second, as long as there is anything to do.
    pub(super) fn tick(self: &Rc<Self>) {
        if self.is_idle() || self.is_ticking.replace(true) {
            return;
        }
        let core = self.clone();
        self.object.wait_until(async move {
            let _ticking = FlagGuard(&core.is_ticking);
            while !core.is_idle() {
                core.host.sleep_ms(COMMIT_MS).await;
                core.commit_or_complain();
                core.report_beside();
            }
        });
    }

    /// Reports in parallel to the commits, which wait for no other limiter.
    fn report_beside(self: &Rc<Self>) {
        if self.is_reporting.replace(true) {
            return;
        }
        let core = self.clone();
        self.object.wait_until(async move {
            let _reporting = FlagGuard(&core.is_reporting);
            core.report().await;
        });
    }
}

/// The answer to a look, with the open holds of the key if it has any.
pub(super) fn looked(
    table: &Table,
    check: &table::Check<'_>,
    verdict: Verdict,
    now_ms: i64,
) -> DemandOutcome {
    match table.open_holds(check.name, check.key, now_ms) {
        open if open.count == 0 => DemandOutcome::of(verdict),
        open => DemandOutcome::Looked(verdict, open),
    }
}

fn outcome_of(result: Result<Verdict, Full>) -> DemandOutcome {
    result.map_or_else(|Full| DemandOutcome::Full, DemandOutcome::of)
}

/// Decides equal demands one after the other. After a refusal the rest is refused too.
fn judge_all(times: u32, mut judge: impl FnMut() -> Verdict) -> DemandOutcome {
    let mut first = None;
    for admitted in 0..times {
        match judge() {
            verdict if verdict.is_allowed => first = first.or(Some(verdict)),
            verdict => {
                return DemandOutcome::Known {
                    admitted,
                    first,
                    refused: Some(verdict),
                };
            }
        }
    }
    DemandOutcome::Known {
        admitted: times,
        first,
        refused: None,
    }
}
