//! An object's place: its storage outlives its memory.
//!
//! Invariant: a message of an object leaves it only once all writes before it are durable (the output gate). A crash
//! takes its memory, its tasks, the messages at the gate, and the writes that were not durable.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::rc::Rc;
use std::task::{Poll, Waker};

use tally_host::Host;
use tally_host::object::{Object, Shell};

use crate::alarm::AlarmClock;
use crate::builds::Build;
use crate::core::Core;
use crate::events::EventStream;
use crate::executor::Owner;
use crate::guest::Guest;
use crate::isolate::Isolate;
use crate::journal::NotedStep;
use crate::network::Site;
use crate::sockets::WebSocket;
use crate::storage::Storage;

/// Starts objects of one kind.
pub type Starter = Rc<dyn Fn(Object, Host) -> Rc<dyn Shell>>;

/// One incarnation of an object.
pub(crate) struct Incarnation {
    pub(crate) owner: Owner,
    pub(crate) isolate: Rc<Isolate>,
    shell: RefCell<Option<Rc<dyn Shell>>>,
}

impl Incarnation {
    /// The object that runs.
    pub(crate) fn shell(&self) -> Rc<dyn Shell> {
        let shell = self.shell.borrow();
        shell
            .clone()
            .expect("nothing reaches an object in its constructor")
    }
}

fn id(binding: &str, name: &str) -> String {
    let name = [binding, "/", name].concat();
    let parts = (0..4).map(|part| crate::core::digest(part, name.as_bytes()));
    parts.map(|part| format!("{part:016x}")).collect()
}

/// Where an object lives.
pub struct Place {
    id: String,
    pub(crate) core: Rc<Core>,
    pub(crate) binding: &'static str,
    pub(crate) name: String,
    pub(crate) site: Site,
    pub(crate) storage: Storage,
    pub(crate) build: Cell<Build>,
    pub(crate) alarm: AlarmClock,
    pub(crate) web_sockets: RefCell<Vec<Rc<WebSocket>>>,
    pub(crate) event_streams: RefCell<Vec<Rc<EventStream>>>,
    incarnation: RefCell<Option<Rc<Incarnation>>>,
    /// How far the clock was off that it read last, milliseconds.
    skew_ms: Cell<Option<i64>>,
    outbox: RefCell<Vec<Box<dyn FnOnce()>>>,
    /// Counts commits, and crashes: a commit that was planned before one does not happen.
    epoch: Cell<u64>,
    is_planned: Cell<bool>,
    commits: Cell<u64>,
    syncing: RefCell<Vec<Waker>>,
    out_until_us: Cell<u64>,
    /// Takes storage out so long, microseconds, once so many more statements have run.
    pub(crate) fails_after: Cell<Option<(u64, u64)>>,
}

impl Place {
    pub(crate) fn new(core: &Rc<Core>, binding: &'static str, name: &str, site: Site) -> Rc<Self> {
        let id = id(binding, name);
        let folder = core.options.folder.as_ref();
        let file = folder.map(|folder| folder.join(binding).join(format!("{id}.sqlite")));
        Rc::new(Self {
            id,
            core: core.clone(),
            binding,
            name: name.to_owned(),
            site,
            storage: Storage::new(file),
            build: Cell::new(Build::draw(&core.chance, &core.builds)),
            alarm: AlarmClock::default(),
            web_sockets: RefCell::default(),
            event_streams: RefCell::default(),
            incarnation: RefCell::default(),
            skew_ms: Cell::default(),
            outbox: RefCell::default(),
            epoch: Cell::default(),
            is_planned: Cell::default(),
            commits: Cell::default(),
            syncing: RefCell::default(),
            out_until_us: Cell::default(),
            fails_after: Cell::default(),
        })
    }

    /// Its id, as on the platform: 64 digits that identify the object.
    pub(crate) fn id(&self) -> String {
        self.id.clone()
    }

    /// How the log calls it.
    pub(crate) fn label(&self) -> String {
        format!("{} {}", self.binding, self.name)
    }

    /// The incarnation that runs, started where there is none.
    pub(crate) fn incarnation(self: &Rc<Self>) -> Rc<Incarnation> {
        if let Some(incarnation) = &*self.incarnation.borrow() {
            return incarnation.clone();
        }
        let core = &self.core;
        let isolate = core.house(self);
        let incarnation = Rc::new(Incarnation {
            owner: core.executor.owner(),
            isolate: isolate.clone(),
            shell: RefCell::default(),
        });
        *self.incarnation.borrow_mut() = Some(incarnation.clone());
        self.note_clock();
        core.own_place(incarnation.owner, self);
        core.journal.count(|figures| figures.starts += 1);
        core.record(|| format!("start    {} in {}", self.label(), isolate.label));
        let guest = Rc::new(Guest::of_object(self, &incarnation));
        let host = Host::new(guest.clone(), isolate.memory());
        let shell = core.starter(self.binding)(Object::new(guest), host);
        *incarnation.shell.borrow_mut() = Some(shell);
        incarnation
    }

    /// Notes by how much the clock that it reads is ahead of the one before.
    pub(crate) fn note_clock(&self) {
        let Some(isolate) = self.isolate() else {
            return;
        };
        let skew_ms = isolate.skew_ms();
        let before = self.skew_ms.replace(Some(skew_ms));
        let forward_ms = before.map_or(0, |before_ms| skew_ms - before_ms);
        if forward_ms > 0 {
            self.core.journal.note_step(NotedStep {
                binding: self.binding,
                at_ms: self.core.now_ms(),
                forward_ms,
            });
        }
    }

    /// Whether this incarnation still runs.
    pub(crate) fn is_alive(&self, owner: Owner) -> bool {
        let incarnation = self.incarnation.borrow();
        incarnation
            .as_ref()
            .is_some_and(|incarnation| incarnation.owner == owner)
    }

    /// Whether it runs in an isolate.
    pub(crate) fn lives_in(&self, isolate: &Rc<Isolate>) -> bool {
        let incarnation = self.incarnation.borrow();
        incarnation
            .as_ref()
            .is_some_and(|incarnation| Rc::ptr_eq(&incarnation.isolate, isolate))
    }

    /// The isolate that it runs in, if it runs.
    pub(crate) fn isolate(&self) -> Option<Rc<Isolate>> {
        let incarnation = self.incarnation.borrow();
        incarnation
            .as_ref()
            .map(|incarnation| incarnation.isolate.clone())
    }

    /// Whether any incarnation runs.
    pub(crate) fn is_running(&self) -> bool {
        self.incarnation.borrow().is_some()
    }

    /// Sends something out of the object once all its writes are durable, in the order of these calls.
    pub(crate) fn release(&self, owner: Owner, action: impl FnOnce() + 'static) {
        if !self.is_alive(owner) {
            return;
        }
        if self.storage.is_dirty() {
            self.outbox.borrow_mut().push(Box::new(action));
        } else {
            action();
        }
    }

    /// Whether storage is out, which chance may begin here.
    pub(crate) fn is_storage_out(&self) -> bool {
        let core = &self.core;
        let (faults, now_us) = (core.faults.get(), core.executor.now_us());
        match self.fails_after.get() {
            Some((0, lasts_us)) => {
                self.fails_after.set(None);
                self.out_until_us.set(now_us + lasts_us);
            }
            Some((statements, lasts_us)) => self.fails_after.set(Some((statements - 1, lasts_us))),
            None => {}
        }
        if core.chance.once_in(faults.storage_out_once_in) {
            let lasts_us = core.chance.between(1, faults.storage_out_ms_max.max(1)) * 1_000;
            self.out_until_us.set(now_us + lasts_us);
            core.record(|| format!("storage  {} is out for {lasts_us} µs", self.label()));
        }
        let is_out = now_us < self.out_until_us.get();
        if is_out {
            core.journal.count(|figures| figures.failed_statements += 1);
        }
        is_out
    }

    /// Plans the commit of what was written, where there is something.
    pub(crate) fn plan_commit(self: &Rc<Self>) {
        if !self.storage.is_dirty() || self.is_planned.replace(true) {
            return;
        }
        let core = &self.core;
        let after_us = core.chance.between(0, core.faults.get().commit_us_max);
        let (place, epoch) = (self.clone(), self.epoch.get());
        core.after(after_us, move || {
            if place.epoch.get() == epoch {
                place.commit();
            }
        });
    }

    fn begin_epoch(&self) {
        self.epoch.set(self.epoch.get() + 1);
        self.is_planned.set(false);
    }

    fn commit(self: &Rc<Self>) {
        self.begin_epoch();
        self.storage.commit();
        self.commits.set(self.commits.get() + 1);
        self.core.journal.count(|figures| figures.commits += 1);
        self.core.record(|| format!("commit   {}", self.label()));
        self.alarm.commit(self);
        for action in self.outbox.take() {
            action();
        }
        for waker in self.syncing.take() {
            waker.wake();
        }
    }

    /// Waits until all that was written so far is durable.
    pub(crate) fn sync(self: &Rc<Self>) -> impl Future<Output = ()> + use<> {
        let place = self.clone();
        let commit_count = self.commits.get() + u64::from(self.storage.is_dirty());
        std::future::poll_fn(move |context| {
            if place.commits.get() >= commit_count {
                return Poll::Ready(());
            }
            place.syncing.borrow_mut().push(context.waker().clone());
            Poll::Pending
        })
    }

    /// Crashes the object: its memory, its running work and its writes that are not durable are lost. Its streams
    /// break.
    pub(crate) fn crash(self: &Rc<Self>) {
        let Some(incarnation) = self.incarnation.take() else {
            return;
        };
        let core = &self.core;
        core.journal.count(|figures| figures.crashes += 1);
        core.record(|| format!("crash    {}", self.label()));
        core.disown(incarnation.owner);
        self.begin_epoch();
        self.storage.roll_back();
        self.syncing.borrow_mut().clear();
        let held = self.outbox.take();
        let tasks = core.executor.take_tasks(incarnation.owner);
        self.alarm.roll_back(self);
        for wire in self.web_sockets.take() {
            wire.break_off();
        }
        for event_streams in self.event_streams.take() {
            event_streams.end();
        }
        // Callers hear of it as these are dropped.
        drop((held, tasks, incarnation));
    }

    /// Evicts the object: only its memory is lost. Does so if nothing runs in it; returns whether it did.
    pub(crate) fn evict(&self) -> bool {
        let core = &self.core;
        let Some(incarnation) = self.incarnation.borrow().clone() else {
            return false;
        };
        self.event_streams
            .borrow_mut()
            .retain(|event_streams| event_streams.is_open());
        let is_idle = !self.storage.is_dirty()
            && !self.alarm.is_ringing()
            && self.event_streams.borrow().is_empty()
            && !core.executor.has_tasks(incarnation.owner);
        if is_idle {
            core.journal.count(|figures| figures.evictions += 1);
            core.record(|| format!("evict    {}", self.label()));
            core.disown(incarnation.owner);
            drop(self.incarnation.take());
        }
        is_idle
    }

    /// Releases everything as the world ends.
    pub(crate) fn clear(&self) {
        let incarnation = self.incarnation.take();
        let held = self.outbox.take();
        let web_sockets = self.web_sockets.take();
        let event_streams = self.event_streams.take();
        drop((incarnation, held, web_sockets, event_streams));
    }
}
