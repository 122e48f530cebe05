//! The state that all parts of a world share: its isolates and objects, and how they end.
//!
//! The parts hold references to each other, so [`Core::close`] releases them when a world ends.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::collections::HashMap;
use std::rc::Rc;

use tally_host::http::{Context, Request, Response};
use tally_host::object::{IncomingCall, Reply};
use tally_host::{Host, Later};
use tally_wire::names::Placement;

use crate::bucket::Bucket;
use crate::builds::Mixture;
use crate::chance::Chance;
use crate::clocks::Clocks;
use crate::executor::{Executor, Owner, Step};
use crate::faults::{Faults, Housing, Options};
use crate::guest::{Backing, Guest};
use crate::history::History;
use crate::intervention::Intervention;
use crate::isolate::{Isolate, Role};
use crate::journal::Journal;
use crate::network::{Network, Site};
use crate::outside::Outside;
use crate::place::{Place, Starter};
use crate::queue::Queue;

/// Answers calls of the aggregator.
pub(crate) type Aggregator = Rc<dyn Fn(Host, IncomingCall, Context) -> Later<Reply>>;

/// Answers clients.
pub(crate) type Edge = Rc<dyn Fn(Box<dyn Request>, Host, Context) -> Later<Response>>;

/// The isolates of one role at one site.
type Isolates = Vec<Rc<Isolate>>;

/// The owner of tasks.
#[derive(Clone)]
enum Owned {
    Place(Rc<Place>),
    Isolate(Rc<Isolate>),
}

/// What all parts of a world share.
pub struct Core {
    pub(crate) executor: Rc<Executor>,
    pub(crate) chance: Chance,
    pub(crate) journal: Journal,
    pub(crate) history: History,
    pub(crate) faults: Cell<Faults>,
    pub(crate) options: Options,
    pub(crate) network: Network,
    pub(crate) clocks: Clocks,
    pub(crate) queue: Queue,
    pub(crate) bucket: Bucket,
    pub(crate) intervention: Intervention,
    pub(crate) builds: Mixture,
    pub(crate) outside: Outside,
    settings: RefCell<BTreeMap<(Option<Role>, String), String>>,
    starters: RefCell<BTreeMap<&'static str, Starter>>,
    aggregator: RefCell<Option<Aggregator>>,
    edge: RefCell<Option<Edge>>,
    places: RefCell<BTreeMap<(&'static str, String), Rc<Place>>>,
    isolates: RefCell<BTreeMap<(Role, Site), Isolates>>,
    owned: RefCell<HashMap<Owner, Owned>>,
    is_closing: Cell<bool>,
}

/// A digest of bytes. Source: FNV-1a, 64 bits; `seed` tells digests of the same bytes apart.
pub(crate) fn digest(seed: u64, bytes: &[u8]) -> u64 {
    let begin = 0xcbf2_9ce4_8422_2325 ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bytes.iter().fold(begin, |digest, byte| {
        (digest ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

impl Core {
    pub(crate) fn new(seed: u64, options: Options) -> Rc<Self> {
        Rc::new(Self {
            executor: Rc::default(),
            chance: Chance::new(seed),
            journal: Journal::default(),
            history: History::default(),
            faults: Cell::new(Faults::NONE),
            network: Network::new(&options),
            clocks: Clocks::default(),
            queue: Queue::default(),
            bucket: Bucket::default(),
            intervention: Intervention::default(),
            builds: Mixture::default(),
            outside: Outside::default(),
            options,
            settings: RefCell::default(),
            starters: RefCell::default(),
            aggregator: RefCell::default(),
            edge: RefCell::default(),
            places: RefCell::default(),
            isolates: RefCell::default(),
            owned: RefCell::default(),
            is_closing: Cell::new(false),
        })
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.is_closing.get()
    }

    /// True unix milliseconds.
    pub(crate) fn now_ms(&self) -> i64 {
        let since_ms = i64::try_from(self.executor.now_us() / 1_000).unwrap_or(i64::MAX);
        self.options.begins_ms.saturating_add(since_ms)
    }

    /// When a time of unix milliseconds is, in microseconds since the world began; 0 for what is past.
    pub(crate) fn at_us(&self, at_ms: i64) -> u64 {
        let after_ms = at_ms.saturating_sub(self.options.begins_ms);
        u64::try_from(after_ms).unwrap_or(0).saturating_mul(1_000)
    }

    pub(crate) fn record(&self, line: impl FnOnce() -> String) {
        self.journal.record(self.executor.now_us(), line);
    }

    /// Does something after a time.
    pub(crate) fn after(&self, microseconds: u64, action: impl FnOnce() + 'static) {
        let at_us = self.executor.now_us().saturating_add(microseconds);
        self.executor.at(at_us, Box::new(action));
    }

    pub(crate) fn set(&self, role: Option<Role>, name: &str, value: Option<&str>) {
        let key = (role, name.to_owned());
        let mut settings = self.settings.borrow_mut();
        match value {
            Some(value) => settings.insert(key, value.to_owned()),
            None => settings.remove(&key),
        };
    }

    pub(crate) fn setting(&self, role: Role, name: &str) -> Option<String> {
        let settings = self.settings.borrow();
        let of = |role| settings.get(&(role, name.to_owned())).cloned();
        of(Some(role)).or_else(|| of(None))
    }

    pub(crate) fn register(&self, binding: &'static str, starter: Starter) {
        self.starters.borrow_mut().insert(binding, starter);
    }

    pub(crate) fn starter(&self, binding: &str) -> Starter {
        let starter = self.starters.borrow().get(binding).cloned();
        starter.unwrap_or_else(|| panic!("the world has no objects of {binding}: register them"))
    }

    pub(crate) fn set_aggregator(&self, aggregator: Aggregator) {
        *self.aggregator.borrow_mut() = Some(aggregator);
    }

    pub(crate) fn set_edge(&self, edge: Edge) {
        *self.edge.borrow_mut() = Some(edge);
    }

    /// What answers clients.
    pub(crate) fn edge_handler(&self) -> Edge {
        let edge = self.edge.borrow().clone();
        edge.expect("the world has no edge: set one")
    }

    /// What answers calls of the aggregator.
    pub(crate) fn aggregator(&self) -> Aggregator {
        let aggregator = self.aggregator.borrow().clone();
        aggregator.expect("the world has no aggregator: set one")
    }

    /// The isolates of a role at a site, made up to a number.
    pub(crate) fn isolates(&self, role: Role, site: Site, least: usize) -> Vec<Rc<Isolate>> {
        let mut isolates = self.isolates.borrow_mut();
        let known = isolates.entry((role, site)).or_default();
        while known.len() < least {
            let isolate = Isolate::new(self, role, site, known.len());
            self.own_isolate(&isolate);
            known.push(isolate);
        }
        known.clone()
    }

    /// All isolates, in an order that never changes.
    pub(crate) fn all_isolates(&self) -> Vec<Rc<Isolate>> {
        self.isolates.borrow().values().flatten().cloned().collect()
    }

    /// All isolates that have a clock: those of objects that live alone too, while they run. One may come twice.
    pub(crate) fn all_clocks(&self) -> Vec<Rc<Isolate>> {
        let places = self.all_places();
        let housed = places.iter().filter_map(|place| place.isolate());
        self.all_isolates().into_iter().chain(housed).collect()
    }

    /// All places, in the order of their names.
    pub(crate) fn all_places(&self) -> Vec<Rc<Place>> {
        self.places.borrow().values().cloned().collect()
    }

    /// The isolate that an object starts in.
    pub(crate) fn house(self: &Rc<Self>, place: &Rc<Place>) -> Rc<Isolate> {
        let isolate = match self.options.housing {
            Housing::Alone => {
                let number = self.places.borrow().len();
                Isolate::new(self, Role::Objects, place.site, number)
            }
            Housing::WithAggregator => self.aggregator_at(place.site),
            Housing::Shared(count) => {
                let isolates = self.isolates(Role::Objects, place.site, count.max(1));
                isolates[self.chance.pick(isolates.len())].clone()
            }
        };
        isolate.house(place);
        isolate
    }

    /// Notes whose the tasks of an isolate are; those of objects belong to the objects.
    fn own_isolate(&self, isolate: &Rc<Isolate>) {
        if isolate.role != Role::Objects {
            let owned = Owned::Isolate(isolate.clone());
            self.owned.borrow_mut().insert(isolate.owner(), owned);
        }
    }

    pub(crate) fn own_place(&self, owner: Owner, place: &Rc<Place>) {
        self.owned
            .borrow_mut()
            .insert(owner, Owned::Place(place.clone()));
    }

    pub(crate) fn disown(&self, owner: Owner) {
        let owned = self.owned.borrow_mut().remove(&owner);
        drop(owned);
    }

    /// The place of an object, made where it is new: near its hint, or near whoever asks first.
    pub(crate) fn place(self: &Rc<Self>, to: &Placement, from: Site) -> Rc<Place> {
        let key = (to.binding, to.name.clone());
        if let Some(known) = self.places.borrow().get(&key) {
            return known.clone();
        }
        let hinted = to
            .location_hint
            .and_then(|hint| self.network.site_near(hint));
        let place = Place::new(self, to.binding, &to.name, hinted.unwrap_or(from));
        self.places.borrow_mut().insert(key, place.clone());
        place
    }

    /// A place that is known.
    pub(crate) fn known_place(&self, binding: &'static str, name: &str) -> Option<Rc<Place>> {
        let places = self.places.borrow();
        places.get(&(binding, name.to_owned())).cloned()
    }

    /// A request enters an isolate: what its handler is given.
    pub(crate) fn enter(self: &Rc<Self>, isolate: &Rc<Isolate>) -> (Host, Context, u64) {
        let request = self.executor.request();
        let host = Host::new(Rc::new(Guest::of_isolate(self, isolate)), isolate.memory());
        let backing = Backing {
            core: self.clone(),
            owner: isolate.owner(),
            request,
        };
        let context = Context::new(Rc::new(backing));
        (host, context, request)
    }

    /// Runs one step; chance may then crash or evict an isolate or object.
    pub(crate) fn step(self: &Rc<Self>) -> Step {
        let step = self.executor.step(&self.chance);
        let Step::Ran(owner, has_ended) = step else {
            return step;
        };
        let faults = self.faults.get();
        let owned = || self.owned.borrow().get(&owner).cloned();
        if self.chance.once_in(faults.crashes_object_once_in)
            && let Some(Owned::Place(place)) = owned()
        {
            place.crash();
        }
        if self.chance.once_in(faults.crashes_isolate_once_in) {
            match owned() {
                Some(Owned::Isolate(isolate)) => self.crash_isolate(&isolate),
                Some(Owned::Place(place)) => self.crash_isolate(&place.incarnation().isolate),
                None => {}
            }
        }
        if has_ended && self.chance.once_in(faults.evicts_once_in) {
            match owned() {
                Some(Owned::Isolate(isolate)) => drop(self.evict_isolate(&isolate)),
                Some(Owned::Place(place)) => drop(place.evict()),
                None => {}
            }
        }
        step
    }

    /// Crashes an isolate: its memory, its running work and all objects in it are lost.
    pub(crate) fn crash_isolate(self: &Rc<Self>, isolate: &Rc<Isolate>) {
        self.journal.count(|figures| figures.crashes += 1);
        self.record(|| format!("crash    {}", isolate.label));
        let residents = isolate.take_residents();
        for place in residents {
            if place.lives_in(isolate) {
                place.crash();
            }
        }
        let old = isolate.owner();
        self.renew(isolate, old);
    }

    fn renew(self: &Rc<Self>, isolate: &Rc<Isolate>, old: Owner) {
        let memory = isolate.renew(self);
        self.disown(old);
        self.own_isolate(isolate);
        drop((self.executor.take_tasks(old), memory));
    }

    /// Evicts an isolate if nothing runs in it. Returns whether it did.
    pub(crate) fn evict_isolate(self: &Rc<Self>, isolate: &Rc<Isolate>) -> bool {
        let old = isolate.owner();
        let is_home = isolate
            .residents()
            .iter()
            .any(|place| place.lives_in(isolate));
        if is_home || self.executor.has_tasks(old) || isolate.role == Role::Objects {
            return false;
        }
        self.journal.count(|figures| figures.evictions += 1);
        self.record(|| format!("evict    {}", isolate.label));
        self.renew(isolate, old);
        true
    }

    /// Releases everything as the world ends: its parts hold references to each other.
    pub(crate) fn close(&self) {
        self.is_closing.set(true);
        self.executor.clear();
        let owned = self.owned.take();
        for place in self.places.take().into_values() {
            place.clear();
        }
        let isolates = self.isolates.take();
        let starters = self.starters.take();
        let handlers = (self.aggregator.take(), self.edge.take());
        self.queue.clear();
        self.intervention.clear();
        self.outside.clear();
        self.executor.clear();
        drop((owned, isolates, starters, handlers));
    }
}
