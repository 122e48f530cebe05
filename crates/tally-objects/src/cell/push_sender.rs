//! Pushes of a lead to its root with the counts of its datacenter: often while the counter is watched elsewhere,
//! otherwise at most once a minute.
//!
//! Invariant: a push is state, collected from all cells of the datacenter, so a lost, late or repeated push is
//! harmless. No acknowledgement waits for a push.

use std::rc::Rc;

use futures_channel::oneshot;

use super::core::CellCore;
use tally_api::metrics::Metric;
use tally_core::cluster::push::{CHECKPOINT_MS, PUSH_MS, Push, PushAnswer};
use tally_core::cluster::view::{DatacenterState, View};
use tally_core::counter::flush::Refusal;
use tally_core::counter::merge::Question;
use tally_host::Host;
use tally_shared::{fleet, metrics};
use tally_wire::fleet::GaugeKind;
use tally_wire::messages::{
    Fault, PushView, ReportLead, SumDatacenter, Suspend, WatchLead, encode,
};
use tally_wire::names::CellAddress;

/// The shortest time until the alarm rings for a push.
const ALARM_MS_MIN: i64 = 1_000;

/// How long a watched lead waits at least after a push. Without any wait the clock would not advance, and a push that
/// stayed due would be sent until the memory is full.
const TURN_MS_MIN: u64 = 1;

impl CellCore {
    /// Lead: records that the counts of its datacenter have changed, or may have.
    pub(super) fn record_change(self: &Rc<Self>, now_ms: i64) {
        let Some(generation) = self.led_generation() else {
            return;
        };
        let mut pushing = self.pushing.borrow_mut();
        pushing.is_reported = false;
        pushing.of(&self.host, generation).changed(now_ms);
        drop(pushing);
        self.see_to_pushes(now_ms);
    }

    /// Its generation, if it is a lead that counts. Called with every commit, so nothing is copied.
    fn led_generation(&self) -> Option<u64> {
        let generation = self.state.borrow().generation()?;
        let me = self.address.borrow();
        me.as_ref()
            .is_some_and(CellAddress::is_lead)
            .then_some(generation)
    }

    /// Its address and generation.
    fn as_lead(&self) -> Option<(CellAddress, u64)> {
        let generation = self.led_generation()?;
        let me = self.address.borrow().clone();
        me.map(|me| (me, generation))
    }

    /// Lead: handles the message that the counter is watched elsewhere.
    pub(super) fn on_watch(self: &Rc<Self>, watch: Result<WatchLead, Fault>) -> Result<(), Fault> {
        let watch = watch?;
        self.readable()?;
        if let Some((_, generation)) = self.as_lead().filter(|(_, own)| *own == watch.generation) {
            let now_ms = self.host.now_ms();
            let mut pushing = self.pushing.borrow_mut();
            pushing
                .of(&self.host, generation)
                .watch(now_ms, watch.for_ms);
            drop(pushing);
            self.see_to_pushes(now_ms);
        }
        Ok(())
    }

    /// Lead: the report that a flush asked for. Other shards do not report each flush, so none where there are any.
    pub(super) async fn lend_report(self: &Rc<Self>, cell: &CellAddress) -> Option<PushView> {
        let has_shards = self.state.borrow().shards_ever() > 1;
        self.readable().ok()?;
        let (me, generation) = self.as_lead().filter(|(me, _)| me == cell && !has_shards)?;
        self.lend(me, generation).await
    }

    /// A push of the present state for an edge to send, if it may send it.
    async fn lend(self: &Rc<Self>, me: CellAddress, generation: u64) -> Option<PushView> {
        let state = self.gather(&me, generation).await?;
        let push = {
            let mut pushing = self.pushing.borrow_mut();
            let pusher = pushing.of(&self.host, generation);
            pusher.lend(self.host.now_ms(), &state)
        };
        self.see_to_pushes(self.host.now_ms());
        let push = self.push_of(me, push, true);
        push.is_lendable().then_some(push)
    }

    /// Lead: gives the edge the push of what the root has not confirmed. If the edge cannot send it, pushes, and waits
    /// for the root's answer. A push that is lost is repeated as any other, but not before this answer. A repeated call
    /// waits for the report in flight.
    pub(super) async fn on_report_lead(
        self: &Rc<Self>,
        report: Result<ReportLead, Fault>,
    ) -> Result<Option<PushView>, Fault> {
        let wants_push = report?.wants_push;
        let _one = self.reporting.lock().await;
        self.readable()?;
        let Some((me, generation)) = self.as_lead() else {
            return Ok(None);
        };
        if !self.has_report(generation) {
            return Ok(None);
        }
        if wants_push && let Some(push) = self.lend(me.clone(), generation).await {
            return Ok(Some(push));
        }
        self.pushing.borrow_mut().is_reported = true;
        if let Some(state) = self.gather(&me, generation).await {
            let push = {
                let mut pushing = self.pushing.borrow_mut();
                let pusher = pushing.of(&self.host, generation);
                pusher.report(self.host.now_ms(), &state)
            };
            self.clone().send_push(self.push_of(me, push, true)).await;
        }
        let mut pushing = self.pushing.borrow_mut();
        let pusher = pushing.of(&self.host, generation);
        let lacks = pusher.has_news() || pusher.is_unconfirmed();
        pushing.is_reported &= !lacks;
        Ok(None)
    }

    /// Whether the root's rows may lack something. Shards do not report each flush. The root has pushes of a watched
    /// counter in memory only.
    fn has_report(&self, generation: u64) -> bool {
        let now_ms = self.host.now_ms();
        let has_shards = self.state.borrow().spread() > 1;
        let mut pushing = self.pushing.borrow_mut();
        let is_reported = pushing.is_reported;
        let pusher = pushing.of(&self.host, generation);
        let may_lack = pusher.has_news() || pusher.is_unconfirmed() || pusher.is_watched(now_ms);
        has_shards || may_lack && !is_reported
    }

    fn push_of(&self, me: CellAddress, push: Push, is_report: bool) -> PushView {
        PushView {
            counter: me.counter,
            datacenter: me.datacenter,
            push,
            newest_count_ms: self.state.borrow().newest_count_ms(),
            is_report,
        }
    }

    /// Makes sure that the next push is sent when it is due: by the present loop, by a new loop while the counter is
    /// watched, or by the alarm.
    fn see_to_pushes(self: &Rc<Self>, now_ms: i64) {
        self.see_to_pushes_in(now_ms, ALARM_MS_MIN);
    }

    /// As [`CellCore::see_to_pushes`]; the alarm rings in `alarm_ms_min` at the earliest.
    fn see_to_pushes_in(self: &Rc<Self>, now_ms: i64, alarm_ms_min: i64) {
        let mut pushing = self.pushing.borrow_mut();
        if pushing.is_driven {
            // The next push may be due sooner now.
            if let Some(wake) = pushing.wake.take() {
                let _ = wake.send(());
            }
            drop(pushing);
            return self.arm_for_restart(now_ms);
        }
        // Its generation has ended: nothing is pushed of it any more.
        if pushing.pusher.as_ref().map(|(own, _)| *own) != self.led_generation() {
            pushing.pusher = None;
        }
        let Some((_, pusher)) = pushing.pusher.as_ref() else {
            return;
        };
        if pusher.is_watched(now_ms) && pusher.due_ms(now_ms).is_some() {
            pushing.is_driven = true;
            let core = self.clone();
            self.object
                .wait_until(async move { core.push_while_watched().await });
            drop(pushing);
            return self.arm_for_restart(now_ms);
        }
        let Some(due_ms) = pusher.due_ms(now_ms) else {
            return;
        };
        // A push that could not be sent now is not repeated at once.
        let due_ms = due_ms.max(now_ms.saturating_add(alarm_ms_min));
        if pushing.armed_ms < now_ms || pushing.armed_ms > due_ms {
            pushing.armed_ms = due_ms;
            drop(pushing);
            self.arm_at(due_ms);
        }
    }

    /// While the counter is watched, the root has pushes in memory only, and the loop is in memory too: if both crash,
    /// the alarm pushes again.
    fn arm_for_restart(self: &Rc<Self>, now_ms: i64) {
        let mut pushing = self.pushing.borrow_mut();
        if pushing.armed_ms < now_ms {
            let due_ms = now_ms.saturating_add(CHECKPOINT_MS);
            pushing.armed_ms = due_ms;
            drop(pushing);
            self.arm_at(due_ms);
        }
    }

    async fn push_while_watched(self: Rc<Self>) {
        while let Some(due_ms) = self.next_watched_push() {
            let now_ms = self.host.now_ms();
            if due_ms > now_ms {
                let (wake, woken) = oneshot::channel();
                self.pushing.borrow_mut().wake = Some(wake);
                let wait_ms = u64::try_from(due_ms - now_ms).unwrap_or(1);
                self.host.within_ms(wait_ms, woken).await;
                continue;
            }
            // Pushes are not awaited: a lost one must not delay the next by its timeout.
            let wait_ms = match self.gather_push(now_ms).await {
                Some(push) => {
                    let core = self.clone();
                    self.object
                        .wait_until(async move { core.send_push(push).await });
                    TURN_MS_MIN
                }
                None => u64::try_from(PUSH_MS).unwrap_or(1),
            };
            self.host.sleep_ms(wait_ms).await;
        }
        self.pushing.borrow_mut().is_driven = false;
        self.see_to_pushes(self.host.now_ms());
    }

    /// When the next push is due; `None` once the counter is not watched any more.
    fn next_watched_push(&self) -> Option<i64> {
        let now_ms = self.host.now_ms();
        let (_, generation) = self.as_lead()?;
        let has_shards = self.state.borrow().spread() > 1;
        let mut pushing = self.pushing.borrow_mut();
        let pusher = pushing.of(&self.host, generation);
        if has_shards {
            // Shards do not report each flush, so they are asked.
            pusher.changed(now_ms);
        }
        pusher.due_ms(now_ms).filter(|_| pusher.is_watched(now_ms))
    }

    /// The due push.
    async fn gather_push(&self, now_ms: i64) -> Option<PushView> {
        let (me, generation) = self.as_lead()?;
        let wants_state = self
            .pushing
            .borrow_mut()
            .of(&self.host, generation)
            .wants_state(now_ms);
        let state = if wants_state {
            Some(self.gather(&me, generation).await?)
        } else {
            None
        };
        let push = self
            .pushing
            .borrow_mut()
            .of(&self.host, generation)
            .take(now_ms, state.as_ref())?;
        Some(self.push_of(me, push, false))
    }

    /// The counts of the datacenter, of the shards that answer.
    async fn gather(&self, me: &CellAddress, generation: u64) -> Option<View> {
        let now_ms = self.host.now_ms();
        let as_of_ms = self
            .pushing
            .borrow_mut()
            .of(&self.host, generation)
            .as_of_ms(now_ms);
        let sum = SumDatacenter::new(me.clone(), Question::plain(generation));
        let sum = self.on_sum(Ok(sum)).await.ok()?;
        Some(View::of(DatacenterState {
            generation,
            datacenter: &me.datacenter,
            cells: &sum.cells,
            // The present counts of shards that do not answer are unknown.
            as_of_ms: if sum.missing.is_empty() { as_of_ms } else { 0 },
            facts: sum.facts,
            uniques: sum.uniques,
        }))
    }

    /// Sends a push. If the root answers with its digests of unique elements, sends the missing ones too.
    async fn send_push(self: Rc<Self>, push: PushView) {
        let mut next = Some(push);
        while let Some(push) = next {
            next = self.send_one_push(push).await;
        }
    }

    /// Returns the push that the root asks for.
    async fn send_one_push(self: &Rc<Self>, push: PushView) -> Option<PushView> {
        count_push(&self.host, &push);
        let answer = self.call_root(&push).await;
        let now_ms = self.host.now_ms();
        self.measure_push(&push, now_ms);
        match answer {
            Ok(pushed) => {
                if self.confirm_push(now_ms, &pushed)
                    && let Some(push) = self.gather_push(now_ms).await
                {
                    return Some(push);
                }
                self.see_to_pushes(self.host.now_ms());
            }
            // The root has lost its row: the lead reports its grant again.
            Err(Fault::Refused(Refusal::NeedsGrant)) => {
                if let Some((me, _)) = self.as_lead()
                    && self.register_again(&me).await == Err(Fault::NotLocated)
                {
                    self.move_on(&me).await;
                }
            }
            Err(Fault::Superseded(_)) => self.stop_counting(push.push.delta.generation).await,
            Err(_) => self.see_to_pushes(now_ms),
        }
        None
    }

    /// Records how long the oldest change had waited when its push was answered, or was not.
    fn measure_push(&self, push: &PushView, now_ms: i64) {
        let mut pushing = self.pushing.borrow_mut();
        let pusher = pushing.of(&self.host, push.push.delta.generation);
        let waited_ms = pusher.unreported_for_ms(now_ms);
        let name = push.datacenter.as_str().to_owned();
        fleet::gauge(&self.host, GaugeKind::Unreported, name, waited_ms);
    }

    /// Takes the root's answer. Returns whether the root waits for unique elements.
    fn confirm_push(&self, now_ms: i64, answer: &PushAnswer) -> bool {
        let Some((_, generation)) = self.as_lead() else {
            return false;
        };
        let mut pushing = self.pushing.borrow_mut();
        let pusher = pushing.of(&self.host, generation);
        pusher.confirmed(now_ms, answer);
        pusher.is_requested()
    }

    /// Lead: its generation is over, although no message to drop it has come yet. Sums would lack writes that it
    /// acknowledged from now on, so it and its shards stop counting until they have asked the root.
    async fn stop_counting(&self, generation: u64) {
        let Some((to, _)) = self.as_lead().filter(|(_, own)| *own == generation) else {
            return;
        };
        if self
            .on_suspend(Ok(Suspend { to, generation }))
            .await
            .is_ok()
        {
            self.pushing.borrow_mut().pusher = None;
        }
    }

    /// Lead: sends a due push, from its alarm. After a restart it does not know the root's state.
    pub(super) async fn push_from_alarm(self: &Rc<Self>) {
        let Some((_, generation)) = self.as_lead() else {
            return;
        };
        let now_ms = self.host.now_ms();
        {
            let mut pushing = self.pushing.borrow_mut();
            pushing.armed_ms = 0;
            if pushing.pusher.is_none() {
                let since_ms = now_ms.saturating_sub(CHECKPOINT_MS);
                pushing.of(&self.host, generation).changed(since_ms);
            }
        }
        match self.gather_push(now_ms).await {
            Some(push) => {
                self.clone().send_push(push).await;
                self.see_to_pushes(now_ms);
            }
            // The counter is still being written.
            None => {
                let again_ms = {
                    let mut pushing = self.pushing.borrow_mut();
                    let pusher = pushing.of(&self.host, generation);
                    pusher.check_again_in_ms(now_ms).max(ALARM_MS_MIN)
                };
                self.see_to_pushes_in(now_ms, again_ms);
            }
        }
    }
}

/// Counts a push and its size.
fn count_push(host: &Host, push: &PushView) {
    let bytes = encode(push).map_or(0, |bytes| u64::try_from(bytes.len()).unwrap_or(u64::MAX));
    let (pushes, pushed_bytes) = if push.push.watched_for_ms > 0 {
        (Metric::PushWatched, Metric::PushBytesWatched)
    } else {
        (Metric::PushCheckpoint, Metric::PushBytesCheckpoint)
    };
    metrics::count(host, pushes);
    metrics::add(host, pushed_bytes, bytes);
}
