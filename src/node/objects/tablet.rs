//! The Durable Object that hosts the leads of many counters: its tenants.
//!
//! Invariant: a tenant is the same cell as one that has an object of its own; only its rows lie elsewhere, and its messages to the
//! directory travel with those of others. What the calls of a batch write is one row of the log, written before any of them is
//! answered. Life of a tenant: it is read from its rows by the first call, and leaves memory when it is at rest and there is no room.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::poll_fn;
use std::rc::{Rc, Weak};
use std::task::Poll;

use futures_channel::oneshot;
use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};

use super::batch::{ANSWER_MS_MAX, arrived, check_size};
use super::cell::Core as Tenant;
use super::cell_rows::CellRows;
use super::hosted_rows::HostedRows;
use super::outbox::Outbox;
use super::readable::Readable;
use super::store::{Store, WHOLE_MAX};
use super::tablet_rows::TabletRows;
use crate::core::counter::id::{CounterId, Datacenter};
use crate::host::Host;
use crate::host::object::{Arrived, Object, Reply, Shell, reply};
use crate::node::shared::concurrency::all_settled;
use crate::protocol::messages::{
    Ask, Batch, BatchedCall, Call, Count, Fault, Flush, Sum, batch, decode, encode,
};

/// Alarms of tenants that ring at once: what they push to the directory travels together.
const RING_AT_ONCE: usize = 512;

/// How long after an alarm that failed it rings again, milliseconds: storage that cannot be read now may be read then.
const ALARM_AGAIN_MS: i64 = 60_000;

/// What is in the log longer than this is folded, milliseconds.
const FOLDED_WITHIN_MS: i64 = 60_000;

/// Where a cell is hosted.
pub(super) struct Tenancy {
    tablet: Weak<Core>,
    counter: CounterId,
    /// Its messages to the directory.
    pub(super) outbox: Rc<Outbox>,
    /// Which of its alarms rings just now.
    rings_ms: Rc<Cell<Option<i64>>>,
}

impl Tenancy {
    /// The cell leaves memory.
    pub(super) fn leave(&self) {
        if let Some(tablet) = self.tablet.upgrade() {
            tablet.tenants.borrow_mut().remove(&self.counter);
        }
    }
}

/// A tablet, as the platform sees it.
pub struct Tablet {
    core: Rc<Core>,
}

struct Core {
    host: Host,
    object: Object,
    rows: Rc<TabletRows>,
    storage: Readable,
    /// Those in memory.
    tenants: RefCell<HashMap<CounterId, Rc<Tenant>>>,
    outbox: Rc<Outbox>,
    /// Whether the alarm is set to fold the log.
    will_fold: Cell<bool>,
}

/// A call of a batch that has begun: its answer, or what is left of it.
enum Begun {
    Answered(Reply),
    /// Besides the tenant, if it may write at the end of a turn.
    UnderWay(LocalBoxFuture<'static, Reply>, Option<Rc<Tenant>>),
}

/// What is left of a call, and who waits for its answer.
type Rest = LocalBoxFuture<'static, (Reply, oneshot::Sender<Reply>)>;

impl Shell for Tablet {
    fn start(object: Object, host: Host) -> Self {
        let (rows, read) = TabletRows::open(Store::new(object.clone()));
        let core = Core {
            outbox: Outbox::new(object.clone(), host.clone()),
            host,
            object,
            rows,
            storage: Readable::default(),
            tenants: RefCell::default(),
            will_fold: Cell::new(false),
        };
        core.storage.note(read);
        Self {
            core: Rc::new(core),
        }
    }

    async fn answer(&self, arrived: Arrived) -> Reply {
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
                Ok(tenant) => tenant.answer_call(arrived).await,
                Err(fault) => refusal(&fault),
            }
        };
        core.see_to_fold();
        answered
    }

    async fn alarm(&self) -> Result<(), Fault> {
        let core = &self.core;
        let Err(fault) = core.on_alarm().await else {
            return Ok(());
        };
        core.host.fail(&format!("a tablet's alarm: {fault}"));
        // The platform rings again a few times, and then never: only where this fails too.
        core.rows.disarmed();
        core.rows.arm(core.host.now_ms() + ALARM_AGAIN_MS).await
    }
}

/// A fault as the answer of any call.
fn refusal(fault: &Fault) -> Reply {
    Reply::Answer(refusal_bytes(fault))
}

fn refusal_bytes(fault: &Fault) -> Vec<u8> {
    encode(&Err::<(), &Fault>(fault)).unwrap_or_default()
}

/// Whether a call writes nothing, or nothing but its own count, before it sends anything: so its rows may be written at the end of
/// the turn.
fn writes_before_it_sends(path: &str) -> bool {
    [Flush::PATH, Count::PATH, Ask::PATH, Sum::PATH].contains(&path)
}

/// Whether a call, also after it has waited, writes nothing before it sends anything but to the outbox, which sends after the turn.
fn counts_before_it_sends(path: &str) -> bool {
    [Flush::PATH, Count::PATH].contains(&path)
}

impl Core {
    /// Refuses while storage cannot be read.
    fn readable(&self) -> Result<(), Fault> {
        self.storage
            .check(|| self.storage.note(self.rows.read_log()))
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
        let rings_ms: Rc<Cell<Option<i64>>> = Rc::default();
        let rows = HostedRows::new(self.rows.clone(), counter.clone(), rings_ms.clone());
        let tenancy = Tenancy {
            tablet: Rc::downgrade(self),
            counter: counter.clone(),
            outbox: self.outbox.clone(),
            rings_ms,
        };
        let rows = CellRows::Hosted(rows);
        let tenant = Tenant::start(self.object.clone(), self.host.clone(), rows, Some(tenancy));
        self.tenants
            .borrow_mut()
            .insert(counter.clone(), tenant.clone());
        tenant
    }

    /// Begins all calls of a batch, those that may as one turn, and answers once they are done or it is time.
    async fn on_batch(
        self: &Rc<Self>,
        calls: Vec<BatchedCall>,
    ) -> Result<Vec<Option<Vec<u8>>>, Fault> {
        check_size(calls.len())?;
        let mut begun: Vec<Option<Begun>> = Vec::new();
        begun.resize_with(calls.len(), || None);
        let (together, apart): (Vec<_>, Vec<_>) = calls
            .into_iter()
            .enumerate()
            .partition(|(_, call)| writes_before_it_sends(&call.path));
        let mut together = Some(together);
        let mut tenants = Vec::new();
        let turned = self.rows.turn(&mut || {
            for (number, call) in together.take().into_iter().flatten() {
                let tenant = self.tenant_of(&call.message).ok();
                tenants.extend(tenant.clone());
                let counts = counts_before_it_sends(&call.path);
                let counting = tenant.clone().filter(|_| counts);
                if let Some(place) = begun.get_mut(number) {
                    *place = Some(begin(tenant, call, counting));
                }
            }
            Ok(())
        });
        if let Err(fault) = &turned {
            // Nothing of it was written. What is under way goes on from what was.
            for tenant in tenants {
                tenant.reload();
            }
            for place in begun.iter_mut().flatten() {
                if let Begun::Answered(reply) = place {
                    *reply = refusal(fault);
                }
            }
        }
        for (number, call) in apart {
            let tenant = self.tenant_of(&call.message).ok();
            if let Some(place) = begun.get_mut(number) {
                *place = Some(begin(tenant, call, None));
            }
        }
        Ok(self.answers(begun).await)
    }

    /// The answers of calls that have begun. Those that are under way still go on.
    async fn answers(self: &Rc<Self>, begun: Vec<Option<Begun>>) -> Vec<Option<Vec<u8>>> {
        let mut answers = Vec::with_capacity(begun.len());
        let mut waiting = Vec::new();
        let (mut tenants, counting) = (Vec::new(), FuturesUnordered::<Rest>::new());
        for (number, begun) in begun.into_iter().enumerate() {
            match begun {
                Some(Begun::Answered(reply)) => answers.push(Some(bytes_of(reply))),
                Some(Begun::UnderWay(rest, tenant)) => {
                    let (done, answer) = oneshot::channel();
                    match tenant {
                        Some(tenant) => {
                            tenants.push(tenant);
                            counting.push(rest.map(|reply| (reply, done)).boxed_local());
                        }
                        None => self.object.wait_until(async move {
                            // Nobody listens once the batch is answered.
                            let _ = done.send(rest.await);
                        }),
                    }
                    waiting.push((number, answer));
                    answers.push(None);
                }
                None => answers.push(None),
            }
        }
        if waiting.is_empty() {
            return answers;
        }
        if !counting.is_empty() {
            let core = self.clone();
            self.object
                .wait_until(async move { core.go_on(tenants, counting).await });
        }
        // A copy for each: once it is over, none may be polled again.
        let late = self.host.sleep_ms(ANSWER_MS_MAX).shared();
        for (number, answer) in waiting {
            let answered = futures_util::future::select(answer, late.clone()).await;
            if let futures_util::future::Either::Left((Ok(reply), _)) = answered
                && let Some(place) = answers.get_mut(number)
            {
                *place = Some(bytes_of(reply));
            }
        }
        answers
    }

    /// Goes on with calls that are under way. Those that one answer of the directory lets go on together are one turn.
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
                // Nobody listens once the batch is answered.
                let _ = done.send(refused.unwrap_or(reply));
            }
            match calls.is_empty() {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        })
        .await;
    }

    /// Has the alarm ring to fold the log, if it holds anything.
    fn see_to_fold(self: &Rc<Self>) {
        if !self.rows.is_unfolded() || self.will_fold.replace(true) {
            return;
        }
        let (core, at_ms) = (self.clone(), self.host.now_ms() + FOLDED_WITHIN_MS);
        self.object.wait_until(async move {
            if core.rows.arm(at_ms).await.is_err() {
                core.will_fold.set(false);
            }
        });
    }

    /// Lets the alarms of tenants ring that are due, folds the log, and sets the alarm anew.
    async fn on_alarm(self: &Rc<Self>) -> Result<(), Fault> {
        self.readable()?;
        self.rows.disarmed();
        let now_ms = self.host.now_ms();
        let due = self.rows.due(now_ms, RING_AT_ONCE)?;
        let ring = |(counter, at_ms): (CounterId, i64)| async move {
            let tenant = self.tenant(&counter);
            let rings = tenant.tenancy.as_ref().map(|tenancy| &tenancy.rings_ms);
            rings.inspect(|rings| rings.set(Some(at_ms)));
            // Where a tenant cannot set its next alarm, neither can what follows be written: this one fails, and rings again.
            let _ = tenant.ring().await;
            (counter, at_ms, tenant)
        };
        let rung = all_settled(due.into_iter().map(ring), RING_AT_ONCE).await;
        let noted = self.rows.turn(&mut || {
            let mut all = rung.iter();
            all.try_for_each(|(counter, at_ms, _)| self.rows.rung(counter, *at_ms))
        });
        // Only now: what a tenant sets in between is another alarm.
        for tenancy in rung
            .iter()
            .filter_map(|(.., tenant)| tenant.tenancy.as_ref())
        {
            tenancy.rings_ms.set(None);
        }
        noted?;
        self.rows.fold()?;
        self.will_fold.set(false);
        let next = self.rows.due(WHOLE_MAX, 1)?;
        match next.first() {
            Some((_, at_ms)) => self.rows.arm((*at_ms).max(now_ms + 1)).await,
            None => Ok(()),
        }
    }
}

/// Begins a call: it goes on until it must wait.
fn begin(tenant: Option<Rc<Tenant>>, call: BatchedCall, counting: Option<Rc<Tenant>>) -> Begun {
    let Some(tenant) = tenant else {
        let what = "a call of a batch names no counter".to_owned();
        return Begun::Answered(refusal(&Fault::Broken(what)));
    };
    let mut rest = async move { tenant.answer_call(arrived(call)).await }.boxed_local();
    match (&mut rest).now_or_never() {
        Some(reply) => Begun::Answered(reply),
        None => Begun::UnderWay(rest, counting),
    }
}

/// The bytes that a caller reads.
fn bytes_of(reply: Reply) -> Vec<u8> {
    let what = match reply {
        Reply::Answer(bytes) => return bytes,
        Reply::Refused(_, why) => why,
        Reply::Stream(_) | Reply::Unknown => "a batch holds a call that no cell answers".to_owned(),
    };
    refusal_bytes(&Fault::Broken(what))
}
