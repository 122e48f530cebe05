//! The inboxes that may have events of a counter: its root stores them, so that a strong read can ask them.
//!
//! Invariants: an inbox is in the root before it acknowledges an event of that generation, and until it holds none. A
//! generation ends only after its inboxes have released it, so that later acknowledgements belong to the next. A queue
//! of the platform is stored as one inbox, see [`super::sender_sessions`]; isolates that put events into it hold a
//! lease of the generation.

use std::rc::Rc;

use super::sender_sessions::Senders;
use crate::directory::duty_store::LeadNotice;
use crate::directory::inboxes::Inboxes;
use crate::directory::roots::Roots;
use crate::kit::store::Store;
use tally_core::cluster::root::{Root, RootEntry};
use tally_core::counter::id::CounterId;
use tally_core::counter::queue::InboxId;
use tally_host::Host;
use tally_wire::messages::{CloseSession, Fault, LetInboxesGo, OpenSession, RegisterInbox};

/// Adds inboxes to the roots of a partition, and removes them.
pub(crate) struct InboxRegistry {
    host: Host,
    roots: Rc<Roots>,
    inboxes: Rc<Inboxes>,
    senders: Senders,
}

impl InboxRegistry {
    /// The registry of these roots.
    pub(crate) fn new(host: &Host, store: &Store, roots: Rc<Roots>, inboxes: Rc<Inboxes>) -> Self {
        Self {
            host: host.clone(),
            roots,
            inboxes,
            senders: Senders::new(host, store),
        }
    }

    /// An inbox is about to acknowledge events: it is stored first. Returns the current generation.
    pub(crate) async fn register(&self, register: RegisterInbox) -> Result<u64, Fault> {
        let RegisterInbox { counter, inbox } = register;
        let lock = self.roots.lock_of(&counter);
        let _alone = lock.lock().await;
        self.roots.is_here(&counter)?;
        let inbox = if inbox.is_queue() {
            InboxId::of_queue_at(self.host.now_ms())
        } else {
            inbox
        };
        self.record(&counter, inbox).await
    }

    /// A sender is about to put writes into the queue: it is stored first. Returns the current generation; `None` where
    /// the session is closed.
    pub(crate) async fn open_session(&self, open: OpenSession) -> Result<Option<u64>, Fault> {
        let lock = self.roots.lock_of(&open.counter);
        let _alone = lock.lock().await;
        self.roots.is_here(&open.counter)?;
        if self.senders.is_closed(&open)? {
            return Ok(None);
        }
        if !self.senders.has_room(&open)? {
            let day = InboxId::of_queue_at(self.host.now_ms());
            return Ok(Some(self.record(&open.counter, day).await?));
        }
        let generation = self.record(&open.counter, InboxId::of_sessions()).await?;
        let is_open = self.senders.open(&open, generation)?;
        Ok(is_open.then_some(generation))
    }

    /// A sender puts no further writes of a session into the queue.
    pub(crate) fn close_session(&self, close: &CloseSession) -> Result<(), Fault> {
        self.senders.close(close)
    }

    /// Stores an inbox, or the one that stands for a queue of the platform. Returns the current generation. The caller
    /// holds the lock.
    async fn record(&self, counter: &CounterId, inbox: InboxId) -> Result<u64, Fault> {
        let living = if inbox.is_queue() {
            self.roots.living(counter, true).await?
        } else {
            self.roots
                .living_or_lost(counter, &inbox.datacenter)
                .await?
        };
        let mut root = match living {
            Ok(root) => root,
            Err(ended) => Root::create(ended.as_ref(), self.host.now_ms()),
        };
        let generation = root.generation;
        let is_first = root.inboxes.is_empty();
        if inbox.is_queue() {
            self.inboxes.lease(counter, generation);
        }
        if !root.inboxes.contains(&inbox) {
            let of_sessions = InboxId::of_sessions();
            if inbox == of_sessions {
                self.senders.void(counter)?;
            } else if inbox.is_queue() {
                // Sessions replace earlier entries of the queue.
                (root.inboxes).retain(|known| !known.is_queue() || *known == of_sessions);
            }
            root.inboxes.insert(inbox);
            if let Some(lone) = root.sole().cloned().filter(|_| is_first) {
                // Until the only lead knows it, that lead calls its own total exact: so it must know it before the
                // answer, by the revision that it has, as in `admit`.
                let notice = LeadNotice::Configure;
                self.roots
                    .notify_lead(counter, &lone, notice, generation, Some(&root))
                    .await?;
            }
            root.revision += 1;
            root.last_write_ms = root.last_write_ms.max(self.host.now_ms());
            self.roots.save(counter, RootEntry::Live(root), &[]).await?;
        }
        Ok(generation)
    }

    /// Removes inboxes that hold no events of a counter any more, and a queue of the platform that holds none. An inbox
    /// that has released the generation asks before it acknowledges another event, and waits for the counter's lock: so
    /// nothing can happen in between. The same is true for a sender that opens a session.
    ///
    /// # Errors
    /// `Unavailable` where some may hold events.
    pub(crate) async fn let_go(&self, let_go: LetInboxesGo) -> Result<(), Fault> {
        let LetInboxesGo { counter } = let_go;
        let Some(RootEntry::Live(root)) = self.roots.entry(&counter)? else {
            return Ok(());
        };
        // First without the lock, because it may take long.
        self.senders.reconcile(&counter, &root).await?;
        self.inboxes.drain(&counter, &root).await?;
        let lock = self.roots.lock_of(&counter);
        let _alone = lock.lock().await;
        self.roots.is_here(&counter)?;
        let Some(RootEntry::Live(mut root)) = self.roots.entry(&counter)? else {
            return Ok(());
        };
        self.inboxes.release_all(&counter, &root).await?;
        self.inboxes.drain(&counter, &root).await?;
        let now_ms = self.host.now_ms();
        let of_sessions = InboxId::of_sessions();
        let known = root.inboxes.len();
        let senders_hold = !self.senders.that_hold(&counter, &root)?.is_empty();
        root.inboxes.retain(|inbox| match *inbox == of_sessions {
            true => senders_hold,
            false => inbox.is_queue() && !inbox.is_over(now_ms),
        });
        if root.inboxes.len() < known {
            self.save_fewer(&counter, &mut root).await?;
        }
        if root.inboxes.is_empty() {
            return Ok(());
        }
        let detail = "a queue of the platform may hold events of the counter";
        Err(Fault::Unavailable(detail.to_owned()))
    }

    async fn save_fewer(&self, counter: &CounterId, root: &mut Root) -> Result<(), Fault> {
        root.revision += 1;
        let generation = root.generation;
        let entry = RootEntry::Live(root.clone());
        self.roots.save(counter, entry, &[]).await?;
        if let Some(lone) = root.sole().cloned() {
            // Until it knows, its answers to writes are not called exact; nothing else depends on it.
            let notified = self.roots.notify_lead(
                counter,
                &lone,
                LeadNotice::Configure,
                generation,
                Some(root),
            );
            let _ = notified.await;
        }
        Ok(())
    }
}
