//! The calls of a root to the inboxes of its counter, and the leases of isolates that rely on its answers.
//!
//! Invariant: an inbox that has released a generation asks before it acknowledges another event, and waits for the
//! counter's lock.

use std::cell::RefCell;

use tally_core::cluster::generation_lease::RootLeases;
use tally_core::cluster::root::Root;
use tally_core::counter::bounded_map::BoundedMap;
use tally_core::counter::id::CounterId;
use tally_core::counter::queue::InboxId;
use tally_host::Host;
use tally_host::object::Object;
use tally_shared::concurrency::all_settled;
use tally_shared::{call, call_within};
use tally_wire::messages::{AskInbox, Drain, Fault, LetInboxesGo, ReleaseInbox};

/// How many inboxes are called at once for one counter.
const INBOXES_AT_ONCE: usize = 32;

/// How often a counter's inboxes are asked whether all is counted, while the counter is read.
const DRAINED_EVERY_MS: u64 = 10_000;

/// The most counters for which a partition remembers when it asked, about 100 bytes each; others wait until some are
/// forgotten.
const LOOKED_MAX: usize = 10_000;

/// How long an inbox may take for that, milliseconds: it waits 1,500 itself.
const DRAIN_MS_MAX: u64 = 1_700;

/// What a partition knows of inboxes besides its roots.
pub(crate) struct Inboxes {
    host: Host,
    object: Object,
    /// Leases of isolates that put events into a queue of the platform.
    leases: RefCell<RootLeases>,
    /// When inboxes of a counter were last asked whether they hold events of it, unix milliseconds.
    looked_for_drained: RefCell<BoundedMap<CounterId, i64, LOOKED_MAX>>,
}

impl Inboxes {
    /// A state without knowledge.
    pub(crate) fn new(host: &Host, object: Object) -> Self {
        Self {
            leases: RefCell::new(RootLeases::new(host.now_ms())),
            host: host.clone(),
            object,
            looked_for_drained: RefCell::default(),
        }
    }

    /// Records that an isolate has the current generation. The isolate relies on the answer for a limited time, so it
    /// is not notified of the end.
    pub(crate) fn lease(&self, counter: &CounterId, generation: u64) {
        let mut leases = self.leases.borrow_mut();
        leases.grant(counter, generation, self.host.now_ms());
    }

    /// Makes sure that no inbox holds acknowledged and uncounted events of a counter: they would keep it alive. An
    /// inbox that has released the generation asks before it acknowledges another event, and waits for the caller of
    /// this.
    ///
    /// # Errors
    /// `Unavailable` where one may hold some, or does not answer.
    pub(crate) async fn none_holds(&self, counter: &CounterId, root: &Root) -> Result<(), Fault> {
        let ask = |inbox: &InboxId| {
            let to = inbox.clone();
            async move {
                self.release(counter, root, &to).await?;
                let counter = counter.clone();
                call(&self.host, &AskInbox { to, counter }).await
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

    /// Checks whether the inboxes of a counter that is read still hold events of it: while they may, no default read is
    /// exact.
    pub(crate) fn look_for_drained(&self, counter: &CounterId, root: &Root) {
        let now_ms = self.host.now_ms();
        let of_sessions = InboxId::of_sessions();
        let is_held =
            |inbox: &InboxId| inbox.is_queue() && *inbox != of_sessions && !inbox.is_over(now_ms);
        if root.inboxes.iter().all(is_held) {
            return;
        }
        let mut looked = self.looked_for_drained.borrow_mut();
        let is_recent = |at_ms: &i64| now_ms.abs_diff(*at_ms) < DRAINED_EVERY_MS;
        if looked.get(counter).is_some_and(is_recent) {
            return;
        }
        looked.insert(counter.clone(), now_ms);
        let host = self.host.clone();
        let counter = counter.clone();
        self.object.wait_until(async move {
            let _ = call(&host, &LetInboxesGo { counter }).await;
        });
    }

    /// Asks the inboxes of a counter to count all that they hold of it.
    ///
    /// # Errors
    /// `Unavailable` where one fails, or takes too long.
    pub(crate) async fn drain(&self, counter: &CounterId, root: &Root) -> Result<(), Fault> {
        let drain = |inbox: &InboxId| {
            let (to, counter) = (inbox.clone(), counter.clone());
            async move {
                let drain = Drain { to, counter };
                call_within(&self.host, &drain, DRAIN_MS_MAX).await
            }
        };
        let inboxes = root.inboxes.iter().filter(|inbox| !inbox.is_queue());
        let drained = all_settled(inboxes.map(drain), INBOXES_AT_ONCE).await;
        drained.into_iter().collect()
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

    /// Makes all inboxes release a generation.
    ///
    /// # Errors
    /// `Unavailable` where one does not answer: it may still acknowledge events.
    pub(crate) async fn release_all(&self, counter: &CounterId, root: &Root) -> Result<(), Fault> {
        let inboxes = root.inboxes.iter().filter(|inbox| !inbox.is_queue());
        let release = |inbox| self.release(counter, root, inbox);
        let released = all_settled(inboxes.map(release), INBOXES_AT_ONCE).await;
        released.into_iter().collect()
    }

    /// Waits until no isolate relies on a generation any more.
    pub(crate) async fn outwait_leases(&self, counter: &CounterId, root: &Root) {
        if root.inboxes.iter().any(InboxId::is_queue) {
            let wait_ms = self.leases.borrow().wait_ms(counter, self.host.now_ms());
            let wait_ms = u64::try_from(wait_ms).unwrap_or(0);
            self.host.sleep_ms(wait_ms).await;
        }
    }
}
