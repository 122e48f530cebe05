//! An object's place: its database and its sockets outlive its memory.
//!
//! Invariant: nothing leaves an object before all that it has written is durable: messages, answers and texts wait in
//! its outbox for the commit of the tick, and after it for the sync. A commit that fails takes the object's memory, its
//! tasks and its outbox with it, so no task continues with what is not stored.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::Future;
use std::rc::Rc;
use std::task::{Poll, Waker};

use futures_channel::oneshot;
use futures_util::future::{AbortHandle, Abortable};
use tally_host::Target;
use tally_host::object::{IncomingCall, Shell};
use tracing::error;

use super::alarm::AlarmState;
use super::clock::Turns;
use super::event_stream::EventChannel;
use super::far::Routed;
use super::ground::Ground;
use super::key::PlaceKey;
use super::live_socket::LiveSocket;
use super::store::database::Database;
use super::store::opening::{self, CommitError};
use super::store::registry::DatabaseEntry;

/// Who has the places.
pub(crate) trait Home {
    /// What is beneath all of them.
    fn ground(&self) -> &Rc<Ground>;

    /// The place of an object, opened where it is not.
    ///
    /// # Errors
    /// If its database cannot be opened, or too many objects are open and busy.
    fn place(self: Rc<Self>, key: &PlaceKey) -> Result<Rc<Place>, String>;

    /// Starts the object of a place, as the incarnation of this number.
    fn start(self: Rc<Self>, place: &Rc<Place>, number: u64) -> Option<Rc<dyn Shell>>;

    /// Forgets a place that has failed, so that it is opened again from its file.
    fn forget(&self, place: &Rc<Place>);

    /// Plans the commit of a place. It follows the tasks that are ready now, so their writes are in it too.
    fn plan_commit(&self, place: &Rc<Place>);

    /// Sends a message to its receiver, who answers to the caller, unless it fails.
    fn deliver(self: Rc<Self>, to: Target, arrived: IncomingCall, caller: oneshot::Sender<Routed>);
}

/// One incarnation of an object: what a failed commit takes with it.
pub(crate) struct Incarnation {
    number: u64,
    shell: RefCell<Option<Rc<dyn Shell>>>,
    tasks: RefCell<HashMap<u64, AbortHandle>>,
    task_numbers: Cell<u64>,
}

impl Incarnation {
    /// The object that runs; `None` within its own constructor.
    pub(crate) fn shell(&self) -> Option<Rc<dyn Shell>> {
        self.shell.borrow().clone()
    }
}

/// An action that waits for a commit.
type Held = Box<dyn FnOnce()>;

/// What waited for a commit that is durable now.
pub(crate) struct Durable {
    actions: Vec<Held>,
    waiting: Vec<Waker>,
}

impl Durable {
    /// Lets it out, in its order.
    pub(crate) fn let_out(self) {
        self.actions.into_iter().for_each(|action| action());
        self.waiting.into_iter().for_each(Waker::wake);
    }
}

/// Where an object lives while it is open.
pub(crate) struct Place {
    pub(crate) ground: Rc<Ground>,
    pub(crate) home: Rc<dyn Home>,
    pub(crate) key: PlaceKey,
    pub(crate) id: String,
    pub(crate) database: Database,
    pub(crate) alarm: AlarmState,
    pub(crate) sockets: RefCell<Vec<Rc<LiveSocket>>>,
    pub(crate) streams: RefCell<Vec<Rc<EventChannel>>>,
    pub(crate) used_ms: Cell<i64>,
    /// Whether it was used since it was last looked at for closing.
    pub(crate) was_used: Cell<bool>,
    incarnation: RefCell<Option<Rc<Incarnation>>>,
    incarnations: Cell<u64>,
    /// What waits for the next commit.
    outbox: RefCell<Vec<Held>>,
    /// What waits for the sync of the last one.
    committed: RefCell<Vec<Held>>,
    is_planned: Cell<bool>,
    /// Whether the last commit is not synced yet.
    is_syncing: Cell<bool>,
    commits: Cell<u64>,
    syncing: RefCell<Vec<Waker>>,
}

/// The name and the alarm in a database.
type Stored = Option<(String, Option<i64>)>;

/// Opens the database of an object, and sees that it is this object's.
fn opened(ground: &Ground, key: &PlaceKey, id: &str) -> Result<(Database, Stored), String> {
    let entry = ground.registry.entry(id)?;
    let file = ground.file(key.class.folder(), id);
    let database = Database::open(file, &key.name, entry)?;
    let stored = database.stored()?;
    if let Some((known, _)) = stored.as_ref().filter(|(known, _)| **known != *key.name) {
        return Err(format!(
            "it is of the object {known:?}: restore its file from a backup"
        ));
    }
    if entry == DatabaseEntry::None && stored.is_some() {
        // The process ended between a commit and its entry, or the registry was lost. What the object answers from now
        // on may rest on it. A file without an object has no commit.
        opening::sync_made(database.unsynced_file()).map_err(|error| error.to_string())?;
        let needs_log = database.is_unregistered();
        ground
            .registry
            .note([(id, key.class.folder())], needs_log)?;
        match needs_log {
            true => database.registered(),
            false => database.folded(),
        }
    }
    Ok((database, stored))
}

impl Place {
    /// Opens the place of an object.
    ///
    /// # Errors
    /// If its database cannot be opened.
    pub(crate) fn open(home: &Rc<dyn Home>, key: PlaceKey) -> Result<Rc<Self>, String> {
        let ground = home.ground().clone();
        let id = key.id();
        let (database, stored) = opened(&ground, &key, &id).map_err(|why| {
            ground.log_damage(&ground.file(key.class.folder(), &id), &why);
            "the object's database cannot be opened".to_owned()
        })?;
        let at_ms = stored.and_then(|(_, at_ms)| at_ms);
        Ok(Rc::new(Self {
            home: home.clone(),
            alarm: AlarmState::stored(&ground.alarms, &key, at_ms),
            key,
            id,
            database,
            sockets: RefCell::default(),
            streams: RefCell::default(),
            used_ms: Cell::new(ground.clock.now_ms()),
            was_used: Cell::new(true),
            incarnation: RefCell::default(),
            incarnations: Cell::default(),
            outbox: RefCell::default(),
            committed: RefCell::default(),
            is_planned: Cell::default(),
            is_syncing: Cell::default(),
            commits: Cell::default(),
            syncing: RefCell::default(),
            ground,
        }))
    }

    /// The incarnation that runs, started where there is none.
    pub(crate) fn incarnation(self: &Rc<Self>) -> Rc<Incarnation> {
        self.used_ms.set(self.ground.clock.now_ms());
        self.was_used.set(true);
        if let Some(incarnation) = &*self.incarnation.borrow() {
            return incarnation.clone();
        }
        let number = self.incarnations.get() + 1;
        self.incarnations.set(number);
        let incarnation = Rc::new(Incarnation {
            number,
            shell: RefCell::default(),
            tasks: RefCell::default(),
            task_numbers: Cell::default(),
        });
        *self.incarnation.borrow_mut() = Some(incarnation.clone());
        let shell = self.home.clone().start(self, number);
        *incarnation.shell.borrow_mut() = shell;
        incarnation
    }

    /// The object, if it runs.
    pub(crate) fn shell(&self) -> Option<Rc<dyn Shell>> {
        let incarnation = self.incarnation.borrow();
        incarnation.as_ref().and_then(|known| known.shell())
    }

    /// Whether this incarnation still runs.
    pub(crate) fn is_alive(&self, number: u64) -> bool {
        let incarnation = self.incarnation.borrow();
        incarnation
            .as_ref()
            .is_some_and(|known| known.number == number)
    }

    /// Runs work of the incarnation that runs now; it ends with the incarnation.
    pub(crate) fn spawn(self: &Rc<Self>, work: impl Future<Output = ()> + 'static) {
        let incarnation = self.incarnation();
        let number = incarnation.task_numbers.get() + 1;
        incarnation.task_numbers.set(number);
        let (abort, registration) = AbortHandle::new_pair();
        incarnation.tasks.borrow_mut().insert(number, abort);
        let owner = Rc::downgrade(&incarnation);
        drop(incarnation);
        let work = Abortable::new(Turns::new(&self.ground.clock, work), registration);
        tokio::task::spawn_local(async move {
            let _ = work.await;
            if let Some(incarnation) = owner.upgrade() {
                incarnation.tasks.borrow_mut().remove(&number);
            }
        });
    }

    /// Runs work of an incarnation, if that still runs.
    pub(crate) fn spawn_for(
        self: &Rc<Self>,
        number: u64,
        work: impl Future<Output = ()> + 'static,
    ) {
        if self.is_alive(number) {
            self.spawn(work);
        }
    }

    /// The number of the incarnation that runs; 0 if none does.
    pub(crate) fn number(&self) -> u64 {
        self.incarnation
            .borrow()
            .as_ref()
            .map_or(0, |known| known.number)
    }

    /// Sends something out of the object once all its writes are durable, in the order of these calls.
    pub(crate) fn release(&self, number: u64, action: impl FnOnce() + 'static) {
        if !self.is_alive(number) {
            return;
        }
        if self.database.is_dirty() {
            self.outbox.borrow_mut().push(Box::new(action));
        } else if self.is_syncing() {
            self.committed.borrow_mut().push(Box::new(action));
        } else {
            action();
        }
    }

    /// Plans the commit of what was written in this tick, where there is something. While the commit before is synced,
    /// it waits for that.
    pub(crate) fn plan_commit(self: &Rc<Self>) {
        let may_commit = self.database.is_dirty() && !self.is_syncing();
        if may_commit && !self.is_planned.replace(true) {
            self.home.plan_commit(self);
        }
    }

    /// Whether a commit is not synced yet.
    pub(crate) fn is_syncing(&self) -> bool {
        self.is_syncing.get()
    }

    /// Commits what was written. Returns whether something was: then it has to be synced, and is let out after that.
    pub(crate) fn commit(self: &Rc<Self>) -> bool {
        self.is_planned.set(false);
        if !self.database.is_dirty() {
            return false;
        }
        match self.database.commit(self.alarm.changed()) {
            Ok(()) => {
                self.alarm.committed();
                self.is_syncing.set(true);
                self.committed.replace(self.outbox.take());
                return true;
            }
            Err(CommitError::Undone(why)) => {
                self.ground.log_failed_commit(&self.label(), &why);
                self.fail();
            }
            Err(CommitError::Unknown(why)) => self.ground.disk_failed(&why),
        }
        false
    }

    /// Takes what waited for a commit that is synced, and which the registry knows of. Plans the next commit.
    pub(crate) fn synced(self: &Rc<Self>) -> Durable {
        self.is_syncing.set(false);
        self.commits.set(self.commits.get() + 1);
        let durable = Durable {
            actions: self.committed.take(),
            waiting: self.syncing.take(),
        };
        self.plan_commit();
        durable
    }

    /// The registry cannot know of what was committed, so nothing rests on it: the turn is refused.
    pub(crate) fn refuse(self: &Rc<Self>, why: &str) {
        let label = self.label();
        error!("the registry cannot note {label}, so its turn is refused: {why}");
        self.fail();
        self.home.forget(self);
        self.clear();
    }

    /// How messages call it.
    pub(crate) fn label(&self) -> String {
        format!("{} {:?}", self.key.class.binding(), self.key.name)
    }

    /// Waits until all that was written so far is durable. Fails if the incarnation ends before.
    pub(crate) fn sync(
        self: &Rc<Self>,
        number: u64,
    ) -> impl Future<Output = Result<(), String>> + use<> {
        let place = self.clone();
        let outstanding = u64::from(self.is_syncing()) + u64::from(self.database.is_dirty());
        let wanted = self.commits.get() + outstanding;
        std::future::poll_fn(move |context| {
            if place.commits.get() >= wanted {
                return Poll::Ready(Ok(()));
            }
            if !place.is_alive(number) {
                return Poll::Ready(Err("the object has failed".to_owned()));
            }
            place.syncing.borrow_mut().push(context.waker().clone());
            Poll::Pending
        })
    }

    /// Ends the incarnation: its memory, its tasks, and its writes and messages that are not durable are lost.
    fn fail(self: &Rc<Self>) {
        let incarnation = self.incarnation.take();
        self.database.roll_back();
        let held = (self.outbox.take(), self.committed.take());
        self.is_syncing.set(false);
        for stream in self.streams.take() {
            stream.end();
        }
        for socket in self.sockets.take() {
            socket.break_off();
        }
        if let Some(incarnation) = &incarnation {
            let tasks = incarnation.tasks.take();
            tasks.into_values().for_each(|task| task.abort());
        }
        for waker in self.syncing.take() {
            waker.wake();
        }
        self.alarm.rolled_back(self.ground.clock.now_ms());
        // Callers hear of it as these are dropped.
        drop((held, incarnation));
    }

    /// Whether nothing runs in it or waits for it.
    pub(crate) fn is_idle(&self) -> bool {
        self.streams.borrow_mut().retain(|stream| stream.is_open());
        let is_busy = self
            .incarnation
            .borrow()
            .as_ref()
            .is_some_and(|incarnation| !incarnation.tasks.borrow().is_empty());
        let is_stored = !self.database.is_dirty() && !self.is_syncing();
        let is_quiet = is_stored && !self.alarm.is_busy();
        !is_busy && is_quiet && self.streams.borrow().is_empty()
    }

    /// Lets the object's memory go, if nothing runs in it. Returns whether nothing does.
    pub(crate) fn evict(&self) -> bool {
        let is_idle = self.is_idle();
        if is_idle {
            drop(self.incarnation.take());
        }
        is_idle
    }

    /// Whether the place itself can be forgotten: all that it has is stored.
    pub(crate) fn is_forgettable(&self) -> bool {
        self.sockets.borrow_mut().retain(|socket| socket.is_open());
        self.incarnation.borrow().is_none() && self.sockets.borrow().is_empty()
    }

    /// Releases what refers to this place.
    pub(crate) fn clear(&self) {
        let incarnation = self.incarnation.take();
        let held = (self.outbox.take(), self.committed.take());
        drop((incarnation, held, self.sockets.take(), self.streams.take()));
        self.database.close();
    }
}
