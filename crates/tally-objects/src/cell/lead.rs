//! The duties of a lead besides counting: it sums its datacenter, grants its shards permission to count, and passes
//! settings and endings on to them.
//!
//! Invariant: the lead has durably recorded a shard before that shard counts anything, so a sum over the shards that
//! the lead knows is complete.

use std::cell::RefCell;
use std::rc::Rc;

use super::core::CellCore;
use super::object::GRANT_TRIES;
use tally_core::counter::grant::Grant;
use tally_core::counter::merge::{Part, Question, ShardReadTrace};
use tally_core::counter::settings::SHARDS_MAX;
use tally_core::isolate::open_slots::ObjectUser;
use tally_core::order::in_order;
use tally_shared::concurrency::all_settled;
use tally_shared::open_objects;
use tally_wire::messages::{
    Ask, AskGrant, Close, Configure, Fault, Hello, Seal, SumDatacenter, Suspend,
};
use tally_wire::names::CellAddress;

/// How long a shard may take to answer, milliseconds: less than the 3 s that its lead has, so that one shard does not
/// remove its whole datacenter from a read.
const ASK_MS_MAX: u64 = 2_000;

/// The shards that are called at once: all of them.
const SHARDS_AT_ONCE: usize = 64;

/// The called shards with their latencies, if an explanation was requested.
type ShardTrace<'a> = Option<&'a RefCell<Vec<ShardReadTrace>>>;

fn record(trace: ShardTrace<'_>, shard: u8, latency_ms: Option<u64>, is_sealed: bool) {
    if let Some(trace) = trace {
        trace.borrow_mut().push(ShardReadTrace {
            shard,
            latency_ms,
            is_sealed,
        });
    }
}

impl CellCore {
    /// Answers a shard that asks whether it may count.
    pub(super) async fn on_hello(
        self: &Rc<Self>,
        hello: Result<Hello, Fault>,
    ) -> Result<Grant, Fault> {
        let Hello {
            to,
            shard,
            ttl_if_new,
        } = hello?;
        self.readable()?;
        if shard == 0 || shard >= SHARDS_MAX {
            return Err(Fault::Broken(format!("there is no shard {shard}")));
        }
        for _ in 0..GRANT_TRIES {
            if !self.state.borrow().needs_grant(self.host.now_ms()) {
                return self.grant_shard(shard);
            }
            self.obtain_grant(&to, ttl_if_new).await?;
        }
        Err(Fault::Unavailable(
            "the counter is being ended and created again".to_owned(),
        ))
    }

    fn grant_shard(&self, shard: u8) -> Result<Grant, Fault> {
        let admission = self
            .state
            .borrow_mut()
            .admit(shard)
            .map_err(Fault::Refused)?;
        if admission.was_sealed {
            let written = self.rows.write_sealed(&self.state.borrow(), shard);
            self.written(written)?;
        } else if admission.is_new {
            self.save()?;
        }
        Ok(admission.grant)
    }

    /// Sums the datacenter: this cell and every shard that ever existed in this generation.
    pub(super) async fn on_sum(
        &self,
        message: Result<SumDatacenter, Fault>,
    ) -> Result<Part, Fault> {
        let message = message?;
        if !message.explains {
            return self.sum(message, None).await;
        }
        let shards = RefCell::default();
        let mut sum = self.sum(message, Some(&shards)).await?;
        let in_turn = |one: &ShardReadTrace, other: &ShardReadTrace| one.shard.cmp(&other.shard);
        sum.trace = in_order(shards.into_inner(), in_turn);
        Ok(sum)
    }

    /// Sums the datacenter, and adds the called shards to `trace`, if there is one.
    async fn sum(&self, sum: SumDatacenter, trace: ShardTrace<'_>) -> Result<Part, Fault> {
        let SumDatacenter { to, question, .. } = sum;
        self.readable()?;
        match self.state.borrow().generation() {
            Some(own) if own > question.generation => {
                return Err(Fault::Superseded(own));
            }
            Some(own) if own == question.generation => {}
            // The generation ended after the root was read. Counts of it in other cells must not be summed.
            _ if self.state.borrow().has_ended(question.generation) => {
                return Err(Fault::Superseded(question.generation));
            }
            // This cell has no generation yet, or has not received the end of an earlier one: it adds nothing.
            _ => return Ok(Part::default()),
        }
        // First the list of shards to ask, then this cell's own totals: both in one turn.
        let (kept, targets) = self.sealed_and_targets(&question);
        let ask = |shard: u8| self.ask_shard(to.sibling(shard), question, trace);
        let others = targets.into_iter().map(ask);
        let own = self.answer(&question)?;
        let mut datacenter = Part {
            shards: self.state.borrow().spread(),
            ..Part::default()
        };
        if let Some(own) = own {
            datacenter.add(own);
        }
        for (shard, part) in kept {
            record(trace, shard, None, true);
            datacenter.add(part.of_shard(shard));
        }
        let mut missing = Vec::new();
        for (shard, answer) in all_settled(others, SHARDS_AT_ONCE).await {
            match answer {
                Ok(Some(part)) => datacenter.add(part.of_shard(shard)),
                // A shard that never counted in this generation adds nothing.
                Ok(None) => {}
                Err(fault @ Fault::Unreadable(_)) => return Err(fault),
                Err(_) => missing.push(shard),
            }
        }
        datacenter.cells = in_order(datacenter.cells, |one, other| one.0.cmp(&other.0));
        datacenter.missing = missing;
        Ok(datacenter)
    }

    /// Asks a shard, and records its latency.
    async fn ask_shard(
        &self,
        to: CellAddress,
        question: Question,
        trace: ShardTrace<'_>,
    ) -> (u8, Result<Option<Part>, Fault>) {
        let shard = to.shard;
        let begun_ms = trace.map(|_| self.host.now_ms());
        let ask = Ask { to, question };
        let answer =
            open_objects::call_admitted(&self.host, &ask, ObjectUser::Bulk, ASK_MS_MAX).await;
        if let Some(begun_ms) = begun_ms {
            let latency_ms = self.host.now_ms().saturating_sub(begun_ms);
            let latency_ms = Some(u64::try_from(latency_ms).unwrap_or(0));
            let is_sealed = self.state.borrow().sealed_part(shard).is_some();
            record(trace, shard, latency_ms, is_sealed);
        }
        (shard, answer)
    }

    /// The parts of sealed shards that this lead stores, and the shards that must be asked. A question about times goes
    /// to sealed shards too, because the stored parts are only totals.
    fn sealed_and_targets(&self, question: &Question) -> (Vec<(u8, Part)>, Vec<u8>) {
        let state = self.state.borrow();
        let mut kept = Vec::new();
        let mut targets = Vec::new();
        for shard in 1..state.shards_ever() {
            match state.sealed_part(shard) {
                Some(part) if !question.is_about_times() => {
                    kept.extend(part.map(|part| (shard, part.clone())));
                }
                _ => targets.push(shard),
            }
        }
        (kept, targets)
    }

    /// Answers a root without a row, which asks for the grant of this cell.
    pub(super) fn on_held(&self, held: Result<AskGrant, Fault>) -> Result<Option<Grant>, Fault> {
        held?;
        self.readable()?;
        Ok(self.state.borrow().grant())
    }

    /// Stops this cell and its shards because the counter is about to end: they count nothing until the root has sent a
    /// new grant.
    pub(super) async fn on_suspend(&self, suspend: Result<Suspend, Fault>) -> Result<(), Fault> {
        let Suspend { to, generation } = suspend?;
        self.readable()?;
        if self.seal(generation)?.is_none() {
            return Ok(());
        }
        let seal = |shard: u8| {
            let to = to.sibling(shard);
            async move {
                let seal = Seal { to, generation };
                open_objects::call_open(&self.host, &seal).await.map(|_| ())
            }
        };
        let shards_ever = self.state.borrow().shards_ever();
        all_settled((1..shards_ever).map(seal), SHARDS_AT_ONCE)
            .await
            .into_iter()
            .collect()
    }

    /// Takes a changed grant: settings have changed, or another datacenter counts now.
    pub(super) async fn on_configure(
        &self,
        configure: Result<Configure, Fault>,
    ) -> Result<(), Fault> {
        let Configure { to, grant } = configure?;
        self.readable()?;
        if self.state.borrow().generation() != Some(grant.generation) {
            // A cell without a generation receives the settings with its grant. A grant in flight may have older
            // settings, so it is requested again. Ended cells need no settings.
            self.state.borrow_mut().void_grants();
            return Ok(());
        }
        self.state.borrow_mut().configure(grant);
        self.save()?;
        if !to.is_lead() {
            return Ok(());
        }
        let shards_ever = self.state.borrow().shards_ever();
        let grant = Grant {
            alone: false,
            is_home: false,
            spread: self.state.borrow().spread(),
            ..grant
        };
        let configure_shard = |shard: u8| {
            let to = to.sibling(shard);
            async move { open_objects::call_open(&self.host, &Configure { to, grant }).await }
        };
        all_settled((1..shards_ever).map(configure_shard), SHARDS_AT_ONCE)
            .await
            .into_iter()
            .collect()
    }

    /// Deletes an ended generation here and in every shard, including storage.
    pub(super) async fn on_close(&self, close: Result<Close, Fault>) -> Result<(), Fault> {
        let Close { to, generation } = close?;
        // Otherwise the former place could keep a copy that is taken over later.
        self.confirm_taken().await?;
        self.readable()?;
        let shards = self.other_shards(&to);
        if self.state.borrow_mut().close(generation) {
            let stored = self.rows.close(generation, &shards);
            self.written(stored)?;
        }
        let outcome = self.close_shards(&to).await;
        // While the shards were closed, another generation may have begun. Or writes of a generation that counts
        // elsewhere may have been struck out here.
        self.readable()?;
        if outcome.is_ok() && self.state.borrow().is_blank() {
            self.lead.set(None);
            self.address.take();
            // Its alarm is deleted with the rows, and the next generation sets its own.
            self.pushing.borrow_mut().unarm();
            let deleted = self.rows.delete_all().await;
            self.written(deleted)?;
        }
        outcome
    }

    /// The other shards that may have rows of this cell's generation: all that ever existed, if this is the lead.
    pub(super) fn other_shards(&self, me: &CellAddress) -> Vec<u8> {
        let shards_ever = self.state.borrow().shards_ever();
        (1..shards_ever).filter(|_| me.is_lead()).collect()
    }

    /// Closes the shards that still hold an ended generation. Shards that cannot be reached stay in the list of shards
    /// to close.
    async fn close_shards(&self, me: &CellAddress) -> Result<(), Fault> {
        let close_shard = |(shard, generation): (u8, u64)| {
            let to = me.sibling(shard);
            async move {
                let close = Close { to, generation };
                (shard, open_objects::call_open(&self.host, &close).await)
            }
        };
        let mut outcome = Ok(());
        for (shard, answer) in all_settled(
            self.rows.closing()?.into_iter().map(close_shard),
            SHARDS_AT_ONCE,
        )
        .await
        {
            match answer {
                Ok(()) => self.rows.closed(shard)?,
                Err(fault) => outcome = Err(fault),
            }
        }
        outcome
    }
}
