//! Four bundles in the order of their names, the sweep of the place that knows them, and all that may happen next. One
//! name cannot be read.

use tally_core::handover::sweep::{Sweep, SweepPace, SweepTurn};
use tally_testing::search::Model;

const BUNDLES: u8 = 4;

const PACE: SweepPace = SweepPace {
    bundles_at_once: 2,
    begin_ms: 5,
    next_ms: 1,
    again_ms: 9,
};

/// The bundle whose name cannot be read: it is nowhere.
const UNREADABLE: u8 = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Progress {
    /// A sweep continues after a restart (leads). Moved bundles stay among the names.
    Stored,
    /// A restart begins anew (roots). Moved bundles are not among the names any more.
    InMemory,
}

/// A guard that a broken variant is without.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Guard {
    /// A turn has no effect if another sweep has begun meanwhile.
    Current,
    /// A refusal makes the sweep begin again.
    Left,
    /// The progress is recorded after the turn.
    Order,
    /// A turn that reads fewer names than it may does not end the sweep.
    Full,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Running {
    sweep: Sweep<u8>,
    layout: u8,
    to_ask: Vec<u8>,
    last: Option<u8>,
    has_left: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The layout changes.
    Change,
    /// A turn begins.
    Turn,
    /// The next bundle of the turn moves, or refuses.
    Answer(bool),
    /// The turn is over.
    Over,
    /// A call moves a bundle.
    Call(u8),
    Restart,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    progress: Progress,
    removed: Option<Guard>,
    layout: u8,
    /// The layout by which each bundle was moved last.
    moved: [u8; 4],
    now_ms: i64,
    stored: Option<Sweep<u8>>,
    memory: Option<Sweep<u8>>,
    running: Option<Running>,
    changes: u8,
    refusals: u8,
    restarts: u8,
    calls: u8,
}

impl World {
    pub fn new(progress: Progress, removed: Option<Guard>) -> Self {
        let mut world = Self {
            progress,
            removed,
            layout: 0,
            moved: [0; 4],
            now_ms: 0,
            stored: None,
            memory: None,
            running: None,
            changes: 1,
            refusals: 2,
            restarts: 1,
            calls: 1,
        };
        world.change();
        world
    }

    fn is_without(&self, guard: Guard) -> bool {
        self.removed == Some(guard)
    }

    fn is_moved(&self, bundle: u8) -> bool {
        bundle == UNREADABLE || self.moved[usize::from(bundle)] == self.layout
    }

    fn change(&mut self) {
        self.layout += 1;
        self.begin();
    }

    fn begin(&mut self) {
        self.record(Some(Sweep::begin(&PACE, self.now_ms)));
    }

    fn record(&mut self, sweep: Option<Sweep<u8>>) {
        self.stored = sweep.clone().filter(|_| self.progress == Progress::Stored);
        self.memory = sweep;
    }

    /// The names of a turn.
    fn names(&self, after: Option<&u8>) -> Vec<u8> {
        let is_there = |name: &u8| self.progress == Progress::Stored || !self.is_moved(*name);
        let names = (0..BUNDLES).filter(|name| Some(name) > after);
        let at_once = usize::try_from(PACE.bundles_at_once).expect("it is small");
        names.filter(is_there).take(at_once).collect()
    }

    fn turn(&mut self, sweep: Sweep<u8>) {
        self.now_ms = self.now_ms.max(sweep.next_ms());
        let names = self.names(sweep.after());
        let last = names.last().copied();
        let to_ask: Vec<u8> = names
            .into_iter()
            .filter(|name| *name != UNREADABLE)
            .collect();
        let is_short = to_ask.len() < 2 && self.is_without(Guard::Full);
        let running = Running {
            sweep,
            layout: self.layout,
            to_ask,
            last: last.filter(|_| !is_short),
            has_left: false,
        };
        if self.is_without(Guard::Order) {
            let next = self.turned(&running);
            self.record(next);
        }
        self.running = Some(running);
    }

    fn turned(&self, running: &Running) -> Option<Sweep<u8>> {
        let turn = SweepTurn {
            last: running.last,
            has_left: running.has_left && !self.is_without(Guard::Left),
        };
        let current = match self.is_without(Guard::Current) {
            true => Some(&running.sweep),
            false => self.memory.as_ref(),
        };
        running.sweep.turned(current, turn, &PACE, self.now_ms)
    }

    fn answer(&mut self, moves: bool) {
        let Some(running) = self.running.as_mut().filter(|it| !it.to_ask.is_empty()) else {
            return;
        };
        let bundle = usize::from(running.to_ask.remove(0));
        match moves {
            true => self.moved[bundle] = self.moved[bundle].max(running.layout),
            false => {
                running.has_left = true;
                self.refusals -= 1;
            }
        }
    }

    fn over(&mut self) {
        let Some(running) = self.running.take() else {
            return;
        };
        if !self.is_without(Guard::Order) {
            let next = self.turned(&running);
            self.record(next);
        }
    }

    fn restart(&mut self) {
        self.restarts -= 1;
        self.running = None;
        self.memory = self.stored.clone();
        if self.progress == Progress::InMemory {
            self.begin();
        }
    }
}

impl Model for World {
    type Event = Event;

    fn title(&self) -> String {
        format!("{BUNDLES} bundles, layout {}", self.layout)
    }

    fn events(&self) -> Vec<Event> {
        let mut events: Vec<Event> = match (&self.running, &self.memory) {
            (Some(running), _) if running.to_ask.is_empty() => vec![Event::Over],
            (Some(_), _) => vec![Event::Answer(true)],
            (None, Some(_)) => vec![Event::Turn],
            (None, None) => vec![],
        };
        if self.refusals > 0 && events.contains(&Event::Answer(true)) {
            events.push(Event::Answer(false));
        }
        if self.changes > 0 {
            events.push(Event::Change);
        }
        if self.restarts > 0 {
            events.push(Event::Restart);
        }
        if self.calls > 0 {
            let left = (0..BUNDLES).filter(|bundle| !self.is_moved(*bundle));
            events.extend(left.map(Event::Call));
        }
        events
    }

    fn calm_event(&self) -> Option<Event> {
        let is_calm =
            |event: &Event| matches!(event, Event::Turn | Event::Answer(true) | Event::Over);
        self.events().into_iter().find(is_calm)
    }

    fn after(&self, event: Event) -> Option<Self> {
        let mut world = self.clone();
        match event {
            Event::Change => {
                world.changes -= 1;
                world.change();
            }
            Event::Turn => {
                let sweep = world.memory.clone()?;
                world.turn(sweep);
            }
            Event::Answer(moves) => world.answer(moves),
            Event::Over => world.over(),
            Event::Call(bundle) => {
                world.calls -= 1;
                world.moved[usize::from(bundle)] = world.layout;
            }
            Event::Restart => world.restart(),
        }
        Some(world)
    }

    fn check(&self) -> Result<(), String> {
        let is_over = self.memory.is_none() && self.running.is_none();
        match (0..BUNDLES).find(|bundle| !self.is_moved(*bundle)) {
            Some(bundle) if is_over => {
                Err(format!("the sweep is over, and bundle {bundle} is left"))
            }
            _ => Ok(()),
        }
    }

    fn check_rest(&self) -> Result<(), String> {
        match self.memory.is_none() && self.running.is_none() {
            true => self.check(),
            false => Err("the sweep does not end".to_owned()),
        }
    }
}
