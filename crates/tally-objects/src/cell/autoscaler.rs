//! The load of a cell, and the reactions to it. A cell tells lanes how long to gather. A shard reports its load to its
//! lead. The lead doubles, halves and seals shards.

use std::rc::Rc;

use super::core::CellCore;
use super::lead_role::LeadRole;
use tally_api::metrics::Metric;
use tally_core::counter::autoscale::{self, Rate, ShardStep};
use tally_shared::call;
use tally_shared::concurrency::all_settled;
use tally_shared::fleet;
use tally_shared::metrics;
use tally_shared::open_objects;
use tally_wire::messages::{Fault, Flush, LoadReport, Seal};
use tally_wire::names::CellAddress;

/// The intervals of reports to the lead, milliseconds: of a busy shard, and of a quiet one that still gets flushes.
const REPORT_EVERY_MS: (i64, i64) = (1_000, 10_000);

/// The shards that are sealed at once: as many as there can be.
const SHARDS_AT_ONCE: usize = 64;

/// How long a lead waits before it repeats the sealing of a shard that did not answer, milliseconds.
const RESEAL_MS: i64 = 1_000;

/// How long a lead that has moved waits before it confirms again to a former place that did not answer, milliseconds.
const CONFIRM_MS: i64 = 10_000;

/// How long after an alarm that found storage unreadable the next one rings, milliseconds.
const UNREADABLE_MS: i64 = 60_000;

impl CellCore {
    /// Records a flush, and reacts to the load. Returns how long the lane should gather.
    pub(super) fn record_flush(self: &Rc<Self>, flush: &Flush, lanes: u32, now_ms: i64) -> u32 {
        let rate = self.record_load(&flush.to, flush.load.writes, now_ms);
        // A counter that can be split leaves its tablet by a split.
        if !self.state.borrow().spreads_by_load() {
            self.see_to_heat(&flush.to, rate.flushes, now_ms);
        }
        autoscale::linger_ms(rate, lanes)
    }

    /// Records a flush of keyed writes, as [`CellCore::record_flush`].
    pub(super) fn record_writes(self: &Rc<Self>, me: &CellAddress, writes: usize, now_ms: i64) {
        let rate = self.record_load(me, u32::try_from(writes).unwrap_or(u32::MAX), now_ms);
        self.see_to_heat(me, rate.flushes, now_ms);
    }

    fn record_load(self: &Rc<Self>, me: &CellAddress, writes: u32, now_ms: i64) -> Rate {
        let rate = {
            let mut balance = self.balance.borrow_mut();
            balance.meter.record(writes, now_ms);
            balance.meter.per_second(now_ms)
        };
        let shards = self.state.borrow().spread();
        fleet::wrote(
            &self.host,
            &me.counter,
            &me.datacenter,
            shards,
            writes,
            now_ms,
        );
        let per_second = rate.flushes;
        if me.is_lead() {
            self.merge_load(per_second, now_ms);
        } else {
            self.report(me, per_second, now_ms);
        }
        rate
    }

    /// Lead: merges the load of one of its cells, and changes the number of shards if needed.
    fn merge_load(self: &Rc<Self>, per_second: u32, now_ms: i64) {
        {
            let mut balance = self.balance.borrow_mut();
            let thresholds = balance.thresholds;
            balance.loads.merge(per_second, thresholds, now_ms);
        }
        self.choose_spread(now_ms);
        self.seal_what_is_left();
    }

    /// Lead: doubles or halves the number of shards, if the load requires it.
    fn choose_spread(self: &Rc<Self>, now_ms: i64) {
        let spread = self.state.borrow().spread();
        let step = {
            let balance = self.balance.borrow();
            let by_load = self.state.borrow().spreads_by_load();
            let step = balance.loads.decide(spread, balance.thresholds, now_ms);
            if by_load { step } else { ShardStep::Keep }
        };
        let wanted = match step {
            ShardStep::Double => spread.saturating_mul(2),
            ShardStep::Halve => spread / 2,
            ShardStep::Keep => spread,
        };
        if wanted != spread {
            self.balance.borrow_mut().loads.changed(now_ms);
            self.state.borrow_mut().spread_over(wanted);
            // A failed write has restored the old number with the rest of the state.
            if self.save().is_ok() {
                if wanted > spread {
                    metrics::count(&self.host, Metric::ShardSplit);
                }
                if wanted > 1 {
                    self.arm(self.balance.borrow().thresholds.quiet_ms);
                }
            }
        }
    }

    fn arm(self: &Rc<Self>, in_ms: i64) {
        self.arm_at(self.host.now_ms() + in_ms);
    }

    /// Sets the alarm to ring at that time, unix milliseconds, or before.
    pub(super) fn arm_at(self: &Rc<Self>, at_ms: i64) {
        let Some(at_ms) = self.rows.rows.begin_alarm(at_ms) else {
            return;
        };
        let core = self.clone();
        self.object.wait_until(async move {
            let _ = core.rows.rows.finish_alarm(at_ms).await;
        });
    }

    /// Lead: seals the shards over which writes are no longer spread.
    pub(super) fn seal_what_is_left(self: &Rc<Self>) {
        let left = self.state.borrow().to_seal();
        let me = self.address.borrow().clone();
        let (Some(me), false) = (me, left.is_empty()) else {
            return;
        };
        if std::mem::replace(&mut self.balance.borrow_mut().is_sealing, true) {
            return;
        }
        let core = self.clone();
        self.object.wait_until(async move {
            let is_done = core.seal_shards(&me, left).await;
            core.balance.borrow_mut().is_sealing = false;
            if !is_done {
                core.arm(RESEAL_MS);
            }
        });
    }

    async fn seal_shards(&self, me: &CellAddress, shards: Vec<(u8, u64)>) -> bool {
        let Some(generation) = self.state.borrow().generation() else {
            return true;
        };
        let seal = |(shard, admissions): (u8, u64)| {
            let to = me.sibling(shard);
            async move {
                let sealed = open_objects::call_open(&self.host, &Seal { to, generation }).await;
                (shard, admissions, sealed)
            }
        };
        let mut is_done = true;
        for (shard, admissions, sealed) in
            all_settled(shards.into_iter().map(seal), SHARDS_AT_ONCE).await
        {
            let Ok(part) = sealed else {
                is_done = false;
                continue;
            };
            let is_readable = self.readable().is_ok();
            is_done &= is_readable;
            let is_current = is_readable && self.state.borrow().generation() == Some(generation);
            if is_current && self.state.borrow_mut().keep_sealed(shard, part, admissions) {
                let written = self.rows.write_sealed(&self.state.borrow(), shard);
                is_done &= self.written(written).is_ok();
            }
        }
        is_done
    }

    /// Shard: reports its load to the lead. The answer has the number of shards.
    fn report(self: &Rc<Self>, me: &CellAddress, per_second: u32, now_ms: i64) {
        let (busy_ms, quiet_ms) = REPORT_EVERY_MS;
        {
            let mut balance = self.balance.borrow_mut();
            let is_busy = balance.thresholds.is_busy(per_second);
            let every_ms = if is_busy {
                busy_ms.min(balance.thresholds.quiet_ms)
            } else {
                quiet_ms
            };
            if now_ms.saturating_sub(balance.reported_ms) < every_ms {
                return;
            }
            balance.reported_ms = now_ms;
        }
        let (core, to) = (self.clone(), me.sibling(0));
        self.object.wait_until(async move {
            let report = LoadReport { to, per_second };
            if let Ok(shards) = call(&core.host, &report).await {
                core.state.borrow_mut().set_spread(shards);
            }
        });
    }

    /// Lead: receives the load report of a shard.
    pub(super) fn on_report(
        self: &Rc<Self>,
        report: Result<LoadReport, Fault>,
    ) -> Result<u8, Fault> {
        let LoadReport { per_second, .. } = report?;
        self.readable()?;
        self.merge_load(per_second, self.host.now_ms());
        self.record_change(self.host.now_ms());
        Ok(self.state.borrow().spread())
    }

    /// Does what is due, and sets the alarm again for work that could not be done.
    ///
    /// # Errors
    /// `Unavailable` where the next alarm cannot be set: the platform then repeats this one a few times.
    pub(super) async fn on_alarm(self: &Rc<Self>) -> Result<(), Fault> {
        let Err(fault) = self.do_what_is_due().await else {
            return Ok(());
        };
        self.host.fail(&format!("a cell's alarm: {fault}"));
        // The failure of storage may be temporary.
        self.arm_in(UNREADABLE_MS).await
    }

    /// Lead: checks whether the load has ended, because a counter without writes has no flushes at which to notice it.
    async fn do_what_is_due(self: &Rc<Self>) -> Result<(), Fault> {
        self.loaded()?;
        if self.lead_role() != LeadRole::Here {
            return Ok(());
        }
        if self.confirm_taken().await.is_err() {
            self.arm_in(CONFIRM_MS).await?;
        }
        self.readable()?;
        // Rows that cannot be deleted now are deleted before the next keyed write.
        let _ = self.let_records_go(self.host.now_ms());
        let due_ms = self.state.borrow().records_due_ms();
        if let Some(due_ms) = due_ms {
            self.rows.set_alarm(due_ms).await?;
        }
        if let Some(due_ms) = self.forget_keys(self.host.now_ms())? {
            self.rows.set_alarm(due_ms).await?;
        }
        self.push_from_alarm().await;
        self.readable()?;
        self.choose_spread(self.host.now_ms());
        let left = self.state.borrow().to_seal();
        let me = self.address.borrow().clone();
        if let Some(me) = me.filter(|_| !left.is_empty()) {
            // Within the alarm, so that the object is not stopped before the end.
            self.seal_shards(&me, left).await;
        }
        let (is_sealed, is_spread) = {
            let state = self.state.borrow();
            let is_spread = state.spreads_by_load() && state.spread() > 1;
            (state.to_seal().is_empty(), is_spread)
        };
        let quiet_ms = self.balance.borrow().thresholds.quiet_ms;
        match (is_sealed, is_spread) {
            (false, _) => self.arm_in(RESEAL_MS).await?,
            (true, true) => self.arm_in(quiet_ms).await?,
            (true, false) => {}
        }
        // This comes last, because the lead may be elsewhere afterwards.
        self.see_to_rest().await
    }

    async fn arm_in(&self, in_ms: i64) -> Result<(), Fault> {
        self.rows.set_alarm(self.host.now_ms() + in_ms).await
    }
}
