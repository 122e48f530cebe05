//! A breadth-first search through all worlds, each once. Its first failure has the shortest trace.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};

use super::world::{Event, World};

/// The most events until a calm world rests.
const CALM_STEPS_MAX: usize = 200;

/// What a search found.
pub struct Explored {
    /// How many different worlds.
    pub states: usize,
    /// How many events the longest of the shortest traces has.
    pub depth: usize,
    /// The first world that breaks a law: the law, the trace, the world.
    pub broken: Option<String>,
}

struct Search {
    hasher: RandomState,
    calms: bool,
    begins: Vec<World>,
    /// By the fingerprint of each world: the world before it, and the event; or the number of the first world.
    seen: HashMap<u64, (u64, Result<Event, usize>)>,
    /// Fingerprints of worlds that come to rest.
    rests: HashSet<u64>,
}

impl Search {
    fn fingerprint(&self, world: &World) -> u64 {
        self.hasher.hash_one(world)
    }

    /// What is wrong with a world, if anything is.
    fn fault(&mut self, world: &World) -> Option<String> {
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
            calm = calm.after(event).expect("it may happen");
            events.push(event);
            if let Err(law) = calm.check() {
                return Some(format!("{law}, after a calm of {events:?}"));
            }
            if events.len() > CALM_STEPS_MAX {
                let last = &events[events.len() - 8..];
                return Some(format!("a move does not end: {last:?} again and again"));
            }
            passed.push(self.fingerprint(&calm));
        }
        self.rests.extend(passed);
        None
    }

    fn trace(&self, world: &World, fingerprint: u64, law: &str) -> String {
        let (mut events, mut at) = (Vec::new(), fingerprint);
        let first = loop {
            match self.seen[&at] {
                (before, Ok(event)) => {
                    events.push(event);
                    at = before;
                }
                (_, Err(first)) => break first,
            }
        };
        events.reverse();
        let mut text = format!("{law}\n  {}\n", self.begins[first].title());
        let mut now = self.begins[first].clone();
        for (number, event) in (1..).zip(&events) {
            text += &format!("  {number}. {}\n", now.tell(*event));
            now = now.after(*event).expect("it happened");
        }
        assert_eq!(&now, world);
        text
    }
}

/// Goes through all worlds that can follow these ones. `calms`: each of them must also come to rest.
pub fn explore(begins: Vec<World>, calms: bool) -> Explored {
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
                        broken: Some(search.trace(&after, fingerprint, &law)),
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
