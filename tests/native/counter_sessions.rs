//! Law: while a write that a queue of the platform has accepted may still be counted, the root of its counter knows
//! that; and soon after all of them were counted it knows that, too. Whatever is lost, late or comes twice.

use std::collections::{BTreeMap, BTreeSet};

use proptest::collection::vec;
use proptest::prelude::*;
use tally_core::cluster::generation_lease::LEASE_MS;
use tally_core::counter::id::CounterId;
use tally_core::counter::lane::IN_FLIGHT_MS_MAX;
use tally_core::counter::ledger::WriteKey;
use tally_core::counter::numbered_writes::{
    Decision, Numbers, SPANS_MAX, WriteNumbers, lane_and_number,
};
use tally_core::counter::queue::sessions::{IDLE_MS, RETRY_MS, SenderLane, Sessions};

/// How long a client waits for its answer: longer than any does.
const WAIT_MS_MAX: i64 = 2 * IN_FLIGHT_MS_MAX;

const SENDERS: usize = 2;
const LEADS: usize = 2;

fn counter() -> CounterId {
    CounterId::parse("a").expect("an id")
}

#[derive(Clone, Debug)]
enum Message {
    Open(usize, WriteKey, u64, i64),
    Opened(usize, u64, Option<u64>, i64),
    Close(usize, WriteKey, u64, Numbers),
    Closed(usize, u64),
}

#[derive(Default)]
struct Sender {
    numbering: WriteNumbers,
    sessions: Sessions,
    leased_ms: Option<i64>,
}

/// A write on its way to the queue.
#[derive(Clone, Copy)]
struct InFlight {
    sender: usize,
    key: WriteKey,
    generation: u64,
    begun_ms: i64,
}

/// One counter, its root, its leads and those who put writes of it into a queue.
struct World {
    now_ms: i64,
    generation: u64,
    random: u64,
    senders: [Sender; SENDERS],
    lanes: BTreeMap<WriteKey, SenderLane>,
    /// Whether the root says that the queue may hold something.
    may_hold: bool,
    messages: Vec<Message>,
    in_flight: Vec<InFlight>,
    queue: Vec<(u64, WriteKey)>,
    accepted: BTreeSet<(u64, WriteKey)>,
    counted: BTreeSet<WriteKey>,
    leads: [BTreeMap<WriteKey, Numbers>; LEADS],
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Event(usize),
    /// A message arrives; where `true`, it will once more.
    Deliver(usize, bool),
    Lose(usize),
    /// A write reaches the queue; where `false`, its sender does not hear so.
    Settle(usize, bool),
    Count(usize, usize),
    Look,
    Wait(i64),
    /// The generation ends, and another begins with the next event.
    End,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let some = 0..64_usize;
    let step = prop_oneof![
        6 => (0..SENDERS).prop_map(Step::Event),
        8 => (some.clone(), prop::bool::weighted(0.3)).prop_map(|(pick, again)| Step::Deliver(pick, again)),
        1 => some.clone().prop_map(Step::Lose),
        4 => (some.clone(), prop::bool::weighted(0.8)).prop_map(|(pick, is_answered)| Step::Settle(pick, is_answered)),
        4 => (some, 0..LEADS).prop_map(|(pick, lead)| Step::Count(pick, lead)),
        4 => Just(Step::Look),
        4 => (1..IDLE_MS + 3_000).prop_map(Step::Wait),
        2 => (1..LEASE_MS / 2).prop_map(Step::Wait),
        1 => Just(Step::End),
    ];
    vec(step, 1..120)
}

impl World {
    fn new() -> Self {
        Self {
            now_ms: 1_777_593_600_000,
            generation: 1,
            random: 0,
            senders: Default::default(),
            lanes: BTreeMap::new(),
            may_hold: false,
            messages: Vec::new(),
            in_flight: Vec::new(),
            queue: Vec::new(),
            accepted: BTreeSet::new(),
            counted: BTreeSet::new(),
            leads: Default::default(),
        }
    }

    fn event(&mut self, place: usize) {
        let (now_ms, random) = (self.now_ms, &mut self.random);
        let mut random = || {
            *random += 1;
            *random
        };
        let sender = &mut self.senders[place];
        let lane = sender.numbering.lane(&counter(), now_ms, &mut random);
        let (session, generation) = sender.sessions.of_next(&counter(), lane, now_ms);
        let is_leased =
            (sender.leased_ms).is_some_and(|request_ms| now_ms - request_ms <= LEASE_MS);
        if generation == 0 || !is_leased {
            let open = Message::Open(place, lane.0, session, now_ms);
            self.messages.push(open);
            return;
        }
        let key = sender.numbering.next(&counter(), now_ms, &mut random);
        self.in_flight.push(InFlight {
            sender: place,
            key,
            generation,
            begun_ms: now_ms,
        });
    }

    fn deliver(&mut self, message: Message) {
        match message {
            Message::Open(sender, lane, session, request_ms) => {
                let known = self.lanes.entry(lane).or_default();
                if !known.is_closed(session) {
                    known.open(self.generation, session);
                }
                let is_open = !known.is_closed(session);
                self.may_hold |= is_open;
                let generation = is_open.then_some(self.generation);
                let opened = Message::Opened(sender, session, generation, request_ms);
                self.messages.push(opened);
            }
            Message::Opened(sender, session, generation, request_ms) => {
                let sender = &mut self.senders[sender];
                if sender
                    .sessions
                    .record_answer(&counter(), session, generation)
                {
                    sender.leased_ms = Some(request_ms);
                }
            }
            Message::Close(sender, lane, session, accepted) => {
                let known = self.lanes.entry(lane).or_default();
                if !known.is_closed(session) {
                    known.close(session, &accepted);
                }
                self.messages.push(Message::Closed(sender, session));
            }
            Message::Closed(sender, session) => self.senders[sender].sessions.closed(session),
        }
    }

    fn complete(&mut self, sent: InFlight, is_answered: bool) {
        self.queue.push((sent.generation, sent.key));
        if is_answered {
            let sender = &mut self.senders[sent.sender];
            sender.sessions.accept(&counter(), sent.key);
            if self.now_ms - sent.begun_ms <= WAIT_MS_MAX {
                self.accepted.insert((sent.generation, sent.key));
            }
        }
    }

    fn count(&mut self, (generation, key): (u64, WriteKey), lead: usize) {
        // Another one may have counted it before.
        if generation == self.generation && self.counted.insert(key) {
            let (lane, number) = lane_and_number(key);
            let numbers = self.leads[lead].entry(lane).or_default();
            numbers.put(number, Decision::Counted);
        }
    }

    fn look(&mut self) {
        let none = Numbers::default();
        for (lane, known) in &mut self.lanes {
            let leads = self.leads.iter();
            let by: Vec<&Numbers> = leads.map(|lead| lead.get(lane).unwrap_or(&none)).collect();
            known.expire_accepted(&by);
        }
        let mut lanes = self.lanes.values();
        self.may_hold = lanes.any(|known| known.may_hold(self.generation));
    }

    fn wait(&mut self, wait_ms: i64) {
        self.now_ms += wait_ms;
        for (place, sender) in self.senders.iter_mut().enumerate() {
            for (_, session) in sender.sessions.idle(self.now_ms, 10) {
                let (lane, number) = (session.lane, session.number);
                let close = Message::Close(place, lane, number, session.accepted);
                self.messages.push(close);
            }
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Event(sender) => self.event(sender),
            Step::Deliver(pick, again) if !self.messages.is_empty() => {
                let message = self.messages.swap_remove(pick % self.messages.len());
                if again {
                    self.messages.push(message.clone());
                }
                self.deliver(message);
            }
            Step::Lose(pick) if !self.messages.is_empty() => {
                self.messages.swap_remove(pick % self.messages.len());
            }
            Step::Settle(pick, is_answered) if !self.in_flight.is_empty() => {
                let sent = self.in_flight.swap_remove(pick % self.in_flight.len());
                self.complete(sent, is_answered);
            }
            Step::Count(pick, lead) if !self.queue.is_empty() => {
                self.count(self.queue[pick % self.queue.len()], lead);
            }
            Step::Look => self.look(),
            Step::Wait(wait_ms) => self.wait(wait_ms),
            // Leases are over by then.
            Step::End => {
                self.wait(LEASE_MS + 1);
                self.generation += 1;
                self.may_hold = false;
            }
            _ => {}
        }
    }

    /// What was accepted of the living generation and is not counted.
    fn waits(&self) -> Vec<&(u64, WriteKey)> {
        let waits = |(generation, key): &&(u64, WriteKey)| {
            *generation == self.generation && !self.counted.contains(key)
        };
        self.accepted.iter().filter(waits).collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn a_root_knows_of_what_a_queue_holds_and_when_all_of_it_is_counted(steps in steps()) {
        let mut world = World::new();
        for step in steps {
            world.step(step);
            let waits = world.waits();
            prop_assert!(world.may_hold || waits.is_empty(), "after {step:?}: {waits:?}");
        }
        // All arrives, all is counted, and nothing new comes.
        for _ in 0..4 {
            while let Some(message) = world.messages.pop() {
                world.deliver(message);
            }
            for sent in std::mem::take(&mut world.in_flight) {
                world.complete(sent, true);
            }
            world.wait(IDLE_MS + RETRY_MS);
        }
        for write in world.queue.clone() {
            world.count(write, 0);
        }
        world.look();
        prop_assert!(!world.may_hold, "{:?}", world.lanes);
        prop_assert!(world.senders.iter().all(|sender| sender.sessions.is_empty()));
    }
}

#[test]
fn numbers_that_are_added_are_as_if_each_was_put() {
    let of = |numbers: &[u64]| {
        let mut all = Numbers::default();
        numbers
            .iter()
            .for_each(|number| all.put(*number, Decision::Counted));
        all
    };
    let mut sum = of(&[1, 2, 3, 7, 9]);
    sum.add_all(&of(&[2, 4, 8, 20]));
    assert_eq!(sum, of(&[1, 2, 3, 4, 7, 8, 9, 20]));
    assert!(of(&[1, 4, 8]).are_counted(&[&sum]));
    assert!(!of(&[1, 5]).are_counted(&[&sum]));
    assert!(of(&[1, 2, 3, 4, 5]).are_counted(&[&of(&[1, 3, 5]), &of(&[2, 4])]));

    // Beyond what a row holds, more is waited for, not less.
    let even: Vec<u64> = (1..=3_000).map(|number| 2 * number).collect();
    let later: Vec<u64> = even.iter().map(|number| number + 10_000).collect();
    let mut many = of(&even);
    many.add_all(&of(&later));
    assert!(many.spans() <= SPANS_MAX);
    assert!(!many.are_counted(&[&of(&even), &of(&later)]) && of(&later).are_counted(&[&many]));
}

#[test]
fn a_session_is_of_one_lane_and_one_generation() {
    let (mut sessions, mut lane) = (Sessions::default(), SenderLane::default());
    let key = |byte: u8| WriteKey([byte; 16]);
    let first = sessions.of_next(&counter(), (key(1), 0), 0);
    assert_eq!(first, (1, 0));
    assert!(lane.open(7, 1) && sessions.record_answer(&counter(), 1, Some(7)));
    assert_eq!(sessions.of_next(&counter(), (key(1), 3), 1), (1, 7));
    // The root's answer of before another lane began says nothing of that.
    assert_eq!(sessions.of_next(&counter(), (key(2), 0), 2), (2, 0));
    assert!(!sessions.record_answer(&counter(), 1, Some(7)));
    // Another generation closes it.
    assert!(!lane.open(8, 1) && lane.is_closed(1) && !lane.may_hold(8));
    assert!(
        sessions.record_answer(&counter(), 2, Some(8))
            && !sessions.record_answer(&counter(), 2, None)
    );
    assert_eq!(sessions.of_next(&counter(), (key(2), 0), 3), (3, 0));
}
