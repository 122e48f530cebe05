//! The Durable Object of one (counter, datacenter, shard): the platform around a
//! [`tally_core::counter::cell::CellState`], which decides.
//!
//! Invariant: across an await, memory never holds changes that storage lacks. A flush is decided and written in one
//! synchronous step, and the platform holds the answer back until the write is durable. After a failed write, memory is
//! read again from storage.

use std::rc::Rc;

use futures_util::future::LocalBoxFuture;

use super::core::CellCore;
use super::lead_role::{LeadName, moved_to};
use super::memory::Busy;
use super::store::{CellStore, LoadedCell};
use crate::kit::batch::refusal;
use tally_api::metrics::Metric;
use tally_core::counter::flush::Refusal;
use tally_core::counter::grant::{Grant, GrantOutcome};
use tally_core::counter::history::Resolution;
use tally_core::counter::merge::{Part, Question};
use tally_core::counter::nonces::Nonce;
use tally_core::counter::settings::TtlTerms;
use tally_host::dispatch;
use tally_host::object::{IncomingCall, Object, Reply, Shell};
use tally_host::{Host, State};
use tally_shared::call;
use tally_shared::metrics;
use tally_wire::messages::{
    Ask, AskGrant, Call, CallLead, Claim, Close, Configure, CountKeyed, Fault, Flush, FlushAnswer,
    Flushed, GiveLead, Hello, Install, LeadTaken, LoadReport, ReadContents, ReadNumbers, Recall,
    Register, RepairCell, ReportLead, Seal, SumDatacenter, Suspend, WatchLead,
};
use tally_wire::names::{CellAddress, SECONDS_KEPT};

/// The most requests for a grant before a flush is refused. The second request is for a generation that ended, or a
/// seal that came, while the first grant was in flight.
pub(super) const GRANT_TRIES: usize = 4;

/// The most refused flushes that a cell remembers: some 60 bytes each. A lane sends one at a time, and copies come
/// within seconds.
const REFUSED_MAX: usize = 256;

/// One cell, as the platform sees it.
pub struct CellObject {
    core: Rc<CellCore>,
}

/// How long seconds are kept by default. An isolate reads it once, because reading a variable is a call into
/// JavaScript.
struct SecondsKept(u32);

impl State for SecondsKept {
    fn begin(host: &Host) -> Self {
        Self(host.number(SECONDS_KEPT).unwrap_or(0))
    }
}

/// The name of such objects in metrics.
pub(crate) const KIND: &str = "cell";

impl CellObject {
    /// Starts the object from what is stored.
    pub fn start(object: Object, host: Host) -> Self {
        let rows = CellStore::of_object(object.clone());
        Self {
            core: CellCore::start(object, host, rows, None),
        }
    }
}

impl Shell for CellObject {
    fn answer(&self, arrived: IncomingCall) -> LocalBoxFuture<'_, Reply> {
        Box::pin(async move { self.core.answer_call(arrived).await })
    }

    fn alarm(&self) -> LocalBoxFuture<'_, Result<(), Fault>> {
        Box::pin(async move { self.core.ring().await })
    }
}

impl CellCore {
    pub(crate) async fn answer_call(self: &Rc<Self>, arrived: IncomingCall) -> Reply {
        let _busy = Busy::new(&**self);
        let reply = self.answer_here(&arrived).await;
        match moved_to(&reply) {
            None => reply,
            Some(place) => self.call_elsewhere(place, arrived).await,
        }
    }

    /// Answers a call, or names the place to which the lead has moved.
    pub(super) async fn answer_here(self: &Rc<Self>, arrived: &IncomingCall) -> Reply {
        let core = self;
        if let Err(fault) = core.locate_before(arrived).await {
            return refusal(&fault);
        }
        dispatch!(arrived, message, {
            Flush => core.on_flush(message).await,
            Recall => core.on_recall(message),
            CountKeyed => core.on_count(message).await,
            Claim => core.on_claim(message).await,
            ReadNumbers => core.on_read_numbers(message),
            ReadContents => core.on_read_contents(message),
            Install => core.on_install(message).await,
            RepairCell => core.on_repair(message).await,
            Ask => core.on_ask(message),
            SumDatacenter => core.on_sum(message).await,
            Hello => core.on_hello(message).await,
            LoadReport => core.on_report(message),
            Seal => core.on_seal(message),
            Configure => core.on_configure(message).await,
            Suspend => core.on_suspend(message).await,
            WatchLead => core.on_watch(message),
            ReportLead => core.on_report_lead(message).await,
            AskGrant => core.on_held(message),
            Close => core.on_close(message).await,
            CallLead => core.on_call_lead(message).await,
            GiveLead => core.on_give_lead(message),
            LeadTaken => core.on_lead_taken(message).await,
        })
    }

    /// Handles the alarm.
    ///
    /// # Errors
    /// `Unavailable` where the next one cannot be set.
    pub(crate) async fn ring(self: &Rc<Self>) -> Result<(), Fault> {
        let _busy = Busy::new(&**self);
        self.on_alarm().await
    }

    /// Reads the cell from its rows again, because memory holds changes that were not written.
    pub(crate) fn reload(&self) {
        {
            let mut pushing = self.pushing.borrow_mut();
            // An alarm that was set with them was not written either.
            pushing.unarm();
            // A report that was made with them has counts that were not written.
            pushing.forget();
        }
        self.keys_due_ms.set(0);
        self.adopt(self.rows.load());
    }

    /// Sends a message to the root; from a tablet together with those of other cells.
    pub(super) async fn call_root<C: Call>(&self, message: &C) -> Result<C::Answer, Fault> {
        match &self.tenancy {
            Some(tenancy) => tenancy.outbox.call(message).await,
            None => call(&self.host, message).await,
        }
    }

    pub(crate) fn adopt(&self, loaded: Result<LoadedCell, Fault>) {
        self.storage.record(loaded.map(|loaded| {
            self.lead.adopt(&loaded);
            self.state.borrow_mut().adopt(loaded.cell);
            let kept = self.host.state::<SecondsKept>().0;
            self.state.borrow_mut().keep_seconds(kept);
            self.address.replace(loaded.address);
        }));
    }

    /// Refuses while storage cannot be read, because memory may then hold uncommitted changes; and after the lead was
    /// handed to another place. It must be called after every await, before memory is used.
    ///
    /// # Errors
    /// Why storage could not be read; `Moved`.
    pub(super) fn readable(&self) -> Result<(), Fault> {
        self.loaded()?;
        self.lead.is_not_away()?;
        self.is_not_known_away()
    }

    /// Refuses while storage cannot be read, wherever the lead is.
    pub(crate) fn loaded(&self) -> Result<(), Fault> {
        self.storage.check(|| self.adopt(self.rows.load()))
    }

    /// Returns a write's outcome; after a failed one, memory is read from storage again.
    pub(super) fn written(&self, written: Result<(), Fault>) -> Result<(), Fault> {
        if written.is_err() {
            self.adopt(self.rows.load());
        }
        written
    }

    /// Writes the hot row.
    pub(super) fn save(&self) -> Result<(), Fault> {
        let written = self.rows.write_hot(&self.state.borrow());
        self.written(written)
    }

    async fn on_flush(self: &Rc<Self>, flush: Result<Flush, Fault>) -> Result<FlushAnswer, Fault> {
        let flush = flush?;
        self.readable()?;
        let outcome = self.count_granted(&flush).await;
        if let Err(fault) = &outcome
            && fault.ends_flush()
        {
            let mut refused = self.refused.borrow_mut();
            refused.truncate(REFUSED_MAX - 1);
            refused.push_front((flush.nonce, fault.clone()));
        }
        let flushed = outcome?;
        let report = match flush.wants_report {
            true => self.lend_report(&flush.to).await,
            false => None,
        };
        Ok(FlushAnswer { flushed, report })
    }

    async fn count_granted(self: &Rc<Self>, flush: &Flush) -> Result<Flushed, Fault> {
        for _ in 0..GRANT_TRIES {
            match self.commit(flush).await {
                Err(Fault::Refused(Refusal::NeedsGrant)) => {
                    self.obtain_grant(&flush.to, flush.load.ttl_if_new).await?;
                }
                outcome => return outcome,
            }
        }
        Err(Fault::Unavailable(
            "the counter is being ended and created again".to_owned(),
        ))
    }

    /// The refusal of this flush, if it had one.
    pub(super) fn refused_for(&self, nonce: Nonce) -> Option<Fault> {
        let refused = self.refused.borrow();
        let known = refused.iter().find(|(one, _)| *one == nonce);
        known.map(|(_, fault)| fault.clone())
    }

    /// Asks the root (a lead) or the lead (another shard) for permission to count. A counter that is created by this
    /// has that time to live.
    ///
    /// # Errors
    /// `Unavailable`; [`Refusal::Moved`] for a shard that writes do not spread to.
    pub(super) async fn obtain_grant(
        self: &Rc<Self>,
        me: &CellAddress,
        ttl_if_new: Option<TtlTerms>,
    ) -> Result<(), Fault> {
        let _guard = self.granting.lock().await;
        self.readable()?;
        if !self.state.borrow().needs_grant(self.host.now_ms()) {
            return Ok(());
        }
        let (mut requested_ms, mut seals) = (self.host.now_ms(), self.state.borrow().seals());
        let mut answer = self.ask_for_grant(me, ttl_if_new).await;
        // Of a shard's lead it says that the lead moves: a shard searches for no lead.
        if me.is_lead() && answer == Err(Fault::NotLocated) {
            let located = self.locate(LeadName::of(me)).await;
            located.map_err(Fault::while_moving)?;
            self.readable()?;
            if !self.state.borrow().needs_grant(self.host.now_ms()) {
                return Ok(());
            }
            (requested_ms, seals) = (self.host.now_ms(), self.state.borrow().seals());
            answer = self.ask_for_grant(me, ttl_if_new).await;
        }
        let grant = answer?;
        self.readable()?;
        if !self.state.borrow_mut().unseal(seals) {
            // Other flushes that wait for the grant see that they still need one, and ask again.
            return Ok(());
        }
        self.take_grant(me, grant, requested_ms)
    }

    /// Asks the root or the lead for a grant.
    async fn ask_for_grant(
        &self,
        me: &CellAddress,
        ttl_if_new: Option<TtlTerms>,
    ) -> Result<Grant, Fault> {
        if me.is_lead() {
            return self.register(me, ttl_if_new).await;
        }
        let hello = Hello {
            to: me.sibling(0),
            shard: me.shard,
            ttl_if_new,
        };
        call(&self.host, &hello).await
    }

    /// Lead: asks the root, and reports the grant that it holds. A grant from before a handover is void.
    async fn register(
        &self,
        me: &CellAddress,
        ttl_if_new: Option<TtlTerms>,
    ) -> Result<Grant, Fault> {
        let register = Register {
            counter: me.counter.clone(),
            datacenter: me.datacenter.clone(),
            holds: self.state.borrow().grant(),
            place: self.place(&LeadName::of(me)),
            located_epoch: self.lead.located_epoch(),
            ttl_if_new,
        };
        let handover_count = self.lead.handover_count();
        let granted = self.call_root(&register).await;
        self.lead.has_no_handover_since(handover_count)?;
        granted
    }

    /// Reports its grant to a root that has lost its row, and takes the root's new grant.
    pub(super) async fn register_again(&self, me: &CellAddress) -> Result<(), Fault> {
        let _guard = self.granting.lock().await;
        self.readable()?;
        let (seals, requested_ms) = (self.state.borrow().seals(), self.host.now_ms());
        let grant = self.register(me, None).await?;
        self.readable()?;
        if self.state.borrow().seals() != seals {
            return Ok(());
        }
        self.take_grant(me, grant, requested_ms)
    }

    /// Stores a grant that was requested at that time, in memory and in storage.
    fn take_grant(&self, me: &CellAddress, grant: Grant, requested_ms: i64) -> Result<(), Fault> {
        let (older, shards) = (self.state.borrow().generation(), self.other_shards(me));
        let taken = self.state.borrow_mut().take_grant(grant, requested_ms);
        match taken {
            GrantOutcome::Outdated => Ok(()),
            GrantOutcome::Renewed => self.save(),
            GrantOutcome::Born => self.begin(me),
            GrantOutcome::Replaced => {
                // The root has not yet sent the end of the older generation. The shards that must drop it are stored
                // until then.
                let closed = self.rows.close(older.unwrap_or(0), &shards);
                self.written(closed)?;
                self.begin(me)
            }
        }
    }

    fn begin(&self, me: &CellAddress) -> Result<(), Fault> {
        let written = self.rows.write_address(me);
        self.written(written)?;
        self.address.replace(Some(me.clone()));
        self.save()
    }

    fn on_ask(&self, ask: Result<Ask, Fault>) -> Result<Option<Part>, Fault> {
        let ask = ask?;
        self.readable()?;
        self.answer(&ask.question)
    }

    /// This cell's own part of an answer.
    pub(super) fn answer(&self, question: &Question) -> Result<Option<Part>, Fault> {
        let Some(mut part) = self.state.borrow().answer(question) else {
            return Ok(None);
        };
        if let Some(range) = question.uniques.filter(|_| !question.totals_only) {
            let open_hour = self.state.borrow().open_hour();
            part.window_uniques = self.rows.range_uniques(range, open_hour)?;
        }
        if let Some(range) = question
            .history
            .filter(|range| range.step == Resolution::Second)
            && (self.state.borrow().history().in_memory_from())
                .is_some_and(|from| range.from < from)
        {
            self.rows
                .add_seconds(&mut part.points, (range.from, range.to))?;
        }
        if let Some(range) = question.samples {
            part.samples = self.rows.window_samples(range, question.step)?;
        }
        if let Some(name) = question.breakdown {
            part.breakdown = self.rows.breakdown(&name, question.window)?;
        }
        if question.storage {
            let now = self.host.now_ms().div_euclid(1_000);
            let stored = self.rows.explained(&self.state.borrow(), now)?;
            part.storage = vec![(0, stored)];
        }
        Ok(Some(part))
    }

    /// Stops counting until it is admitted again.
    fn on_seal(&self, seal: Result<Seal, Fault>) -> Result<Option<Part>, Fault> {
        let Seal { generation, .. } = seal?;
        self.readable()?;
        self.seal(generation)
    }

    /// Seals this cell, durably.
    pub(super) fn seal(&self, generation: u64) -> Result<Option<Part>, Fault> {
        let was_sealed = self.state.borrow().is_sealed();
        let part = self.state.borrow_mut().seal(generation);
        if part.is_some() {
            self.save()?;
            if !was_sealed {
                metrics::count(&self.host, Metric::ShardSeal);
            }
        }
        Ok(part)
    }
}
