//! The Durable Object of one partition of the directory: the roots of its counters.
//!
//! Invariants: operations of one counter run one after the other (a lock per counter); what must
//! be told to leads is stored as a duty in the same commit as its cause, and tried until it is done.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::{Rc, Weak};

use futures_util::lock::Mutex;

use super::claims::claims_kept_ms;
use super::directory_store::{DirectoryStore, Telling};
use super::inbox_registry::LOOKED_MAX;
use super::push_receiver::PushReceivers;
use super::readable::Readable;
use super::store::Store;
use crate::core::cluster::lease::Granted;
use crate::core::cluster::root::{DATACENTERS_MAX, Entry, Root};
use crate::core::counter::bounded_map::BoundedMap;
use crate::core::counter::grant::Grant;
use crate::core::counter::id::{CounterId, Datacenter};
use crate::host::Host;
use crate::host::object::{Arrived, Object, Reply, Shell, dispatch};
use crate::protocol::health::Ailment;
use crate::protocol::messages::{
    CheckStorage, Claim, DeletePolicy, Fault, FindClaims, GetPolicy, GetSecrets, Keep,
    LetInboxesGo, List, ListPolicies, LookUp, Operate, Push, PutPolicy, Register, RegisterInbox,
    RotateKey, Settle, ViewOf,
};

/// Counters and duties that one alarm looks at; the next alarm follows at once.
const DUE_AT_ONCE: i32 = 200;

/// The shortest time between two alarms, so that something that stays due does not spin.
const ALARM_SPACING_MS: i64 = 100;

/// How long a counter waits whose leads did not say when they were last written.
const UNSURE_MS: i64 = 10_000;

/// One partition of the directory.
pub struct Directory {
    pub(super) host: Host,
    pub(super) object: Object,
    pub(super) rows: DirectoryStore,
    pub(super) gathered: RefCell<PushReceivers>,
    storage: Readable,
    locks: RefCell<HashMap<CounterId, Weak<Mutex<()>>>>,
    pub(super) leases: RefCell<Granted>,
    /// When inboxes of a counter were last asked whether they hold events of it, unix milliseconds.
    pub(super) looked_for_drained: RefCell<BoundedMap<CounterId, i64, LOOKED_MAX>>,
}

impl Shell for Directory {
    fn start(object: Object, host: Host) -> Self {
        let (rows, opened) =
            DirectoryStore::open(Store::new(object.clone()), claims_kept_ms(&host));
        let storage = Readable::default();
        storage.note(opened);
        Self {
            object,
            rows,
            gathered: RefCell::new(PushReceivers::new(&host)),
            storage,
            locks: RefCell::default(),
            leases: RefCell::new(Granted::new(host.now_ms())),
            host,
            looked_for_drained: RefCell::default(),
        }
    }

    async fn answer(&self, arrived: Arrived) -> Reply {
        dispatch!(&arrived, asked, {
            Register => self.on_register(asked).await,
            FindClaims => self.on_find_claims(asked).await,
            Claim => self.on_claim(asked).await,
            RegisterInbox => self.on_register_inbox(asked).await,
            LetInboxesGo => self.on_let_inboxes_go(asked).await,
            LookUp => self.on_look_up(asked),
            Operate => self.on_operate(asked).await,
            Keep => self.on_keep(asked),
            Settle => self.on_settle(asked).await,
            CheckStorage => asked.map(|_| self.ailment()),
            List => self.on_list(asked),
            Push => self.on_push(asked),
            ViewOf => self.on_view(asked),
            GetPolicy => self.on_get_policy(asked),
            PutPolicy => self.on_put_policy(asked),
            DeletePolicy => self.on_delete_policy(asked),
            ListPolicies => self.on_list_policies(asked),
            GetSecrets => self.on_secrets(asked).await,
            RotateKey => self.on_rotate_key(asked),
        })
    }

    async fn alarm(&self) -> Result<(), Fault> {
        if let Err(fault) = self.look_at_what_is_due().await {
            self.host.fail(&format!("the directory's alarm: {fault}"));
        }
        // An alarm that fails is tried a few times and then never again: so this one never fails,
        // and always sets the next.
        (self.rows).arm(self.host.now_ms() + ALARM_SPACING_MS).await
    }
}

impl Directory {
    pub(super) fn readable(&self) -> Result<(), Fault> {
        self.storage
            .check(|| self.storage.note(self.rows.prepare()))
    }

    /// What only the operator can mend, if anything.
    fn ailment(&self) -> Option<Ailment> {
        let why = match self.readable() {
            Ok(()) => {
                let wrong = self.host.check_settings().err()?;
                return Some(Ailment::NotConfigured(wrong.detail().to_owned()));
            }
            Err(Fault::Unavailable(why) | Fault::Broken(why)) => why,
            Err(fault) => fault.to_string(),
        };
        Some(Ailment::Unreadable(why))
    }

    /// The counter's lock. Locks that nobody holds are let go.
    pub(super) fn lock_of(&self, counter: &CounterId) -> Rc<Mutex<()>> {
        let mut locks = self.locks.borrow_mut();
        if let Some(lock) = locks.get(counter).and_then(Weak::upgrade) {
            return lock;
        }
        locks.retain(|_, lock| lock.strong_count() > 0);
        let lock = Rc::new(Mutex::new(()));
        locks.insert(counter.clone(), Rc::downgrade(&lock));
        lock
    }

    /// A datacenter has a write: it is recorded before that write is acknowledged.
    async fn on_register(&self, register: Result<Register, Fault>) -> Result<Grant, Fault> {
        let Register {
            counter,
            datacenter,
            holds,
        } = register?;
        self.readable()?;
        let lock = self.lock_of(&counter);
        let _alone = lock.lock().await;
        if let Some(held) = holds {
            self.adopt(&counter, &datacenter, &held).await?;
        }
        let mut root = self.admit(&counter, &datacenter).await?;
        // A lapsed cell asks again; its write keeps a sliding counter alive from now on. A newcomer's is saved already.
        let written_ms = self.host.now_ms();
        if written_ms > root.last_write_ms {
            root.last_write_ms = written_ms;
            self.save(&counter, Entry::Live(root.clone()), &[]).await?;
        }
        Ok(root.grant(&datacenter))
    }

    /// The living root with this datacenter in it, created if need be. The caller holds the lock.
    pub(super) async fn admit(
        &self,
        counter: &CounterId,
        datacenter: &Datacenter,
    ) -> Result<Root, Fault> {
        let mut root = match self.living(counter, true).await? {
            Ok(root) => root,
            Err(ended) => Root::create(ended.as_ref(), self.host.now_ms()),
        };
        if let Some(home) = root.home_elsewhere(datacenter) {
            return Err(Fault::Elsewhere(home.clone()));
        }
        if root.datacenters.contains(datacenter) {
            return Ok(root);
        }
        if root.datacenters.len() >= DATACENTERS_MAX {
            return Err(Fault::Broken(format!(
                "a counter has at most {DATACENTERS_MAX} datacenters"
            )));
        }
        let lone = root.lone_lead(datacenter).cloned();
        root.settle_home(datacenter);
        root.datacenters.insert(datacenter.clone());
        if let Some(lone) = lone {
            // Until the lone lead knows, it calls its own total exact: it must know first. It is told under the
            // revision that it has: should this go no further, the next one is for something else.
            self.tell(
                counter,
                &lone,
                Telling::Configure,
                root.generation,
                Some(&root),
            )
            .await?;
        }
        root.revision += 1;
        // Not before: told of a write that is not in the root, the lone lead would count for longer than the root
        // lets the counter live.
        root.last_write_ms = root.last_write_ms.max(self.host.now_ms());
        self.save(counter, Entry::Live(root.clone()), &[]).await?;
        Ok(root)
    }

    fn on_look_up(&self, look_up: Result<LookUp, Fault>) -> Result<Option<Root>, Fault> {
        let LookUp { counter } = look_up?;
        self.readable()?;
        self.listed(&counter)
    }

    /// The root of a counter that readers see.
    pub(super) fn listed(&self, counter: &CounterId) -> Result<Option<Root>, Fault> {
        Ok(match self.rows.entry(counter)? {
            Some(Entry::Live(root)) if is_listed(&root, self.host.now_ms()) => Some(root),
            _ => None,
        })
    }

    fn on_list(&self, list: Result<List, Fault>) -> Result<Vec<(CounterId, Root)>, Fault> {
        let List {
            prefix,
            after,
            limit,
            ..
        } = list?;
        self.readable()?;
        let most = usize::try_from(limit).unwrap_or(usize::MAX);
        let mut living = Vec::new();
        let mut after = after;
        // Names whose time has come are left out, and more are read for them: a page that is short for
        // any other reason than the end of the rows would hide what comes after it.
        loop {
            let entries = self.rows.list(&prefix, after.as_deref(), limit)?;
            let is_last = entries.len() < most;
            after = entries
                .last()
                .map(|(counter, _)| counter.as_str().to_owned());
            living.extend(
                entries
                    .into_iter()
                    .filter_map(|(counter, entry)| match entry {
                        Entry::Live(root) if is_listed(&root, self.host.now_ms()) => {
                            Some((counter, root))
                        }
                        _ => None,
                    }),
            );
            if is_last || living.len() >= most {
                living.truncate(most);
                return Ok(living);
            }
        }
    }

    async fn look_at(&self, counter: &CounterId) -> Result<(), Fault> {
        let lock = self.lock_of(counter);
        let _alone = lock.lock().await;
        let Some(entry) = self.rows.entry(counter)? else {
            return Ok(());
        };
        let is_due = entry
            .due_at_ms()
            .is_some_and(|due| due <= self.host.now_ms());
        match entry {
            Entry::Ended { .. } if is_due => self.rows.forget(counter),
            Entry::Live(root) if is_due => self.end_if_it_may(counter, root).await,
            _ => Ok(()),
        }
    }

    /// Ends a counter whose time has come; one whose leads cannot be asked now waits a little longer.
    async fn end_if_it_may(&self, counter: &CounterId, mut root: Root) -> Result<(), Fault> {
        if self.living(counter, false).await.is_err() {
            root.postpone_end(self.host.now_ms() + UNSURE_MS);
            self.rows
                .put(counter, &Entry::Live(root), &[], None, self.host.now_ms())?;
        }
        Ok(())
    }

    async fn look_at_what_is_due(&self) -> Result<(), Fault> {
        self.readable()?;
        self.rows.delete_claims(self.host.now_ms())?;
        self.rows.delete_salts(self.host.now_ms())?;
        let due = self.rows.due_duties(self.host.now_ms(), DUE_AT_ONCE)?;
        self.fulfil(&due).await?;
        for counter in self.rows.due_counters(self.host.now_ms(), DUE_AT_ONCE)? {
            if let Err(fault) = self.look_at(&counter).await {
                self.host.fail(&format!("a counter that is due: {fault}"));
            }
        }
        Ok(())
    }
}

/// Fixed ends are the root's own to see. Whether a sliding one has passed only leads can tell.
fn is_listed(root: &Root, now_ms: i64) -> bool {
    root.is_sliding() || !root.is_due(now_ms)
}
