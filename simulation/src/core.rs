//! What all parts of a world share, and how messages travel between them.
//!
//! Invariant: a call is answered at most once. Whoever should have answered and is gone lets its [`WayBack`] fall, and the caller hears of
//! it at a drawn time.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::collections::HashMap;
use std::rc::Rc;

use tally::host::http::{Context, Request, Response};
use tally::host::object::{Arrived, Reply};
use tally::host::{Host, Later, Target};
use tally::protocol::names::Placement;

use crate::chance::Chance;
use crate::executor::{Executor, Owner, Step};
use crate::faults::{Faults, Housing, Options};
use crate::guest::{Backing, Guest};
use crate::intervention::{Intervention, Verdict, judged};
use crate::isolate::{Isolate, Role};
use crate::journal::Journal;
use crate::network::{Network, Site};
use crate::place::{Place, Starter};
use crate::queue::Queue;
use crate::slot::Slot;

/// How long a lost call may take to fail, milliseconds. Half of them never do.
const LOST_MS_MAX: u64 = 20_000;

/// How long after its end the callers of an object or isolate hear of it, milliseconds.
const GONE_MS_MAX: u64 = 500;

/// What a call ends with.
pub(crate) type Outcome = Result<Reply, String>;

/// Answers calls of the aggregator.
pub(crate) type Aggregator = Rc<dyn Fn(Host, Arrived, Context) -> Later<Reply>>;

/// Answers clients.
pub(crate) type Edge = Rc<dyn Fn(Box<dyn Request>, Host, Context) -> Later<Response>>;

/// The isolates of one role at one site.
type Isolates = Vec<Rc<Isolate>>;

/// Whose tasks they are.
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
    pub(crate) faults: Cell<Faults>,
    pub(crate) options: Options,
    pub(crate) network: Network,
    pub(crate) queue: Queue,
    pub(crate) intervention: Intervention,
    /// Calls that are never answered.
    unanswered: RefCell<Vec<WayBack>>,
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
            faults: Cell::new(Faults::NONE),
            network: Network::new(options.near_us, options.far_us),
            queue: Queue::default(),
            intervention: Intervention::default(),
            unanswered: RefCell::default(),
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

    pub(crate) fn note(&self, line: impl FnOnce() -> String) {
        self.journal.note(self.executor.now_us(), line);
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
        let gone = self.owned.borrow_mut().remove(&owner);
        drop(gone);
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

    /// Sends a message on its way.
    pub(crate) fn send(
        self: &Rc<Self>,
        from: Site,
        label: &str,
        to: Target,
        arrived: Arrived,
        slot: Rc<Slot<Outcome>>,
    ) {
        let target = match to {
            Target::Object(placement) => Receiver::Place(self.place(&placement, from)),
            Target::Aggregator => Receiver::Isolate(self.aggregator_at(from)),
        };
        let faults = self.faults.get();
        let path = arrived.path.clone();
        self.note(|| format!("send     {path} from {label} to {}", target.label()));
        let may_repeat = !self.options.once.contains(&path.as_str());
        if may_repeat && self.chance.once_in(faults.repeats_once_in) {
            self.journal.count(|figures| figures.repeated += 1);
            let copy = Arrived {
                path: arrived.path.clone(),
                message: arrived.message.clone(),
                upgrade: arrived.upgrade.clone(),
            };
            self.carry(from, &target, copy, Slot::new());
        }
        self.carry(from, &target, arrived, slot);
    }

    fn aggregator_at(self: &Rc<Self>, site: Site) -> Rc<Isolate> {
        let isolates = self.isolates(Role::Aggregator, site, self.options.aggregators.max(1));
        isolates[self.chance.pick(isolates.len())].clone()
    }

    fn carry(
        self: &Rc<Self>,
        from: Site,
        target: &Receiver,
        arrived: Arrived,
        slot: Rc<Slot<Outcome>>,
    ) {
        let way_back = WayBack {
            core: self.clone(),
            from: target.site(),
            to: from,
            path: arrived.path.clone(),
            slot: Some(slot),
        };
        let is_lost = self.chance.once_in(self.faults.get().loses_request_once_in);
        let (core, target) = (self.clone(), target.clone());
        let delay_us = self.delay_us(from, target.site());
        self.after(delay_us, move || {
            if is_lost || core.is_cut(from, target.site()) {
                return way_back.lose("request");
            }
            core.journal.count_message(&arrived.path);
            core.note(|| format!("arrive   {} at {}", arrived.path, target.label()));
            core.deliver(&target, arrived, way_back);
        });
    }

    /// Draws how long a message takes.
    pub(crate) fn delay_us(&self, from: Site, to: Site) -> u64 {
        let faults = self.faults.get();
        let slow_us = match self.chance.once_in(faults.slow_once_in) {
            true => self.chance.below(faults.slow_ms_max.saturating_mul(1_000)),
            false => 0,
        };
        self.network.delay_us(from, to, &self.chance) + slow_us
    }

    pub(crate) fn is_cut(&self, from: Site, to: Site) -> bool {
        self.network.is_cut(from, to, self.executor.now_us())
    }

    fn deliver(self: &Rc<Self>, target: &Receiver, arrived: Arrived, way_back: WayBack) {
        match target {
            Receiver::Place(place) => {
                let life = place.life();
                let (place, owner, shell) = (place.clone(), life.owner, life.shell());
                let verdict = self
                    .intervention
                    .verdict(place.binding, &place.name, &arrived.path);
                let core = self.clone();
                let work = async move {
                    let ended = judged(&core, verdict, || shell.answer(arrived)).await;
                    place.release(owner, move || core.end_call(ended, way_back));
                };
                self.executor.spawn(owner, 0, Box::pin(work));
            }
            Receiver::Isolate(isolate) => {
                let aggregator = self.aggregator.borrow().clone();
                let aggregator = aggregator.expect("the world has no aggregator: set one");
                let (host, context, request) = self.enter(isolate);
                let verdict = self.intervention.verdict("AGGREGATOR", "", &arrived.path);
                let core = self.clone();
                let work = async move {
                    let ended = judged(&core, verdict, || aggregator(host, arrived, context)).await;
                    core.end_call(ended, way_back);
                };
                self.executor
                    .spawn(isolate.owner(), request, Box::pin(work));
            }
        }
    }

    /// Ends a call as it was judged.
    fn end_call(&self, ended: Result<Reply, Verdict>, way_back: WayBack) {
        match ended {
            Ok(reply) => way_back.answer(reply),
            Err(Verdict::Unanswered) => self.unanswered.borrow_mut().push(way_back),
            Err(verdict) => way_back.fail(&format!("it was judged {verdict:?}")),
        }
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

    /// Does the next thing; chance may then let somebody crash, or be evicted.
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
                Some(Owned::Place(place)) => self.crash_isolate(&place.life().isolate),
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

    /// An isolate's memory is gone, and with it all that was under way there and all objects in it.
    pub(crate) fn crash_isolate(self: &Rc<Self>, isolate: &Rc<Isolate>) {
        self.journal.count(|figures| figures.crashes += 1);
        self.note(|| format!("crash    {}", isolate.label));
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

    /// An isolate's memory is gone, where nothing is under way there. Returns whether it is.
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
        self.note(|| format!("evict    {}", isolate.label));
        self.renew(isolate, old);
        true
    }

    /// Lets everything go, as the world ends: its parts hold each other.
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
        drop(self.unanswered.take());
        self.executor.clear();
        drop((owned, isolates, starters, handlers));
    }
}

/// Who is sent a message.
#[derive(Clone)]
enum Receiver {
    Place(Rc<Place>),
    Isolate(Rc<Isolate>),
}

impl Receiver {
    fn site(&self) -> Site {
        match self {
            Self::Place(place) => place.site,
            Self::Isolate(isolate) => isolate.site,
        }
    }

    fn label(&self) -> String {
        match self {
            Self::Place(place) => place.label(),
            Self::Isolate(isolate) => isolate.label.clone(),
        }
    }
}

/// The way back of one call.
struct WayBack {
    core: Rc<Core>,
    from: Site,
    to: Site,
    path: String,
    slot: Option<Rc<Slot<Outcome>>>,
}

impl WayBack {
    /// Answers the call.
    fn answer(mut self, reply: Reply) {
        let Some(slot) = self.slot.take() else { return };
        let (core, from, to) = (self.core.clone(), self.from, self.to);
        let is_lost = core.chance.once_in(core.faults.get().loses_answer_once_in);
        let delay_us = core.delay_us(from, to);
        let path = std::mem::take(&mut self.path);
        let known = core.clone();
        core.after(delay_us, move || {
            if is_lost || known.is_cut(from, to) {
                drop(reply);
                return lose(&known, &path, "answer", slot);
            }
            known.note(|| format!("answered {path}"));
            slot.fill(Ok(reply));
        });
    }

    /// The caller is told that it failed.
    fn fail(mut self, why: &str) {
        let Some(slot) = self.slot.take() else { return };
        let (delay_us, why) = (self.core.delay_us(self.from, self.to), why.to_owned());
        self.core.after(delay_us, move || slot.fill(Err(why)));
    }

    /// It got lost.
    fn lose(mut self, what: &str) {
        if let Some(slot) = self.slot.take() {
            lose(&self.core, &self.path, what, slot);
        }
    }
}

fn lose(core: &Rc<Core>, path: &str, what: &str, slot: Rc<Slot<Outcome>>) {
    core.journal.count(|figures| figures.lost += 1);
    core.note(|| format!("lose     {what} of {path}"));
    if core.chance.once_in(2) {
        let after_us = core.chance.below(LOST_MS_MAX * 1_000);
        core.after(after_us, move || {
            slot.fill(Err("the network lost it".to_owned()))
        });
    }
}

impl Drop for WayBack {
    fn drop(&mut self) {
        let Some(slot) = self.slot.take() else { return };
        if !self.core.is_closing() {
            let after_us = self.core.chance.below(GONE_MS_MAX * 1_000);
            let failed = "whoever should answer has crashed";
            self.core
                .after(after_us, move || slot.fill(Err(failed.to_owned())));
        }
    }
}
