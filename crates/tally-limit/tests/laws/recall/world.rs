//! A lender, two borrowers of one key, the messages between them, and all that may happen next. The decisions are those
//! of the shipped code: [`Lender`] and [`Borrower`]; this file carries them out as the shells do. Time stands still, so
//! nothing that is used returns.

use std::hash::{Hash, Hasher};

use tally_limit::borrower::Borrower;
use tally_limit::lease::{Admission, LeaseAnswer, LeaseId, LeaseRequest};
use tally_limit::lender::Lender;
use tally_limit::policy::{Policy, Scope};
use tally_testing::search::MessageEvent::{self, Deliver, Double, Late, Lose};
use tally_testing::search::Model;

const NOW_MS: i64 = 1_000_000;

/// All leases are over, and what they held is used no longer.
const LATER_MS: i64 = NOW_MS + 3 * 3_600_000;
const LIMIT: u64 = 3;
const BORROWERS: [u8; 2] = [0, 1];

/// What the calls of a borrower cost, one after the other. The caller of the first may give up.
const COSTS: [u64; 2] = [2, 1];

/// A guard that a broken variant is without.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Guard {
    /// A lender stores a grant before it answers.
    Commit,
    /// A borrower accepts only the answer to its newest request.
    Newest,
    /// A borrower does not spend what it has returned.
    Return,
}

#[derive(Clone, Debug)]
struct Place {
    borrower: Borrower,
    incarnation: u64,
    /// How many calls have been made, and the cost of the one that waits.
    calls: u8,
    waiting: Option<u64>,
    /// The sequence of the request whose answer is awaited.
    asks: Option<u64>,
}

/// A request that waits for a recall.
#[derive(Clone, Debug)]
struct Waiting {
    by: u8,
    request: LeaseRequest,
    is_live: bool,
    takes_all: bool,
}

/// A recall in progress.
#[derive(Clone, Debug)]
struct Recall {
    waiting: Vec<Waiting>,
    /// How many reports are awaited.
    reports: u8,
}

#[derive(Clone, Debug)]
enum Message {
    Request {
        by: u8,
        request: LeaseRequest,
        is_live: bool,
    },
    Answer {
        to: u8,
        answer: LeaseAnswer,
        /// Whether its request was given up.
        is_late: bool,
    },
    Recall {
        to: u8,
        lease: LeaseId,
        takes_all: bool,
        is_live: bool,
    },
    Report(Option<LeaseRequest>),
}

#[derive(Clone, Copy, Debug)]
pub enum Event {
    Call(u8),
    /// The caller of a call that waits gives up.
    Leave(u8),
    /// Something happens to a message.
    Message(MessageEvent),
    Crash(u8),
    CrashLender,
}

#[derive(Clone, Debug)]
pub struct World {
    removed: Option<Guard>,
    lender: Lender,
    stored: Vec<u8>,
    recall: Option<Recall>,
    places: [Place; 2],
    admitted: u64,
    has_failed: bool,
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
        ..Policy::sliding(LIMIT, 3_600)
    }
}

fn first_lease(place: u8, incarnation: u64) -> LeaseId {
    LeaseId {
        borrower: place.to_string(),
        incarnation,
        number: 1,
    }
}

impl World {
    /// Faults of messages, and crashes.
    pub fn new(removed: Option<Guard>, (message_faults, crashes): (u8, u8)) -> Self {
        let lender = Lender::new(&policy());
        let place = |number| Place {
            borrower: Borrower::new(first_lease(number, 1)),
            incarnation: 1,
            calls: 0,
            waiting: None,
            asks: None,
        };
        Self {
            removed,
            stored: postcard::to_allocvec(&lender).expect("it is stored"),
            lender,
            recall: None,
            places: BORROWERS.map(place),
            admitted: 0,
            has_failed: false,
            messages: Vec::new(),
            message_faults,
            crashes,
        }
    }

    fn is_without(&self, guard: Guard) -> bool {
        self.removed == Some(guard)
    }

    /// A call is made, or may be decided now. `is_last`: it waits no longer.
    fn try_call(&mut self, number: u8, cost: u64, is_last: bool) {
        let place = &mut self.places[at(number)];
        match place.borrower.check(&policy(), NOW_MS, cost) {
            Admission::Decided(verdict) if verdict.is_allowed => self.admitted += cost,
            Admission::Decided(_) | Admission::Away => {}
            Admission::Ask if is_last => place.borrower.leave(cost),
            Admission::Ask => {
                place.waiting = Some(cost);
                self.ask(number);
            }
        }
    }

    fn ask(&mut self, by: u8) {
        let place = &mut self.places[at(by)];
        if place.asks.is_some() {
            return;
        }
        match place.borrower.next_request(&policy(), NOW_MS) {
            Some(request) => {
                place.asks = Some(request.sequence);
                self.messages.push(Message::Request {
                    by,
                    request,
                    is_live: true,
                });
            }
            None => self.decide(by),
        }
    }

    /// The present lease decides about the call that waits.
    fn decide(&mut self, number: u8) {
        let place = &mut self.places[at(number)];
        if let Some(cost) = place.waiting.take() {
            place.borrower.leave(cost);
            self.try_call(number, cost, true);
        }
    }

    /// The lender answers a request, or recalls first what others do not need.
    fn lend(&mut self, by: u8, request: LeaseRequest, is_live: bool, round: Option<bool>) {
        let answer = self.lender.ask(&policy(), &request, NOW_MS);
        let is_short = answer.is_short(&request);
        let next_round = match round {
            None => Some(false),
            Some(false) => Some(true),
            Some(true) => None,
        };
        if is_short && round == Some(true) {
            self.lender.recalled_in_vain(&request.lease, NOW_MS);
        }
        if let Some(takes_all) = next_round.filter(|_| is_short) {
            let waiting = Waiting {
                by,
                request,
                is_live,
                takes_all,
            };
            if self.recall(waiting).is_none() {
                return;
            }
        }
        if answer.must_commit && !self.is_without(Guard::Commit) {
            self.stored = postcard::to_allocvec(&self.lender).expect("it is stored");
        }
        let is_kept = is_live || self.is_without(Guard::Newest);
        self.messages.extend(is_kept.then_some(Message::Answer {
            to: by,
            answer,
            is_late: !is_live,
        }));
    }

    /// Recalls what others hold, or waits for the recall in progress. Returns the request if nothing can be recalled.
    fn recall(&mut self, waiting: Waiting) -> Option<Waiting> {
        if let Some(recall) = &mut self.recall {
            recall.waiting.push(waiting);
            return None;
        }
        let leases = self.lender.recallable(Some(&waiting.request.lease), NOW_MS);
        if leases.is_empty() {
            return Some(waiting);
        }
        let takes_all = waiting.takes_all;
        self.recall = Some(Recall {
            waiting: vec![waiting],
            reports: u8::try_from(leases.len()).expect("few"),
        });
        let recalls = leases.into_iter().map(|lease| Message::Recall {
            to: lease.borrower.parse().expect("a number"),
            lease,
            takes_all,
            is_live: true,
        });
        self.messages.extend(recalls);
        None
    }

    fn answered(&mut self, to: u8, mut answer: LeaseAnswer, is_late: bool) {
        let place = &mut self.places[at(to)];
        if is_late {
            // Only without the guard: it is taken as the answer to the request that is on its way.
            let Some(sequence) = place.asks else { return };
            answer.sequence = sequence;
        }
        if place.asks != Some(answer.sequence) {
            return;
        }
        place.asks = None;
        place.borrower.answered(&answer, NOW_MS);
        self.decide(to);
    }

    fn recalled(&mut self, to: u8, lease: &LeaseId, takes_all: bool, is_live: bool) {
        let keeps = self.is_without(Guard::Return);
        let place = &mut self.places[at(to)];
        let before = place.borrower.clone();
        let report = place.borrower.recall(&policy(), lease, takes_all, NOW_MS);
        if keeps {
            place.borrower = before;
        }
        self.messages
            .extend(is_live.then_some(Message::Report(report)));
    }

    fn reported(&mut self, report: Option<&LeaseRequest>) {
        if let Some(report) = report {
            self.lender.receive_report(&policy(), report, NOW_MS);
        }
        let Some(recall) = &mut self.recall else {
            return;
        };
        recall.reports -= 1;
        if recall.reports == 0
            && let Some(recall) = self.recall.take()
        {
            for it in recall.waiting {
                self.lend(it.by, it.request, it.is_live, Some(it.takes_all));
            }
        }
    }

    fn deliver(&mut self, number: u8, crashes: bool) {
        let message = self.messages.remove(at(number));
        let kept = self.messages.len();
        let place = match &message {
            Message::Request { .. } | Message::Report(_) => None,
            Message::Answer { to, .. } | Message::Recall { to, .. } => Some(*to),
        };
        match message {
            Message::Request {
                by,
                request,
                is_live,
            } => self.lend(by, request, is_live, None),
            Message::Answer {
                to,
                answer,
                is_late,
            } => self.answered(to, answer, is_late),
            Message::Recall {
                to,
                lease,
                takes_all,
                is_live,
            } => self.recalled(to, &lease, takes_all, is_live),
            Message::Report(report) => self.reported(report.as_ref()),
        }
        if crashes {
            self.crashes -= 1;
            self.has_failed = true;
            for message in self.messages.split_off(kept) {
                self.gone(&message);
            }
            match place {
                Some(place) => self.crash(place),
                None => self.crash_lender(),
            }
        }
    }

    /// A message will never arrive, so nobody waits for it or for its answer any more.
    fn gone(&mut self, message: &Message) {
        match message {
            Message::Request {
                by,
                request,
                is_live: true,
            } => self.lost(*by, request.sequence),
            Message::Answer { to, answer, .. } => self.lost(*to, answer.sequence),
            Message::Recall { is_live: true, .. } | Message::Report(_) => self.reported(None),
            _ => {}
        }
    }

    fn lost(&mut self, by: u8, sequence: u64) {
        let place = &mut self.places[at(by)];
        if place.asks == Some(sequence) {
            place.asks = None;
            place.borrower.lost(sequence, NOW_MS);
            self.decide(by);
        }
    }

    fn leave_message(message: &mut Message) -> Option<()> {
        match message {
            Message::Request { is_live, .. } | Message::Recall { is_live, .. } => {
                std::mem::replace(is_live, false).then_some(())
            }
            Message::Answer { .. } | Message::Report(_) => None,
        }
    }

    /// Its tokens are forfeited.
    fn crash(&mut self, number: u8) {
        let place = &mut self.places[at(number)];
        place.incarnation += 1;
        place.borrower = Borrower::new(first_lease(number, place.incarnation));
        (place.waiting, place.asks) = (None, None);
        for message in &mut self.messages {
            if let Message::Request { by, is_live, .. } = message {
                *is_live &= *by != number;
            }
        }
        let is_answer = |it: &Message| matches!(it, Message::Answer { to, .. } if *to == number);
        self.messages.retain(|message| !is_answer(message));
        let waiting = self
            .recall
            .iter_mut()
            .flat_map(|recall| &mut recall.waiting);
        for it in waiting.filter(|it| it.by == number) {
            it.is_live = false;
        }
    }

    fn crash_lender(&mut self) {
        self.lender = postcard::from_bytes(&self.stored).expect("it was stored");
        let waiting = self.recall.take().into_iter().flat_map(|it| it.waiting);
        for it in waiting.filter(|it| it.is_live) {
            self.lost(it.by, it.request.sequence);
        }
        for message in &mut self.messages {
            if let Message::Recall { is_live, .. } = message {
                *is_live = false;
            }
        }
        self.messages.retain(|it| !matches!(it, Message::Report(_)));
    }
}

impl Model for World {
    type Event = Event;

    fn title(&self) -> String {
        format!("a limit of {LIMIT}, calls of {COSTS:?} at each borrower")
    }

    fn events(&self) -> Vec<Event> {
        let mut events = Vec::new();
        for (number, place) in (0..).zip(&self.places) {
            if place.waiting.is_some() {
                events.push(Event::Leave(number));
            } else if at(place.calls) < COSTS.len() {
                events.push(Event::Call(number));
            }
        }
        if self.crashes > 0 {
            events.extend(BORROWERS.map(Event::Crash));
            events.push(Event::CrashLender);
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
            Event::Call(number) => {
                let cost = COSTS[at(world.places[at(number)].calls)];
                world.places[at(number)].calls += 1;
                world.try_call(number, cost, false);
            }
            Event::Leave(number) => {
                let place = &mut world.places[at(number)];
                place.borrower.leave(place.waiting.take()?);
            }
            Event::Message(Deliver(number, crashes)) => world.deliver(number, crashes),
            Event::Message(Lose(number)) => {
                world.message_faults -= 1;
                world.has_failed = true;
                let message = world.messages.remove(at(number));
                world.gone(&message);
            }
            Event::Message(Double(number)) => {
                world.message_faults -= 1;
                world.has_failed = true;
                let mut copy = world.messages[at(number)].clone();
                Self::leave_message(&mut copy)?;
                world.messages.push(copy);
            }
            Event::Message(Late(number)) => {
                world.message_faults -= 1;
                world.has_failed = true;
                let message = world.messages[at(number)].clone();
                Self::leave_message(&mut world.messages[at(number)])?;
                world.gone(&message);
            }
            Event::Crash(place) => {
                world.crashes -= 1;
                world.has_failed = true;
                world.crash(place);
            }
            Event::CrashLender => {
                world.crashes -= 1;
                world.has_failed = true;
                world.crash_lender();
            }
        }
        Some(world)
    }

    fn check(&self) -> Result<(), String> {
        let lent = self
            .places
            .iter()
            .map(|place| place.borrower.tokens(NOW_MS));
        let (admitted, lent) = (self.admitted, lent.sum::<u64>());
        if admitted + lent > LIMIT {
            return Err(format!(
                "{admitted} admitted and {lent} to spend are above the limit"
            ));
        }
        Ok(())
    }

    fn check_rest(&self) -> Result<(), String> {
        let waits = |place: &Place| place.waiting.is_some() || place.asks.is_some();
        match self.recall.is_some() || self.places.iter().any(waits) {
            true => return Err("a recall does not end".to_owned()),
            false if self.has_failed => {
                let left = self.lender.peek(&policy(), LATER_MS, 0).remaining;
                let is_back = left == LIMIT;
                return is_back
                    .then_some(())
                    .ok_or_else(|| format!("{left} of {LIMIT} return"));
            }
            false => {}
        }
        let lent = self
            .places
            .iter()
            .map(|place| place.borrower.tokens(NOW_MS));
        let left = self.lender.peek(&policy(), NOW_MS, 0).remaining;
        let whole = self.admitted + lent.sum::<u64>() + left;
        match whole == LIMIT {
            true => Ok(()),
            false => Err(format!(
                "{whole} of {LIMIT} are left or used, though nothing failed"
            )),
        }
    }

    fn tell(&self, event: Event) -> String {
        let message = |number: usize| match &self.messages[number] {
            Message::Request { by, request, .. } => {
                format!("a request of {by} for {}", request.want)
            }
            Message::Answer { to, answer, .. } => format!("{} granted to {to}", answer.granted),
            Message::Recall { to, takes_all, .. } => {
                format!("a recall from {to}, all: {takes_all}")
            }
            Message::Report(Some(report)) => format!("a report of {} returned", report.returned),
            Message::Report(None) => "no report".to_owned(),
        };
        match event {
            Event::Message(event) => event.tell(&message(event.number())),
            event => format!("{event:?}"),
        }
    }
}

impl Hash for World {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let numbers = (self.admitted, self.message_faults, self.crashes);
        (self.removed, numbers, self.has_failed).hash(hasher);
        self.stored.hash(hasher);
        let mut messages: Vec<String> = self.messages.iter().map(|it| format!("{it:?}")).collect();
        messages.sort_unstable();
        messages.hash(hasher);
        format!("{:?}{:?}{:?}", self.lender, self.recall, self.places).hash(hasher);
    }
}
