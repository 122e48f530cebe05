//! The owner of a board with two members, its shards, the messages between them, and all that may happen next. The
//! decisions are those of the shipped code; this file carries them out as boards do.

use tally_core::handover::copies::{CopyOwner, CopySource, CopyTarget, Received};
use tally_core::handover::giver::Given;
use tally_testing::search::MessageEvent::{self, Deliver, Double, Late, Lose};
use tally_testing::search::Model;

/// The shards of each layout, by its number.
const LAYOUTS: [&[usize]; 4] = [&[], &[0, 1], &[2], &[3]];

const SHARDS: usize = 4;
const MEMBERS: usize = 2;

/// How often the members are written in all.
const WRITES: u8 = 2;

/// A guard that a broken variant is without.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Guard {
    /// Sources are sealed before the next layout begins.
    Seal,
    /// All of them are.
    AllSealed,
    /// What changes during the copy is noted.
    Notes,
    /// What has changed until the seal is copied.
    Last,
    /// A target stores no message after a later one.
    Turn,
    /// Objects of the former layout delete what they have only after the next one has begun.
    Early,
    /// The next layout begins with a debt.
    Debt,
    /// The sources learn that a move is cancelled before it is.
    Told,
    /// A source takes part in no move that was cancelled.
    Cancelled,
    /// A shard that had to delete what it has receives nothing after that.
    Over,
}

/// The values of members, where they are known.
type Values = [Option<u8>; MEMBERS];

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Command {
    Track,
    Receive,
    Give,
    Changed(u64),
    Seal,
    Take(u64, Values),
    Finish,
    Cancel,
    Delete,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Message {
    /// A command of a move to a shard. A live one is waited for.
    Command {
        shard: usize,
        number: u64,
        command: Command,
        is_live: bool,
    },
    Done,
    Lost,
    Members(Values, u64),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Work {
    Copy {
        to: u64,
        step: usize,
        turn: u64,
        /// The number of the last change that each shard has given.
        known: [u64; SHARDS],
    },
    Cancel(u64, usize),
    Delete(u64, usize),
}

/// A shard.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Shard {
    // Durable.
    is_begun: bool,
    is_living: bool,
    values: [u8; MEMBERS],
    source: CopySource,
    /// The number of the last change of each member since the copy began; 0 for none.
    notes: [u64; MEMBERS],
    // In memory.
    target: Option<CopyTarget>,
    is_over: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The owner begins a move.
    Begin,
    /// The owner does what is left to do.
    Act,
    /// A shard acknowledges a write of a member.
    Write(usize, usize),
    /// Something happens to a message.
    Message(MessageEvent),
    CrashOwner,
    Crash(usize),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    removed: Option<Guard>,
    // The owner's rows.
    layout: u64,
    moves: CopyOwner<u64>,
    newest: u64,
    // Its memory.
    work: Option<Work>,
    /// The layouts that callers may know.
    known: Vec<u64>,
    shards: [Shard; SHARDS],
    acknowledged: [u8; MEMBERS],
    messages: Vec<Message>,
    message_faults: u8,
    crashes: u8,
}

fn number_of(layout: u64) -> usize {
    usize::try_from(layout).expect("there are few layouts")
}

fn shards_of(layout: u64) -> &'static [usize] {
    LAYOUTS[number_of(layout)]
}

fn layout_of(shard: usize) -> u64 {
    let known = (1..4).find(|layout| shards_of(*layout).contains(&shard));
    known.expect("each shard is of a layout")
}

/// Whether a member is one of a shard's.
fn has(shard: usize, member: usize) -> bool {
    shard > 1 || shard == member
}

impl World {
    pub fn new(removed: Option<Guard>, (faults, crashes): (u8, u8)) -> Self {
        let mut moves = CopyOwner::default();
        let layout = moves.begin(|number| number);
        moves.arrive(layout, None);
        let mut shards: [Shard; SHARDS] = Default::default();
        for shard in shards_of(layout) {
            (shards[*shard].is_begun, shards[*shard].is_living) = (true, true);
        }
        Self {
            removed,
            layout,
            moves,
            newest: layout,
            work: None,
            known: vec![layout],
            shards,
            acknowledged: [0; MEMBERS],
            messages: Vec::new(),
            message_faults: faults,
            crashes,
        }
    }

    fn is_without(&self, guard: Guard) -> bool {
        self.removed == Some(guard)
    }

    /// Whether a shard counts a write of a member, or answers it.
    fn counts(&self, shard: usize, member: usize) -> bool {
        let it = &self.shards[shard];
        let is_known = self.known.contains(&layout_of(shard));
        it.is_living && !it.source.is_sealed() && is_known && has(shard, member)
    }

    fn write(&mut self, shard: usize, member: usize) {
        self.acknowledged[member] += 1;
        let notes = !self.is_without(Guard::Notes);
        let it = &mut self.shards[shard];
        it.values[member] += 1;
        if it.source.is_noting() && notes {
            it.notes[member] = it.notes.iter().max().map_or(1, |last| last + 1);
        }
    }

    /// The steps of a copy, in order.
    fn steps(&self) -> Vec<(usize, Command)> {
        let to = self.moves.moving().map_or(&[][..], shards_of);
        let from = shards_of(self.layout);
        let all = |command: Command| from.iter().map(move |shard| (*shard, command));
        let mut steps: Vec<_> = all(Command::Track).collect();
        steps.extend(to.iter().map(|shard| (*shard, Command::Receive)));
        steps.extend(all(Command::Give));
        steps.extend(all(Command::Changed(0)));
        let sealed = match self.removed {
            Some(Guard::Seal) => 0,
            Some(Guard::AllSealed) => 1,
            _ => from.len(),
        };
        steps.extend(all(Command::Seal).take(sealed));
        if !self.is_without(Guard::Last) {
            steps.extend(all(Command::Changed(0)));
        }
        if self.is_without(Guard::Early) {
            steps.extend(all(Command::Delete));
        }
        steps.extend(to.iter().map(|shard| (*shard, Command::Finish)));
        steps
    }

    fn send(&mut self, shard: usize, number: u64, command: Command) {
        self.messages.push(Message::Command {
            shard,
            number,
            command,
            is_live: true,
        });
    }

    /// Sends what the owner's work sends next.
    fn go_on(&mut self) {
        match self.work.clone() {
            None => {}
            Some(Work::Copy {
                to, step, known, ..
            }) => match self.steps().get(step) {
                Some((shard, Command::Changed(_))) => {
                    self.send(*shard, to, Command::Changed(known[*shard]));
                }
                Some((shard, command)) => self.send(*shard, to, *command),
                None => self.arrive(to),
            },
            Some(Work::Cancel(to, number)) => match shards_of(self.layout).get(number) {
                Some(shard) if !self.is_without(Guard::Told) => {
                    self.send(*shard, to, Command::Cancel);
                }
                _ => {
                    self.moves.cancel(to);
                    self.act();
                }
            },
            Some(Work::Delete(layout, number)) => match shards_of(layout).get(number) {
                Some(shard) => self.send(*shard, layout, Command::Delete),
                None => {
                    self.moves.paid(layout);
                    self.act();
                }
            },
        }
    }

    fn begin(&mut self) {
        let to = self.moves.begin(|number| number);
        self.newest = to;
        self.work = Some(Work::Copy {
            to,
            step: 0,
            turn: 0,
            known: [0; SHARDS],
        });
        self.go_on();
    }

    /// The next layout begins, in one commit.
    fn arrive(&mut self, to: u64) {
        let from = Some(self.layout).filter(|_| !self.is_without(Guard::Debt));
        if self.moves.arrive(to, from) {
            self.layout = to;
            self.known.push(to);
        }
        self.act();
    }

    fn act(&mut self) {
        self.work = match (self.moves.moving(), self.moves.debts().first()) {
            (Some(to), _) => Some(Work::Cancel(to, 0)),
            (None, Some(layout)) => Some(Work::Delete(*layout, 0)),
            (None, None) => None,
        };
        self.go_on();
    }

    /// The owner waits for no answer any more.
    fn fail(&mut self) {
        match self.work.take() {
            Some(Work::Copy { .. }) => self.act(),
            _ => self.work = None,
        }
    }

    fn answered(&mut self, answer: Message) {
        let steps = self.steps();
        match (self.work.as_mut(), answer) {
            (None, _) => return,
            (Some(Work::Cancel(_, number) | Work::Delete(_, number)), _) => *number += 1,
            (Some(Work::Copy { .. }), Message::Lost) => return self.fail(),
            (
                Some(Work::Copy {
                    to,
                    step,
                    turn,
                    known,
                }),
                Message::Members(values, last),
            ) => {
                let (shard, _) = steps[*step];
                known[shard] = known[shard].max(last);
                *turn += 1;
                let (to, turn) = (*to, *turn);
                return self.send(shards_of(to)[0], to, Command::Take(turn, values));
            }
            (Some(Work::Copy { step, .. }), _) => *step += 1,
        }
        self.go_on();
    }

    /// Carries out a command at a shard, and returns its answer.
    fn obey(&mut self, shard: usize, number: u64, command: Command) -> Message {
        let is_without_turn = self.is_without(Guard::Turn);
        let is_without_over = self.is_without(Guard::Over);
        let is_without_cancelled = self.is_without(Guard::Cancelled);
        let it = &mut self.shards[shard];
        if !it.is_begun && !matches!(command, Command::Receive | Command::Delete) {
            return Message::Lost;
        }
        match command {
            Command::Track => match it.source.track(number) {
                Given::Seal { .. } => {
                    it.notes = [0; MEMBERS];
                    Message::Done
                }
                Given::Rows { .. } => Message::Done,
                _ => Message::Lost,
            },
            Command::Receive if it.is_begun => {
                done_if(it.target == Some(CopyTarget::begin(number)))
            }
            Command::Receive if it.is_over && !is_without_over => Message::Lost,
            Command::Receive => {
                it.is_begun = true;
                it.target = Some(CopyTarget::begin(number));
                Message::Done
            }
            Command::Give | Command::Changed(_) if !it.source.gives(number) => Message::Lost,
            Command::Give => {
                let own = |member| has(shard, member).then_some(it.values[member]);
                Message::Members([own(0), own(1)], 0)
            }
            Command::Changed(after) => {
                let changed =
                    |member: usize| (it.notes[member] > after).then_some(it.values[member]);
                let last = it.notes.iter().max().copied().unwrap_or(0);
                Message::Members([changed(0), changed(1)], last)
            }
            Command::Seal => done_if(it.source.seal(number)),
            Command::Take(turn, values) => it.take(number, turn, values, is_without_turn),
            Command::Finish => match it.target.take() {
                Some(target) if target.is_of(number) => {
                    it.is_living = true;
                    Message::Done
                }
                _ => done_if(it.is_living),
            },
            Command::Cancel => {
                it.source.cancel(number);
                if is_without_cancelled {
                    it.source = CopySource::default();
                }
                Message::Done
            }
            Command::Delete => {
                *it = Shard {
                    is_over: true,
                    ..Shard::default()
                };
                Message::Done
            }
        }
    }

    fn deliver(&mut self, number: u8, crashes: bool) {
        let message = self.messages.remove(usize::from(number));
        let Message::Command {
            shard,
            number,
            command,
            is_live,
        } = message
        else {
            let kept = self.messages.len();
            self.answered(message);
            if crashes {
                self.crashes -= 1;
                self.messages.truncate(kept);
                self.crash_owner();
            }
            return;
        };
        let answer = self.obey(shard, number, command);
        if crashes {
            self.crashes -= 1;
            self.shards[shard].crash();
            if is_live {
                self.fail();
            }
        } else if is_live {
            self.messages.push(answer);
        }
    }

    fn crash_owner(&mut self) {
        self.work = None;
        self.messages.retain_mut(Message::leave);
    }

    fn lose(&mut self, number: u8) {
        self.message_faults -= 1;
        if self.messages.remove(usize::from(number)).is_live() {
            self.fail();
        }
    }

    fn double(&mut self, number: u8) -> Option<()> {
        self.message_faults -= 1;
        let mut copy = self.messages[usize::from(number)];
        copy.leave().then_some(())?;
        self.messages.push(copy);
        Some(())
    }

    fn late(&mut self, number: u8) -> Option<()> {
        self.message_faults -= 1;
        let message = &mut self.messages[usize::from(number)];
        let is_live = message.is_live();
        (message.leave() && is_live).then_some(())?;
        self.fail();
        Some(())
    }
}

impl Shard {
    fn crash(&mut self) {
        (self.target, self.is_over) = (None, false);
    }

    /// Takes values for a move. `is_without_turn`: also those of a page that it has taken before.
    fn take(&mut self, number: u64, turn: u64, values: Values, is_without_turn: bool) -> Message {
        let Some(target) = self.target.as_mut() else {
            return Message::Lost;
        };
        let received = match target.receive(number, turn) {
            Received::Known if is_without_turn => Received::New,
            received => received,
        };
        if received == Received::New {
            for (value, taken) in self.values.iter_mut().zip(values) {
                *value = taken.unwrap_or(*value);
            }
        }
        done_if(received != Received::Lost)
    }
}

fn done_if(is_done: bool) -> Message {
    if is_done {
        Message::Done
    } else {
        Message::Lost
    }
}

impl Message {
    fn is_live(&self) -> bool {
        !matches!(self, Self::Command { is_live: false, .. })
    }

    /// Nobody waits for it any more. False for an answer: it would have no effect.
    fn leave(&mut self) -> bool {
        match self {
            Self::Command { is_live, .. } => {
                *is_live = false;
                true
            }
            _ => false,
        }
    }
}

impl Model for World {
    type Event = Event;

    fn title(&self) -> String {
        "one layout of two shards, with a member each".to_owned()
    }

    fn events(&self) -> Vec<Event> {
        let mut events = Vec::new();
        if self.work.is_none() {
            match self.moves.is_at_rest() {
                true if number_of(self.newest) + 1 < LAYOUTS.len() => events.push(Event::Begin),
                true => {}
                false => events.push(Event::Act),
            }
        }
        if self.acknowledged.iter().sum::<u8>() < WRITES {
            for shard in 0..SHARDS {
                let members = (0..MEMBERS).filter(|member| self.counts(shard, *member));
                events.extend(members.map(|member| Event::Write(shard, member)));
            }
        }
        if self.crashes > 0 {
            if self.work.is_some() {
                events.push(Event::CrashOwner);
            }
            let is_in_memory = |it: &Shard| it.target.is_some() || it.is_over;
            let targets = (0..SHARDS).filter(|shard| is_in_memory(&self.shards[*shard]));
            events.extend(targets.map(Event::Crash));
        }
        let (crashes, faults) = (self.crashes > 0, self.message_faults > 0);
        let arrive = self.messages.iter().map(|_| true);
        events.extend(MessageEvent::of_each(arrive, crashes, faults).map(Event::Message));
        events
    }

    fn calm_event(&self) -> Option<Event> {
        if !self.messages.is_empty() {
            return Some(Event::Message(Deliver(0, false)));
        }
        self.events().into_iter().find(|event| *event == Event::Act)
    }

    fn after(&self, event: Event) -> Option<Self> {
        let mut world = self.clone();
        match event {
            Event::Begin => world.begin(),
            Event::Act => world.act(),
            Event::Write(shard, member) => world.write(shard, member),
            Event::Message(Deliver(number, crashes)) => world.deliver(number, crashes),
            Event::Message(Lose(number)) => world.lose(number),
            Event::Message(Double(number)) => world.double(number)?,
            Event::Message(Late(number)) => world.late(number)?,
            Event::CrashOwner => {
                world.crashes -= 1;
                world.crash_owner();
            }
            Event::Crash(shard) => {
                world.crashes -= 1;
                world.shards[shard].crash();
            }
        }
        world.messages.sort();
        Some(world)
    }

    fn check(&self) -> Result<(), String> {
        for member in 0..MEMBERS {
            let all = 0..SHARDS;
            let counting: Vec<usize> = all.filter(|shard| self.counts(*shard, member)).collect();
            if counting.len() > 1 {
                return Err(format!("two shards count member {member}: {counting:?}"));
            }
            let acknowledged = self.acknowledged[member];
            if let Some(shard) = counting.first() {
                let value = self.shards[*shard].values[member];
                if value != acknowledged {
                    return Err(format!(
                        "shard {shard} has {value} of member {member}, acknowledged are {acknowledged}: a write is missing or counted twice"
                    ));
                }
            }
        }
        Ok(())
    }

    fn check_rest(&self) -> Result<(), String> {
        let own = shards_of(self.layout);
        for member in 0..MEMBERS {
            let counts = |shard: &&usize| self.counts(**shard, member);
            if own.iter().find(counts).is_some() {
                continue;
            }
            return Err(
                match own.iter().any(|shard| self.shards[*shard].is_living) {
                    true => format!("a move does not end: no shard counts member {member}"),
                    false => format!("member {member} is missing: no shard has it"),
                },
            );
        }
        // A late message may begin a shard that nobody uses: it has no members.
        let is_left = |shard: &usize| {
            let it = &self.shards[*shard];
            !own.contains(shard) && (it.is_living || it.values != [0; MEMBERS])
        };
        match (0..SHARDS).find(is_left) {
            Some(shard) => Err(format!("a move does not end: shard {shard} has members")),
            None => Ok(()),
        }
    }

    fn tell(&self, event: Event) -> String {
        match event {
            Event::Message(event) => event.tell(&format!("{:?}", self.messages[event.number()])),
            event => format!("{event:?}"),
        }
    }
}
