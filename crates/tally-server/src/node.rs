//! A node: one thread, with its edges, its aggregator and its objects.
//!
//! Invariant: all of it runs on one thread, and speaks to other threads by messages. The edges have a memory each, as
//! isolates of the edge Worker; the aggregator shares the memory of the objects, as in one isolate of its Worker.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use futures_channel::oneshot;
use futures_util::future::join_all;
use tally_host::object::{IncomingCall, Object, Shell};
use tally_host::{Host, Target};
use tally_wire::messages::PROTOCOL;
use tally_wire::names::Placement;
use tokio::sync::mpsc;
use tracing::error;

use super::clock::Turns;
use super::commits::{self, Commits};
use super::far::{Caller, FarCall, Routed, Threads};
use super::ground::Ground;
use super::ground::counted::Count;
use super::guest::Guest;
use super::key::{ClassNumber, PlaceKey};
use super::place::{Home, Place};
use super::ringing;
use super::store::database;
use super::store::registry::DatabaseEntry;

/// How long an object may be idle before its memory and its database are let go, milliseconds.
const IDLE_MS: i64 = 60_000;

/// How often idle objects are looked for.
const SWEEP: Duration = Duration::from_secs(1);

/// How many idle objects are closed in one sweep: each closing folds its write-ahead log.
const CLOSED_PER_SWEEP: usize = 256;

/// How many open objects are looked at for one that was not used lately, and as many again for one that is idle.
const LOOKED_AT_MAX: usize = 64;

/// How many calls wait until an object can be closed for theirs.
const WAITING_MAX: usize = 1_024;

/// How often and how many times such a call looks for an idle object: for a second in all. An edge waits 2 s or more.
const ROOM_EVERY: Duration = Duration::from_millis(5);
const ROOM_LOOKS_MAX: u32 = 200;

/// How many files the scan for alarms opens before it lets others work.
const SCANNED_AT_ONCE: u32 = 8;

/// How long all objects together may take before the stop. A lease is returned within milliseconds.
const PREPARE_TIME_MAX: Duration = Duration::from_secs(2);

/// One thread of the server.
pub(crate) struct Node {
    pub(crate) ground: Rc<Ground>,
    threads: Threads,
    commits: Rc<Commits>,
    places: RefCell<HashMap<PlaceKey, Rc<Place>>>,
    /// Open places, in the order in which they are looked at for one that can be closed.
    open: RefCell<VecDeque<Rc<Place>>>,
    open_max: usize,
    /// How many calls wait for room.
    waiting: Count,
}

impl Node {
    /// A node. `open_max`: how many objects may be open at once.
    pub(crate) fn new(ground: Rc<Ground>, threads: Threads, open_max: usize) -> Rc<Self> {
        Rc::new(Self {
            ground,
            threads,
            commits: Rc::default(),
            places: RefCell::default(),
            open: RefCell::default(),
            open_max,
            waiting: Count::default(),
        })
    }

    /// Begins the work that lasts as long as the node. `calls`: those of other threads.
    pub(crate) fn run(self: &Rc<Self>, calls: mpsc::Receiver<FarCall>) {
        self.receive(calls);
        commits::run(&self.ground, &self.commits);
        // Alarms leave room for the objects that they call, and for calls of clients.
        ringing::run(self.clone(), self.open_max / 2);
        self.sweep();
        self.scan();
    }

    /// Closes an idle object, so that another can be opened: one that was not used lately, if there is one.
    fn close_one(&self) -> Result<(), String> {
        for look in 0..2 * LOOKED_AT_MAX {
            let Some(place) = self.open.borrow_mut().pop_front() else {
                break;
            };
            let was_used = place.was_used.replace(false);
            if (!was_used || look >= LOOKED_AT_MAX) && self.let_go(&place) {
                self.close(&[place]);
                return Ok(());
            }
            self.open.borrow_mut().push_back(place);
        }
        Err(format!(
            "all of {} objects that may be open are busy",
            self.open_max
        ))
    }

    /// Lets an object go, if nothing runs in it. Returns whether it is to be closed.
    fn let_go(&self, place: &Rc<Place>) -> bool {
        let is_let_go = place.evict() && place.is_forgettable();
        if is_let_go {
            self.places.borrow_mut().remove(&place.key);
        }
        is_let_go
    }

    /// Closes places that were let go. Their logs go once the registry knows that they are needed no more; a log that
    /// stays is read at the next opening.
    fn close(&self, places: &[Rc<Place>]) {
        let folded: Vec<_> = places
            .iter()
            .filter(|place| place.database.fold())
            .collect();
        let entries = folded.iter();
        let entries = entries.map(|place| (&*place.id, place.key.class.folder()));
        if !folded.is_empty() && self.ground.registry.note(entries, false).is_ok() {
            folded.iter().for_each(|place| place.database.folded());
        }
        places.iter().for_each(|place| place.clear());
    }

    /// Closes idle objects now and then.
    fn sweep(self: &Rc<Self>) {
        let node = self.clone();
        let work = async move {
            loop {
                tokio::time::sleep(SWEEP).await;
                let now_ms = node.ground.clock.now_ms();
                let mut left = CLOSED_PER_SWEEP;
                let mut closed = Vec::new();
                node.open.borrow_mut().retain(|place| {
                    let is_old = now_ms.saturating_sub(place.used_ms.get()) >= IDLE_MS;
                    let is_closed = is_old && left > 0 && node.let_go(place);
                    if is_closed {
                        left -= 1;
                        closed.push(place.clone());
                    }
                    !is_closed
                });
                node.close(&closed);
            }
        };
        tokio::task::spawn_local(Turns::new(&self.ground.clock, work));
    }

    /// Looks for all objects that are stored: plans the alarms of those that are not open, and names what is damaged.
    /// It goes on while the server answers already.
    fn scan(self: &Rc<Self>) {
        let node = self.clone();
        let work = async move {
            for class in ClassNumber::all() {
                let files = std::fs::read_dir(node.ground.objects.join(class.folder()));
                let files = files.into_iter().flatten().flatten();
                for (index, file) in (0_u32..).zip(files) {
                    node.plan_stored(class, &file.path());
                    if index % SCANNED_AT_ONCE == 0 {
                        tokio::task::yield_now().await;
                    }
                }
            }
            if let Err(why) = node.look_for_missing().await {
                error!("the registry cannot be read: {why}");
            }
        };
        tokio::task::spawn_local(Turns::new(&self.ground.clock, work));
    }

    fn plan_stored(self: &Rc<Self>, class: ClassNumber, file: &std::path::Path) {
        let is_database = file.extension().is_some_and(|ending| ending == "sqlite");
        let id = file
            .file_stem()
            .and_then(|stem| stem.to_str())
            .unwrap_or_default();
        let is_open = |place: &Rc<Place>| place.key.class == class && place.id == id;
        if !is_database || !self.threads.is_own(id) || self.open.borrow().iter().any(is_open) {
            return;
        }
        let entry = self.ground.registry.entry(id);
        match entry.and_then(|entry| database::look_into(file, entry)) {
            Ok(Some((name, Some(at_ms)))) => {
                let key = PlaceKey {
                    class,
                    name: name.into(),
                };
                self.ground.alarms.replace(&key, None, Some(at_ms));
            }
            Ok(_) => {}
            Err(why) => self.ground.log_damage(file, &why),
        }
    }

    /// Names the databases that were stored and are not there.
    async fn look_for_missing(&self) -> Result<(), String> {
        let mut last = String::new();
        loop {
            let page = self.ground.registry.after(&last, SCANNED_AT_ONCE)?;
            let Some(end) = page.last() else {
                return Ok(());
            };
            for known in &page {
                let file = self.ground.file(&known.folder, &known.id);
                if self.threads.is_own(&known.id) && !file.exists() {
                    let looked = database::look_into(&file, DatabaseEntry::Closed);
                    looked
                        .err()
                        .iter()
                        .for_each(|why| self.ground.log_damage(&file, why));
                }
            }
            last.clone_from(&end.id);
            tokio::task::yield_now().await;
        }
    }

    /// Hands a call to an object of this thread, or to the thread of the object.
    fn deliver_to_object(
        self: &Rc<Self>,
        to: Placement,
        arrived: IncomingCall,
        caller: oneshot::Sender<Routed>,
    ) {
        let caller = Caller::Near(caller);
        let key = match PlaceKey::of(&to) {
            Ok(key) => key,
            Err(why) => return caller.hear(Err(why)),
        };
        if !self.threads.is_one() && !self.places.borrow().contains_key(&key) {
            let id = key.id();
            if !self.threads.is_own(&id) {
                return self.threads.send(&id, to, arrived, caller);
            }
        }
        self.answer_here(&key, arrived, caller);
    }

    /// Answers a call to an object of this thread, once there is room to open it.
    fn answer_here(self: &Rc<Self>, key: &PlaceKey, arrived: IncomingCall, caller: Caller) {
        if self.has_room(key) || self.waiting.get() >= WAITING_MAX {
            return self.answer_now(key, arrived, caller);
        }
        let waiting = self.waiting.begin();
        let (node, key) = (self.clone(), key.clone());
        self.ground.spawn(async move {
            for _ in 0..ROOM_LOOKS_MAX {
                tokio::time::sleep(ROOM_EVERY).await;
                if node.has_room(&key) {
                    break;
                }
            }
            drop(waiting);
            node.answer_now(&key, arrived, caller);
        });
    }

    /// Whether an object is open, or can be opened; closes an idle one for that.
    fn has_room(&self, key: &PlaceKey) -> bool {
        let has_room = {
            let places = self.places.borrow();
            places.len() < self.open_max || places.contains_key(key)
        };
        has_room || self.close_one().is_ok()
    }

    fn answer_now(self: &Rc<Self>, key: &PlaceKey, arrived: IncomingCall, caller: Caller) {
        let place = match self.clone().place(key) {
            Ok(place) => place,
            Err(why) => return caller.hear(Err(why)),
        };
        let Some(shell) = place.incarnation().shell() else {
            return caller.hear(Err("the object is starting".to_owned()));
        };
        let (known, number) = (place.clone(), place.number());
        place.spawn(async move {
            let reply = shell.answer(arrived).await;
            known.release(number, move || caller.hear(Ok(reply)));
        });
    }

    /// Answers the calls of other threads.
    fn receive(self: &Rc<Self>, mut calls: mpsc::Receiver<FarCall>) {
        let node = self.clone();
        let work = async move {
            while let Some(call) = calls.recv().await {
                let caller = Caller::Far(call.answer);
                match PlaceKey::of(&call.to) {
                    Ok(key) => node.answer_here(&key, call.arrived, caller),
                    Err(why) => caller.hear(Err(why)),
                }
            }
        };
        tokio::task::spawn_local(Turns::new(&self.ground.clock, work));
    }

    /// Lets each open object write what it has in memory only, and return what it has borrowed.
    pub(crate) async fn prepare_stop(&self) {
        let places: Vec<_> = self.places.borrow().values().cloned().collect();
        let mut prepared = Vec::new();
        for place in places {
            if let Some(shell) = place.shell() {
                let (ended, end) = oneshot::channel::<()>();
                place.spawn(async move {
                    shell.before_stop().await;
                    drop(ended);
                });
                prepared.push(end);
            }
        }
        // An object that needs longer loses what a crash would have lost.
        let _ = tokio::time::timeout(PREPARE_TIME_MAX, join_all(prepared)).await;
    }

    /// Ends the node: commits what is written, and closes all objects.
    pub(crate) fn close_all(&self) {
        let places: Vec<_> = self.places.borrow().values().cloned().collect();
        self.commits.end(&self.ground, &places);
        self.places.take();
        self.open.take();
        self.close(&places);
    }
}

impl Home for Node {
    fn ground(&self) -> &Rc<Ground> {
        &self.ground
    }

    fn place(self: Rc<Self>, key: &PlaceKey) -> Result<Rc<Place>, String> {
        if let Some(known) = self.places.borrow().get(key) {
            return Ok(known.clone());
        }
        if self.places.borrow().len() >= self.open_max {
            self.close_one()?;
        }
        let home: Rc<dyn Home> = self.clone();
        let place = Place::open(&home, key.clone())?;
        place.alarm.opened();
        self.places.borrow_mut().insert(key.clone(), place.clone());
        self.open.borrow_mut().push_back(place.clone());
        Ok(place)
    }

    fn start(self: Rc<Self>, place: &Rc<Place>, number: u64) -> Option<Rc<dyn Shell>> {
        let class = place.key.class.class()?;
        let guest = Rc::new(Guest::of_object(place, number));
        let host = Host::new(guest.clone(), self.ground.memory.clone());
        Some(class.start(Object::new(guest), host))
    }

    fn forget(&self, place: &Rc<Place>) {
        self.places.borrow_mut().remove(&place.key);
        let mut open = self.open.borrow_mut();
        open.retain(|known| !Rc::ptr_eq(known, place));
    }

    fn plan_commit(&self, place: &Rc<Place>) {
        self.commits.plan(place.clone());
    }

    fn deliver(self: Rc<Self>, to: Target, arrived: IncomingCall, caller: oneshot::Sender<Routed>) {
        let arrived = match arrived.understood_by(PROTOCOL) {
            Ok(arrived) => arrived,
            Err(refusal) => return Caller::Near(caller).hear(Ok(refusal)),
        };
        match to {
            Target::Object(placement) => self.deliver_to_object(placement, arrived, caller),
            Target::Aggregator => {
                let host = Host::new(
                    Rc::new(Guest::of_aggregator(self.clone())),
                    self.ground.memory.clone(),
                );
                let context = self.ground.context();
                self.ground.spawn(async move {
                    let reply = tally_aggregator::answer(&host, &arrived, &context).await;
                    Caller::Near(caller).hear(Ok(reply));
                });
            }
        }
    }
}
