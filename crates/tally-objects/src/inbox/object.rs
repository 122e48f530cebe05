//! The Durable Object of one inbox: events are acknowledged at once and counted soon after.
//!
//! Invariants: an append is acknowledged only when its row is durable and the root of each of its counters knows this
//! inbox, so that a strong read finds it. A repeated append is logged once. While anything is not counted, the alarm is
//! set.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

use futures_util::future::LocalBoxFuture;

use super::sending::Sending;
use super::store::InboxStore;
use crate::kit::storage_guard::StorageGuard;
use crate::kit::store::Store;
use tally_core::counter::cell::STAMP_CLAMP_SECONDS;
use tally_core::counter::id::CounterId;
use tally_core::counter::numbered_writes::WriteNumbers;
use tally_core::counter::queue::deferred_writes::DeferredWrites;
use tally_core::counter::queue::inbox::{AppendOutcome, DrainWait, InboxState};
use tally_core::counter::queue::{APPEND_ENTRIES_MAX, InboxId, LOG_ROWS_MAX, LogRow};
use tally_host::Host;
use tally_host::dispatch;
use tally_host::object::{IncomingCall, Object, Reply, Shell};
use tally_shared::call;
use tally_shared::concurrency::all_settled;
use tally_wire::messages::{
    Append, AppendResult, AskInbox, DeadLetters, Drain, Fault, ReadDead, RegisterInbox,
    ReleaseInbox, TakeOver,
};

/// How long after an append the alarm rings at the latest, milliseconds, in case the counting was interrupted.
const ALARM_MS: i64 = 5_000;

/// The roots that are called at once for the counters of one append.
const ROOTS_AT_ONCE: usize = 16;

/// The most attempts to register the counters of an append, if they are released meanwhile.
const REGISTER_TRIES: usize = 3;

/// How long a strong read waits here, milliseconds: with 3 s for the leads it stays below the 5 s of a call.
const DRAIN_MS_MAX: i64 = 1_500;

/// The interval of its checks, milliseconds.
const LOOK_EVERY_MS: u64 = 5;

/// One inbox, as the platform sees it.
pub struct Inbox {
    core: Rc<InboxCore>,
}

/// One inbox.
pub(super) struct InboxCore {
    pub(super) host: Host,
    pub(super) object: Object,
    pub(super) rows: InboxStore,
    pub(super) head: RefCell<InboxState>,
    pub(super) sending: RefCell<Sending>,
    /// Writes that could not be counted yet, once read.
    pub(super) deferred: RefCell<Option<DeferredWrites>>,
    /// The numbers of this inbox's writes: its lane is that of this incarnation.
    pub(super) numbering: RefCell<WriteNumbers>,
    /// Whether batches are being made.
    pub(super) is_gathering: Cell<bool>,
    /// When the last batch was made, unix milliseconds.
    pub(super) begun_ms: Cell<i64>,
    /// The time of the alarm, unix milliseconds; 0 if not known.
    armed_ms: Cell<i64>,
    /// When the backlog was last reported, unix milliseconds; `None` if an empty backlog need not be reported.
    pub(super) reported_ms: Cell<Option<i64>>,
    /// How often a root withdrew a generation: its earlier answer may still be in flight.
    releases: Cell<u64>,
    storage: StorageGuard,
}

impl Inbox {
    /// Starts the object from what is stored.
    pub fn start(object: Object, host: Host) -> Self {
        let core = InboxCore {
            rows: InboxStore::new(Store::new(object.clone())),
            object,
            head: RefCell::default(),
            sending: RefCell::new(Sending::new(&host)),
            host,
            deferred: RefCell::default(),
            numbering: RefCell::default(),
            is_gathering: Cell::default(),
            begun_ms: Cell::new(0),
            armed_ms: Cell::new(0),
            reported_ms: Cell::default(),
            releases: Cell::new(0),
            storage: StorageGuard::default(),
        };
        core.reload();
        Self {
            core: Rc::new(core),
        }
    }
}

impl Shell for Inbox {
    fn answer(&self, arrived: IncomingCall) -> LocalBoxFuture<'_, Reply> {
        Box::pin(async move {
            let core = &self.core;
            dispatch!(&arrived, message, {
                Append => core.on_append(message).await,
                TakeOver => core.on_take_over(message).await,
                Drain => core.on_drain(message).await,
                ReleaseInbox => core.on_release(message),
                AskInbox => core.on_may_hold(message),
                ReadDead => core.on_read_dead(message),
            })
        })
    }

    fn reload(&self) {
        self.core.reload();
    }

    fn alarm(&self) -> LocalBoxFuture<'_, Result<(), Fault>> {
        Box::pin(async move { self.core.on_alarm().await })
    }
}

impl InboxCore {
    /// Reads memory from storage.
    fn reload(&self) {
        let loaded = self.rows.load();
        self.storage.record(loaded.map(|head| {
            self.head.replace(head);
        }));
    }

    /// Refuses while storage cannot be read.
    pub(crate) fn readable(&self) -> Result<(), Fault> {
        self.storage.check(|| self.reload())
    }

    async fn on_append(
        self: &Rc<Self>,
        append: Result<Append, Fault>,
    ) -> Result<AppendResult, Fault> {
        let Append { to, nonce, events } = append?;
        self.readable()?;
        if events.len() > APPEND_ENTRIES_MAX {
            return Err(Fault::Broken("an append has too many events".to_owned()));
        }
        self.put_name(&to)?;
        for _ in 0..REGISTER_TRIES {
            self.register(&events.iter().map(|event| &event.counter).collect())
                .await?;
            self.arm(ALARM_MS).await?;
            // There is no await from here on, so the looked-up state is still valid at the write.
            let mut logged = Vec::with_capacity(events.len());
            for event in &events {
                let Some(generation) = self.rows.generation_of(&event.counter)? else {
                    break;
                };
                logged.push((generation, event.clone()));
            }
            if logged.len() < events.len() || !self.is_armed(self.host.now_ms() + ALARM_MS) {
                continue;
            }
            let now_ms = self.host.now_ms();
            let admission = self.head.borrow().admit(nonce, now_ms, LOG_ROWS_MAX);
            let seq = match admission {
                AppendOutcome::New(seq) => seq,
                AppendOutcome::Repeated => return Ok(AppendResult::Logged),
                AppendOutcome::Stray => return Err(Fault::Broken("a stray append".to_owned())),
                AppendOutcome::Full => return Ok(AppendResult::Full),
            };
            let now = now_ms.div_euclid(1_000);
            for (_, event) in &mut logged {
                let (earliest, latest) = (now - STAMP_CLAMP_SECONDS, now + STAMP_CLAMP_SECONDS);
                event.second = event.second.clamp(earliest, latest);
            }
            let row = LogRow {
                nonce,
                at_ms: now_ms,
                events: logged,
            };
            let nonces = self.head.borrow().nonces_with(nonce, seq, now_ms);
            self.rows.log(seq, &row, nonces.as_ref())?;
            self.head.borrow_mut().logged(nonce, seq, now_ms);
            self.go();
            return Ok(AppendResult::Logged);
        }
        Err(Fault::Unavailable(
            "a counter is being ended and created again".to_owned(),
        ))
    }

    /// Stores the name of this inbox.
    pub(super) fn put_name(&self, me: &InboxId) -> Result<(), Fault> {
        if self.head.borrow().me.as_ref() != Some(me) {
            self.rows.put_me(me)?;
            self.head.borrow_mut().me = Some(me.clone());
        }
        Ok(())
    }

    /// Registers this inbox with the roots of counters that do not know it. A generation that was withdrawn while its
    /// answer was in flight is not stored, so the caller asks again.
    async fn register(&self, counters: &BTreeSet<&CounterId>) -> Result<(), Fault> {
        let me = self.head.borrow().me.clone();
        let Some(me) = me else { return Ok(()) };
        let mut unknown = Vec::new();
        for counter in counters {
            if self.rows.generation_of(counter)?.is_none() {
                unknown.push(RegisterInbox {
                    counter: (*counter).clone(),
                    inbox: me.clone(),
                });
            }
        }
        let ask = |register: RegisterInbox| async move {
            let releases = self.releases.get();
            let generation = call(&self.host, &register).await?;
            if self.releases.get() == releases {
                self.rows.put_generation(&register.counter, generation)?;
            }
            Ok::<(), Fault>(())
        };
        for registered in all_settled(unknown.into_iter().map(ask), ROOTS_AT_ONCE).await {
            registered?;
        }
        Ok(())
    }

    fn is_armed(&self, by_ms: i64) -> bool {
        let armed_ms = self.armed_ms.get();
        armed_ms != 0 && armed_ms <= by_ms
    }

    /// Sets the alarm to `in_ms` from now, unless it rings before.
    pub(super) async fn arm(&self, in_ms: i64) -> Result<(), Fault> {
        let by_ms = self.host.now_ms() + in_ms;
        if !self.is_armed(by_ms) {
            self.rows.store().set_alarm_by(by_ms).await?;
            self.armed_ms.set(by_ms);
        }
        Ok(())
    }

    /// Sets the next alarm first, while anything is left.
    ///
    /// # Errors
    /// `Unavailable` where no alarm can be set: the platform repeats this one a few times.
    async fn on_alarm(self: &Rc<Self>) -> Result<(), Fault> {
        self.armed_ms.set(0);
        if let Err(fault) = self.readable() {
            self.host.fail(&format!("an inbox's alarm: {fault}"));
            // The failure of storage may be temporary.
            return self.arm(ALARM_MS).await;
        }
        let armed = match self.rows.next_due_ms() {
            Ok(0) if self.head.borrow().is_empty() => return Ok(()),
            Ok(due_ms) if self.head.borrow().is_empty() => {
                self.arm((due_ms - self.host.now_ms()).max(ALARM_MS)).await
            }
            _ => self.arm(ALARM_MS).await,
        };
        self.gather_all().await;
        armed
    }

    /// Waits until all events of a counter that were acknowledged before the call are counted.
    async fn on_drain(self: &Rc<Self>, drain: Result<Drain, Fault>) -> Result<(), Fault> {
        let Drain { counter, .. } = drain?;
        self.readable()?;
        let begun_ms = self.host.now_ms();
        let mut draining = DrainWait::new(&self.head.borrow());
        self.rows.hurry(begun_ms)?;
        self.go();
        loop {
            let horizon = draining.horizon(&self.head.borrow());
            if let Some(horizon) = horizon
                && !self.rows.holds(horizon, &counter)?
            {
                return Ok(());
            }
            if self.host.now_ms() - begun_ms > DRAIN_MS_MAX {
                return Err(Fault::Unavailable("events wait to be counted".to_owned()));
            }
            self.host.sleep_ms(LOOK_EVERY_MS).await;
        }
    }

    fn on_release(&self, release: Result<ReleaseInbox, Fault>) -> Result<(), Fault> {
        let ReleaseInbox {
            counter,
            generation,
            ..
        } = release?;
        self.readable()?;
        self.releases.set(self.releases.get() + 1);
        match self.rows.generation_of(&counter)? {
            Some(known) if known <= generation => self.rows.forget(&counter),
            _ => Ok(()),
        }
    }

    fn on_may_hold(&self, may_hold: Result<AskInbox, Fault>) -> Result<bool, Fault> {
        let AskInbox { counter, .. } = may_hold?;
        self.readable()?;
        let head = self.head.borrow();
        Ok(!head.is_empty() || self.rows.holds(head.batch, &counter)?)
    }

    fn on_read_dead(&self, read: Result<ReadDead, Fault>) -> Result<DeadLetters, Fault> {
        let ReadDead { limit, .. } = read?;
        self.readable()?;
        self.rows.dead(limit)
    }
}
