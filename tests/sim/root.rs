//! The root's shell, as `objects::directory`, `objects::telling` and `objects::claims`.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use tally::cluster::root::{Entry, Root};
use tally::counter::grant::Grant;
use tally::counter::id::Datacenter;
use tally::counter::ledger::{Ledger, WriteKey};
use tally::counter::queue::InboxId;
use tally::protocol::messages::{Claimed, Fault, Owner};

use super::keyed::LIMITS;
use super::network::{Answer, Message, Reply, Request, Turns, all, unavailable};
use super::place::{Task, is_over};
use super::{Air, Boxed};

/// A claim is kept an hour longer than its record.
const CLAIMS_KEPT_MS: i64 = LIMITS.kept_ms + 3_600_000;

/// What it has on disk.
#[derive(Default)]
struct Rows {
    entry: Option<Entry>,
    /// Leads that must still drop a generation.
    closing: BTreeSet<(Datacenter, u64)>,
    slots: Ledger,
    claims: BTreeMap<(i64, WriteKey), (Datacenter, u64)>,
}

impl Rows {
    /// Who has a key, renewing its claim.
    fn owner_of(&mut self, key: WriteKey, generation: u64, now_ms: i64) -> Option<Owner> {
        let has_key = |slot: &i64| self.claims.contains_key(&(*slot, key));
        let slot = self.slots.slots().find(has_key)?;
        let (datacenter, claimed) = self.claims[&(slot, key)].clone();
        if claimed != generation {
            return Some(Owner::Ended);
        }
        if let Some(renewed) = self.slots.renew(slot, now_ms, CLAIMS_KEPT_MS) {
            let claim = self.claims.remove(&(slot, key)).expect("it was found");
            self.claims.insert((renewed, key), claim);
        }
        Some(Owner::Lead(datacenter))
    }
}

/// The root, as the partition of the directory that has it.
struct Core {
    air: Rc<Air>,
    rows: Rc<RefCell<Rows>>,
    lock: Turns,
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

    /// The alarm: whoever could not be told is told.
    pub fn alarm(&mut self) {
        let core = self.core.clone();
        let closing = self.rows.borrow().closing.clone();
        let task = async move {
            core.fulfil(closing).await;
        };
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
        !self.rows.borrow().closing.is_empty()
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

    fn now_ms(&self) -> i64 {
        self.air.now_ms.get() + self.skew_ms.get()
    }

    async fn work(&self, message: Message) -> Reply {
        match message {
            Message::Register(from) => self.on_register(from).await.map(Answer::Grant),
            Message::Claim(from, keys) => self.on_claim(from, keys).await.map(Answer::Claimed),
            Message::End => self.on_end().await.map(|()| Answer::Done),
            Message::RegisterInbox(inbox) => {
                self.on_register_inbox(inbox).await.map(Answer::Generation)
            }
            Message::LookUp => Ok(Answer::Root(self.living())),
            other => unreachable!("{other:?} is for a cell"),
        }
    }

    fn living(&self) -> Option<Root> {
        match &self.rows.borrow().entry {
            Some(Entry::Live(root)) => Some(root.clone()),
            _ => None,
        }
    }

    fn save(&self, entry: Entry) {
        let mut oracle = self.air.oracle.borrow_mut();
        match &entry {
            Entry::Live(root) => oracle.lives(root.generation),
            Entry::Ended { generation, .. } => oracle.ends(*generation),
        }
        self.rows.borrow_mut().entry = Some(entry);
    }

    async fn on_register(&self, datacenter: Datacenter) -> Result<Grant, Fault> {
        let _alone = self.lock.lock().await;
        let mut root = self.admit(&datacenter).await?;
        root.last_write_ms = root.last_write_ms.max(self.now_ms());
        self.save(Entry::Live(root.clone()));
        Ok(root.grant(&datacenter))
    }

    async fn admit(&self, datacenter: &Datacenter) -> Result<Root, Fault> {
        let ended = self.rows.borrow().entry.clone();
        let created = || Root::create(ended.as_ref(), self.now_ms());
        let mut root = self.living().unwrap_or_else(created);
        if root.datacenters.contains(datacenter) {
            return Ok(root);
        }
        let lone = root.lone_lead(datacenter).cloned();
        root.datacenters.insert(datacenter.clone());
        root.last_write_ms = root.last_write_ms.max(self.now_ms());
        if let Some(lone) = lone {
            let configure = Message::Configure(root.grant(&lone));
            self.air.call(self.air.lead_of(&lone), configure).await?;
        }
        self.save(Entry::Live(root.clone()));
        Ok(root)
    }

    /// As `objects::inboxes`.
    async fn on_register_inbox(&self, inbox: InboxId) -> Result<u64, Fault> {
        let _alone = self.lock.lock().await;
        let ended = self.rows.borrow().entry.clone();
        let created = || Root::create(ended.as_ref(), self.now_ms());
        let mut root = self.living().unwrap_or_else(created);
        let generation = root.generation;
        let is_first = root.inboxes.is_empty();
        if root.inboxes.insert(inbox) {
            let lone = root.datacenters.first().cloned();
            if let Some(lone) = lone.filter(|_| is_first && root.datacenters.len() == 1) {
                let configure = Message::Configure(root.grant(&lone));
                self.air.call(self.air.lead_of(&lone), configure).await?;
            }
            root.last_write_ms = root.last_write_ms.max(self.now_ms());
            self.save(Entry::Live(root));
        }
        Ok(generation)
    }

    async fn release_inboxes(&self, root: &Root) -> Result<(), Fault> {
        let tell = |inbox: &InboxId| {
            let release = Message::Release(self.air.name(), root.generation);
            self.air.call_inbox(inbox, release).boxed()
        };
        let told = all(root.inboxes.iter().map(tell).collect()).await;
        told.into_iter().try_for_each(|told| told.map(|_| ()))
    }

    async fn on_claim(&self, from: Datacenter, keys: Vec<WriteKey>) -> Result<Claimed, Fault> {
        let _alone = self.lock.lock().await;
        // A retry makes no datacenter appear, nor a counter that was deleted.
        let generation = self.living().map_or(0, |root| root.generation);
        let now_ms = self.now_ms();
        let known = keys.iter().map(|key| {
            let mut rows = self.rows.borrow_mut();
            rows.owner_of(*key, generation, now_ms)
        });
        if let Some(owners) = known.collect() {
            return Ok(Claimed { generation, owners });
        }
        let generation = self.admit(&from).await?.generation;
        let now_ms = self.now_ms();
        let mut rows = self.rows.borrow_mut();
        let mut owners = Vec::new();
        for key in keys {
            owners.push(match rows.owner_of(key, generation, now_ms) {
                Some(owner) => owner,
                None => match rows.slots.admit(now_ms, CLAIMS_KEPT_MS, LIMITS.records_max) {
                    Some(slot) => {
                        rows.claims.insert((slot, key), (from.clone(), generation));
                        Owner::Lead(from.clone())
                    }
                    None => Owner::Full,
                },
            });
        }
        Ok(Claimed { generation, owners })
    }

    async fn on_end(&self) -> Result<(), Fault> {
        let _alone = self.lock.lock().await;
        let Some(root) = self.living() else {
            return Ok(());
        };
        let holds = self.air.is_holding.replace(false);
        let suspend = |datacenter: &Datacenter| {
            let to = self.air.lead_of(datacenter);
            self.air.call(to, Message::Suspend(root.generation)).boxed()
        };
        let told = all(root.datacenters.iter().map(suspend).collect()).await;
        told.into_iter().try_for_each(|told| told.map(|_| ()))?;
        if holds {
            self.air.oracle.borrow_mut().is_stopped = true;
            poll_fn(|_| match self.air.oracle.borrow().is_stopped {
                true => Poll::Pending,
                false => Poll::Ready(()),
            })
            .await;
            return Err(unavailable());
        }
        self.release_inboxes(&root).await?;
        let closing: BTreeSet<(Datacenter, u64)> = root
            .datacenters
            .iter()
            .map(|datacenter| (datacenter.clone(), root.generation))
            .collect();
        self.rows.borrow_mut().closing.extend(closing.clone());
        self.save(Entry::Ended {
            generation: root.generation,
            at_ms: self.now_ms(),
        });
        self.fulfil(closing).await;
        Ok(())
    }

    /// Tells leads to drop a generation, and strikes off those that have.
    async fn fulfil(&self, closing: BTreeSet<(Datacenter, u64)>) {
        let close = |(datacenter, generation): &(Datacenter, u64)| {
            let to = self.air.lead_of(datacenter);
            self.air.call(to, Message::Close(*generation)).boxed()
        };
        let told = all(closing.iter().map(close).collect()).await;
        for (duty, told) in closing.iter().zip(told) {
            if told.is_ok() {
                self.rows.borrow_mut().closing.remove(duty);
            }
        }
    }
}
