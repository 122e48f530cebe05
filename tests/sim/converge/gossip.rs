//! The other way, for comparison: no roots; every 100 ms each datacenter tells one other, drawn at random,
//! what it has.
//!
//! An exchange is three messages: digests of all hot counters (8 bytes each); what the other has of those that
//! differ; what it lacks of them. States merge as those that ship do: per cell the higher sequence wins. The
//! network is the same, so are counters and writes. It is spared unique elements and the 9,800 cold counters,
//! whose digests alone would be 78 KB an exchange.

use std::rc::Rc;

use tally::core::cluster::delta::{Basis, CellChange, Delta, Mark, Part};
use tally::core::cluster::view::Heard;
use tally::protocol::messages::encode;

use super::air::Air;
use super::chance::Chance;
use super::figures::Times;
use super::places::name_of;
use super::plan::Plan;
use super::world::BEGIN_MS;

const ROUND_MS: i64 = 100;

const DIGEST_BYTES: u64 = 8;

/// What one place has of a counter: flushes by writer.
type State = Vec<u64>;

/// Counters with what the sender has of each.
type States = Rc<Vec<(usize, State)>>;

#[derive(Clone)]
enum Event {
    Write(usize, usize),
    Round(usize),
    Digests(usize, usize, Rc<Vec<u64>>),
    /// What the second has, to the first.
    Answer(usize, usize, States),
    /// What the first has, to the second.
    Rest(usize, States),
}

/// What gossip has shown.
pub struct Gossip {
    /// From the last write until each view agreed.
    pub times: Times,
    pub writes: u64,
    pub messages: u64,
    pub bytes: u64,
    /// For how long messages were counted, milliseconds.
    pub for_ms: i64,
}

struct World {
    plan: Plan,
    air: Air<Event>,
    writers: Vec<Vec<usize>>,
    /// By place and counter.
    states: Vec<Vec<State>>,
    until_ms: i64,
    writing: Vec<usize>,
    last_write_ms: Vec<i64>,
    agreed_ms: Vec<Vec<Option<i64>>>,
    gossip: Gossip,
}

/// Writes for as long as a round of the other run, and lets all come to rest.
pub fn run(plan: Plan) -> Gossip {
    let mut chance = Chance::new(plan.seed);
    let writers: Vec<Vec<usize>> = (0..plan.hot)
        .map(|counter| plan.writers(counter, &mut chance))
        .collect();
    let empty: Vec<State> = writers
        .iter()
        .map(|writers| vec![0; writers.len()])
        .collect();
    let mut world = World {
        states: vec![empty; plan.datacenters],
        until_ms: BEGIN_MS + plan.writing_ms,
        writing: writers.iter().map(Vec::len).collect(),
        last_write_ms: vec![0; plan.hot],
        agreed_ms: vec![vec![None; plan.datacenters]; plan.hot],
        gossip: Gossip {
            times: Times::default(),
            writes: 0,
            messages: 0,
            bytes: 0,
            for_ms: plan.writing_ms,
        },
        air: Air::new(BEGIN_MS, plan.seed + 1),
        plan,
        writers,
    };
    for counter in 0..plan.hot {
        for writer in 0..world.writers[counter].len() {
            world.schedule_write(counter, writer);
        }
    }
    for place in 0..plan.datacenters {
        let at_ms = BEGIN_MS + i64::try_from(world.air.chance.below(100)).expect("small");
        world.air.at(at_ms, Event::Round(place));
    }
    while let Some(event) = world.air.next_before(BEGIN_MS + plan.writing_ms + 10_000) {
        world.happen(event);
    }
    for (counter, agreed_ms) in world.agreed_ms.iter().enumerate() {
        for agreed_ms in agreed_ms {
            let agreed_ms = agreed_ms.expect("gossip reaches everybody within ten seconds");
            world
                .gossip
                .times
                .push(agreed_ms - world.last_write_ms[counter]);
        }
    }
    world.gossip.times = world.gossip.times.sorted();
    world.gossip
}

impl World {
    fn schedule_write(&mut self, counter: usize, writer: usize) {
        let mean_ms = self.plan.write_ms(counter);
        let after_ms = mean_ms / 2 + self.air.chance.below(mean_ms + 1);
        let at_ms = self.air.now_ms + i64::try_from(after_ms).expect("soon");
        if at_ms < self.until_ms {
            self.air.at(at_ms, Event::Write(counter, writer));
            return;
        }
        self.writing[counter] -= 1;
        if self.writing[counter] == 0 {
            self.last_write_ms[counter] = self.air.now_ms;
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Write(counter, writer) => {
                self.gossip.writes += 1;
                let place = self.writers[counter][writer];
                self.states[place][counter][writer] += 1;
                self.schedule_write(counter, writer);
                self.check(place, counter);
            }
            Event::Round(place) => {
                self.air.at(self.air.now_ms + ROUND_MS, Event::Round(place));
                let other = (place + 1 + self.air.chance.pick(self.plan.datacenters - 1))
                    % self.plan.datacenters;
                let digests: Vec<u64> = self.states[place].iter().map(digest).collect();
                self.note(DIGEST_BYTES * u64::try_from(digests.len()).expect("few"));
                let event = Event::Digests(place, other, Rc::new(digests));
                self.air.send(place, other, event);
            }
            Event::Digests(from, to, digests) => {
                let differing = (0..self.plan.hot)
                    .filter(|counter| digest(&self.states[to][*counter]) != digests[*counter]);
                let states: Vec<_> = differing
                    .map(|counter| (counter, self.states[to][counter].clone()))
                    .collect();
                if !states.is_empty() {
                    self.note(self.bytes_of(&states));
                    self.air
                        .send(to, from, Event::Answer(from, to, Rc::new(states)));
                }
            }
            Event::Answer(first, second, states) => {
                let lacking = states.iter().filter(|(counter, theirs)| {
                    let mine = &self.states[first][*counter];
                    mine.iter().zip(theirs).any(|(mine, theirs)| mine > theirs)
                });
                let rest: Vec<_> = lacking
                    .map(|(counter, _)| (*counter, self.states[first][*counter].clone()))
                    .collect();
                self.merge(first, &states);
                if !rest.is_empty() {
                    self.note(self.bytes_of(&rest));
                    self.air
                        .send(first, second, Event::Rest(second, Rc::new(rest)));
                }
            }
            Event::Rest(second, states) => self.merge(second, &states),
        }
    }

    fn merge(&mut self, place: usize, states: &States) {
        for (counter, theirs) in states.iter() {
            for (mine, theirs) in self.states[place][*counter].iter_mut().zip(theirs) {
                *mine = (*mine).max(*theirs);
            }
            self.check(place, *counter);
        }
    }

    /// Whether the place, or when the last write was its own every place, has all of the counter.
    fn check(&mut self, place: usize, counter: usize) {
        if self.writing[counter] > 0 || self.agreed_ms[counter][place].is_some() {
            return;
        }
        let writers = self.writers[counter].iter().enumerate();
        let has_all = writers.into_iter().all(|(writer, datacenter)| {
            self.states[place][counter][writer] == self.states[*datacenter][counter][writer]
        });
        if has_all {
            self.agreed_ms[counter][place] = Some(self.air.now_ms);
        }
    }

    fn note(&mut self, bytes: u64) {
        if self.air.now_ms < self.until_ms {
            self.gossip.messages += 1;
            self.gossip.bytes += bytes;
        }
    }

    /// As many as the messages that ship would have: the same parts in the same encoding.
    fn bytes_of(&self, states: &[(usize, State)]) -> u64 {
        let delta = |(counter, state): &(usize, State)| {
            let parts = self.writers[*counter]
                .iter()
                .zip(state)
                .map(|(writer, flushes)| Part {
                    datacenter: name_of(*writer),
                    heard: Some(Heard {
                        progress: *flushes,
                        as_of_ms: self.air.now_ms,
                        last_write_ms: self.air.now_ms,
                    }),
                    cells: vec![CellChange {
                        shard: 0,
                        sequence: *flushes,
                        added: (u128::from(*flushes) * 2).into(),
                        removed: 0.into(),
                    }],
                });
            Delta {
                generation: 1,
                basis: Basis::Whole,
                mark: Mark {
                    incarnation: 7,
                    revision: 1,
                },
                parts: parts.collect(),
                uniques: Vec::new(),
            }
        };
        let deltas: Vec<(u64, Delta)> = states
            .iter()
            .map(|state| (u64::try_from(state.0).expect("few"), delta(state)))
            .collect();
        u64::try_from(encode(&deltas).expect("deltas").len()).expect("small")
    }
}

/// A digest of a state; FNV-1a over its words.
fn digest(state: &State) -> u64 {
    state.iter().fold(0xcbf2_9ce4_8422_2325, |digest, flushes| {
        (digest ^ flushes).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
