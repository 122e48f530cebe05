//! Which inboxes may have events of a counter: its root knows them, so that a strong read can ask.
//!
//! Invariants: an inbox is in the root before it acknowledges an event of that generation, and until it holds none; a generation ends
//! only after its inboxes have let it go, so that what they acknowledge from then on is of the next. A queue of
//! the platform stands there as one inbox; isolates that put events into it hold a lease of the generation.

use super::directory::Directory;
use super::directory_store::Telling;
use crate::core::cluster::root::{Entry, Root};
use crate::core::counter::id::CounterId;
use crate::core::counter::queue::InboxId;
use crate::node::shared::concurrency::all_settled;
use crate::node::shared::{call, call_within};
use crate::protocol::messages::{Drain, Fault, LetInboxesGo, MayHold, RegisterInbox, ReleaseInbox};

/// Inboxes that are called at once for one counter.
const INBOXES_AT_ONCE: usize = 32;

/// How often a counter's inboxes are asked whether they have counted all of it, while it is read.
const DRAINED_EVERY_MS: u64 = 10_000;

/// The most counters of which a partition remembers when it asked, about 100 bytes each; others wait until some are
/// forgotten.
pub(super) const LOOKED_MAX: usize = 10_000;

/// How long an inbox may take for that, milliseconds: it waits 1,500 itself.
const DRAIN_MS_MAX: u64 = 1_700;

impl Directory {
    /// An inbox is about to acknowledge events: it is recorded first. Returns the living generation.
    pub(super) async fn on_register_inbox(
        &self,
        register: Result<RegisterInbox, Fault>,
    ) -> Result<u64, Fault> {
        let RegisterInbox { counter, inbox } = register?;
        self.readable()?;
        let lock = self.lock_of(&counter);
        let _alone = lock.lock().await;
        let living = if inbox.is_queue() {
            self.living(&counter, true).await?
        } else {
            self.living_or_lost(&counter, &inbox.datacenter).await?
        };
        let mut root = match living {
            Ok(root) => root,
            Err(ended) => Root::create(ended.as_ref(), self.host.now_ms()),
        };
        let generation = root.generation;
        let is_first = root.inboxes.is_empty();
        if inbox.is_queue() {
            // Nobody is called when the generation ends: whoever asks relies on the answer for a while only.
            let mut leases = self.leases.borrow_mut();
            leases.grant(&counter, generation, self.host.now_ms());
        }
        let inbox = if inbox.is_queue() {
            InboxId::of_queue_at(self.host.now_ms())
        } else {
            inbox
        };
        if !root.inboxes.contains(&inbox) {
            if inbox.is_queue() {
                // What was accepted earlier is over sooner.
                root.inboxes.retain(|known| !known.is_queue());
            }
            root.inboxes.insert(inbox);
            if let Some(lone) = root.sole().cloned().filter(|_| is_first) {
                // Until the lone lead knows, it calls its own total exact: it must know first, and under the
                // revision that it has, as in `admit`.
                let telling = Telling::Configure;
                self.tell(&counter, &lone, telling, generation, Some(&root))
                    .await?;
            }
            root.revision += 1;
            root.last_write_ms = root.last_write_ms.max(self.host.now_ms());
            self.save(&counter, Entry::Live(root), &[]).await?;
        }
        Ok(generation)
    }

    /// Sees to it that no inbox holds events of a counter that are acknowledged and not counted: they keep it alive. An
    /// inbox that has let the generation go asks before it acknowledges another, and waits for whoever calls this.
    ///
    /// # Errors
    /// `Unavailable` where one may hold some, or does not answer.
    pub(super) async fn none_holds(&self, counter: &CounterId, root: &Root) -> Result<(), Fault> {
        let ask = |inbox: &InboxId| {
            let to = inbox.clone();
            async move {
                self.release(counter, root, &to).await?;
                let counter = counter.clone();
                call(&self.host, &MayHold { to, counter }).await
            }
        };
        let inboxes = root.inboxes.iter().filter(|inbox| !inbox.is_queue());
        for holds in all_settled(inboxes.map(ask), INBOXES_AT_ONCE).await {
            if holds? {
                let detail = "events of the counter wait to be counted, so it was not ended";
                return Err(Fault::Unavailable(detail.to_owned()));
            }
        }
        Ok(())
    }

    /// Sees whether the inboxes of a counter that is read hold events of it still: while they may, no default read is exact.
    pub(super) fn look_for_drained(&self, counter: &CounterId, root: &Root) {
        let now_ms = self.host.now_ms();
        let stays = |inbox: &InboxId| inbox.is_queue() && !inbox.is_over(now_ms);
        if root.inboxes.iter().all(stays) {
            return;
        }
        let mut looked = self.looked_for_drained.borrow_mut();
        let is_recent = |at_ms: &i64| now_ms.abs_diff(*at_ms) < DRAINED_EVERY_MS;
        if looked.get(counter).is_some_and(is_recent) {
            return;
        }
        if looked.make_room(counter, is_recent) {
            looked.insert(counter.clone(), now_ms);
        }
        let host = self.host.clone();
        let counter = counter.clone();
        self.object.wait_until(async move {
            let _ = call(&host, &LetInboxesGo { counter }).await;
        });
    }

    /// Forgets inboxes that hold none of a counter's events any more. One that has let the generation go asks before it
    /// acknowledges another, and waits for the counter's lock: so nothing comes between.
    pub(super) async fn on_let_inboxes_go(
        &self,
        let_go: Result<LetInboxesGo, Fault>,
    ) -> Result<(), Fault> {
        let LetInboxesGo { counter } = let_go?;
        self.readable()?;
        let Some(Entry::Live(root)) = self.rows.entry(&counter)? else {
            return Ok(());
        };
        // First without the lock, as it may take its time.
        for drained in self.drain_inboxes(&counter, &root).await {
            drained?;
        }
        let lock = self.lock_of(&counter);
        let _alone = lock.lock().await;
        let Some(Entry::Live(mut root)) = self.rows.entry(&counter)? else {
            return Ok(());
        };
        let inboxes = root.inboxes.iter().filter(|inbox| !inbox.is_queue());
        let tell = |inbox| self.release(&counter, &root, inbox);
        for told in all_settled(inboxes.map(tell), INBOXES_AT_ONCE).await {
            told?;
        }
        for drained in self.drain_inboxes(&counter, &root).await {
            drained?;
        }
        let now_ms = self.host.now_ms();
        (root.inboxes).retain(|inbox| inbox.is_queue() && !inbox.is_over(now_ms));
        root.revision += 1;
        let generation = root.generation;
        self.save(&counter, Entry::Live(root.clone()), &[]).await?;
        if let Some(lone) = root.sole().cloned() {
            // Until it knows, its answers to writes are not called exact: nothing else depends on it.
            let told = self.tell(&counter, &lone, Telling::Configure, generation, Some(&root));
            let _ = told.await;
        }
        Ok(())
    }

    async fn drain_inboxes(&self, counter: &CounterId, root: &Root) -> Vec<Result<(), Fault>> {
        let drain = |inbox: &InboxId| {
            let (to, counter) = (inbox.clone(), counter.clone());
            async move {
                let drain = Drain { to, counter };
                call_within(&self.host, &drain, DRAIN_MS_MAX).await
            }
        };
        let inboxes = root.inboxes.iter().filter(|inbox| !inbox.is_queue());
        all_settled(inboxes.map(drain), INBOXES_AT_ONCE).await
    }

    async fn release(
        &self,
        counter: &CounterId,
        root: &Root,
        inbox: &InboxId,
    ) -> Result<(), Fault> {
        let release = ReleaseInbox {
            to: inbox.clone(),
            counter: counter.clone(),
            generation: root.generation,
        };
        call(&self.host, &release).await
    }

    /// Lets all inboxes forget a generation.
    ///
    /// # Errors
    /// `Unavailable` where one does not answer: it may still acknowledge events.
    pub(super) async fn release_inboxes(
        &self,
        counter: &CounterId,
        root: &Root,
    ) -> Result<(), Fault> {
        let inboxes = root.inboxes.iter().filter(|inbox| !inbox.is_queue());
        let tell = |inbox| self.release(counter, root, inbox);
        for told in all_settled(inboxes.map(tell), INBOXES_AT_ONCE).await {
            told?;
        }
        if root.inboxes.iter().any(InboxId::is_queue) {
            let wait_ms = self.leases.borrow().wait_ms(counter, self.host.now_ms());
            let wait_ms = u64::try_from(wait_ms).unwrap_or(0);
            self.host.sleep_ms(wait_ms).await;
        }
        Ok(())
    }
}
