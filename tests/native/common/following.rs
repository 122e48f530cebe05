//! Leads that tell a root what they have, in a world that loses, repeats, reorders and forgets.
//!
//! Invariant: [`World::check_marks`]: whoever holds a mark has all of the state that it stands for.

use std::collections::BTreeMap;

use tally_core::cluster::delta::feed::Feed;
use tally_core::cluster::delta::{Delta, DeltaOutcome, Marks, ReceiverState, ViewReceiver};
use tally_core::cluster::view::{DatacenterState, View, ViewAtRest};
use tally_core::counter::flush::Element;
use tally_core::counter::id::Datacenter;
use tally_core::counter::merge::{CellFacts, CellTotals};
use tally_core::sketch::{HashKey, Uniques, hash};
use tally_wire::messages::{decode, encode};

pub const LEADS: usize = 2;

pub fn datacenter(number: usize) -> Datacenter {
    Datacenter::parse(&format!("DC{number}")).expect("a datacenter")
}

/// A datacenter's cells and elements, and the feed of its lead.
pub struct Lead {
    pub generation: u64,
    pub sequences: [u64; 2],
    pub uniques: Uniques,
    pub elements: u32,
    pub feed: Feed,
    pub root_has: ReceiverState,
    /// Each state that a mark may stand for.
    pub states: BTreeMap<(u64, u64), View>,
}

impl Lead {
    pub fn state(&self, number: usize) -> View {
        let cell = |sequence: u64| CellTotals {
            generation: self.generation,
            sequence,
            added: (u128::from(sequence) * 3).into(),
            removed: (u128::from(sequence) / 2).into(),
        };
        View::of(DatacenterState {
            generation: self.generation,
            datacenter: &datacenter(number),
            cells: &[(0, cell(self.sequences[0])), (5, cell(self.sequences[1]))],
            as_of_ms: i64::try_from(self.sequences[0]).expect("few"),
            facts: CellFacts::written(0),
            uniques: self.uniques.clone(),
        })
    }

    /// The generation that it counted for has ended, and this one lives.
    pub fn close(&mut self, generation: u64) {
        if generation > self.generation {
            self.generation = generation;
            self.sequences = [0, 0];
            self.elements = 0;
            self.uniques = Uniques::new();
        }
    }

    pub fn gather(&mut self, number: usize) {
        let state = self.state(number);
        self.feed.merge(&state);
        let mark = self.feed.mark();
        self.states
            .insert((mark.incarnation, mark.revision), self.feed.view().clone());
    }
}

/// A lead's delta, and a root's word to a lead: on their way.
#[derive(Clone)]
pub enum Message {
    Up(usize, Delta),
    Answer(usize, ReceiverState),
}

pub struct World {
    pub leads: Vec<Lead>,
    pub root: ViewReceiver,
    /// What the root has stored.
    pub disk: (ViewAtRest, Marks),
    pub air: Vec<Message>,
    pub incarnations: u64,
}

/// What happens next: (what, who, how much).
pub type Event = (u8, usize, u32);

impl World {
    pub fn new() -> Self {
        let lead = |number: u64| Lead {
            generation: 1,
            sequences: [0, 0],
            uniques: Uniques::new(),
            elements: 0,
            feed: Feed::new(View::new(1), number),
            root_has: ReceiverState::Unknown,
            states: BTreeMap::new(),
        };
        let root = ViewReceiver::new(View::new(1), Marks::new());
        Self {
            leads: (0..).take(LEADS).map(lead).collect(),
            disk: (root.view().at_rest(), Marks::new()),
            root,
            air: Vec::new(),
            incarnations: 1_000,
        }
    }

    pub fn next_incarnation(&mut self) -> u64 {
        self.incarnations += 1;
        self.incarnations
    }

    pub fn happen(&mut self, (what, who, much): Event) {
        let lead = who % LEADS;
        match what {
            0..=2 => self.write(lead, much),
            3..=5 => self.push(lead),
            9..=14 if !self.air.is_empty() => {
                let place = usize::try_from(much).expect("small") % self.air.len();
                let message = self.air.swap_remove(place);
                if what == 9 {
                    // It comes again later.
                    self.air.push(message.clone());
                }
                self.deliver(message);
            }
            15 if !self.air.is_empty() => {
                self.air
                    .swap_remove(usize::try_from(much).expect("small") % self.air.len());
            }
            16 => self.disk = (self.root.view().at_rest(), self.root.marks().clone()),
            // The root begins anew, from what it stored.
            17 => {
                let (view, marks) = self.disk.clone();
                self.root = ViewReceiver::new(View::from_rest(view), marks);
            }
            // A lead begins anew: its cells are durable, its feed is not.
            18 => {
                let generation = self.leads[lead].generation;
                let incarnation = self.next_incarnation();
                self.leads[lead].feed = Feed::new(View::new(generation), incarnation);
                self.leads[lead].root_has = ReceiverState::Unknown;
            }
            // The counter ends, and begins again at a lead.
            20 if much % 4 == 0 => {
                let newest = self.leads.iter().map(|lead| lead.generation).max();
                let lead = &mut self.leads[lead];
                lead.generation = newest.expect("leads") + 1;
                lead.sequences = [1, 0];
                // The same visitors come again.
                lead.elements /= 2;
                lead.uniques = elements(lead.elements, 4, 5);
            }
            _ => {}
        }
        self.check_marks();
    }

    pub fn write(&mut self, number: usize, much: u32) {
        let lead = &mut self.leads[number];
        lead.sequences[usize::try_from(much % 2).expect("small")] += 1 + u64::from(much % 5);
        lead.elements += match much % 7 {
            0 => 2_000,
            1 => 300,
            few => few,
        };
        lead.uniques.merge(&elements(lead.elements, 4, 5));
    }

    pub fn push(&mut self, number: usize) {
        let lead = &mut self.leads[number];
        lead.gather(number);
        let delta = lead.feed.since(&lead.root_has);
        self.air.push(Message::Up(number, delta));
    }

    pub fn deliver(&mut self, message: Message) {
        match message {
            Message::Up(number, delta) => {
                let delta: Delta =
                    decode(&encode(&delta).expect("a delta")).expect("the same delta");
                match self.root.take(&datacenter(number), &delta) {
                    DeltaOutcome::Applied(have) => self.air.push(Message::Answer(number, have)),
                    DeltaOutcome::Outdated(generation) => self.leads[number].close(generation),
                }
            }
            Message::Answer(number, have) => self.leads[number].root_has = have,
        }
    }

    /// Whoever holds a mark has all of the state that it stands for, unless it is of an older generation.
    pub fn check_marks(&self) {
        let covers = |holder: &View, state: &View| {
            let mut both = holder.clone();
            both.merge(state);
            holder.generation() > state.generation() || both == *holder
        };
        for (number, lead) in self.leads.iter().enumerate() {
            let Some(mark) = self.root.marks().get(&datacenter(number)) else {
                continue;
            };
            let state = lead.states.get(&(mark.incarnation, mark.revision));
            let state = state.expect("a mark is of a state that there was");
            assert!(covers(self.root.view(), state), "the root, {mark:?}");
        }
    }

    /// Delivers all messages. Returns how many rounds it took until nothing was missing.
    pub fn run_until_quiet(&mut self) -> u32 {
        for round in 1..=9 {
            for message in std::mem::take(&mut self.air) {
                self.deliver(message);
            }
            let mut is_quiet = true;
            for number in 0..LEADS {
                let state = self.leads[number].state(number);
                let lead = &mut self.leads[number];
                lead.feed.merge(&state);
                is_quiet &= lead.root_has == ReceiverState::All(lead.feed.mark());
                self.push(number);
            }
            self.check_marks();
            if is_quiet {
                return round;
            }
        }
        panic!("nine rounds without loss leave something missing");
    }
}

/// What a receiver has that has nothing: it needs the whole.
pub fn nothing() -> ReceiverState {
    ReceiverState::Digests {
        generation: 0,
        digests: Vec::new(),
    }
}

/// So many elements, as so many shards had them, by so many keys one after the other.
pub fn elements(count: u32, shards: u8, keys: u8) -> Uniques {
    let mut uniques = Uniques::new();
    for element in 0..count {
        let newest = u8::try_from(element / 1_000).unwrap_or(u8::MAX);
        let key = HashKey::from([5 + newest % keys; 16]);
        let hashed = hash(&key, &element.to_le_bytes());
        let element = Element::of(hashed);
        uniques.insert(element.source(key.id(), shards), element.token);
    }
    uniques
}
