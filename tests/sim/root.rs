//! The root's shell, as `objects::directory`, `objects::inboxes` and `objects::claims`.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use tally::core::cluster::root::{Entry, Root};
use tally::core::counter::grant::Grant;
use tally::core::counter::id::Datacenter;
use tally::core::counter::ledger::{Ledger, WriteKey};
use tally::core::counter::queue::InboxId;
use tally::protocol::messages::{Claimed, Done, Fault, Holder, Owner};

use super::ending::Duty;
use super::keyed::LIMITS;
use super::network::{Answer, Message, Reply, Request, Turns, all, unavailable};
use super::place::{Task, is_over};
use super::{Air, Boxed};

/// A claim is kept an hour longer than its record.
const CLAIMS_KEPT_MS: i64 = LIMITS.kept_ms + 3_600_000;

/// What it has on disk.
#[derive(Default)]
pub struct Rows {
    pub entry: Option<Entry>,
    /// What leads must still be told.
    pub duties: BTreeSet<Duty>,
    slots: Ledger,
    claims: BTreeMap<(i64, WriteKey), (Holder, u64)>,
    /// What was done under a key: the fingerprint of what it asks for, and the answer.
    pub operations: BTreeMap<WriteKey, (u64, Done)>,
}

impl Rows {
    /// Whether a key is claimed for a write, in whatever generation.
    pub fn is_claimed(&self, key: WriteKey) -> bool {
        self.claims.keys().any(|(_, claimed)| *claimed == key)
    }

    /// Who has a key, renewing its claim.
    fn owner_of(&mut self, key: WriteKey, generation: u64, now_ms: i64) -> Option<Owner> {
        if self.operations.contains_key(&key) {
            return Some(Owner::Operation);
        }
        let has_key = |slot: &i64| self.claims.contains_key(&(*slot, key));
        let slot = self.slots.slots().find(has_key)?;
        let (holder, claimed) = self.claims[&(slot, key)].clone();
        if claimed != generation {
            return Some(Owner::Ended);
        }
        if let Some(renewed) = self.slots.renew(slot, now_ms, CLAIMS_KEPT_MS) {
            let claim = self.claims.remove(&(slot, key)).expect("it was found");
            self.claims.insert((renewed, key), claim);
        }
        Some(Owner::Lead(holder))
    }

    fn give_claim(&mut self, key: WriteKey, next: &Holder) {
        for ((_, claimed), (holder, _)) in &mut self.claims {
            if *claimed == key {
                *holder = next.clone();
            }
        }
    }
}

/// The root, as the partition of the directory that has it.
pub struct Core {
    pub air: Rc<Air>,
    pub rows: Rc<RefCell<Rows>>,
    pub lock: Turns,
    skew_ms: Rc<Cell<i64>>,
}

/// Where the root lives, crash after crash.
pub struct Home {
    core: Rc<Core>,
    rows: Rc<RefCell<Rows>>,
    pub skew_ms: Rc<Cell<i64>>,
    tasks: Vec<(Option<u64>, Task)>,
}

impl Home {
    pub fn new(air: &Rc<Air>) -> Self {
        let rows = Rc::new(RefCell::new(Rows::default()));
        let skew_ms = Rc::new(Cell::default());
        Self {
            core: Core::new(air.clone(), rows.clone(), skew_ms.clone()),
            rows,
            skew_ms,
            tasks: Vec::new(),
        }
    }

    pub fn deliver(&mut self, request: Request) {
        let (core, call) = (self.core.clone(), request.call);
        let task = async move {
            let reply = core.work(request.message).await;
            core.air.network.borrow_mut().answers.push((call, reply));
        };
        self.tasks.push((Some(call), task.boxed()));
    }

    /// Memory is gone, and with it whatever was under way here; its callers hear so.
    pub fn crash(&mut self) {
        let air = self.core.air.clone();
        for (call, _) in self.tasks.drain(..) {
            let mut network = air.network.borrow_mut();
            let heard = call.map(|call| (call, Err(unavailable())));
            network.answers.extend(heard);
        }
        air.oracle.borrow_mut().is_stopped = false;
        self.core = Core::new(air, self.rows.clone(), self.skew_ms.clone());
    }

    /// The alarm: whoever could not be told is told, and a counter whose time has come ends.
    pub fn alarm(&mut self) {
        let core = self.core.clone();
        let task = async move { core.look_at_what_is_due().await };
        self.tasks.push((None, task.boxed()));
    }

    /// Runs everything here until it waits. True if something ended.
    pub fn run(&mut self) -> bool {
        let before = self.tasks.len();
        self.tasks.retain_mut(|(_, task)| !is_over(task));
        self.tasks.len() != before
    }

    pub fn is_at_rest(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Whether some lead must still be told.
    pub fn has_to_tell(&self) -> bool {
        !self.rows.borrow().duties.is_empty() || self.core.has_to_settle()
    }
}

impl Core {
    fn new(air: Rc<Air>, rows: Rc<RefCell<Rows>>, skew_ms: Rc<Cell<i64>>) -> Rc<Self> {
        Rc::new(Self {
            air,
            rows,
            lock: Turns::default(),
            skew_ms,
        })
    }

    pub fn now_ms(&self) -> i64 {
        self.air.now_ms.get() + self.skew_ms.get()
    }

    async fn work(&self, message: Message) -> Reply {
        match message {
            Message::Register(from) => self.on_register(from).await.map(Answer::Grant),
            Message::Claim(from, keys, struck_at) => {
                let claimed = self.on_claim(from, keys, struck_at).await;
                claimed.map(Answer::Claimed)
            }
            Message::FindClaims(keys) => self.on_find_claims(&keys).await.map(Answer::Claimed),
            Message::Operate(operate) => self.on_operate(&operate).await.map(Answer::Operated),
            Message::Settle => self.on_settle().await.map(Answer::Root),
            Message::End => self.on_end().await.map(|()| Answer::Done),
            Message::LetInboxesGo => self.on_let_inboxes_go().await.map(|()| Answer::Done),
            Message::RegisterInbox(inbox) => {
                self.on_register_inbox(inbox).await.map(Answer::Generation)
            }
            Message::Put(shards, ttl) => self.on_put(shards, ttl).await.map(|()| Answer::Done),
            Message::LookUp => Ok(Answer::Root(self.on_look_up())),
            other => unreachable!("{other:?} is for a cell"),
        }
    }

    /// Fixed ends are the root's own to see. Whether a sliding one has passed only leads can tell.
    fn on_look_up(&self) -> Option<Root> {
        let is_listed = |root: &Root| root.is_sliding() || !root.is_due(self.now_ms());
        match &self.rows.borrow().entry {
            Some(Entry::Live(root)) => Some(root.clone()).filter(is_listed),
            _ => None,
        }
    }

    pub fn save(&self, root: Root) {
        let mut oracle = self.air.oracle.borrow_mut();
        oracle.lives(&root);
        self.rows.borrow_mut().entry = Some(Entry::Live(root));
    }

    /// The living root, or a new one.
    pub async fn living_or_new(&self) -> Result<Root, Fault> {
        Ok(match self.living(true).await? {
            Ok(root) => root,
            Err(ended) => Root::create(ended.as_ref(), self.now_ms()),
        })
    }

    async fn on_register(&self, datacenter: Datacenter) -> Result<Grant, Fault> {
        let _alone = self.lock.lock().await;
        let mut root = self.admit(&datacenter).await?;
        root.last_write_ms = root.last_write_ms.max(self.now_ms());
        self.save(root.clone());
        Ok(root.grant(&datacenter))
    }

    async fn admit(&self, datacenter: &Datacenter) -> Result<Root, Fault> {
        let mut root = self.living_or_new().await?;
        if let Some(home) = root.home_elsewhere(datacenter) {
            return Err(Fault::Elsewhere(home.clone()));
        }
        if root.datacenters.contains(datacenter) {
            return Ok(root);
        }
        let lone = root.lone_lead(datacenter).cloned();
        root.settle_home(datacenter);
        root.datacenters.insert(datacenter.clone());
        if let Some(lone) = lone {
            self.tell_configure(&lone, &root).await?;
        }
        root.revision += 1;
        root.last_write_ms = root.last_write_ms.max(self.now_ms());
        self.save(root.clone());
        Ok(root)
    }

    /// As `objects::inboxes`.
    async fn on_register_inbox(&self, inbox: InboxId) -> Result<u64, Fault> {
        let _alone = self.lock.lock().await;
        let mut root = self.living_or_new().await?;
        let generation = root.generation;
        let is_first = root.inboxes.is_empty();
        if root.inboxes.insert(inbox) {
            if let Some(lone) = root.sole().cloned().filter(|_| is_first) {
                self.tell_configure(&lone, &root).await?;
            }
            root.revision += 1;
            root.last_write_ms = root.last_write_ms.max(self.now_ms());
            self.save(root);
        }
        Ok(generation)
    }

    /// As `objects::inboxes`.
    async fn on_let_inboxes_go(&self) -> Result<(), Fault> {
        let living = || match &self.rows.borrow().entry {
            Some(Entry::Live(root)) => Some(root.clone()),
            _ => None,
        };
        let Some(root) = living() else { return Ok(()) };
        self.drain_inboxes(&root).await?;
        let _alone = self.lock.lock().await;
        let Some(mut root) = living() else {
            return Ok(());
        };
        self.release_inboxes(&root).await?;
        self.drain_inboxes(&root).await?;
        root.inboxes.clear();
        root.revision += 1;
        self.save(root.clone());
        if let Some(lone) = root.sole().cloned() {
            let _ = self.tell_configure(&lone, &root).await;
        }
        Ok(())
    }

    async fn drain_inboxes(&self, root: &Root) -> Result<(), Fault> {
        let drain = |inbox: &InboxId| {
            let drain = Message::Drain(self.air.name());
            self.air.call_inbox(inbox, drain).boxed()
        };
        let drained = all(root.inboxes.iter().map(drain).collect()).await;
        drained.into_iter().try_for_each(|told| told.map(|_| ()))
    }

    async fn on_find_claims(&self, keys: &[WriteKey]) -> Result<Claimed, Fault> {
        let _alone = self.lock.lock().await;
        let living = self.living(true).await?;
        let generation = living.as_ref().map_or(0, |root| root.generation);
        let rows = self.rows.borrow();
        let owner_of = |key: &WriteKey| {
            let mut claims = rows.claims.iter();
            let found = claims.find(|((_, claimed), _)| claimed == key);
            match found {
                _ if rows.operations.contains_key(key) => Owner::Operation,
                Some((_, (holder, claimed))) if *claimed == generation => {
                    Owner::Lead(holder.clone())
                }
                Some(_) => Owner::Ended,
                None => Owner::Nobody,
            }
        };
        let owners = keys.iter().map(owner_of).collect();
        Ok(Claimed { generation, owners })
    }

    async fn on_claim(
        &self,
        from: Datacenter,
        keys: Vec<WriteKey>,
        struck_at: Option<Holder>,
    ) -> Result<Claimed, Fault> {
        let _alone = self.lock.lock().await;
        // A retry makes no datacenter appear, nor a counter that was deleted.
        let living = self.living(true).await?;
        let generation = living.as_ref().map_or(0, |root| root.generation);
        if struck_at.is_none() {
            let now_ms = self.now_ms();
            let known = keys.iter().map(|key| {
                let mut rows = self.rows.borrow_mut();
                rows.owner_of(*key, generation, now_ms)
            });
            if let Some(owners) = known.collect() {
                return Ok(Claimed { generation, owners });
            }
        }
        let root = match living {
            Ok(root) if root.home.is_some() => root,
            _ => self.admit(&from).await?,
        };
        let next = next_holder(&root, &from, struck_at.as_ref());
        let generation = root.generation;
        let now_ms = self.now_ms();
        let mut rows = self.rows.borrow_mut();
        let mut owners = Vec::new();
        for key in keys {
            owners.push(match rows.owner_of(key, generation, now_ms) {
                Some(Owner::Lead(struck)) if struck_at.as_ref() == Some(&struck) => {
                    rows.give_claim(key, &next);
                    Owner::Lead(next.clone())
                }
                Some(owner) => owner,
                None => match rows.slots.admit(now_ms, CLAIMS_KEPT_MS, LIMITS.records_max) {
                    Some(slot) => {
                        rows.claims.insert((slot, key), (next.clone(), generation));
                        Owner::Lead(next.clone())
                    }
                    None => Owner::Full,
                },
            });
        }
        Ok(Claimed { generation, owners })
    }
}

/// Who gets keys that nobody has, or that were struck out, as `objects::claims`.
fn next_holder(root: &Root, from: &Datacenter, struck_at: Option<&Holder>) -> Holder {
    let datacenter = root.home.as_ref().unwrap_or(from);
    let first = || Holder::first(datacenter);
    struck_at.map_or_else(first, |struck_at| struck_at.next(datacenter))
}
