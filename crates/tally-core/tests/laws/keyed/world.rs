//! Two leads with a ledger each, the root that says which of them counts, and senders of one keyed write. The decisions
//! are those of the shipped code: [`CellState`], [`Root`] and [`ClaimHolder`]; this file carries them out as the shells
//! do.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;

use tally_core::cluster::claim::ClaimHolder;
use tally_core::cluster::root::{Membership, Root};
use tally_core::counter::cell::CellState;
use tally_core::counter::flush::{Changes, Refusal};
use tally_core::counter::grant::Grant;
use tally_core::counter::id::Datacenter;
use tally_core::counter::ledger::{
    KeySource, KeyedOutcome, KeyedWrite, Record, SeenValue, StoredRecord, WriteKey,
};
use tally_core::counter::ledgers::LedgerLimits;
use tally_core::counter::merge::CellTotals;
use tally_core::counter::total::Value;
use tally_testing::search::MessageEvent::{self, Deliver, Double, Late, Lose};
use tally_testing::search::Model;

/// The time stands still: no time to live is set, and no record is old.
const NOW_MS: i64 = 1_000_000;

const LEADS: [u8; 2] = [0, 1];

/// Who may send the write again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Keys {
    /// A client. The root says which lead counts.
    Client,
    /// A client, from each of two datacenters.
    TwoClients,
    /// The call that drew the key. It begins at a lead.
    Drawn,
}

/// A guard that a broken variant is without.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Guard {
    /// Only a claim that has moved since lifts the record that struck a write out.
    Moves,
    /// A lead that strikes a write out stores that.
    Record,
    /// The root moves a claim only away from its holder.
    Holder,
    /// The old home stops before the root moves the home.
    Stop,
}

/// What a sender waits for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Idle,
    Claims(Option<ClaimHolder>),
    Counts(ClaimHolder, Option<u32>),
    Acknowledged,
    /// It reports that it does not know.
    Unknown,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Sender {
    phase: Phase,
    /// Whether the first attempt of the present call was not answered.
    is_second: bool,
}

/// A copy of the write at a lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Copy {
    by: u8,
    moves: Option<u32>,
    is_live: bool,
}

#[derive(Clone, Debug)]
struct Place {
    cell: Rc<CellState>,
    /// The record of the write. Durable, as the cell is.
    record: Option<StoredRecord>,
    /// The number of seals when it asked for a grant, while it waits.
    asks: Option<u64>,
    /// Copies that wait for a grant.
    waiting: Vec<Copy>,
}

#[derive(Clone, Debug, PartialEq)]
enum Message {
    Claim {
        by: u8,
        struck_at: Option<ClaimHolder>,
        is_live: bool,
    },
    Claimed {
        to: u8,
        holder: ClaimHolder,
    },
    Count {
        at: u8,
        copy: Copy,
    },
    Counted {
        to: u8,
        outcome: KeyedOutcome,
    },
    /// A lead asks the root for a grant.
    Register {
        by: u8,
        is_live: bool,
    },
    Granted {
        to: u8,
        grant: Grant,
    },
    /// All writes go to the home.
    Elsewhere {
        to: u8,
    },
    /// The root moves the home.
    Suspend {
        to: u8,
        generation: u64,
        is_live: bool,
    },
    Suspended {
        by: u8,
        totals: Option<CellTotals>,
    },
}

#[derive(Clone, Copy, Debug)]
pub enum Event {
    Start(u8),
    /// The home moves.
    Move,
    /// Something happens to a message.
    Message(MessageEvent),
    Crash(u8),
    CrashRoot,
}

#[derive(Clone, Debug)]
pub struct World {
    keys: Keys,
    homes: &'static [u8],
    removed: Option<Guard>,
    moved: u8,
    root: Rc<Root>,
    claim: Option<ClaimHolder>,
    /// The next home, while the root waits for the present one. It answers nobody else meanwhile.
    next_home: Option<u8>,
    places: [Place; 2],
    senders: Vec<Sender>,
    messages: Vec<Message>,
    message_faults: u8,
    crashes: u8,
}

fn at(place: u8) -> usize {
    usize::from(place)
}

fn datacenter_of(place: u8) -> Datacenter {
    Datacenter::parse(["FRA", "SYD"][at(place)]).expect("a name")
}

fn place_of(datacenter: &Datacenter) -> u8 {
    u8::from(*datacenter == datacenter_of(1))
}

fn number_of(totals: &CellTotals) -> i64 {
    let value = Value::new(totals.added, totals.removed);
    value.to_i64().expect("it is small")
}

fn write() -> KeyedWrite {
    KeyedWrite {
        added: 1,
        seen: Some(SeenValue::default()),
        ..KeyedWrite::new(WriteKey([1; 16]), 1)
    }
}

impl World {
    /// Faults of messages, and crashes.
    pub fn new(
        keys: Keys,
        homes: &'static [u8],
        removed: Option<Guard>,
        (message_faults, crashes): (u8, u8),
    ) -> Self {
        let mut root = Root::create(None, NOW_MS);
        root.move_home(Some(datacenter_of(homes[0])), Vec::new());
        let place = Place {
            cell: Rc::default(),
            record: None,
            asks: None,
            waiting: Vec::new(),
        };
        let sender = Sender {
            phase: Phase::Idle,
            is_second: false,
        };
        let senders = match keys {
            Keys::TwoClients => 2,
            Keys::Client | Keys::Drawn => 1,
        };
        Self {
            keys,
            homes,
            removed,
            moved: 0,
            root: Rc::new(root),
            claim: None,
            next_home: None,
            places: [place.clone(), place],
            senders: vec![sender; senders],
            messages: Vec::new(),
            message_faults,
            crashes,
        }
    }

    fn is_without(&self, guard: Guard) -> bool {
        self.removed == Some(guard)
    }

    fn limits(&self) -> LedgerLimits {
        LedgerLimits {
            keys: match self.keys {
                Keys::Drawn => KeySource::Drawn,
                Keys::Client | Keys::TwoClients => KeySource::Clients,
            },
            kept_ms: 1_000,
            records_max: 100,
        }
    }

    /// What the leads have counted.
    fn counted(&self) -> i64 {
        let totals = self.places.iter().filter_map(|place| place.cell.totals());
        totals.map(|totals| number_of(&totals)).sum()
    }

    /// The sum that a reader gets, if all leads answer.
    fn sum(&self) -> i64 {
        let counting = self.root.counting();
        let counting = counting.iter().map(|it| &self.places[at(place_of(it))]);
        let live = counting.filter_map(|place| place.cell.totals());
        let held = self.root.held.iter().flat_map(|(_, cells)| cells);
        let held = held.map(|(_, totals)| *totals);
        live.chain(held).map(|totals| number_of(&totals)).sum()
    }

    /// Sends the present call of a sender.
    fn send(&mut self, by: u8) {
        let message = match &self.senders[at(by)].phase {
            Phase::Claims(struck_at) => Message::Claim {
                by,
                struck_at: struck_at.clone(),
                is_live: true,
            },
            Phase::Counts(holder, moves) => Message::Count {
                at: place_of(&holder.datacenter),
                copy: Copy {
                    by,
                    moves: *moves,
                    is_live: true,
                },
            },
            _ => return,
        };
        self.messages.push(message);
    }

    fn enter(&mut self, by: u8, phase: Phase) {
        self.senders[at(by)] = Sender {
            phase,
            is_second: false,
        };
        self.send(by);
    }

    fn start(&mut self, by: u8) {
        let phase = match self.keys {
            Keys::Drawn => Phase::Counts(ClaimHolder::first(&datacenter_of(by)), None),
            Keys::Client | Keys::TwoClients => Phase::Claims(None),
        };
        self.enter(by, phase);
    }

    /// A call was not answered: each is tried twice. After that a client sends its write again, from the start.
    fn again(&mut self, by: u8) {
        match (self.senders[at(by)].is_second, self.keys) {
            (false, _) => {
                self.senders[at(by)].is_second = true;
                self.send(by);
            }
            (true, Keys::Drawn) => self.senders[at(by)].phase = Phase::Unknown,
            (true, Keys::Client | Keys::TwoClients) => self.start(by),
        }
    }

    /// The root says which lead counts the write.
    fn claimed(&mut self, by: u8, struck_at: Option<&ClaimHolder>) -> ClaimHolder {
        let next = ClaimHolder::after(struck_at, self.root.home.as_ref(), &datacenter_of(by));
        let moves_on = match &self.claim {
            None => true,
            Some(_) if self.is_without(Guard::Holder) => struck_at.is_some(),
            Some(holder) => holder.has_struck(struck_at),
        };
        if moves_on {
            self.claim = Some(next);
        }
        self.claim.clone().expect("it is claimed")
    }

    fn ask(&mut self, by: u8) {
        let place = &mut self.places[at(by)];
        if place.asks.is_none() {
            place.asks = Some(place.cell.seals());
            let is_live = true;
            self.messages.push(Message::Register { by, is_live });
        }
    }

    fn count(&mut self, number: u8, copy: Copy) {
        let lifts = self.is_without(Guard::Moves).then_some(u32::MAX);
        let limits = self.limits();
        let place = &mut self.places[at(number)];
        let mut changes = Changes::default();
        let record = place.record;
        let known = |_: WriteKey| record;
        let moves = lifts.or(copy.moves);
        let cell = Rc::make_mut(&mut place.cell);
        match cell.apply_keyed(&[write()], moves, limits, NOW_MS, &known, &mut changes) {
            Ok(outcomes) => self.answer(number, copy, outcomes[0], &changes),
            Err(Refusal::NeedsGrant) => {
                place.waiting.push(copy);
                place.waiting.sort_unstable();
                self.ask(number);
            }
            Err(refusal) => panic!("{refusal:?}"),
        }
    }

    fn strike(&mut self, number: u8, copy: Copy) {
        let limits = self.limits();
        let place = &mut self.places[at(number)];
        let mut changes = Changes::default();
        let record = place.record;
        let known = |_: WriteKey| record;
        let cell = Rc::make_mut(&mut place.cell);
        let outcomes = cell.strike(&[write()], copy.moves, limits, NOW_MS, &known, &mut changes);
        if self.is_without(Guard::Record) {
            changes.records.clear();
        }
        self.answer(number, copy, outcomes[0], &changes);
    }

    fn answer(&mut self, number: u8, copy: Copy, outcome: KeyedOutcome, changes: &Changes) {
        if let Some(new) = changes.records.last() {
            self.places[at(number)].record = Some(new.kept);
        }
        let to = copy.by;
        let counted = Message::Counted { to, outcome };
        self.messages.extend(copy.is_live.then_some(counted));
    }

    /// A lead has answered.
    fn answered(&mut self, by: u8, outcome: KeyedOutcome) {
        let Phase::Counts(holder, moves) = self.senders[at(by)].phase.clone() else {
            return;
        };
        match outcome {
            outcome if outcome.is_counted() => self.senders[at(by)].phase = Phase::Acknowledged,
            KeyedOutcome::Struck => self.enter(by, Phase::Claims(Some(holder))),
            // Only the call that drew the key knows it, and its first attempt may be on its way.
            _ if moves.is_none() => self.senders[at(by)].phase = Phase::Unknown,
            _ => self.start(by),
        }
    }

    fn register(&mut self, by: u8, is_live: bool) {
        let datacenter = datacenter_of(by);
        let answer = match self.root.membership(&datacenter) {
            Membership::Elsewhere(_) => Message::Elsewhere { to: by },
            admission => {
                if let Membership::New { notify } = admission {
                    assert_eq!(notify, None, "there is a home");
                    let root = Rc::make_mut(&mut self.root);
                    root.join(&datacenter);
                    root.joined(NOW_MS);
                }
                let grant = self.root.grant(&datacenter);
                Message::Granted { to: by, grant }
            }
        };
        self.messages.extend(is_live.then_some(answer));
    }

    fn granted(&mut self, to: u8, grant: Grant) {
        let place = &mut self.places[at(to)];
        let Some(seals) = place.asks.take() else {
            return;
        };
        let cell = Rc::make_mut(&mut place.cell);
        if cell.unseal(seals) {
            cell.take_grant(grant, NOW_MS);
        }
        for copy in std::mem::take(&mut place.waiting) {
            self.count(to, copy);
        }
    }

    fn elsewhere(&mut self, to: u8) {
        self.places[at(to)].asks = None;
        for copy in std::mem::take(&mut self.places[at(to)].waiting) {
            self.strike(to, copy);
        }
    }

    /// The root begins to move the home.
    fn move_home(&mut self) {
        self.moved += 1;
        let next = self.homes[at(self.moved)];
        let held: Vec<Datacenter> = self.root.held.iter().map(|(it, _)| it.clone()).collect();
        let mut to_stop = self.root.to_stop_for(Some(&datacenter_of(next)));
        to_stop.retain(|datacenter| !held.contains(datacenter));
        let Some(stopped) = to_stop.first().map(place_of) else {
            return self.moved_home(next, None);
        };
        if self.is_without(Guard::Stop) {
            let totals = self.places[at(stopped)].cell.totals();
            return self.moved_home(next, Some((stopped, totals)));
        }
        self.next_home = Some(next);
        self.messages.push(Message::Suspend {
            to: stopped,
            generation: self.root.generation,
            is_live: true,
        });
    }

    fn moved_home(&mut self, home: u8, stopped: Option<(u8, Option<CellTotals>)>) {
        self.next_home = None;
        let mut held = self.root.held.clone();
        held.extend(stopped.map(|(place, totals)| {
            let cells = totals.into_iter().map(|totals| (0, totals));
            (datacenter_of(place), cells.collect())
        }));
        let home = datacenter_of(home);
        held.retain(|(datacenter, _)| *datacenter != home);
        let root = Rc::make_mut(&mut self.root);
        root.move_home(Some(home), held);
        root.revision += 1;
    }

    fn is_for_root(message: &Message) -> bool {
        match message {
            Message::Claim { .. } | Message::Register { .. } | Message::Suspended { .. } => true,
            Message::Count { .. } | Message::Counted { .. } | Message::Claimed { .. } => false,
            Message::Granted { .. } | Message::Elsewhere { .. } | Message::Suspend { .. } => false,
        }
    }

    fn may_arrive(&self, message: &Message) -> bool {
        let is_answer = matches!(message, Message::Suspended { .. });
        self.next_home.is_none() || is_answer || !Self::is_for_root(message)
    }

    fn deliver(&mut self, number: u8, crashes: bool) {
        let message = self.messages.remove(at(number));
        let kept = self.messages.len();
        let is_for_root = Self::is_for_root(&message);
        let mut place = None;
        match message {
            Message::Claim {
                by,
                struck_at,
                is_live,
            } => {
                let holder = self.claimed(by, struck_at.as_ref());
                let claimed = Message::Claimed { to: by, holder };
                self.messages.extend(is_live.then_some(claimed));
            }
            Message::Claimed { to, holder } => {
                let moves = Some(holder.moves);
                self.enter(to, Phase::Counts(holder, moves));
            }
            Message::Count { at, copy } => {
                place = Some(at);
                self.count(at, copy);
            }
            Message::Counted { to, outcome } => self.answered(to, outcome),
            Message::Register { by, is_live } => self.register(by, is_live),
            Message::Granted { to, grant } => {
                place = Some(to);
                self.granted(to, grant);
            }
            Message::Elsewhere { to } => {
                place = Some(to);
                self.elsewhere(to);
            }
            Message::Suspend {
                to,
                generation,
                is_live,
            } => {
                place = Some(to);
                let cell = Rc::make_mut(&mut self.places[at(to)].cell);
                let _ = cell.seal(generation);
                let totals = cell.totals();
                let suspended = Message::Suspended { by: to, totals };
                self.messages.extend(is_live.then_some(suspended));
            }
            Message::Suspended { by, totals } => {
                if let Some(next) = self.next_home {
                    self.moved_home(next, Some((by, totals)));
                }
            }
        }
        if crashes && (is_for_root || place.is_some()) {
            self.crashes -= 1;
            // What is stored stays; what was to be sent is not.
            for message in self.messages.split_off(kept) {
                self.gone(&message);
            }
            match place {
                Some(place) => self.crash(place),
                None => self.crash_root(),
            }
        }
    }

    /// A message will never arrive, so nobody waits for it or for its answer any more.
    fn gone(&mut self, message: &Message) {
        match message {
            Message::Claim { by, is_live, .. } if *is_live => self.again(*by),
            Message::Count { copy, .. } if copy.is_live => self.again(copy.by),
            Message::Claimed { to, .. } | Message::Counted { to, .. } => self.again(*to),
            Message::Register { by, is_live } if *is_live => self.fail(*by),
            Message::Granted { to, .. } | Message::Elsewhere { to } => self.fail(*to),
            Message::Suspend { is_live, .. } if *is_live => self.next_home = None,
            Message::Suspended { .. } => self.next_home = None,
            _ => {}
        }
    }

    /// A request for a grant fails, and so do the copies that wait for it.
    fn fail(&mut self, place: u8) {
        self.places[at(place)].asks = None;
        for copy in std::mem::take(&mut self.places[at(place)].waiting) {
            if copy.is_live {
                self.again(copy.by);
            }
        }
    }

    /// Nobody waits for a request any more. `None` for an answer: it would have no effect.
    fn leave(message: &mut Message) -> Option<()> {
        let is_live = match message {
            Message::Claim { is_live, .. }
            | Message::Register { is_live, .. }
            | Message::Suspend { is_live, .. } => is_live,
            Message::Count { copy, .. } => &mut copy.is_live,
            _ => return None,
        };
        std::mem::replace(is_live, false).then_some(())
    }

    fn crash(&mut self, number: u8) {
        let place = &mut self.places[at(number)];
        let mut woken = CellState::default();
        woken.adopt(CellState::clone(&place.cell));
        place.cell = Rc::new(woken);
        self.messages.retain_mut(|message| match message {
            Message::Register { by, is_live } => {
                *is_live &= *by != number;
                true
            }
            Message::Granted { to, .. } | Message::Elsewhere { to } => *to != number,
            _ => true,
        });
        self.fail(number);
    }

    fn crash_root(&mut self) {
        self.next_home = None;
        self.messages.retain_mut(|message| {
            if let Message::Suspend { is_live, .. } = message {
                *is_live = false;
            }
            !matches!(message, Message::Suspended { .. })
        });
    }
}

impl Model for World {
    type Event = Event;

    fn title(&self) -> String {
        format!("keys of {:?}, homes {:?}", self.keys, self.homes)
    }

    fn events(&self) -> Vec<Event> {
        let mut events = Vec::new();
        for (number, sender) in (0..).zip(&self.senders) {
            if sender.phase == Phase::Idle {
                events.push(Event::Start(number));
            }
        }
        if at(self.moved) + 1 < self.homes.len() && self.next_home.is_none() {
            events.push(Event::Move);
        }
        if self.crashes > 0 {
            events.extend(LEADS.map(Event::Crash));
            events.push(Event::CrashRoot);
        }
        let (crashes, faults) = (self.crashes > 0, self.message_faults > 0);
        let arrive = self.messages.iter().map(|message| self.may_arrive(message));
        events.extend(MessageEvent::of_each(arrive, crashes, faults).map(Event::Message));
        events
    }

    fn calm_event(&self) -> Option<Event> {
        let arrives = self.messages.iter().position(|it| self.may_arrive(it));
        let number = u8::try_from(arrives?).expect("few");
        Some(Event::Message(Deliver(number, false)))
    }

    fn after(&self, event: Event) -> Option<Self> {
        let mut world = self.clone();
        match event {
            Event::Start(by) => world.start(by),
            Event::Move => world.move_home(),
            Event::Message(Deliver(number, crashes)) => world.deliver(number, crashes),
            Event::Message(Lose(number)) => {
                world.message_faults -= 1;
                let message = world.messages.remove(at(number));
                world.gone(&message);
            }
            Event::Message(Double(number)) => {
                world.message_faults -= 1;
                let mut copy = world.messages[at(number)].clone();
                Self::leave(&mut copy)?;
                world.messages.push(copy);
            }
            Event::Message(Late(number)) => {
                world.message_faults -= 1;
                let message = world.messages[at(number)].clone();
                Self::leave(&mut world.messages[at(number)])?;
                world.gone(&message);
            }
            Event::Crash(place) => {
                world.crashes -= 1;
                world.crash(place);
            }
            Event::CrashRoot => {
                world.crashes -= 1;
                world.crash_root();
            }
        }
        Some(world)
    }

    fn check(&self) -> Result<(), String> {
        let (sum, counted) = (self.sum(), self.counted());
        if counted > 1 {
            return Err("the write counts twice".to_owned());
        }
        let is_acknowledged = |sender: &Sender| sender.phase == Phase::Acknowledged;
        let expected = i64::from(self.senders.iter().any(is_acknowledged)).max(counted);
        if sum != expected {
            return Err(format!("the write is missing in the sum {sum}"));
        }
        let counts = |place: &&Place| !place.cell.needs_grant(NOW_MS);
        match self.places.iter().filter(counts).count() > 1 {
            true => Err("two leads count".to_owned()),
            false => Ok(()),
        }
    }

    fn check_rest(&self) -> Result<(), String> {
        let has_ended = |sender: &Sender| match sender.phase {
            Phase::Idle | Phase::Acknowledged => true,
            Phase::Unknown => self.keys == Keys::Drawn,
            Phase::Claims(_) | Phase::Counts(..) => false,
        };
        match self.senders.iter().all(has_ended) {
            true => Ok(()),
            false => Err(format!("a write does not end: {:?}", self.senders)),
        }
    }

    fn tell(&self, event: Event) -> String {
        let message = |number: usize| match &self.messages[number] {
            Message::Granted { to, .. } => format!("Granted {{ to: {to} }}"),
            Message::Suspended { by, .. } => format!("Suspended {{ by: {by} }}"),
            Message::Counted { to, outcome } => {
                let counted = outcome.is_counted();
                format!("Counted {{ to: {to}, is_counted: {counted} }}")
            }
            other => format!("{other:?}"),
        };
        match event {
            Event::Message(event) => event.tell(&message(event.number())),
            event => format!("{event:?}"),
        }
    }
}

impl Hash for World {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let numbers = (self.moved, self.message_faults, self.crashes);
        (self.keys, self.removed, numbers, self.next_home).hash(hasher);
        let held = self.root.held.iter();
        let held: Vec<(u8, usize)> = held
            .map(|(it, cells)| (place_of(it), cells.len()))
            .collect();
        (
            &self.root.datacenters,
            self.root.revision,
            held,
            &self.claim,
        )
            .hash(hasher);
        for place in &self.places {
            let totals = place.cell.totals().map(|totals| number_of(&totals));
            let struck = place.record.map(|kept| match kept.record {
                Record::Struck { moves, .. } => Some(moves),
                _ => None,
            });
            let grant = place.cell.grant().map(|grant| grant.revision);
            let cell = (totals, grant, place.cell.is_sealed(), place.cell.seals());
            (cell, struck, place.asks, &place.waiting).hash(hasher);
        }
        self.senders.hash(hasher);
        let mut messages: Vec<u64> = self.messages.iter().map(hash_of).collect();
        messages.sort_unstable();
        messages.hash(hasher);
    }
}

fn hash_of(message: &Message) -> u64 {
    let mut hasher = DefaultHasher::new();
    std::mem::discriminant(message).hash(&mut hasher);
    match message {
        Message::Claim {
            by,
            struck_at,
            is_live,
        } => (by, struck_at, is_live).hash(&mut hasher),
        Message::Claimed { to, holder } => (to, holder).hash(&mut hasher),
        Message::Count { at, copy } => (at, copy).hash(&mut hasher),
        Message::Counted { to, outcome } => {
            (to, outcome.is_counted(), std::mem::discriminant(outcome)).hash(&mut hasher);
        }
        Message::Register { by, is_live } => (by, is_live).hash(&mut hasher),
        Message::Granted { to, grant } => (to, grant.revision).hash(&mut hasher),
        Message::Elsewhere { to } => to.hash(&mut hasher),
        Message::Suspend { to, is_live, .. } => (to, is_live).hash(&mut hasher),
        Message::Suspended { by, totals } => {
            (by, totals.as_ref().map(number_of)).hash(&mut hasher);
        }
    }
    hasher.finish()
}
