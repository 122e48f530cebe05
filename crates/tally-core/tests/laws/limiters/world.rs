//! Three limiters of one key, the messages between them, and all that may happen next. The decisions are those of the
//! shipped code: [`Spread`] and [`Table`]; this file carries them out as the shells do. Time stands still but for one
//! wait between the two changes, as the guide asks for: longer than the window, shorter than a stored number is used.

use std::hash::{Hash, Hasher};
use std::rc::Rc;

use tally_core::cluster::spread::{DemandStep, LimiterCounts, Rings, Spread};
use tally_core::limit::borrower::Borrower;
use tally_core::limit::handover::Handover;
use tally_core::limit::lease::LeaseId;
use tally_core::limit::policy::{Policy, Scope};
use tally_core::limit::table::{Check, Table};
use tally_testing::search::MessageEvent::{self, Deliver, Double, Late, Lose};
use tally_testing::search::Model;

const NOW_MS: i64 = 1_000_000;
const WAIT_MS: i64 = 600_000;
const PLACES: u8 = 3;
const LIMIT: u64 = 2;

/// Demands of a cost of 1 in each window.
const DEMANDS: u8 = 2;

/// A guard that a broken variant is without.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Guard {
    /// A limiter takes an unknown key over before it decides.
    Fetch,
    /// The former limiter stores the new number before it answers.
    Seal,
    /// The handover has the quota of the leases.
    Lent,
    /// A limiter gives no key that it decides by its own number.
    Home,
    /// A key of which nothing is used is unknown.
    Idle,
    /// A limiter looks again after it has waited for the former one.
    Again,
    /// A forwarded demand is not forwarded again.
    Once,
}

#[derive(Clone, Debug)]
struct Place {
    /// The number of its isolate's deployment.
    deployment: u8,
    spread: Spread,
    table: Table,
    has_taken: bool,
    /// The demands that wait for the former limiter: whether each was forwarded.
    waiting: Vec<bool>,
    stored: Table,
    received: Option<(LimiterCounts, i64)>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Message {
    Forward {
        at: u8,
        now: u32,
        before: Option<u32>,
    },
    Give {
        at: u8,
        by: u8,
        now: u32,
        before: Option<u32>,
        /// Whether a demand waits for it: whether it was forwarded.
        waits: Option<bool>,
    },
    Given {
        to: u8,
        was_forwarded: bool,
        used: u64,
        lent: u64,
    },
}

#[derive(Clone, Copy, Debug)]
pub enum Event {
    /// The number is changed: isolates of the new deployment may begin.
    Change,
    /// An isolate of the newest deployment begins.
    Deploy(u8),
    /// The window passes, and nobody runs the former deployment.
    Wait,
    /// A demand from an isolate of this deployment.
    Demand(u8),
    /// A datacenter spends the quota of its lease.
    Spend,
    /// Something happens to a message.
    Message(MessageEvent),
    /// A limiter crashes, and begins in an isolate of this deployment.
    Crash(u8, u8),
}

#[derive(Clone, Debug)]
pub struct World {
    rings: Rc<Vec<Rc<Rings>>>,
    key: Rc<str>,
    removed: Option<Guard>,
    newest: u8,
    oldest: u8,
    has_waited: bool,
    has_failed: bool,
    places: [Place; 3],
    admitted: u64,
    lent: u64,
    demands: u8,
    messages: Vec<Message>,
    message_faults: u8,
    crashes: u8,
}

fn at(place: u8) -> usize {
    usize::from(place)
}

fn policy() -> Policy {
    Policy {
        scope: Scope::Global,
        ..Policy::sliding(LIMIT, 60)
    }
}

fn counts_of(now: u32, before: Option<u32>) -> LimiterCounts {
    LimiterCounts { now, before }
}

/// A table with a lease of one token of a key.
fn lending(key: &str) -> Table {
    let (policy, mut table) = (policy(), Table::in_memory());
    let mut borrower = Borrower::new(LeaseId {
        borrower: "FRA".to_owned(),
        incarnation: 1,
        number: 1,
    });
    let _ = borrower.check(&policy, NOW_MS, 1);
    let request = borrower.next_request(&policy, NOW_MS).expect("it asks");
    let check = Check::of("p", &policy, key, 1);
    let _ = table.ask(&check, &request, NOW_MS);
    table
}

impl World {
    /// Faults of messages, and crashes.
    pub fn new(numbers: [u32; 3], removed: Option<Guard>, faults: (u8, u8)) -> Self {
        let counts = [
            counts_of(numbers[0], None),
            counts_of(numbers[1], Some(numbers[0])),
            counts_of(numbers[2], Some(numbers[1])),
        ];
        let rings = counts.map(|counts| Rc::new(Rings::new(counts))).to_vec();
        let is_apart = |key: &String| {
            let places = numbers.map(|number| number - 1);
            (0..3).all(|number| rings[number].now(key) == places[number])
        };
        let key = (0..).map(|number: u32| number.to_string()).find(is_apart);
        let key: Rc<str> = key.expect("a key of these places").into();
        let place = |table: Table| Place {
            deployment: 0,
            spread: Spread::new(rings[0].clone()),
            stored: table.clone(),
            table,
            has_taken: false,
            waiting: Vec::new(),
            received: None,
        };
        let first = lending(&key);
        let lent = first
            .hand_over(&Check::of("p", &policy(), &key, 1), NOW_MS)
            .outstanding;
        let others = || place(Table::in_memory());
        Self {
            places: [place(first), others(), others()],
            rings: Rc::new(rings),
            key,
            removed,
            newest: 0,
            oldest: 0,
            has_waited: false,
            has_failed: false,
            admitted: 0,
            lent,
            demands: DEMANDS,
            messages: Vec::new(),
            message_faults: faults.0,
            crashes: faults.1,
        }
    }

    fn is_without(&self, guard: Guard) -> bool {
        self.removed == Some(guard)
    }

    fn now_ms(&self) -> i64 {
        NOW_MS + if self.has_waited { WAIT_MS } else { 0 }
    }

    fn step(&self, place: u8, is_forwarded: bool) -> DemandStep {
        let it = &self.places[at(place)];
        let is_known = || {
            it.has_taken
                || self.is_without(Guard::Fetch)
                || match self.is_without(Guard::Idle) {
                    true => it.table.knows("p", &self.key),
                    false => it.table.has_used("p", &self.key, self.now_ms()),
                }
        };
        let is_forwarded = is_forwarded && !self.is_without(Guard::Once);
        let (me, asked) = (u32::from(place), (is_known, is_forwarded));
        it.spread.step(&self.key, me, self.now_ms(), asked)
    }

    /// The numbers of a sender are stored before anything is answered by them.
    fn receive(&mut self, place: u8, counts: LimiterCounts) {
        let (now_ms, keeps) = (self.now_ms(), !self.is_without(Guard::Seal));
        let it = &mut self.places[at(place)];
        if it.spread.receive(counts, now_ms, now_ms) && keeps {
            it.received = Some((counts, now_ms));
        }
    }

    fn demand(&mut self, place: u8, is_forwarded: bool) {
        let counts = self.places[at(place)].spread.counts(self.now_ms());
        let LimiterCounts { now, before } = counts;
        match self.step(place, is_forwarded) {
            DemandStep::Decide => self.decide(place),
            DemandStep::Refuse => {}
            DemandStep::Forward(home) => self.messages.push(Message::Forward {
                at: number(home),
                now,
                before,
            }),
            DemandStep::TakeOver(former) => {
                self.places[at(place)].waiting.push(is_forwarded);
                self.messages.push(Message::Give {
                    at: number(former),
                    by: place,
                    now,
                    before,
                    waits: Some(is_forwarded),
                });
            }
        }
    }

    /// What is consumed is written before the answer.
    fn decide(&mut self, place: u8) {
        let (policy, now_ms) = (policy(), self.now_ms());
        let check = Check::of("p", &policy, &self.key, 1);
        let it = &mut self.places[at(place)];
        let verdict = it.table.check(&check, now_ms).expect("there is room");
        it.stored = it.table.clone();
        self.admitted += u64::from(verdict.is_allowed);
    }

    fn give(&mut self, place: u8, (by, counts): (u8, LimiterCounts), waits: Option<bool>) {
        self.receive(place, counts);
        let (policy, now_ms) = (policy(), self.now_ms());
        let it = &self.places[at(place)];
        let may_give = it.spread.may_give(&self.key, u32::from(place), now_ms);
        if !may_give && !self.is_without(Guard::Home) {
            return self.refuse(by, waits);
        }
        let check = Check::of("p", &policy, &self.key, 1);
        let Handover {
            used, outstanding, ..
        } = it.table.hand_over(&check, now_ms);
        let lent = if self.is_without(Guard::Lent) {
            0
        } else {
            outstanding
        };
        self.messages
            .extend(waits.map(|was_forwarded| Message::Given {
                to: by,
                was_forwarded,
                used,
                lent,
            }));
    }

    fn given(&mut self, place: u8, was_forwarded: bool, (used, lent): (u64, u64)) {
        self.refuse(place, Some(was_forwarded));
        let must_take = matches!(self.step(place, was_forwarded), DemandStep::TakeOver(_));
        if must_take || self.is_without(Guard::Again) {
            let (policy, now_ms) = (policy(), self.now_ms());
            let check = Check::of("p", &policy, &self.key, 1);
            let handover = Handover {
                used,
                outstanding: lent,
                held_ms: 60_000,
                ..Handover::default()
            };
            let handover = match (used, lent) {
                (0, 0) => Handover::default(),
                _ => handover,
            };
            let it = &mut self.places[at(place)];
            it.table
                .take_over(&check, &handover, now_ms)
                .expect("there is room");
            it.has_taken = true;
        }
        self.demand(place, was_forwarded);
    }

    /// A demand waits no longer.
    fn refuse(&mut self, place: u8, waits: Option<bool>) {
        let waiting = &mut self.places[at(place)].waiting;
        if let Some(found) = waiting.iter().position(|one| Some(*one) == waits) {
            waiting.remove(found);
        }
    }

    fn deliver(&mut self, message: u8, crashes: bool) {
        let message = self.messages.remove(at(message));
        let (kept, admitted) = (self.messages.len(), self.admitted);
        let place = match message {
            Message::Forward { at, .. } | Message::Give { at, .. } => at,
            Message::Given { to, .. } => to,
        };
        match message {
            Message::Forward { at, now, before } => {
                self.receive(at, counts_of(now, before));
                self.demand(at, true);
            }
            Message::Give {
                at,
                by,
                now,
                before,
                waits,
            } => self.give(at, (by, counts_of(now, before)), waits),
            Message::Given {
                to,
                was_forwarded,
                used,
                lent,
            } => self.given(to, was_forwarded, (used, lent)),
        }
        if crashes {
            // What is stored stays; what was to be sent is not.
            self.admitted = admitted;
            for message in self.messages.split_off(kept) {
                self.gone(&message);
            }
            self.crash(place, self.places[at(place)].deployment);
        }
    }

    fn crash(&mut self, place: u8, deployment: u8) {
        self.crashes -= 1;
        self.has_failed = true;
        self.begin(place, deployment);
    }

    /// A limiter begins from what it has stored.
    fn begin(&mut self, number: u8, deployment: u8) {
        let now_ms = self.now_ms();
        let place = &mut self.places[at(number)];
        place.deployment = deployment;
        place.spread = Spread::new(self.rings[at(deployment)].clone());
        if let Some((counts, received_ms)) = place.received {
            place.spread.receive(counts, received_ms, now_ms);
        }
        place.table = place.stored.clone();
        place.has_taken = false;
        place.waiting.clear();
        self.messages.retain_mut(|message| match message {
            Message::Give { by, waits, .. } if *by == number => {
                *waits = None;
                true
            }
            Message::Given { to, .. } => *to != number,
            _ => true,
        });
    }

    /// A message will never arrive, so nobody waits for it or for its answer any more.
    fn gone(&mut self, message: &Message) {
        match message {
            Message::Forward { .. } => {}
            Message::Give { by, waits, .. } => self.refuse(*by, *waits),
            Message::Given {
                to, was_forwarded, ..
            } => self.refuse(*to, Some(*was_forwarded)),
        }
    }

    fn fail(&mut self, event: MessageEvent) -> Option<()> {
        self.message_faults -= 1;
        self.has_failed = true;
        let message = self.messages[event.number()].clone();
        let mut left = message.clone();
        if let Message::Give { waits, .. } = &mut left {
            *waits = None;
        }
        match event {
            Lose(number) => {
                self.messages.remove(at(number));
                self.gone(&message);
            }
            Double(_) if !matches!(message, Message::Given { .. }) => self.messages.push(left),
            Late(number) if left != message => {
                self.messages[at(number)] = left;
                self.gone(&message);
            }
            _ => return None,
        }
        Some(())
    }

    fn may_wait(&self) -> bool {
        let is_calm = |place: &Place| place.deployment == 1 && place.waiting.is_empty();
        let is_quiet = self.messages.is_empty() && self.places.iter().all(is_calm);
        self.newest == 1 && !self.has_waited && is_quiet
    }

    fn wait(&mut self) {
        self.has_waited = true;
        self.oldest = 1;
        (self.admitted, self.lent, self.demands) = (0, 0, DEMANDS);
    }
}

fn number(partition: u32) -> u8 {
    u8::try_from(partition).expect("few")
}

impl Hash for World {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.newest, self.oldest, self.has_waited, self.has_failed).hash(state);
        (self.admitted, self.lent, self.demands).hash(state);
        (self.message_faults, self.crashes, &self.messages).hash(state);
        let (policy, now_ms) = (policy(), self.now_ms());
        let check = Check::of("p", &policy, &self.key, 1);
        for place in &self.places {
            let counts = [
                Some(place.spread.counts(now_ms)),
                place.received.map(|(counts, _)| counts),
            ];
            for counts in counts {
                counts.map(|counts| (counts.now, counts.before)).hash(state);
            }
            place
                .received
                .map(|(_, received_ms)| received_ms)
                .hash(state);
            for table in [&place.table, &place.stored] {
                let handover = table.hand_over(&check, now_ms);
                (handover.used, handover.outstanding, handover.held_ms).hash(state);
                table.knows("p", &self.key).hash(state);
            }
            (place.deployment, place.has_taken, &place.waiting).hash(state);
        }
    }
}

impl Model for World {
    type Event = Event;

    fn title(&self) -> String {
        format!("a limit of {LIMIT}, of which {} is lent", self.lent)
    }

    fn events(&self) -> Vec<Event> {
        let mut events = Vec::new();
        if self.newest == 0 || self.newest == 1 && self.has_waited {
            events.push(Event::Change);
        }
        if self.may_wait() {
            events.push(Event::Wait);
        }
        if self.lent > 0 {
            events.push(Event::Spend);
        }
        if self.demands > 0 {
            events.extend((self.oldest..=self.newest).map(Event::Demand));
        }
        for (place, it) in (0..).zip(&self.places) {
            if it.deployment < self.newest {
                events.push(Event::Deploy(place));
            }
            // After the number was set back nobody can tell which of two numbers is newer.
            let is_return = self.rings[0].now(&self.key) == self.rings[2].now(&self.key);
            let oldest = if is_return {
                it.deployment
            } else {
                self.oldest
            };
            if self.crashes > 0 {
                events.extend((oldest..=self.newest).map(|to| Event::Crash(place, to)));
            }
        }
        let (crashes, faults) = (self.crashes > 0, self.message_faults > 0);
        let arrive = self.messages.iter().map(|_| true);
        events.extend(MessageEvent::of_each(arrive, crashes, faults).map(Event::Message));
        events
    }

    fn calm_event(&self) -> Option<Event> {
        (!self.messages.is_empty()).then_some(Event::Message(Deliver(0, false)))
    }

    fn after(&self, event: Event) -> Option<Self> {
        let mut world = self.clone();
        match event {
            Event::Change => world.newest += 1,
            Event::Deploy(place) => world.begin(place, self.newest),
            Event::Wait => world.wait(),
            Event::Demand(deployment) => {
                world.demands -= 1;
                let to = self.rings[at(deployment)].now(&self.key);
                world.demand(number(to), false);
            }
            Event::Spend => {
                world.lent -= 1;
                world.admitted += 1;
            }
            Event::Message(Deliver(message, crashes)) => world.deliver(message, crashes),
            Event::Message(event) => world.fail(event)?,
            Event::Crash(place, deployment) => world.crash(place, deployment),
        }
        world.messages.sort();
        Some(world)
    }

    fn check(&self) -> Result<(), String> {
        if self.admitted + self.lent > LIMIT {
            return Err(format!("more than the limit: {} admitted", self.admitted));
        }
        let decides = |place: &u8| self.step(*place, true) == DemandStep::Decide;
        let deciding: Vec<u8> = (0..PLACES).filter(decides).collect();
        if deciding.len() > 1 {
            return Err(format!("more than the limit: {deciding:?} decide"));
        }
        Ok(())
    }

    fn check_rest(&self) -> Result<(), String> {
        if self.places.iter().any(|place| !place.waiting.is_empty()) {
            return Err("a demand does not end".to_owned());
        }
        let (policy, now_ms) = (policy(), self.now_ms());
        let check = Check::of("p", &policy, &self.key, 1);
        let (used, gone) = (self.admitted, self.has_failed);
        let most = self.places.iter().map(|place| {
            let handover = place.table.hand_over(&check, now_ms);
            handover.used + handover.outstanding
        });
        let most = most.max().unwrap_or(0);
        let is_exact = gone || self.has_waited || most <= used + self.lent;
        is_exact
            .then_some(())
            .ok_or_else(|| format!("use counts twice: {most} are used, {used} were admitted"))
    }

    fn tell(&self, event: Event) -> String {
        match event {
            Event::Message(event) => event.tell(&format!("{:?}", self.messages[event.number()])),
            event => format!("{event:?}"),
        }
    }
}
