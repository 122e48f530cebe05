//! Law: whatever is lost, late, repeated or crashes, each acknowledged write is in the total exactly once, each
//! key is counted once, no reader's view goes back, and at rest the total is a plain integer.
//!
//! A seed makes a world and all that happens in it: `make soak SEED=123` lives it again.

use super::chance::Chance;
use super::deeds::{DEEDS, Deed};
use super::steps::Step;
use super::world::{EDGES, READERS, World};
use super::{CELLS, DATACENTERS, Layout};

/// Seeds of every test run: about 50 ms each, unoptimised.
const SEEDS: u64 = 200;

/// Seeds between two lines of progress.
const PROGRESS_EVERY: u64 = 500;

/// How far clocks are stepped at most: by seconds, or by minutes.
const SKEWS_MS_MAX: [i64; 2] = [15_000, 600_000];

/// From worlds where hardly any time passes to those where callers give up on their own.
const TICKS_MS_MAX: [i64; 3] = [20, 100, 2_000];

/// Counters, at most.
const COUNTERS_MAX: usize = 3;

/// The longest time to live, seconds: so that it passes, more than once, in worlds where time does.
const TTL_SECONDS_MAX: u8 = 6;

/// Unique elements that clients name.
const ELEMENTS: u8 = 60;

/// Bulk bodies that clients send.
const BODIES: u8 = 16;

/// Keys that clients use.
const KEYS: u8 = 24;

/// How often each kind of thing happens, drawn anew for each seed, so that worlds differ in what ails them.
struct Weather {
    layout: Layout,
    weights: Vec<(u64, Kind)>,
    total: u64,
    /// Once in so many times something overtakes.
    order: u64,
    /// How long a step takes at most.
    tick_ms_max: i64,
    /// How far a clock is stepped at most.
    skew_ms_max: i64,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Deliver,
    Answer,
    Write,
    WriteUnique,
    Keyed,
    Recall,
    Bulk,
    Queue,
    QueueKeyed,
    ReadDrained,
    ReadAs,
    Read,
    Tick,
    Believe,
    Double,
    Halve,
    Alarm,
    RootAlarm,
    Repeat,
    LoseRequest,
    LoseAnswer,
    GiveUp,
    Crash,
    CrashRoot,
    CrashEdge,
    CrashInbox,
    Refuse,
    RefuseInbox,
    InboxAlarm,
    Suspend,
    Resume,
    End,
    Put,
    Skew,
    Operate,
    OperateKeyed,
    WriteIf,
    OperateIf,
}

/// What must go on, with its usual weight.
const USUAL: [(u64, Kind); 7] = [
    (90, Kind::Deliver),
    (90, Kind::Answer),
    (20, Kind::Write),
    (16, Kind::Keyed),
    (8, Kind::ReadAs),
    (4, Kind::Read),
    (16, Kind::Tick),
];

/// What owners may do to counters as a whole, in half of all worlds.
const OPERATIONS: [(u64, Kind); 2] = [(6, Kind::Operate), (4, Kind::OperateKeyed)];

/// What depends on what was seen, in a third of all worlds.
const CONDITIONS: [(u64, Kind); 2] = [(14, Kind::WriteIf), (3, Kind::OperateIf)];

/// Keys of conditional writes.
const CONDITION_KEYS: u8 = 12;

/// What may happen besides, with the most that it weighs.
const UNUSUAL: [(u64, Kind); 27] = [
    (8, Kind::Recall),
    (8, Kind::Bulk),
    (12, Kind::WriteUnique),
    (8, Kind::Put),
    (24, Kind::Queue),
    (16, Kind::QueueKeyed),
    (8, Kind::ReadDrained),
    (6, Kind::CrashInbox),
    (3, Kind::RefuseInbox),
    (8, Kind::InboxAlarm),
    (6, Kind::Believe),
    (8, Kind::Double),
    (8, Kind::Halve),
    (4, Kind::Alarm),
    (4, Kind::RootAlarm),
    (8, Kind::Repeat),
    (8, Kind::LoseRequest),
    (8, Kind::LoseAnswer),
    (8, Kind::GiveUp),
    (8, Kind::Crash),
    (3, Kind::CrashRoot),
    (5, Kind::CrashEdge),
    (4, Kind::Refuse),
    (2, Kind::Suspend),
    (4, Kind::Resume),
    (3, Kind::End),
    (4, Kind::Skew),
];

impl Weather {
    fn draw(chance: &mut Chance) -> Self {
        let layout = Layout {
            counters: 1 + chance.pick(COUNTERS_MAX),
            datacenters: 1 + chance.pick(DATACENTERS.len()),
        };
        let mut weights = USUAL.to_vec();
        for (most, kind) in UNUSUAL {
            // Half of all worlds know nothing of it.
            let weight = if chance.once_in(2) {
                0
            } else {
                1 + chance.below(most)
            };
            weights.push((weight, kind));
        }
        if chance.once_in(2) {
            weights.extend(OPERATIONS);
        }
        if chance.once_in(3) {
            weights.extend(CONDITIONS);
        }
        // Whoever stops a counter lets it go on.
        weights.push((2, Kind::Resume));
        let total = weights.iter().map(|(weight, _)| weight).sum();
        Self {
            layout,
            weights,
            total,
            order: 1 + chance.below(4),
            tick_ms_max: TICKS_MS_MAX[chance.pick(TICKS_MS_MAX.len())],
            skew_ms_max: SKEWS_MS_MAX[chance.pick(SKEWS_MS_MAX.len())],
        }
    }

    fn step(&self, chance: &mut Chance) -> Step {
        let mut left = chance.below(self.total);
        let mut weights = self.weights.iter();
        let kind = weights.find_map(|(weight, kind)| match left.checked_sub(*weight) {
            Some(less) => {
                left = less;
                None
            }
            None => Some(*kind),
        });
        let pick = chance.pick(1 << 16);
        let edge = chance.small(EDGES);
        let Layout {
            counters,
            datacenters,
        } = self.layout;
        let counter = chance.pick(counters);
        // Leads and their first shards are where things happen.
        let busy = chance.pick(2).min(chance.pick(CELLS));
        let lead = chance.pick(counters * datacenters);
        let cell = lead * CELLS
            + if chance.once_in(4) {
                chance.pick(CELLS)
            } else {
                busy
            };
        let inbox = chance.pick(self.layout.inboxes());
        match kind.expect("a kind") {
            Kind::Deliver => Step::Deliver(if chance.once_in(self.order) { pick } else { 0 }),
            Kind::Answer => Step::Answer(if chance.once_in(self.order) { pick } else { 0 }),
            Kind::Write => Step::Write {
                counter,
                edge,
                added: chance.small(200),
                removed: chance.small(4),
            },
            Kind::WriteUnique => Step::WriteUnique {
                counter,
                edge,
                element: chance.small(ELEMENTS),
            },
            Kind::Keyed => Step::Keyed {
                counter,
                edge,
                key: chance.small(KEYS),
                is_other: chance.once_in(10),
            },
            Kind::Recall => Step::Recall {
                counter,
                edge,
                key: chance.small(KEYS),
            },
            Kind::Bulk => Step::Bulk {
                edge,
                body: chance.small(BODIES),
                has_key: !chance.once_in(3),
            },
            Kind::Queue => Step::Queue { counter, edge },
            Kind::QueueKeyed => Step::QueueKeyed {
                counter,
                edge,
                key: chance.small(KEYS),
                is_other: chance.once_in(10),
            },
            Kind::ReadDrained => Step::ReadDrained { counter },
            Kind::CrashInbox => Step::CrashInbox(inbox),
            Kind::RefuseInbox => Step::RefuseInbox(inbox, 1),
            Kind::InboxAlarm => Step::InboxAlarm(inbox),
            Kind::ReadAs => Step::ReadAs {
                counter,
                edge,
                reader: chance.small(READERS),
                write: chance.once_in(2).then_some(pick),
            },
            Kind::Read => Step::Read {
                counter,
                about_times: false,
            },
            Kind::Tick => Step::Tick(chance.around(self.tick_ms_max / 2) + self.tick_ms_max / 2),
            Kind::Operate => Step::Operate {
                counter,
                edge,
                deed: Deed::draw(chance, datacenters),
            },
            Kind::OperateKeyed => Step::OperateKeyed {
                counter,
                edge,
                key: chance.small(DEEDS),
            },
            Kind::WriteIf => Step::WriteIf {
                counter,
                edge,
                pick,
                key: chance.once_in(3).then(|| chance.small(CONDITION_KEYS)),
            },
            Kind::OperateIf => Step::OperateIf {
                counter,
                edge,
                pick,
                deed: Deed::draw(chance, datacenters),
            },
            Kind::Believe => Step::Believe {
                counter,
                edge,
                doublings: chance.small(4),
            },
            Kind::Double => Step::Double(lead),
            Kind::Halve => Step::Halve(lead),
            Kind::Alarm => Step::Alarm(lead),
            Kind::RootAlarm => Step::RootAlarm(counter),
            Kind::Repeat => Step::Repeat(pick),
            Kind::LoseRequest => Step::LoseRequest(pick),
            Kind::LoseAnswer => Step::LoseAnswer(pick),
            Kind::GiveUp => Step::GiveUp(pick),
            Kind::Crash => Step::Crash(cell),
            Kind::CrashRoot => Step::CrashRoot(counter),
            Kind::CrashEdge => Step::CrashEdge(edge),
            Kind::Refuse => Step::Refuse(cell, 1),
            Kind::Suspend => Step::Suspend(counter),
            Kind::Resume => Step::Resume,
            Kind::End => Step::End(counter),
            Kind::Put => Step::Put {
                counter,
                shards: chance.once_in(3).then(|| 1 << chance.small(4)),
                ttl: (!chance.once_in(4)).then(|| {
                    let seconds = 1 + chance.small(TTL_SECONDS_MAX);
                    (seconds, chance.once_in(2))
                }),
            },
            Kind::Skew => {
                let whose = chance.pick(World::clocks(self.layout));
                Step::Skew(whose, chance.around(self.skew_ms_max))
            }
        }
    }
}

/// Names the seed of a world that goes wrong.
struct Named(u64);

impl Drop for Named {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!(
                "the seed is {0}; live it again with: make soak SEED={0}",
                self.0
            );
        }
    }
}

/// Lives the world of a seed.
fn live(seed: u64, is_told: bool) {
    let _named = Named(seed);
    let mut chance = Chance::new(seed);
    let weather = Weather::draw(&mut chance);
    let Layout {
        counters,
        datacenters,
    } = weather.layout;
    let mut world = World::of(counters, datacenters, chance.once_in(2));
    let steps = 100 + chance.below(500);
    world.is_told = is_told;
    for _ in 0..steps {
        world.step(weather.step(&mut chance));
    }
    world.check();
}

#[test]
fn every_seed_ends_at_the_plain_integer() {
    for seed in 0..SEEDS {
        live(seed, false);
    }
}

/// `make soak`: SEED is one seed, told step by step; SEEDS so many from FROM, until FAULTS of them went wrong, which
/// is one unless it is set.
#[test]
#[ignore = "runs as long as it is asked to"]
fn soak() {
    let number = |name: &str| -> Option<u64> {
        let text = std::env::var(name).ok().filter(|text| !text.is_empty())?;
        Some(text.parse().expect("a number"))
    };
    if let Some(seed) = number("SEED") {
        return live(seed, true);
    }
    let (from, seeds) = (
        number("FROM").unwrap_or(0),
        number("SEEDS").unwrap_or(SEEDS),
    );
    let faults_max = number("FAULTS").unwrap_or(1);
    let mut wrong: Vec<u64> = Vec::new();
    for done in 0..seeds {
        if done % PROGRESS_EVERY == 0 {
            eprintln!("soak: {done} of {seeds} worlds, from seed {from}");
        }
        if std::panic::catch_unwind(|| live(from + done, false)).is_err() {
            wrong.push(from + done);
        }
        let faults = u64::try_from(wrong.len()).expect("few worlds");
        assert!(faults < faults_max, "soak: wrong worlds are {wrong:?}");
    }
    assert!(wrong.is_empty(), "soak: wrong worlds are {wrong:?}");
    let next = from + seeds;
    eprintln!("soak: {seeds} worlds are well, seeds {from} up to {next}");
}
