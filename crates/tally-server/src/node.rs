//! A node: one thread, with its edges, its aggregator and its objects.
//!
//! Invariant: all of it runs on one thread, and nothing is shared with another. The edges have a memory each, as
//! isolates of the edge Worker; the aggregator shares the memory of the objects, as in one isolate of its Worker.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use futures_channel::oneshot;
use tally_host::http::{Background, Context};
use tally_host::object::{IncomingCall, Reply};
use tally_host::{Host, Later, Memory, Target};
use tally_protocol::messages::PROTOCOL;
use tally_protocol::names::Placement;

use super::alarm::{self, Alarms};
use super::clock::{TurnClock, Turns};
use super::commits::{self, Commits};
use super::database;
use super::guest::Guest;
use super::options::ServerSettings;
use super::place::{ClassNumber, Place, PlaceKey};
use super::randomness::Randomness;
use super::webhook::Webhooks;

/// How long an object may be idle before its memory and its database are let go, milliseconds.
const IDLE_MS: i64 = 60_000;

/// How often idle objects are looked for.
const SWEEP: Duration = Duration::from_secs(1);

/// How many idle objects are closed in one sweep: each closing folds its write-ahead log.
const CLOSED_PER_SWEEP: usize = 256;

/// How many open objects are looked at for one that can be closed instead of another that is opened.
const LOOKED_AT_MAX: usize = 64;

/// How many files the scan for alarms opens before it lets others work.
const SCANNED_AT_ONCE: usize = 8;

/// The outcome of a call.
pub(crate) type Answer = Result<Reply, String>;

/// One thread of the server.
pub(crate) struct Node {
    pub(crate) settings: Rc<ServerSettings>,
    /// The folder of the objects' databases.
    pub(crate) objects: PathBuf,
    /// The folder of the deployment's files.
    pub(crate) files: PathBuf,
    pub(crate) clock: Rc<TurnClock>,
    pub(crate) randomness: Randomness,
    pub(crate) commits: Commits,
    pub(crate) alarms: Alarms,
    pub(crate) webhooks: Webhooks,
    /// The memory of the aggregator and the objects.
    pub(crate) memory: Rc<Memory>,
    places: RefCell<HashMap<PlaceKey, Rc<Place>>>,
    /// Open places, in the order in which they are looked at for one that can be closed.
    open: RefCell<VecDeque<Rc<Place>>>,
    open_max: usize,
    background: Rc<Cell<usize>>,
}

/// Work that goes on after its request was answered.
struct Work(Rc<Cell<usize>>);

impl Work {
    fn begin(count: &Rc<Cell<usize>>) -> Self {
        count.set(count.get() + 1);
        Self(count.clone())
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        self.0.set(self.0.get().saturating_sub(1));
    }
}

struct NodeBackground(Rc<Node>);

impl Background for NodeBackground {
    fn wait_until(&self, work: Later<()>) {
        self.0.spawn(work);
    }
}

impl Node {
    /// A node of a deployment. `open_max`: how many objects may be open at once.
    pub(crate) fn new(
        settings: Rc<ServerSettings>,
        objects: PathBuf,
        files: PathBuf,
        open_max: usize,
    ) -> Rc<Self> {
        let clock = Rc::new(TurnClock::default());
        clock.begin();
        Rc::new(Self {
            webhooks: Webhooks::new(&settings),
            settings,
            objects,
            files,
            clock,
            randomness: Randomness::default(),
            commits: Commits::default(),
            alarms: Alarms::default(),
            memory: Rc::default(),
            places: RefCell::default(),
            open: RefCell::default(),
            open_max,
            background: Rc::default(),
        })
    }

    /// Begins the work that goes on as long as the node lives.
    pub(crate) fn run(self: &Rc<Self>) {
        commits::run(self);
        alarm::run(self);
        self.sweep();
        self.scan();
    }

    /// Writes a line to the log.
    pub(crate) fn log(&self, text: &str) {
        eprintln!("serve: {text}");
    }

    /// Ends the process: nothing that it might still acknowledge would be true.
    pub(crate) fn end_at_once(&self, why: &str) -> ! {
        self.log(why);
        std::process::exit(super::EXIT_FAILED)
    }

    /// Runs work that goes on after its request was answered.
    pub(crate) fn spawn(self: &Rc<Self>, work: impl Future<Output = ()> + 'static) {
        let held = Work::begin(&self.background);
        let work = async move {
            work.await;
            drop(held);
        };
        tokio::task::spawn_local(Turns::new(&self.clock, work));
    }

    /// How much work goes on that no client waits for.
    pub(crate) fn background_count(&self) -> usize {
        self.background.get()
    }

    /// What a handler of a request is given.
    pub(crate) fn context(self: &Rc<Self>) -> Context {
        Context::new(Rc::new(NodeBackground(self.clone())))
    }

    /// The place of an object, opened where it is not.
    ///
    /// # Errors
    /// If its database cannot be opened, or too many objects are open and busy.
    pub(crate) fn place(self: &Rc<Self>, key: &PlaceKey) -> Result<Rc<Place>, String> {
        if let Some(known) = self.places.borrow().get(key) {
            return Ok(known.clone());
        }
        if self.places.borrow().len() >= self.open_max {
            self.close_one()?;
        }
        let place = Place::open(self, key.clone())?;
        place.alarm.opened(&place);
        self.places.borrow_mut().insert(key.clone(), place.clone());
        self.open.borrow_mut().push_back(place.clone());
        Ok(place)
    }

    /// Closes an object that was not used lately, so that another can be opened.
    fn close_one(&self) -> Result<(), String> {
        for _ in 0..LOOKED_AT_MAX {
            let Some(place) = self.open.borrow_mut().pop_front() else {
                break;
            };
            let was_used = place.was_used.replace(false);
            if !was_used && self.close(&place) {
                return Ok(());
            }
            self.open.borrow_mut().push_back(place);
        }
        Err(format!(
            "all of {} objects that may be open are busy",
            self.open_max
        ))
    }

    /// Closes an object, if nothing runs in it.
    fn close(&self, place: &Rc<Place>) -> bool {
        if !place.evict() || !place.is_forgettable() {
            return false;
        }
        self.places.borrow_mut().remove(&place.key);
        place.clear();
        true
    }

    /// Closes idle objects now and then.
    fn sweep(self: &Rc<Self>) {
        let node = self.clone();
        let work = async move {
            loop {
                tokio::time::sleep(SWEEP).await;
                let now_ms = node.clock.now_ms();
                let mut left = CLOSED_PER_SWEEP;
                let open = node.open.take();
                let kept = open.into_iter().filter(|place| {
                    let is_old = now_ms.saturating_sub(place.used_ms.get()) >= IDLE_MS;
                    let is_closed = is_old && left > 0 && node.close(place);
                    left -= usize::from(is_closed);
                    !is_closed
                });
                let kept = kept.collect();
                *node.open.borrow_mut() = kept;
            }
        };
        tokio::task::spawn_local(Turns::new(&self.clock, work));
    }

    /// Plans the alarms of all objects that are stored and not open. It goes on while the server answers already.
    fn scan(self: &Rc<Self>) {
        let node = self.clone();
        let work = async move {
            for class in ClassNumber::all() {
                let files = std::fs::read_dir(node.objects.join(class.folder()));
                let files = files.into_iter().flatten().flatten();
                for (index, file) in files.enumerate() {
                    node.plan_stored(class, &file.path());
                    if index % SCANNED_AT_ONCE == 0 {
                        tokio::task::yield_now().await;
                    }
                }
            }
        };
        tokio::task::spawn_local(Turns::new(&self.clock, work));
    }

    fn plan_stored(self: &Rc<Self>, class: ClassNumber, file: &std::path::Path) {
        let is_database = file.extension().is_some_and(|ending| ending == "sqlite");
        let id = file
            .file_stem()
            .and_then(|stem| stem.to_str())
            .unwrap_or_default();
        let is_open = |place: &Rc<Place>| place.key.class == class && place.id == id;
        if !is_database || self.open.borrow().iter().any(is_open) {
            return;
        }
        match database::look_into(file) {
            Ok(Some((name, Some(at_ms)))) => {
                let key = PlaceKey {
                    class,
                    name: name.into(),
                };
                self.alarms.replace(&key, None, Some(at_ms));
            }
            Ok(_) => {}
            Err(why) => self.log(&format!(
                "the database {} cannot be read: {why}",
                file.display()
            )),
        }
    }

    /// Sends a message to its receiver. The answer comes by the channel, unless the receiver fails.
    pub(crate) fn deliver(
        self: &Rc<Self>,
        to: Target,
        arrived: IncomingCall,
        answer: oneshot::Sender<Answer>,
    ) {
        let arrived = match arrived.understood_by(PROTOCOL) {
            Ok(arrived) => arrived,
            Err(refusal) => return drop(answer.send(Ok(refusal))),
        };
        match to {
            Target::Object(placement) => self.deliver_to_object(&placement, arrived, answer),
            Target::Aggregator => {
                let host = Host::new(Rc::new(Guest::of_aggregator(self)), self.memory.clone());
                let context = self.context();
                self.spawn(async move {
                    let reply = tally_aggregator::answer(&host, &arrived, &context).await;
                    let _ = answer.send(Ok(reply));
                });
            }
        }
    }

    fn deliver_to_object(
        self: &Rc<Self>,
        to: &Placement,
        arrived: IncomingCall,
        answer: oneshot::Sender<Answer>,
    ) {
        let place = match PlaceKey::of(to).and_then(|key| self.place(&key)) {
            Ok(place) => place,
            Err(why) => return drop(answer.send(Err(why))),
        };
        let Some(shell) = place.incarnation().shell() else {
            return drop(answer.send(Err("the object is starting".to_owned())));
        };
        let (known, number) = (place.clone(), place.number());
        place.spawn(async move {
            let reply = shell.answer(arrived).await;
            known.release(number, move || drop(answer.send(Ok(reply))));
        });
    }

    /// Ends the node: commits what is written, and closes all objects.
    pub(crate) fn close_all(&self) {
        self.commits.run_now();
        let places = self.places.take();
        self.open.take();
        places.values().for_each(|place| place.clear());
    }
}
