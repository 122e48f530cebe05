//! A breadth-first search through all worlds of a model, each once. Its first failure has the shortest trace.

use std::collections::{HashMap, HashSet};
use std::fmt::Debug;
use std::hash::{BuildHasher, Hash, RandomState};

/// The most events until a calm world rests.
const CALM_STEPS_MAX: usize = 200;

/// A world of a model. Two worlds with the same hash are the same world.
pub trait Model: Clone + Hash {
    /// What may happen.
    type Event: Copy + Debug;

    /// What distinguishes this world from others that a search begins with.
    fn title(&self) -> String;

    /// All that may happen next.
    fn events(&self) -> Vec<Self::Event>;

    /// What happens next where nothing fails and nothing is changed.
    fn calm_event(&self) -> Option<Self::Event>;

    /// The world after an event; `None` if it changes nothing.
    fn after(&self, event: Self::Event) -> Option<Self>;

    /// What must hold in each world.
    ///
    /// # Errors
    /// The broken law.
    fn check(&self) -> Result<(), String>;

    /// What must hold once nothing is left to do.
    ///
    /// # Errors
    /// The broken law.
    fn check_rest(&self) -> Result<(), String>;

    /// An event in words.
    fn tell(&self, event: Self::Event) -> String {
        format!("{event:?}")
    }
}

/// What the network does with a message on its way, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MessageEvent {
    /// It arrives. The place may crash once it has stored what it stores.
    Deliver(u8, bool),
    /// It never arrives.
    Lose(u8),
    /// It arrives another time, later.
    Double(u8),
    /// It stays on its way after its sender has given up.
    Late(u8),
}

impl MessageEvent {
    /// All that may happen to messages. `arrive`: of each, whether its receiver takes it now. `crashes`: whether a
    /// place may crash. `faults`: whether the network may fail.
    pub fn of_each(
        arrive: impl Iterator<Item = bool>,
        crashes: bool,
        faults: bool,
    ) -> impl Iterator<Item = Self> {
        let numbered = (0..).zip(arrive);
        numbered.flat_map(move |(number, arrives)| Self::all(number, arrives, crashes, faults))
    }

    fn all(number: u8, arrives: bool, crashes: bool, faults: bool) -> Vec<Self> {
        let mut events = Vec::new();
        if arrives {
            events.push(Self::Deliver(number, false));
        }
        if arrives && crashes {
            events.push(Self::Deliver(number, true));
        }
        if faults {
            events.extend([Self::Lose(number), Self::Double(number), Self::Late(number)]);
        }
        events
    }

    /// The number of the message.
    pub fn number(self) -> usize {
        let (Self::Deliver(number, _)
        | Self::Lose(number)
        | Self::Double(number)
        | Self::Late(number)) = self;
        usize::from(number)
    }

    /// The event in words.
    pub fn tell(self, message: &str) -> String {
        let happens = match self {
            Self::Deliver(_, false) => "arrives",
            Self::Deliver(_, true) => "arrives, then a crash",
            Self::Lose(_) => "is lost",
            Self::Double(_) => "is doubled",
            Self::Late(_) => "is late",
        };
        format!("{happens}: {message}")
    }
}

/// What a search found.
pub struct Explored {
    /// How many different worlds.
    pub states: usize,
    /// How many events the longest of the shortest traces has.
    pub depth: usize,
    /// The first world that breaks a law: the law and the trace.
    pub broken: Option<String>,
}

impl Explored {
    /// Prints how many worlds there are.
    ///
    /// # Panics
    /// If a law is broken, or if there are too few worlds.
    pub fn keeps_the_laws(&self, model: &str, states_min: usize) {
        println!(
            "{model}: {} states, {} steps at most",
            self.states, self.depth
        );
        assert!(self.broken.is_none(), "{model}: {}", self.trace());
        assert!(self.states >= states_min, "{model} does not move");
    }

    /// Prints the shortest trace that breaks a law.
    ///
    /// # Panics
    /// If no law is broken, or another one.
    pub fn breaks(&self, variant: &str, law: &str) {
        println!("{variant}: {}", self.trace());
        assert!(self.trace().contains(law), "{variant}: {}", self.trace());
    }

    fn trace(&self) -> &str {
        self.broken.as_deref().unwrap_or("no law is broken")
    }
}

struct Search<M: Model> {
    hasher: RandomState,
    calms: bool,
    begins: Vec<M>,
    /// By the fingerprint of each world: the world before it, and the event; or the number of the first world.
    seen: HashMap<u64, (u64, Result<M::Event, usize>)>,
    /// Fingerprints of worlds that come to rest.
    rests: HashSet<u64>,
}

impl<M: Model> Search<M> {
    fn fingerprint(&self, world: &M) -> u64 {
        self.hasher.hash_one(world)
    }

    /// What is wrong with a world, if anything is.
    fn fault(&mut self, world: &M) -> Option<String> {
        if let Err(law) = world.check() {
            return Some(law);
        }
        if !self.calms {
            return None;
        }
        let mut calm = world.clone();
        let mut passed = vec![self.fingerprint(&calm)];
        let mut events = Vec::new();
        while passed.last().is_some_and(|last| !self.rests.contains(last)) {
            let Some(event) = calm.calm_event() else {
                if let Err(law) = calm.check_rest() {
                    return Some(format!("{law}, after a calm of {events:?}"));
                }
                break;
            };
            let Some(next) = calm.after(event) else {
                return Some(format!(
                    "{event:?} ends nothing, after a calm of {events:?}"
                ));
            };
            calm = next;
            events.push(event);
            if let Err(law) = calm.check() {
                return Some(format!("{law}, after a calm of {events:?}"));
            }
            if events.len() > CALM_STEPS_MAX {
                let last = events.iter().rev().take(8).collect::<Vec<_>>();
                return Some(format!("it does not end: {last:?} again and again"));
            }
            passed.push(self.fingerprint(&calm));
        }
        self.rests.extend(passed);
        None
    }

    fn trace(&self, fingerprint: u64, law: &str) -> String {
        let (mut events, mut at) = (Vec::new(), fingerprint);
        let first = loop {
            match self.seen.get(&at) {
                Some((before, Ok(event))) => {
                    events.push(*event);
                    at = *before;
                }
                Some((_, Err(first))) => break *first,
                None => return law.to_owned(),
            }
        };
        events.reverse();
        let Some(begin) = self.begins.get(first) else {
            return law.to_owned();
        };
        let mut text = format!("{law}\n  {}\n", begin.title());
        let mut now = begin.clone();
        for (number, event) in (1..).zip(&events) {
            text += &format!("  {number}. {}\n", now.tell(*event));
            now = now.after(*event).unwrap_or(now);
        }
        text
    }
}

/// Goes through all worlds that can follow these ones. `calms`: each of them must also come to rest.
pub fn explore<M: Model>(begins: Vec<M>, calms: bool) -> Explored {
    let mut search = Search {
        calms,
        hasher: RandomState::new(),
        begins: begins.clone(),
        seen: HashMap::new(),
        rests: HashSet::new(),
    };
    let mut frontier = Vec::new();
    for (number, begin) in begins.into_iter().enumerate() {
        let fingerprint = search.fingerprint(&begin);
        search.seen.insert(fingerprint, (0, Err(number)));
        frontier.push((fingerprint, begin));
    }
    let mut depth = 0;
    while !frontier.is_empty() {
        let mut next = Vec::new();
        for (before, world) in frontier {
            for event in world.events() {
                let Some(after) = world.after(event) else {
                    continue;
                };
                let fingerprint = search.fingerprint(&after);
                if search.seen.contains_key(&fingerprint) {
                    continue;
                }
                search.seen.insert(fingerprint, (before, Ok(event)));
                if let Some(law) = search.fault(&after) {
                    return Explored {
                        states: search.seen.len(),
                        depth: depth + 1,
                        broken: Some(search.trace(fingerprint, &law)),
                    };
                }
                next.push((fingerprint, after));
            }
        }
        depth += usize::from(!next.is_empty());
        frontier = next;
    }
    Explored {
        states: search.seen.len(),
        depth,
        broken: None,
    }
}
