//! The roots of one partition of the directory.
//!
//! Invariants: a change of a root holds the lock of its counter. Each notice to a lead is stored as a duty in the same
//! commit as its cause, and repeated until it is done.

pub(crate) mod lead_calls;
mod lead_notifications;
mod root_rebuild;
mod root_repair;
mod unreconciled_datacenters;

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::rc::{Rc, Weak};

use futures_util::lock::Mutex;

use super::alarm::Alarm;
use super::duty_store::{Duty, DutyStore, LeadNotice};
use super::inboxes::Inboxes;
use super::operation_store::{Operation, OperationStore};
use super::push_receiver::Views;
use super::root_places::RootPlaces;
use super::root_store::RootStore;
use crate::kit::outbox::Outbox;
use crate::kit::store::Store;
use tally_core::cluster::root::{DATACENTERS_MAX, Membership, Root, RootEntry};
use tally_core::counter::flush::Refusal;
use tally_core::counter::grant::Grant;

use tally_core::counter::id::{BEFORE_CALLERS, CounterId, Datacenter};
use tally_core::counter::settings::{Settings, TtlTerms};
use tally_host::Host;
use tally_shared::call;
use tally_shared::concurrency::all_settled;
use tally_wire::messages::{Fault, List, ListNames, PushView, Register};

/// The counters and duties that one alarm handles; the next alarm follows at once.
const DUE_AT_ONCE: i32 = 200;

/// How long the end of a counter waits if its leads did not report their newest writes, milliseconds.
const UNSURE_MS: i64 = 10_000;

/// How long a due counter with an unreadable root waits, milliseconds.
const UNREADABLE_MS: i64 = 300_000;

/// How much longer the record of an ended counter is kept each time that a lead could not be notified of the end,
/// milliseconds. The notice is repeated every 5 minutes, 12 rows an hour. This adds one row, and its entry in an index.
const UNNOTIFIED_MS: i64 = 3_600_000;

/// The roots of one partition.
pub(crate) struct Roots {
    host: Host,
    rows: RootStore,
    duties: DutyStore,
    operations: OperationStore,
    views: Rc<Views>,
    inboxes: Rc<Inboxes>,
    /// The messages to leads.
    outbox: Rc<Outbox>,
    alarm: Rc<Alarm>,
    places: Rc<RootPlaces>,
    locks: RefCell<HashMap<CounterId, Weak<Mutex<()>>>>,
}

impl Roots {
    /// The roots of a partition, with the tables that are written and deleted together with them.
    pub(super) fn new(
        host: &Host,
        store: &Store,
        alarm: Rc<Alarm>,
        views: Rc<Views>,
        inboxes: Rc<Inboxes>,
        outbox: Rc<Outbox>,
        places: Rc<RootPlaces>,
    ) -> Self {
        Self {
            host: host.clone(),
            rows: RootStore::new(store),
            duties: DutyStore::new(store),
            operations: OperationStore::new(host, store),
            views,
            inboxes,
            outbox,
            alarm,
            places,
            locks: RefCell::default(),
        }
    }

    /// The messages to leads.
    pub(super) fn outbox(&self) -> &Rc<Outbox> {
        &self.outbox
    }

    /// Reads the rows of counters that are about to be used.
    ///
    /// # Errors
    /// `Unavailable` where SQLite refuses; as for all methods below.
    pub(crate) fn read_ahead(&self, counters: &[CounterId]) -> Result<(), Fault> {
        self.rows.ahead().read(counters)
    }

    /// Drops the rows that were read ahead.
    pub(crate) fn forget_ahead(&self) {
        self.rows.ahead().clear();
    }

    /// The row of a counter.
    pub(crate) fn entry(&self, counter: &CounterId) -> Result<Option<RootEntry>, Fault> {
        self.rows.entry(counter)
    }

    /// Refuses work that has waited, for a lock or for others, while the root moved to another partition.
    ///
    /// # Errors
    /// `Repartitioned` where it did; `Unavailable` where SQLite refuses.
    pub(crate) fn is_here(&self, counter: &CounterId) -> Result<(), Fault> {
        self.places.is_here(counter)
    }

    /// The counter's lock, whose holder checks whether the root [is here](Self::is_here). Unused locks are dropped.
    pub(crate) fn lock_of(&self, counter: &CounterId) -> Rc<Mutex<()>> {
        let mut locks = self.locks.borrow_mut();
        if let Some(lock) = locks.get(counter).and_then(Weak::upgrade) {
            return lock;
        }
        locks.retain(|_, lock| lock.strong_count() > 0);
        let lock = Rc::new(Mutex::new(()));
        locks.insert(counter.clone(), Rc::downgrade(&lock));
        lock
    }

    /// Registers a datacenter that has a write: it is stored before that write is acknowledged.
    pub(super) async fn register(&self, register: Register) -> Result<Grant, Fault> {
        let Register {
            counter,
            datacenter,
            holds,
            ttl_if_new,
            ..
        } = register;
        let lock = self.lock_of(&counter);
        let _alone = lock.lock().await;
        self.is_here(&counter)?;
        if let Some(held) = holds {
            self.adopt(&counter, &datacenter, &held).await?;
        }
        let begun_ms = self.host.now_ms();
        let mut root = self.admit(&counter, &datacenter, ttl_if_new).await?;
        // An expired cell asks again; its write keeps a sliding counter alive from now on. A new datacenter is stored
        // already.
        if root.last_write_ms < begun_ms {
            root.last_write_ms = self.host.now_ms();
            self.save(&counter, RootEntry::Live(root.clone()), &[])
                .await?;
        }
        Ok(root.grant(&datacenter))
    }

    /// Returns the living root with this datacenter in it, and creates it if needed, with that time to live. The
    /// caller holds the lock.
    pub(super) async fn admit(
        &self,
        counter: &CounterId,
        datacenter: &Datacenter,
        ttl_if_new: Option<TtlTerms>,
    ) -> Result<Root, Fault> {
        let mut root = match self.living(counter, true).await? {
            Ok(root) => root,
            Err(ended) => {
                let now_ms = self.host.now_ms();
                Root {
                    settings: Settings::of_new(ttl_if_new, now_ms),
                    ..Root::create(ended.as_ref(), now_ms)
                }
            }
        };
        let lone = match root.membership(datacenter) {
            Membership::Known => return Ok(root),
            Membership::Elsewhere(home) => return Err(Fault::Elsewhere(home)),
            Membership::Full => {
                return Err(Fault::Broken(format!(
                    "a counter has at most {DATACENTERS_MAX} datacenters"
                )));
            }
            Membership::New { notify } => notify,
        };
        root.join(datacenter);
        if let Some(lone) = lone {
            self.notify_lead(
                counter,
                &lone,
                LeadNotice::Configure,
                root.generation,
                Some(&root),
            )
            .await?;
        }
        root.joined(self.host.now_ms());
        self.save(counter, RootEntry::Live(root.clone()), &[])
            .await?;
        Ok(root)
    }

    /// The root of a counter, if readers may see it.
    pub(super) fn listed(&self, counter: &CounterId) -> Result<Option<Root>, Fault> {
        Ok(match self.rows.entry(counter)? {
            Some(RootEntry::Live(root)) if is_listed(&root, self.host.now_ms()) => Some(root),
            _ => None,
        })
    }

    /// Datacenters that count any of the first counters.
    pub(super) fn datacenters(&self) -> Result<BTreeSet<Datacenter>, Fault> {
        self.rows.datacenters()
    }

    /// Names of living counters, in order, with those whose roots cannot be read.
    pub(super) fn names(&self, request: &ListNames) -> Result<Vec<String>, Fault> {
        self.rows.names(request)
    }

    /// The living counters whose names begin with a prefix and come after one, in order.
    pub(super) fn list(&self, list: List) -> Result<Vec<(CounterId, Root)>, Fault> {
        let List {
            prefix,
            after,
            limit,
            ..
        } = list;
        let page_size = usize::try_from(limit).unwrap_or(usize::MAX);
        let mut living = Vec::new();
        // The service's own counters are before this name.
        let after = after.filter(|after| after.as_str() > BEFORE_CALLERS);
        let mut after = Some(after.unwrap_or_else(|| BEFORE_CALLERS.to_owned()));
        // Names of expired counters are skipped, and more are read in their place: a short page means the end of the
        // rows.
        loop {
            let entries = self.rows.list(&prefix, after.as_deref(), limit)?;
            let is_last = entries.len() < page_size;
            after = entries
                .last()
                .map(|(counter, _)| counter.as_str().to_owned());
            living.extend(
                entries
                    .into_iter()
                    .filter_map(|(counter, entry)| match entry {
                        RootEntry::Live(root) if is_listed(&root, self.host.now_ms()) => {
                            Some((counter, root))
                        }
                        _ => None,
                    }),
            );
            if is_last || living.len() >= page_size {
                living.truncate(page_size);
                return Ok(living);
            }
        }
    }

    /// Admits a push of a current generation. Returns its root.
    ///
    /// # Errors
    /// `Superseded` for a generation that has ended, the refusal `NeedsGrant` for one that the root has not granted to
    /// its datacenter.
    pub(super) fn admit_push(&self, push: &PushView) -> Result<Root, Fault> {
        let pushed = push.push.delta.generation;
        match self.rows.entry(&push.counter)? {
            Some(RootEntry::Live(root))
                if root.generation == pushed && root.datacenters.contains(&push.datacenter) =>
            {
                Ok(root)
            }
            Some(entry) if entry.generation() > pushed => {
                Err(Fault::Superseded(entry.generation()))
            }
            Some(RootEntry::Ended { generation, .. }) if generation == pushed => {
                Err(Fault::Superseded(generation))
            }
            // The lead was not notified of the end, and the root's row was lost.
            _ if self.duties.is_closing(&push.counter, pushed)? => Err(Fault::Superseded(pushed)),
            _ => Err(Fault::Refused(Refusal::NeedsGrant)),
        }
    }

    /// Writes the row of a counter, in one commit with the resulting duties.
    ///
    /// # Errors
    /// `Unavailable` where SQLite refuses; then nothing was written.
    pub(crate) async fn save(
        &self,
        counter: &CounterId,
        entry: RootEntry,
        duties: &[Duty],
    ) -> Result<(), Fault> {
        self.save_with(counter, entry, duties, None).await
    }

    /// [`Roots::save`], in one commit with the operation that caused it, if that has a key.
    pub(super) async fn save_with(
        &self,
        counter: &CounterId,
        entry: RootEntry,
        duties: &[Duty],
        record: Option<Operation>,
    ) -> Result<(), Fault> {
        let now_ms = self.host.now_ms();
        let is_end = matches!(entry, RootEntry::Ended { .. });
        let extra = || {
            if let Some(operation) = &record {
                let generation = entry.generation();
                self.operations
                    .put(counter, operation, generation, now_ms)?;
            }
            if is_end {
                self.views.delete(counter)?;
            }
            // The caller makes the first attempt at once; the row is for its failure.
            duties
                .iter()
                .try_for_each(|duty| self.duties.put(duty, now_ms))
        };
        if is_end || record.is_some() || !duties.is_empty() {
            self.rows.put_with(counter, &entry, extra)?;
        } else {
            // A single row is atomic by itself.
            self.rows.put(counter, &entry)?;
        }
        self.views.touch_root(counter);
        match &entry {
            RootEntry::Ended { .. } => self.views.forget(counter),
            RootEntry::Live(root) if root.has_value_of_its_own() => {
                self.views.record_total(counter, root)?;
            }
            RootEntry::Live(_) => {}
        }
        if entry.due_at_ms().is_some() || !duties.is_empty() || record.is_some() {
            self.alarm.arm(now_ms).await?;
        }
        Ok(())
    }

    /// Fulfils due duties, and ends or forgets due counters.
    pub(super) async fn run_due_work(&self) -> Result<(), Fault> {
        let duties = self.duties.due_duties(self.host.now_ms(), DUE_AT_ONCE)?;
        self.fulfil(&duties).await?;
        let counters = self.rows.due(self.host.now_ms(), DUE_AT_ONCE)?;
        let look = |counter: &CounterId| {
            let counter = counter.clone();
            async move {
                if let Err(fault) = self.look_at(&counter).await {
                    self.host.fail(&format!("a counter that is due: {fault}"));
                }
            }
        };
        // Where tablets host leads, messages to them are joined.
        let at_once = match call::has_tablets(&self.host) {
            true => counters.len(),
            false => 1,
        };
        all_settled(counters.iter().map(look), at_once).await;
        Ok(())
    }

    async fn look_at(&self, counter: &CounterId) -> Result<(), Fault> {
        let lock = self.lock_of(counter);
        let _alone = lock.lock().await;
        let entry = match self.rows.entry(counter) {
            // The root stays unreadable until it is repaired, and would ring the alarm all the time.
            Err(fault @ Fault::Unreadable(_)) => {
                let later_ms = self.host.now_ms() + UNREADABLE_MS;
                self.rows.postpone(counter, later_ms)?;
                return Err(fault);
            }
            entry => entry?,
        };
        // A root that has left has no row here.
        let Some(entry) = entry else {
            return Ok(());
        };
        let is_due = entry
            .due_at_ms()
            .is_some_and(|due_ms| due_ms <= self.host.now_ms());
        match entry {
            RootEntry::Ended { .. } if is_due => self.forget_if_it_may(counter),
            RootEntry::Live(root) if is_due => self.end_if_it_may(counter, root).await,
            _ => Ok(()),
        }
    }

    /// Forgets an ended counter once no other row needs it. Claims and operations move only with their root. A lead
    /// that was not notified of the end still has rows. Without a record of the counter, a lead at another place could
    /// count without taking them over.
    fn forget_if_it_may(&self, counter: &CounterId) -> Result<(), Fault> {
        let last_key_ms = self.places.bundles.last_record_ms(counter)?;
        let is_closing = self.duties.is_closing(counter, 0)?;
        let later_ms = is_closing.then(|| self.host.now_ms() + UNNOTIFIED_MS);
        match last_key_ms.max(later_ms) {
            Some(until_ms) => self.rows.postpone(counter, until_ms),
            None => self.rows.forget(counter),
        }
    }

    /// Ends an expired counter. If its leads cannot be asked now, it waits a little longer.
    async fn end_if_it_may(&self, counter: &CounterId, mut root: Root) -> Result<(), Fault> {
        if self.living(counter, false).await.is_err() {
            root.postpone_end(self.host.now_ms() + UNSURE_MS);
            self.rows.put(counter, &RootEntry::Live(root))?;
        }
        Ok(())
    }
}

/// The root decides on fixed ends itself. Only leads can tell whether a sliding one has passed.
pub(crate) fn is_listed(root: &Root, now_ms: i64) -> bool {
    root.is_sliding() || !root.is_due(now_ms)
}
