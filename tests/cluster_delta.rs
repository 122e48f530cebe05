//! The laws of deltas: whatever is lost, repeated, reordered or forgotten, all that follow a feed come
//! to hold the merge of all states, and a mark never claims more than its holder has.
#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "the helpers of a test fail it by panicking"
)]

mod common;

use std::collections::BTreeMap;

use common::config;
use proptest::collection::vec;
use proptest::prelude::*;
use tally::cluster::delta::{
    Applied, Basis, Delta, Feed, Gathering, Have, Mark, Marks, Replica, Taken,
};
use tally::cluster::view::{DatacenterState, View, ViewAtRest};
use tally::counter::id::Datacenter;
use tally::counter::merge::CellTotals;
use tally::protocol::messages::{decode, encode};
use tally::sketch::{HashKey, Sketch, Token, hash};

const LEADS: usize = 2;
const VIEWS: usize = 2;

fn datacenter(number: usize) -> Datacenter {
    Datacenter::parse(&format!("DC{number}")).expect("a datacenter")
}

/// A datacenter's cells and elements, and the feed of its lead.
struct Lead {
    generation: u64,
    sequences: [u64; 2],
    uniques: Sketch,
    elements: u32,
    feed: Feed,
    root_has: Have,
    /// Each state that a mark may stand for.
    states: BTreeMap<(u64, u64), View>,
}

impl Lead {
    fn state(&self, number: usize) -> View {
        let cell = |sequence: u64| CellTotals {
            generation: self.generation,
            sequence,
            added: u128::from(sequence) * 3,
            removed: u128::from(sequence) / 2,
        };
        View::of(DatacenterState {
            generation: self.generation,
            datacenter: &datacenter(number),
            cells: &[(0, cell(self.sequences[0])), (5, cell(self.sequences[1]))],
            as_of_ms: i64::try_from(self.sequences[0]).expect("few"),
            last_write_ms: 0,
            uniques: self.uniques.clone(),
        })
    }

    /// The generation that it counted for has ended, and this one lives.
    fn close(&mut self, generation: u64) {
        if generation > self.generation {
            self.generation = generation;
            self.sequences = [0, 0];
            self.elements = 0;
            self.uniques = Sketch::new();
        }
    }

    fn gather(&mut self, number: usize) {
        let state = self.state(number);
        self.feed.learn(&state);
        let mark = self.feed.mark();
        self.states
            .insert((mark.incarnation, mark.revision), self.feed.view().clone());
    }
}

/// A lead's delta, a root's word to a lead, a delta to a view: on their way.
#[derive(Clone)]
enum Message {
    Up(usize, Delta),
    Answer(usize, Have),
    Down(usize, Delta),
}

struct World {
    leads: Vec<Lead>,
    root: Gathering,
    /// What the root has stored.
    disk: (ViewAtRest, Marks),
    views: Vec<Replica>,
    air: Vec<Message>,
    incarnations: u64,
    root_states: BTreeMap<(u64, u64), View>,
}

/// What happens next: (what, who, how much).
type Event = (u8, usize, u32);

impl World {
    fn new() -> Self {
        let lead = |number: u64| Lead {
            generation: 1,
            sequences: [0, 0],
            uniques: Sketch::new(),
            elements: 0,
            feed: Feed::new(View::new(1), number),
            root_has: Have::Unknown,
            states: BTreeMap::new(),
        };
        let root = Gathering::new(View::new(1), Marks::new(), 100);
        Self {
            leads: (0..).take(LEADS).map(lead).collect(),
            disk: (root.feed().view().at_rest(), Marks::new()),
            root,
            views: vec![Replica::default(); VIEWS],
            air: Vec::new(),
            incarnations: 1_000,
            root_states: BTreeMap::new(),
        }
    }

    fn next_incarnation(&mut self) -> u64 {
        self.incarnations += 1;
        self.incarnations
    }

    fn happen(&mut self, (what, who, much): Event) {
        let lead = who % LEADS;
        match what {
            0..=2 => self.write(lead, much),
            3..=5 => self.push(lead),
            6..=8 => self.poll(who % VIEWS),
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
            16 => self.disk = (self.root.feed().view().at_rest(), self.root.marks().clone()),
            // The root begins anew, from what it stored.
            17 => {
                let (view, marks) = self.disk.clone();
                let incarnation = self.next_incarnation();
                self.root = Gathering::new(View::from_rest(view), marks, incarnation);
            }
            // A lead begins anew: its cells are durable, its feed is not.
            18 => {
                let generation = self.leads[lead].generation;
                let incarnation = self.next_incarnation();
                self.leads[lead].feed = Feed::new(View::new(generation), incarnation);
                self.leads[lead].root_has = Have::Unknown;
            }
            19 => self.views[who % VIEWS] = Replica::default(),
            // The counter ends, and begins again at a lead.
            20 if much % 4 == 0 => {
                let newest = self.leads.iter().map(|lead| lead.generation).max();
                let lead = &mut self.leads[lead];
                lead.generation = newest.expect("leads") + 1;
                lead.sequences = [1, 0];
                // The same visitors come again.
                lead.elements /= 2;
                lead.uniques = elements(lead.elements);
            }
            _ => {}
        }
        self.check_marks();
    }

    fn write(&mut self, number: usize, much: u32) {
        let lead = &mut self.leads[number];
        lead.sequences[usize::try_from(much % 2).expect("small")] += 1 + u64::from(much % 5);
        lead.elements += match much % 7 {
            0 => 2_000,
            1 => 300,
            few => few,
        };
        lead.uniques.merge(&elements(lead.elements));
    }

    fn push(&mut self, number: usize) {
        let lead = &mut self.leads[number];
        lead.gather(number);
        let delta = lead.feed.since(&lead.root_has);
        self.air.push(Message::Up(number, delta));
    }

    fn poll(&mut self, number: usize) {
        let mark = self.root.feed().mark();
        self.root_states.insert(
            (mark.incarnation, mark.revision),
            self.root.feed().view().clone(),
        );
        let delta = self.root.feed().since(&self.views[number].have());
        self.air.push(Message::Down(number, delta));
    }

    fn deliver(&mut self, message: Message) {
        match message {
            Message::Up(number, delta) => {
                let delta: Delta =
                    decode(&encode(&delta).expect("a delta")).expect("the same delta");
                match self.root.take(&datacenter(number), &delta) {
                    Taken::Over(have, _) => self.air.push(Message::Answer(number, have)),
                    Taken::Outdated(generation) => self.leads[number].close(generation),
                }
            }
            Message::Answer(number, have) => self.leads[number].root_has = have,
            Message::Down(number, delta) => {
                self.views[number].apply(&delta);
            }
        }
    }

    /// Whoever holds a mark has all of the state that it stands for, unless it is of an older generation.
    fn check_marks(&self) {
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
            assert!(covers(self.root.feed().view(), state), "the root, {mark:?}");
        }
        for view in &self.views {
            if let Have::All(mark) = view.have() {
                let state = self.root_states.get(&(mark.incarnation, mark.revision));
                let state = state.expect("a mark is of a state that there was");
                assert!(covers(view.view(), state), "a view, {mark:?}");
            }
        }
    }

    /// All is heard now. Returns how many rounds it took until nothing was missing.
    fn settle(&mut self) -> u32 {
        for round in 1..=9 {
            for message in std::mem::take(&mut self.air) {
                self.deliver(message);
            }
            let mut is_quiet = true;
            for number in 0..LEADS {
                let state = self.leads[number].state(number);
                let lead = &mut self.leads[number];
                lead.feed.learn(&state);
                is_quiet &= !lead.feed.is_ahead_of(&lead.root_has);
                self.push(number);
            }
            for number in 0..VIEWS {
                is_quiet &= !self.root.feed().is_ahead_of(&self.views[number].have());
                self.poll(number);
            }
            self.check_marks();
            if is_quiet {
                return round;
            }
        }
        panic!("nine rounds without loss leave something missing");
    }
}

fn elements(count: u32) -> Sketch {
    let token =
        |element: u32| Token::from_hash(hash(&HashKey::from([5; 16]), &element.to_le_bytes()));
    let mut sketch = Sketch::new();
    sketch.insert_many(&(0..count).map(token).collect::<Vec<_>>());
    sketch
}

proptest! {
    #![proptest_config(config(52, 64))]

    #[test]
    fn lost_repeated_reordered_and_forgotten_deltas_converge(
        events in vec((0..21_u8, 0..8_usize, 0..10_000_u32), 0..120)
    ) {
        let mut world = World::new();
        for event in events {
            world.happen(event);
        }
        world.settle();
        let mut all = View::default();
        for (number, lead) in world.leads.iter().enumerate() {
            all.merge(&lead.state(number));
        }
        prop_assert_eq!(world.root.feed().view(), &all);
        for view in &world.views {
            prop_assert_eq!(view.view(), &all);
        }
    }
}

/// A lead, a root and what is sent between them, without loss.
fn followed(elements_seen: u32) -> (Lead, Gathering) {
    let mut world = World::new();
    world.leads[0].sequences = [7, 3];
    world.leads[0].uniques = elements(elements_seen);
    world.settle();
    (world.leads.swap_remove(0), world.root)
}

#[test]
fn whoever_follows_is_sent_what_changed_and_nothing_else() {
    let (mut lead, mut root) = followed(10_000);
    assert!(lead.feed.since(&lead.root_has).is_empty());
    lead.sequences[1] += 1;
    lead.uniques.merge(&elements(10_020));
    lead.gather(0);
    let delta = lead.feed.since(&lead.root_has);
    assert!(matches!(delta.basis, Basis::Revision(_)));
    assert_eq!(delta.parts.len(), 1);
    assert_eq!(delta.parts[0].cells.len(), 1);
    let bytes = encode(&delta).expect("a delta").len();
    println!(
        "one cell and {} bytes of registers: {bytes} bytes",
        delta.uniques.len()
    );
    assert!(bytes <= 110, "{bytes}");
    let applied = Applied {
        news: true,
        is_complete: true,
    };
    let have = Have::All(lead.feed.mark());
    assert_eq!(
        root.take(&datacenter(0), &delta),
        Taken::Over(have.clone(), applied)
    );
    // Once more, late: no news, and nothing is taken back.
    let repeated = Applied {
        news: false,
        is_complete: true,
    };
    assert_eq!(
        root.take(&datacenter(0), &delta),
        Taken::Over(have, repeated)
    );
}

#[test]
fn that_nothing_was_counted_since_is_no_news() {
    let (mut lead, mut root) = followed(10);
    let view = Have::All(root.feed().mark());
    let state = View::of(DatacenterState {
        generation: 1,
        datacenter: &datacenter(0),
        cells: &lead.feed.view().cells().cells_of(&datacenter(0)),
        as_of_ms: 1_000_000,
        last_write_ms: 0,
        uniques: Sketch::new(),
    });
    assert!(!lead.feed.learn(&state));
    assert!(!lead.feed.has_news_for(&lead.root_has) && lead.feed.is_ahead_of(&lead.root_has));
    let delta = lead.feed.since(&lead.root_has);
    assert!(matches!(root.take(&datacenter(0), &delta), Taken::Over(_, applied) if !applied.news));
    assert!(!root.feed().has_news_for(&view) && root.feed().is_ahead_of(&view));
    let mut replica = Replica::default();
    replica.apply(&root.feed().since(&Have::Nothing));
    let heard = replica.view().heard_of(&datacenter(0)).expect("heard of");
    assert_eq!(heard.as_of_ms, 1_000_000);
}

#[test]
fn a_new_incarnation_costs_digests_and_not_all_registers() {
    let (lead, mut root) = followed(30_000);
    let mut restarted = Feed::new(View::new(1), 77);
    restarted.learn(&lead.state(0));
    let first = restarted.since(&Have::Unknown);
    assert_eq!(first.basis, Basis::Unclear);
    let Taken::Over(have, _) = root.take(&datacenter(0), &first) else {
        panic!("it is of the generation that lives");
    };
    assert!(matches!(have, Have::Digests { .. }));
    let second = restarted.since(&have);
    let bytes = encode(&first).expect("a delta").len() + encode(&second).expect("a delta").len();
    assert!(bytes < 150, "{bytes}");
    let have = Have::All(restarted.mark());
    assert!(matches!(root.take(&datacenter(0), &second), Taken::Over(told, _) if told == have));
}

#[test]
fn the_same_visitors_of_a_new_generation_are_not_taken_for_known_ones() {
    let (lead, mut root) = followed(30_000);
    let mut view = Replica::default();
    view.apply(&root.feed().since(&view.have()));
    let old = Have::Digests {
        generation: 1,
        digests: view.view().uniques().digests(),
    };
    let mut next = lead;
    next.generation = 2;
    let mut feed = Feed::new(View::new(2), 78);
    feed.learn(&next.state(0));
    root.take(&datacenter(0), &feed.since(&Have::Nothing));
    view.apply(&root.feed().since(&old));
    assert_eq!(view.view(), root.feed().view());
}

#[test]
fn an_ended_generation_is_refused() {
    let (lead, mut root) = followed(10);
    let late = lead.feed.since(&Have::Nothing);
    root.begin(2);
    assert_eq!(root.take(&datacenter(0), &late), Taken::Outdated(2));
    assert!(root.marks().is_empty());
    let mut view = Replica::default();
    view.apply(&root.feed().since(&Have::Nothing));
    assert!(!view.apply(&late).news);
    assert_eq!(view.view().generation(), 2);
}

#[test]
fn whoever_lags_behind_the_log_is_asked_for_digests() {
    let (mut lead, _) = followed(20_000);
    let then = Have::All(lead.feed.mark());
    for _ in 0..2_100 {
        lead.sequences[0] += 1;
        lead.gather(0);
    }
    // Each of them changed the same two things: the log is short.
    assert!(matches!(lead.feed.since(&then).basis, Basis::Revision(_)));
    lead.uniques.merge(&elements(90_000));
    lead.gather(0);
    assert_eq!(lead.feed.since(&then).basis, Basis::Unclear);
    let unborn = Mark {
        incarnation: lead.feed.mark().incarnation,
        revision: u64::MAX - 1,
    };
    assert_eq!(lead.feed.since(&Have::All(unborn)).basis, Basis::Unclear);
}
