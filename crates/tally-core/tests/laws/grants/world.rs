//! A root, two leads and a shard of the first lead, the messages between them, and all that may happen next. The
//! decisions are those of the shipped code: [`Root`] and [`CellState`]; this file carries them out as the shells do.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;

use tally_core::cluster::root::{Membership, Root};
use tally_core::counter::cell::CellState;
use tally_core::counter::flush::{Load, Refusal};
use tally_core::counter::grant::Grant;
use tally_core::counter::id::Datacenter;
use tally_core::counter::merge::{Part, Question};
use tally_core::counter::nonces::Nonce;
use tally_core::counter::total::Value;
use tally_testing::search::MessageEvent::{self, Deliver, Double, Late, Lose};
use tally_testing::search::Model;

/// The time stands still: no time to live is set.
const NOW_MS: i64 = 1_000_000;

/// The cells: the first lead, its shard, the second lead. Each gets one write.
pub const LEAD: u8 = 0;
pub const SHARD: u8 = 1;
pub const OTHER: u8 = 2;
const CELLS: [u8; 3] = [LEAD, SHARD, OTHER];

/// A guard that a broken variant is without.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Guard {
    /// A grant that was asked for before a seal is void.
    Unseal,
    /// A part that was asked for before an admission is not kept.
    Admission,
    /// A lead stores the number of its shards before it admits a new one.
    Spread,
    /// A root stores a new datacenter before it answers.
    Datacenter,
    /// A root notifies the only lead before it grants to a second one.
    Lone,
    /// A lead without a generation voids its grant in flight if the root notifies it.
    Void,
}

/// A copy of a write on its way. `is_sure`: no other copy was ever sent, and its sender waits for this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Copy {
    write: u8,
    at: u8,
    is_sure: bool,
    is_live: bool,
}

#[derive(Clone, Debug)]
struct Place {
    cell: Rc<CellState>,
    /// What is durable, if that is not the cell.
    stored: Option<Rc<CellState>>,
    /// How often the cell has admitted its shard since its last crash: it is private there.
    admissions: u64,
    /// The number of seals when it asked for a grant, while it waits.
    asks: Option<u64>,
    /// Copies that wait for a grant.
    waiting: Vec<Copy>,
    /// Whether it waits for the part of its shard.
    seals: bool,
}

#[derive(Clone, Debug, PartialEq)]
enum Message {
    Write(Copy),
    Counted(u8),
    /// The write goes to another cell.
    Moved(Copy),
    /// The cell asks its lead, or the root, for a grant.
    Ask {
        by: u8,
        is_live: bool,
    },
    Granted {
        to: u8,
        grant: Grant,
    },
    /// Writes do not spread to the shard.
    Refused {
        to: u8,
    },
    /// The root notifies a lead that it is not alone.
    Notify {
        to: u8,
        grant: Grant,
        is_live: bool,
    },
    Notified,
    Seal {
        generation: u64,
        admissions: u64,
        is_live: bool,
    },
    Sealed {
        part: Option<Part>,
        admissions: u64,
    },
}

#[derive(Clone, Copy, Debug)]
pub enum Event {
    /// A client sends its write to a cell.
    Send(u8),
    /// The lead spreads its writes over the next number of shards.
    Spread,
    /// The lead seals a shard that it does not spread over.
    Seal,
    /// A sender gives up waiting, and sends its write again.
    Again(u8),
    /// Something happens to a message. Writes do not arrive twice: only their senders repeat them.
    Message(MessageEvent),
    Crash(u8),
    CrashRoot,
}

/// What the sender of a write knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Sender {
    Idle,
    Waits,
    /// Its copy is gone; it sends another.
    Unsure,
    Acknowledged,
    /// It reports that it does not know.
    Unknown,
}

#[derive(Clone, Debug)]
pub struct World {
    spreads: &'static [u8],
    writers: &'static [u8],
    removed: Option<Guard>,
    changes: u8,
    root: Option<Root>,
    /// What is durable, if that is not the root.
    root_stored: Option<Option<Root>>,
    /// The lead for which the root notifies the only one, and whether it waits. The root answers nobody else meanwhile.
    newcomer: Option<(u8, bool)>,
    places: [Place; 3],
    senders: [(Sender, u8); 3],
    messages: Vec<Message>,
    message_faults: u8,
    crashes: u8,
}

fn at(place: u8) -> usize {
    usize::from(place)
}

fn datacenter_of(place: u8) -> Datacenter {
    let name = if place == OTHER { "SYD" } else { "FRA" };
    Datacenter::parse(name).expect("a name")
}

/// One hexadecimal digit for each write.
fn amount_of(write: u8) -> u64 {
    1 << (4 * write)
}

fn number_of(value: Value) -> u64 {
    u64::try_from(value.to_i64().expect("it is small")).expect("nothing is removed")
}

fn part_of(part: &Option<Part>) -> u64 {
    part.as_ref().map_or(0, |part| number_of(part.value()))
}

impl World {
    /// A world whose first lead counts already, if another place is to write.
    pub fn new(
        spreads: &'static [u8],
        writers: &'static [u8],
        removed: Option<Guard>,
        faults: u8,
    ) -> Self {
        let place = Place {
            cell: Rc::default(),
            stored: None,
            admissions: 0,
            asks: None,
            waiting: Vec::new(),
            seals: false,
        };
        let mut world = Self {
            spreads,
            writers,
            removed,
            changes: 0,
            root: None,
            root_stored: None,
            newcomer: None,
            places: [place.clone(), place.clone(), place],
            senders: CELLS.map(|cell| (Sender::Idle, cell)),
            messages: Vec::new(),
            message_faults: faults,
            crashes: faults,
        };
        if !writers.contains(&LEAD)
            && let Some(grant) = world.register(LEAD, false)
        {
            Rc::make_mut(&mut world.place(LEAD).cell).take_grant(grant, NOW_MS);
        }
        world
    }

    fn is_without(&self, guard: Guard) -> bool {
        self.removed == Some(guard)
    }

    fn place(&mut self, number: u8) -> &mut Place {
        &mut self.places[at(number)]
    }

    fn cell(&self, number: u8) -> &CellState {
        &self.places[at(number)].cell
    }

    /// Everything that the cells have counted.
    fn counted(&self) -> u64 {
        let totals = CELLS.iter().filter_map(|cell| self.cell(*cell).totals());
        let amounts = totals.map(|totals| number_of(Value::new(totals.added, totals.removed)));
        amounts.sum()
    }

    /// The sum that a reader gets, if all cells answer.
    fn sum(&self) -> u64 {
        let Some(root) = &self.root else { return 0 };
        let question = Question::plain(root.generation);
        let mut sum = 0;
        for lead in [LEAD, OTHER] {
            if !root.datacenters.contains(&datacenter_of(lead)) {
                continue;
            }
            let cell = self.cell(lead);
            sum += part_of(&cell.answer(&question));
            for shard in 1..cell.shards_ever() {
                sum += match cell.sealed_part(shard) {
                    Some(part) => part_of(&part.cloned()),
                    None => part_of(&self.cell(SHARD).answer(&question)),
                };
            }
        }
        sum
    }

    fn send(&mut self, write: u8, to: u8, is_sure: bool) {
        self.senders[at(write)] = (Sender::Waits, to);
        self.messages.push(Message::Write(Copy {
            write,
            at: to,
            is_sure,
            is_live: true,
        }));
    }

    fn ask(&mut self, by: u8) {
        let place = self.place(by);
        if place.asks.is_none() {
            place.asks = Some(place.cell.seals());
            self.messages.push(Message::Ask { by, is_live: true });
        }
    }

    /// A copy arrives at its cell, or waits there no longer.
    fn write(&mut self, copy: Copy) {
        let load = Load {
            added: amount_of(copy.write).into(),
            ..Load::default()
        };
        let nonce = Nonce {
            lane: copy.write.into(),
            number: 1,
        };
        let place = self.place(copy.at);
        match Rc::make_mut(&mut place.cell).apply(nonce, &load, NOW_MS) {
            Ok(_) => {
                place.stored = None;
                let counted = Message::Counted(copy.write);
                self.messages.extend(copy.is_live.then_some(counted));
            }
            Err(Refusal::NeedsGrant) => {
                place.waiting.push(copy);
                place.waiting.sort_unstable();
                self.ask(copy.at);
            }
            Err(refusal) => panic!("{refusal:?}"),
        }
    }

    fn go_on(&mut self, place: u8) {
        for copy in std::mem::take(&mut self.place(place).waiting) {
            self.write(copy);
        }
    }

    /// The lead or the root is asked for a grant.
    fn asked(&mut self, by: u8, is_live: bool) {
        let answer = match by {
            SHARD => match self.admit() {
                Ok(grant) => Message::Granted { to: by, grant },
                Err(_) => Message::Refused { to: by },
            },
            lead => match self.register(lead, is_live) {
                Some(grant) => Message::Granted { to: by, grant },
                None => return,
            },
        };
        self.messages.extend(is_live.then_some(answer));
    }

    fn admit(&mut self) -> Result<Grant, Refusal> {
        let lead = self.place(LEAD);
        let granted = Rc::make_mut(&mut lead.cell).admit(SHARD)?;
        lead.admissions += 1;
        if granted.was_sealed || granted.is_new {
            lead.stored = None;
        }
        Ok(granted.grant)
    }

    /// `None` if the root notifies another lead first.
    fn register(&mut self, lead: u8, is_live: bool) -> Option<Grant> {
        let datacenter = datacenter_of(lead);
        let root = self.root.clone();
        let mut root = root.unwrap_or_else(|| Root::create(None, NOW_MS));
        let notify = match root.membership(&datacenter) {
            Membership::Known => return Some(root.grant(&datacenter)),
            Membership::New { notify } => notify.filter(|_| !self.is_without(Guard::Lone)),
            other => panic!("{other:?}"),
        };
        root.join(&datacenter);
        if let Some(lone) = notify {
            let to = LEAD + OTHER - lead;
            assert_eq!(lone, datacenter_of(to));
            self.newcomer = Some((lead, is_live));
            self.messages.push(Message::Notify {
                to,
                grant: root.grant(&lone),
                is_live: true,
            });
            return None;
        }
        Some(self.joined(root, &datacenter))
    }

    fn joined(&mut self, mut root: Root, datacenter: &Datacenter) -> Grant {
        root.joined(NOW_MS);
        let grant = root.grant(datacenter);
        if self.is_without(Guard::Datacenter) {
            self.root_stored = Some(self.root.clone());
        }
        self.root = Some(root);
        grant
    }

    /// The only lead knows that it is not alone.
    fn notified(&mut self) {
        let Some((lead, is_live)) = self.newcomer.take() else {
            return;
        };
        let datacenter = datacenter_of(lead);
        let mut root = self.root.clone().expect("it has a datacenter");
        root.join(&datacenter);
        let grant = self.joined(root, &datacenter);
        let granted = Message::Granted { to: lead, grant };
        self.messages.extend(is_live.then_some(granted));
    }

    fn configure(&mut self, to: u8, grant: Grant) {
        let voids = !self.is_without(Guard::Void);
        let place = self.place(to);
        if place.cell.generation() == Some(grant.generation) {
            Rc::make_mut(&mut place.cell).configure(grant);
            place.stored = None;
        } else if voids {
            Rc::make_mut(&mut place.cell).void_grants();
        }
    }

    fn granted(&mut self, to: u8, grant: Grant) {
        let is_forced = self.is_without(Guard::Unseal);
        let place = self.place(to);
        let Some(seals) = place.asks.take() else {
            return;
        };
        let seals = match is_forced {
            true => place.cell.seals(),
            false => seals,
        };
        let cell = Rc::make_mut(&mut place.cell);
        if cell.unseal(seals) {
            cell.take_grant(grant, NOW_MS);
            place.stored = None;
        }
        self.go_on(to);
    }

    fn refused(&mut self, to: u8) {
        self.place(to).asks = None;
        for copy in std::mem::take(&mut self.place(to).waiting) {
            self.messages
                .extend(copy.is_live.then_some(Message::Moved(copy)));
        }
    }

    /// The sender sends its write elsewhere, if no other copy can be counted.
    fn moved(&mut self, copy: Copy) {
        match copy.is_sure {
            true => self.send(copy.write, LEAD, true),
            false => self.senders[at(copy.write)].0 = Sender::Unknown,
        }
    }

    fn sealed(&mut self, part: Option<Part>, admissions: u64) {
        let is_forced = self.is_without(Guard::Admission);
        let lead = self.place(LEAD);
        lead.seals = false;
        let admissions = match is_forced {
            true => lead.admissions,
            false => admissions,
        };
        if Rc::make_mut(&mut lead.cell).keep_sealed(SHARD, part, admissions) {
            lead.stored = None;
        }
    }

    /// Where a message has an effect; `None` for the root, and for a sender.
    fn place_of(message: &Message) -> Option<u8> {
        match message {
            Message::Write(copy) => Some(copy.at),
            Message::Ask { by: SHARD, .. } | Message::Sealed { .. } => Some(LEAD),
            Message::Granted { to, .. } | Message::Refused { to } => Some(*to),
            Message::Notify { to, .. } => Some(*to),
            Message::Seal { .. } => Some(SHARD),
            Message::Counted(_) | Message::Moved(_) => None,
            Message::Ask { .. } | Message::Notified => None,
        }
    }

    fn is_for_root(message: &Message) -> bool {
        matches!(message, Message::Notified)
            || matches!(message, Message::Ask { by, .. } if *by != SHARD)
    }

    fn may_arrive(&self, message: &Message) -> bool {
        let waits = matches!(message, Message::Ask { by, .. } if *by != SHARD);
        !(waits && self.newcomer.is_some())
    }

    fn deliver(&mut self, number: u8, crashes: bool) {
        let message = self.messages.remove(at(number));
        let kept = self.messages.len();
        let place = Self::place_of(&message);
        let is_for_root = Self::is_for_root(&message);
        match message {
            Message::Write(copy) => self.write(copy),
            Message::Counted(write) => self.senders[at(write)].0 = Sender::Acknowledged,
            Message::Moved(copy) => self.moved(copy),
            Message::Ask { by, is_live } => self.asked(by, is_live),
            Message::Granted { to, grant } => self.granted(to, grant),
            Message::Refused { to } => self.refused(to),
            Message::Notify { to, grant, is_live } => {
                self.configure(to, grant);
                self.messages.extend(is_live.then_some(Message::Notified));
            }
            Message::Notified => self.notified(),
            Message::Seal {
                generation,
                admissions,
                is_live,
            } => {
                let part = Rc::make_mut(&mut self.place(SHARD).cell).seal(generation);
                let sealed = Message::Sealed { part, admissions };
                self.messages.extend(is_live.then_some(sealed));
            }
            Message::Sealed { part, admissions } => self.sealed(part, admissions),
        }
        if crashes {
            self.crashes -= 1;
            // What is stored stays; what was to be sent is not.
            for message in self.messages.split_off(kept) {
                self.gone(&message);
            }
            match (place, is_for_root) {
                (Some(place), _) => self.crash(place),
                (None, true) => self.crash_root(),
                (None, false) => {}
            }
        }
    }

    /// A message will never arrive, so nobody waits for it or for its answer any more.
    fn gone(&mut self, message: &Message) {
        match message {
            Message::Write(copy) | Message::Moved(copy) => self.unsure(copy),
            Message::Counted(write) => {
                self.unsure(&Copy {
                    write: *write,
                    at: 0,
                    is_sure: false,
                    is_live: true,
                });
            }
            Message::Ask { by, is_live } => self.fail(*by, *is_live),
            Message::Granted { to, .. } | Message::Refused { to } => self.fail(*to, true),
            Message::Notify { is_live, .. } => self.not_notified(*is_live),
            Message::Notified => self.not_notified(true),
            Message::Seal { is_live, .. } => self.places[at(LEAD)].seals &= !is_live,
            Message::Sealed { .. } => self.places[at(LEAD)].seals = false,
        }
    }

    fn unsure(&mut self, copy: &Copy) {
        let sender = &mut self.senders[at(copy.write)].0;
        if copy.is_live && *sender == Sender::Waits {
            *sender = Sender::Unsure;
        }
    }

    /// A request for a grant fails, and so do the copies that wait for it.
    fn fail(&mut self, place: u8, is_live: bool) {
        if !is_live {
            return;
        }
        self.place(place).asks = None;
        for copy in std::mem::take(&mut self.place(place).waiting) {
            self.unsure(&copy);
        }
    }

    fn not_notified(&mut self, is_live: bool) {
        if is_live && let Some((lead, is_live)) = self.newcomer.take() {
            self.fail(lead, is_live);
        }
    }

    /// Nobody waits for a request any more. `None` for an answer: it would have no effect.
    fn leave(message: &mut Message) -> Option<()> {
        let is_live = match message {
            Message::Ask { is_live, .. }
            | Message::Notify { is_live, .. }
            | Message::Seal { is_live, .. } => is_live,
            Message::Write(copy) => &mut copy.is_live,
            _ => return None,
        };
        std::mem::replace(is_live, false).then_some(())
    }

    fn crash(&mut self, number: u8) {
        let place = self.place(number);
        let stored = place.stored.take().unwrap_or_else(|| place.cell.clone());
        let mut woken = CellState::default();
        woken.adopt(CellState::clone(&stored));
        place.cell = Rc::new(woken);
        place.admissions = 0;
        place.seals = false;
        place.asks = None;
        for copy in std::mem::take(&mut place.waiting) {
            self.unsure(&copy);
        }
        if self.newcomer.is_some_and(|(lead, _)| lead == number) {
            self.newcomer = Some((number, false));
        }
        self.messages.retain_mut(|message| match message {
            Message::Ask { by, is_live } => {
                *is_live &= *by != number;
                true
            }
            Message::Seal { is_live, .. } => {
                *is_live &= number != LEAD;
                true
            }
            Message::Granted { to, .. } | Message::Refused { to } => *to != number,
            Message::Sealed { .. } => number != LEAD,
            _ => true,
        });
    }

    fn crash_root(&mut self) {
        if let Some(stored) = self.root_stored.take() {
            self.root = stored;
        }
        self.not_notified(true);
        self.messages.retain_mut(|message| {
            if let Message::Notify { is_live, .. } = message {
                *is_live = false;
            }
            *message != Message::Notified
        });
    }
}

impl Model for World {
    type Event = Event;

    fn title(&self) -> String {
        format!(
            "numbers of shards {:?}, writes at {:?}",
            self.spreads, self.writers
        )
    }

    fn events(&self) -> Vec<Event> {
        let mut events = Vec::new();
        let lead = self.cell(LEAD);
        let has_second = lead.spread() > 1 && !lead.needs_grant(NOW_MS);
        for write in self.writers.iter().copied() {
            match self.senders[at(write)].0 {
                Sender::Idle if write != SHARD || has_second => events.push(Event::Send(write)),
                Sender::Unsure => events.push(Event::Again(write)),
                _ => {}
            }
        }
        if at(self.changes) + 1 < self.spreads.len() && !lead.needs_grant(NOW_MS) {
            events.push(Event::Spread);
        }
        if !self.places[at(LEAD)].seals && !lead.to_seal().is_empty() {
            events.push(Event::Seal);
        }
        if self.crashes > 0 {
            events.extend(CELLS.map(Event::Crash));
            events.push(Event::CrashRoot);
        }
        let (crashes, faults) = (self.crashes > 0, self.message_faults > 0);
        let arrive = self.messages.iter().map(|message| self.may_arrive(message));
        events.extend(MessageEvent::of_each(arrive, crashes, faults).map(Event::Message));
        events
    }

    fn calm_event(&self) -> Option<Event> {
        let arrives = self.messages.iter().position(|it| self.may_arrive(it));
        if let Some(number) = arrives {
            return Some(Event::Message(Deliver(
                u8::try_from(number).expect("few"),
                false,
            )));
        }
        let is_calm = |event: &Event| matches!(event, Event::Again(_) | Event::Seal);
        self.events().into_iter().find(is_calm)
    }

    fn after(&self, event: Event) -> Option<Self> {
        let mut world = self.clone();
        match event {
            Event::Send(write) => world.send(write, write, true),
            Event::Again(write) => world.send(write, world.senders[at(write)].1, false),
            Event::Spread => {
                world.changes += 1;
                let shards = world.spreads[at(world.changes)];
                let is_stored = !world.is_without(Guard::Spread);
                let lead = world.place(LEAD);
                lead.stored = (!is_stored).then(|| lead.cell.clone());
                Rc::make_mut(&mut lead.cell).spread_over(shards);
            }
            Event::Seal => {
                let generation = world.cell(LEAD).generation()?;
                let (_, admissions) = *world.cell(LEAD).to_seal().first()?;
                world.place(LEAD).seals = true;
                world.messages.push(Message::Seal {
                    generation,
                    admissions,
                    is_live: true,
                });
            }
            Event::Message(Deliver(number, crashes)) => world.deliver(number, crashes),
            Event::Message(Lose(number)) => {
                world.message_faults -= 1;
                let message = world.messages.remove(at(number));
                world.gone(&message);
            }
            Event::Message(Double(number)) => {
                world.message_faults -= 1;
                let mut copy = world.messages[at(number)].clone();
                if matches!(copy, Message::Write(_)) {
                    return None;
                }
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
        for write in CELLS {
            let digit = |number: u64| (number >> (4 * write)) & 15;
            let is_acknowledged = self.senders[at(write)].0 == Sender::Acknowledged;
            let expected = u64::from(is_acknowledged).max(digit(counted));
            if digit(sum) < expected {
                return Err(format!("write {write} is missing in the sum {sum:x}"));
            }
            if digit(sum) > 1 {
                return Err(format!("write {write} counts twice in the sum {sum:x}"));
            }
        }
        let is_kept = self.cell(LEAD).sealed_part(SHARD).is_some();
        if is_kept && !self.cell(SHARD).needs_grant(NOW_MS) {
            return Err("the shard counts, and the lead keeps its part".to_owned());
        }
        for lead in [LEAD, OTHER] {
            let cell = self.cell(lead);
            let (Some((added, removed)), Some(own)) = (cell.elsewhere(), cell.totals()) else {
                continue;
            };
            let own = Value::new(own.added, own.removed);
            let value = number_of(own.plus(Value::new(added, removed)));
            if value != sum {
                return Err(format!(
                    "the total {value:x} of a lead alone is not the sum {sum:x}"
                ));
            }
        }
        Ok(())
    }

    fn check_rest(&self) -> Result<(), String> {
        let is_waiting = |place: &Place| !place.waiting.is_empty() || place.asks.is_some();
        let is_sending =
            |(sender, _): &(Sender, u8)| matches!(sender, Sender::Waits | Sender::Unsure);
        match self.places.iter().any(is_waiting) || self.senders.iter().any(is_sending) {
            true => Err(format!("a grant does not come: {:?}", self.senders)),
            false => Ok(()),
        }
    }

    fn tell(&self, event: Event) -> String {
        let message = |number: usize| match &self.messages[number] {
            Message::Granted { to, grant } => {
                format!("Granted {{ to: {to}, alone: {} }}", grant.alone)
            }
            Message::Notify { to, .. } => format!("Notify {{ to: {to} }}"),
            Message::Sealed { part, .. } => format!("Sealed {{ part: {:x} }}", part_of(part)),
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
        let numbers = (self.changes, self.message_faults, self.crashes);
        (self.removed, numbers, self.newcomer, self.senders).hash(hasher);
        hash_root(self.root.as_ref(), hasher);
        if let Some(stored) = &self.root_stored {
            hash_root(stored.as_ref(), hasher);
        }
        for place in &self.places {
            hash_cell(&place.cell, hasher);
            if let Some(stored) = &place.stored {
                hash_cell(stored, hasher);
            }
            (place.admissions, place.asks, &place.waiting, place.seals).hash(hasher);
        }
        let mut messages: Vec<u64> = self.messages.iter().map(hash_of).collect();
        messages.sort_unstable();
        messages.hash(hasher);
    }
}

fn hash_root(root: Option<&Root>, hasher: &mut impl Hasher) {
    let root = root.map(|root| (root.datacenters.len(), root.revision, root.sole()));
    root.hash(hasher);
}

fn hash_cell(cell: &CellState, hasher: &mut impl Hasher) {
    let grant = cell.grant().map(|grant| (grant.revision, grant.alone));
    let totals = cell.totals();
    let totals = totals.map(|own| (own.sequence, number_of(Value::new(own.added, own.removed))));
    let sealed = cell.sealed_part(SHARD);
    let sealed = sealed.map(|part| part.map(|part| number_of(part.value())));
    let shards = (cell.spread(), cell.shards_ever(), sealed);
    (grant, totals, shards, cell.is_sealed(), cell.seals()).hash(hasher);
}

fn hash_of(message: &Message) -> u64 {
    let mut hasher = DefaultHasher::new();
    std::mem::discriminant(message).hash(&mut hasher);
    match message {
        Message::Write(copy) | Message::Moved(copy) => copy.hash(&mut hasher),
        Message::Counted(write) => write.hash(&mut hasher),
        Message::Ask { by, is_live } => (by, is_live).hash(&mut hasher),
        Message::Granted { to, grant } => {
            (to, grant.revision, grant.alone, grant.spread).hash(&mut hasher);
        }
        Message::Refused { to } => to.hash(&mut hasher),
        Message::Notify { to, grant, is_live } => {
            (to, grant.revision, grant.alone, is_live).hash(&mut hasher);
        }
        Message::Notified => {}
        Message::Seal {
            admissions,
            is_live,
            ..
        } => (admissions, is_live).hash(&mut hasher),
        Message::Sealed { part, admissions } => {
            (part.is_some(), part_of(part), admissions).hash(&mut hasher);
        }
    }
    hasher.finish()
}
