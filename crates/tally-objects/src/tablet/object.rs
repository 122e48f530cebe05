//! The Durable Object that hosts the leads of many counters: its tenants.
//!
//! Invariant: a tenant is the same cell as one with an object of its own; only its rows are stored elsewhere, and its
//! messages to the directory are joined with those of others. The writes of a batch's calls are one row of the log,
//! written before any of them is answered. Life of a tenant: the first call reads it from its rows, and it leaves
//! memory when it is idle and there is no room.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use futures_channel::oneshot;
use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};

use super::hosted_rows::{HostedRows, TenantAlarm};
use super::rows::TabletRows;
use super::tenancy::{Tenancy, Tenants};
use crate::cell::core::CellCore as Tenant;
use crate::cell::store::CellStore;
use crate::kit::alarm_turns;
use crate::kit::batch::{ANSWER_MS_MAX, Answers, arrived, bytes_of, check_size, refusal};
use crate::kit::outbox::Outbox;
use crate::kit::storage_guard::StorageGuard;
use crate::kit::store::Store;
use tally_core::cluster::push::TOGETHER;
use tally_core::counter::id::{CounterId, Datacenter};
use tally_host::Host;
use tally_host::object::{IncomingCall, Object, Reply, Shell, reply};
use tally_shared::concurrency::all_settled;
use tally_wire::messages::{
    Ask, Batch, BatchedCall, Call, Close, CountKeyed, Fault, Flush, ReadContents, SumDatacenter,
    Suspend, batch, decode,
};

/// The most alarms of tenants that ring at once.
const RING_AT_ONCE: usize = TOGETHER.1;

/// The most tenants that are woken together: one statement reads their rows.
const WOKEN_AT_ONCE: usize = 96;

/// How long after a failed alarm it rings again, milliseconds: storage may be readable then.
const ALARM_AGAIN_MS: i64 = 60_000;

/// The shortest time until then, milliseconds, if something has become due.
const ALARM_SOONEST_MS: i64 = 1_000;

/// The longest time that rows stay in the log before it is folded, milliseconds.
const FOLDED_WITHIN_MS: i64 = 60_000;

/// A tablet, as the platform sees it.
pub struct Tablet {
    core: Rc<TabletCore>,
}

struct TabletCore {
    host: Host,
    object: Object,
    rows: Rc<TabletRows>,
    storage: StorageGuard,
    /// The tenants in memory.
    tenants: RefCell<HashMap<CounterId, Rc<Tenant>>>,
    outbox: Rc<Outbox>,
    /// When the log is folded, unix milliseconds; `None` while it is empty, or since a restart.
    fold_at_ms: Cell<Option<i64>>,
    /// Its number, once it is known.
    number: Rc<Cell<Option<u32>>>,
}

/// A call of a batch that has begun: its answer, or the rest of it.
enum StartedCall {
    Answered(Reply),
    /// With the tenant, if its writes may be made at the end of a turn.
    Pending(LocalBoxFuture<'static, Reply>, Option<Rc<Tenant>>),
}

/// The rest of a call, and the receiver of its answer.
type Rest = LocalBoxFuture<'static, (Reply, oneshot::Sender<Reply>)>;

impl Tablet {
    /// Starts the object from what is stored.
    pub fn start(object: Object, host: Host) -> Self {
        let (rows, read) = TabletRows::open(Store::new(object.clone()));
        let core = TabletCore {
            outbox: Outbox::new(object.clone(), host.clone(), usize::MAX),
            host,
            object,
            rows,
            storage: StorageGuard::default(),
            tenants: RefCell::default(),
            fold_at_ms: Cell::new(None),
            number: Rc::default(),
        };
        core.storage.record(read);
        Self {
            core: Rc::new(core),
        }
    }
}

impl Shell for Tablet {
    fn answer(&self, arrived: IncomingCall) -> LocalBoxFuture<'_, Reply> {
        Box::pin(async move {
            let core = &self.core;
            if let Err(fault) = core.readable() {
                return refusal(&fault);
            }
            let answered = if arrived.path == Batch::PATH {
                let answers = match decode::<Batch>(&arrived.message) {
                    Ok(batch) => core.on_batch(batch.calls).await,
                    Err(fault) => Err(fault),
                };
                reply::<Batch>(&answers)
            } else {
                match core.tenant_of(&arrived.message) {
                    Ok(tenant) if counts_before_it_sends(&arrived.path) => {
                        core.count_alone(&tenant, arrived).await
                    }
                    Ok(tenant) => tenant.answer_call(arrived).await,
                    Err(fault) => refusal(&fault),
                }
            };
            core.see_to_fold();
            answered
        })
    }

    fn reload(&self) {
        let core = &self.core;
        match core.storage.check(|| {}) {
            // Memory has the content of the log. If it cannot be written now, the next fold writes it.
            Ok(()) => drop(core.rows.fold()),
            // No call was answered, so there are no tenants.
            Err(_) => core.storage.record(core.rows.read_log()),
        }
    }

    fn alarm(&self) -> LocalBoxFuture<'_, Result<(), Fault>> {
        Box::pin(async move {
            let core = &self.core;
            let Err(fault) = core.on_alarm().await else {
                return Ok(());
            };
            core.host.fail(&format!("a tablet's alarm: {fault}"));
            // The platform repeats a failing alarm a few times only; this matters only where this one fails too.
            let now_ms = core.host.now_ms();
            // Alarms that have become due meanwhile wait for a shorter time.
            let due_ms = core.rows.rung().unwrap_or(i64::MAX);
            let again_ms = due_ms.clamp(now_ms + ALARM_SOONEST_MS, now_ms + ALARM_AGAIN_MS);
            core.rows.arm(again_ms).await
        })
    }
}

/// Whether messages of a call may leave before its writes are durable: then its rows may be written at the end of the
/// turn. Shards may be sealed, or receive an end that is durable at the root, before their lead.
fn writes_before_it_sends(path: &str) -> bool {
    [
        Flush::PATH,
        CountKeyed::PATH,
        Ask::PATH,
        SumDatacenter::PATH,
        ReadContents::PATH,
        Suspend::PATH,
        Close::PATH,
    ]
    .contains(&path)
}

/// Whether a call, also after an await, writes before it sends anything, except to the outbox, which sends after the
/// turn.
fn counts_before_it_sends(path: &str) -> bool {
    [Flush::PATH, CountKeyed::PATH].contains(&path)
}

impl Tenants for TabletCore {
    fn leave(&self, counter: &CounterId) {
        self.tenants.borrow_mut().remove(counter);
    }
}

impl TabletCore {
    /// Refuses while storage cannot be read.
    fn readable(&self) -> Result<(), Fault> {
        self.storage
            .check(|| self.storage.record(self.rows.read_log()))
    }

    /// The tenant that a message is for. Every message to a cell begins with the counter and the datacenter.
    fn tenant_of(self: &Rc<Self>, message: &[u8]) -> Result<Rc<Tenant>, Fault> {
        let (counter, _) = batch::prefix::<(CounterId, Datacenter)>(message)?;
        Ok(self.tenant(&counter))
    }

    fn tenant(self: &Rc<Self>, counter: &CounterId) -> Rc<Tenant> {
        if let Some(tenant) = self.tenants.borrow().get(counter) {
            return tenant.clone();
        }
        let alarm: Rc<TenantAlarm> = Rc::default();
        let rows = HostedRows::new(self.rows.clone(), counter.clone(), alarm.clone());
        let tablet = Rc::downgrade(self);
        let tenancy = Tenancy {
            tablet,
            counter: counter.clone(),
            outbox: self.outbox.clone(),
            alarm,
            number: self.number.clone(),
        };
        let rows = CellStore::of_tenant(rows);
        let tenant = Tenant::start(self.object.clone(), self.host.clone(), rows, Some(tenancy));
        self.tenants
            .borrow_mut()
            .insert(counter.clone(), tenant.clone());
        tenant
    }

    /// Reads the rows of these tenants, except of those in memory. The caller wakes them in this turn.
    fn read_ahead<'a>(&self, counters: impl Iterator<Item = &'a CounterId>) -> Result<(), Fault> {
        let asleep: Vec<CounterId> = {
            let tenants = self.tenants.borrow();
            let asleep = counters.filter(|counter| !tenants.contains_key(counter));
            asleep.cloned().collect()
        };
        if asleep.is_empty() {
            return Ok(());
        }
        self.rows.read_ahead(&asleep)
    }

    /// Begins all calls of a batch, as one turn where possible, and answers once they have ended or the time is over.
    async fn on_batch(
        self: &Rc<Self>,
        calls: Vec<BatchedCall>,
    ) -> Result<Vec<Option<Vec<u8>>>, Fault> {
        check_size(calls.len())?;
        let mut begun: Vec<Option<StartedCall>> = Vec::new();
        begun.resize_with(calls.len(), || None);
        let (together, apart): (Vec<_>, Vec<_>) = calls
            .into_iter()
            .enumerate()
            .partition(|(_, call)| writes_before_it_sends(&call.path));
        let mut together = together.into_iter().peekable();
        let mut tenants = Vec::new();
        let turned = self.rows.turn(&mut || {
            while together.peek().is_some() {
                let some: Vec<_> = together.by_ref().take(WOKEN_AT_ONCE).collect();
                let whose = |call: &BatchedCall| {
                    let prefix = batch::prefix::<(CounterId, Datacenter)>(&call.message);
                    prefix.ok().map(|(counter, _)| counter)
                };
                let counters: Vec<_> = some.iter().map(|(_, call)| whose(call)).collect();
                self.read_ahead(counters.iter().flatten())?;
                for ((number, call), counter) in some.into_iter().zip(counters) {
                    let tenant = counter.map(|counter| self.tenant(&counter));
                    tenants.extend(tenant.clone());
                    let counts = counts_before_it_sends(&call.path);
                    let counting = tenant.clone().filter(|_| counts);
                    if let Some(started) = begun.get_mut(number) {
                        *started = Some(begin(tenant, call, counting));
                    }
                }
            }
            Ok(())
        });
        self.rows.forget_ahead();
        if let Err(fault) = &turned {
            // None of the writes was stored. Calls in progress continue from the stored state.
            for tenant in tenants {
                tenant.reload();
            }
            for started in begun.iter_mut().flatten() {
                match started {
                    // It has written nothing yet.
                    StartedCall::Pending(_, Some(_)) => {}
                    StartedCall::Answered(_) | StartedCall::Pending(_, None) => {
                        *started = StartedCall::Answered(refusal(fault));
                    }
                }
            }
        }
        for (number, call) in apart {
            let tenant = self.tenant_of(&call.message).ok();
            if let Some(started) = begun.get_mut(number) {
                *started = Some(begin(tenant, call, None));
            }
        }
        Ok(self.answers(begun).await)
    }

    /// The answers of calls that have begun. Those in progress continue.
    async fn answers(self: &Rc<Self>, begun: Vec<Option<StartedCall>>) -> Vec<Option<Vec<u8>>> {
        let mut answers = Answers::new(begun.len());
        let mut waiting = Vec::new();
        let (mut tenants, counting) = (Vec::new(), FuturesUnordered::<Rest>::new());
        for (number, begun) in begun.into_iter().enumerate() {
            match begun {
                Some(StartedCall::Answered(reply)) => answers.put(number, bytes_of(reply)),
                Some(StartedCall::Pending(rest, tenant)) => {
                    let (done, answer) = oneshot::channel();
                    match tenant {
                        Some(tenant) => {
                            tenants.push(tenant);
                            counting.push(rest.map(|reply| (reply, done)).boxed_local());
                        }
                        None => self.object.wait_until(async move {
                            // There is no receiver once the batch is answered.
                            let _ = done.send(rest.await);
                        }),
                    }
                    waiting.push((number, answer));
                }
                None => {}
            }
        }
        if waiting.is_empty() {
            return answers.into_bodies();
        }
        if !counting.is_empty() {
            let core = self.clone();
            self.object
                .wait_until(async move { core.go_on(tenants, counting).await });
        }
        // Each call has a copy, because a finished timer must not be polled again.
        let late = self.host.sleep_ms(ANSWER_MS_MAX).shared();
        for (number, answer) in waiting {
            let answered = futures_util::future::select(answer, late.clone()).await;
            if let futures_util::future::Either::Left((Ok(reply), _)) = answered {
                answers.put(number, bytes_of(reply));
            }
        }
        answers.into_bodies()
    }

    /// Answers a call that counts. As in a batch, its writes between two awaits are one row of the log.
    async fn count_alone(&self, tenant: &Rc<Tenant>, arrived: IncomingCall) -> Reply {
        let mut answer = pin!(tenant.answer_call(arrived));
        poll_fn(|context| {
            let mut reply = Poll::Pending;
            let turned = self.rows.turn(&mut || {
                reply = answer.as_mut().poll(context);
                Ok(())
            });
            let Err(fault) = turned else {
                return reply;
            };
            tenant.reload();
            reply.map(|_| refusal(&fault))
        })
        .await
    }

    /// Continues calls in progress. Calls that one answer of the directory resumes together are one turn.
    async fn go_on(&self, tenants: Vec<Rc<Tenant>>, mut calls: FuturesUnordered<Rest>) {
        poll_fn(|context| {
            let mut ended = Vec::new();
            let turned = self.rows.turn(&mut || {
                while let Poll::Ready(Some(one)) = calls.poll_next_unpin(context) {
                    ended.push(one);
                }
                Ok(())
            });
            if turned.is_err() {
                for tenant in &tenants {
                    tenant.reload();
                }
            }
            for (reply, done) in ended {
                let refused = turned.as_ref().err().map(refusal);
                // There is no receiver once the batch is answered.
                let _ = done.send(refused.unwrap_or(reply));
            }
            match calls.is_empty() {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        })
        .await;
    }

    /// Makes the alarm ring to fold the log, if it is not empty.
    fn see_to_fold(self: &Rc<Self>) {
        if !self.rows.is_unfolded() || self.fold_at_ms.get().is_some() {
            return;
        }
        let at_ms = self.host.now_ms() + FOLDED_WITHIN_MS;
        self.fold_at_ms.set(Some(at_ms));
        if self.rows.must_arm(at_ms) {
            let core = self.clone();
            self.object.wait_until(async move {
                if core.rows.set_armed(at_ms).await.is_err() {
                    core.fold_at_ms.set(None);
                }
            });
        }
    }

    /// Handles the alarm: rings the due alarms of tenants, folds the log if it is time, and sets the alarm again.
    async fn on_alarm(self: &Rc<Self>) -> Result<(), Fault> {
        self.readable()?;
        self.rows.rings();
        let _turn = alarm_turns::turn(&self.host).await;
        self.readable()?;
        let now_ms = self.host.now_ms();
        let mut due_alarms = self.rows.next_alarms(RING_AT_ONCE + 1)?;
        let ringing = due_alarms.partition_point(|(_, at_ms)| *at_ms <= now_ms);
        let later = due_alarms.split_off(ringing.min(RING_AT_ONCE));
        self.ring(due_alarms).await?;
        // After a restart the age of the log is unknown.
        if self.rows.is_unfolded() && self.fold_at_ms.get().is_none_or(|at_ms| at_ms <= now_ms) {
            self.rows.fold()?;
            self.fold_at_ms.set(None);
        }
        let next = later.first().map(|(_, at_ms)| *at_ms);
        let set_ms = self.rows.rung();
        match [next, set_ms, self.fold_at_ms.get()]
            .into_iter()
            .flatten()
            .min()
        {
            Some(at_ms) => self.rows.arm(at_ms.max(now_ms + 1)).await,
            None => Ok(()),
        }
    }

    /// Rings alarms of tenants.
    async fn ring(self: &Rc<Self>, due_alarms: Vec<(CounterId, i64)>) -> Result<(), Fault> {
        for some in due_alarms.chunks(WOKEN_AT_ONCE) {
            self.read_ahead(some.iter().map(|(counter, _)| counter))?;
            for (counter, _) in some {
                self.tenant(counter);
            }
        }
        self.rows.forget_ahead();
        let ring = |(counter, at_ms): (CounterId, i64)| async move {
            let tenant = self.tenant(&counter);
            let alarm = tenant.tenancy.as_ref().map(|tenancy| &tenancy.alarm);
            alarm.inspect(|alarm| alarm.rings_ms.set(Some(at_ms)));
            // If a tenant cannot set its next alarm, the following writes fail as well: then this alarm fails, and
            // rings again.
            let _ = tenant.ring().await;
            (counter, at_ms, tenant)
        };
        let rung = all_settled(due_alarms.into_iter().map(ring), RING_AT_ONCE).await;
        let alarms = || {
            rung.iter()
                .filter_map(|(counter, at_ms, tenant)| {
                    Some((counter, *at_ms, tenant.tenancy.as_ref()?))
                })
                .map(|(counter, at_ms, tenancy)| (counter, at_ms, &tenancy.alarm))
        };
        // One row has the new alarms of all tenants. A tenant may have set a new alarm in place of the one that has
        // rung.
        let written = self.rows.turn(&mut || {
            let mut rung = alarms().filter(|(.., alarm)| alarm.rings_ms.get().is_some());
            rung.try_for_each(|(counter, at_ms, alarm)| {
                let next = alarm.set_ms.get().filter(|set_ms| *set_ms != at_ms);
                self.rows.put_alarm(counter, next)
            })
        });
        for (_, at_ms, alarm) in alarms() {
            if written.is_ok() && alarm.set_ms.get() == Some(at_ms) {
                alarm.set_ms.set(None);
            }
            alarm.rings_ms.set(None);
        }
        written
    }
}

/// Begins a call: it runs until it must wait.
fn begin(
    tenant: Option<Rc<Tenant>>,
    call: BatchedCall,
    counting: Option<Rc<Tenant>>,
) -> StartedCall {
    let Some(tenant) = tenant else {
        let what = "a call of a batch names no counter".to_owned();
        return StartedCall::Answered(refusal(&Fault::Broken(what)));
    };
    let mut rest = async move { tenant.answer_call(arrived(call)).await }.boxed_local();
    match (&mut rest).now_or_never() {
        Some(reply) => StartedCall::Answered(reply),
        None => StartedCall::Pending(rest, counting),
    }
}
