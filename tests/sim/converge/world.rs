//! The world of a run: leads, roots and views out of the state machines that ship, and what happens to them.
//!
//! Invariant: a write is counted by its lead at once and at no other place, so what all views must come to
//! is known: the plain sum of what was written.

use std::rc::Rc;

use tally::core::cluster::delta::{Delta, Gathering, Have, Marks, Replica};
use tally::core::cluster::push::{Push, Pushed, Pusher};
use tally::core::cluster::ring::Ring;
use tally::core::cluster::view::View;
use tally::core::cluster::watch::{Held, Poller, Watch};
use tally::core::counter::id::{CounterId, Datacenter};
use tally::core::sketch::{HashKey, Sketch, Source, Token, Uniques, hash};

use super::air::Air;
use super::chance::Chance;
use super::figures::Traffic;
use super::places::{home_of, name_of};
use super::plan::Plan;

/// When a run begins, unix milliseconds: 1 May 2026.
pub const BEGIN_MS: i64 = 1_777_593_600_000;

/// Visitors that a counter has had when the run begins: its registers are in use, as they are after a day.
const VISITORS_BEFORE: u32 = 20_000;

/// What happens.
#[derive(Clone)]
pub enum Event {
    Write(usize),
    LeadDue(usize),
    Push(usize, Rc<Push>),
    Pushed(usize, Rc<Pushed>),
    WatchLead(usize, u32),
    RootDue(usize),
    PollDue(usize, usize),
    Poll(usize, usize, Rc<Vec<(usize, Have)>>),
    HoldDue(usize, usize),
    Polled(usize, usize, Rc<Vec<(usize, Delta)>>),
}

pub struct Lead {
    pub counter: usize,
    pub datacenter: usize,
    pub pusher: Pusher,
    pub sequence: u64,
    pub added: u128,
    pub last_write_ms: i64,
    pub uniques: Uniques,
    pub armed_ms: Option<i64>,
    /// When it last pushed, by the true clock.
    pub pushed_ms: Option<i64>,
    /// The shortest time between two pushes while nobody watched.
    pub cold_interval_ms: i64,
    pub is_writing: bool,
}

pub struct Root {
    pub partition: usize,
    pub gathering: Gathering,
    pub watch: Watch,
    pub leads: Vec<Datacenter>,
    pub armed_ms: Option<i64>,
}

/// How a counter that comes to rest is agreed upon.
#[derive(Clone, Default)]
pub struct Rest {
    /// Leads that still write.
    pub writing: usize,
    /// When the last of them wrote.
    pub last_write_ms: i64,
    /// What all must come to: flushes, and visitors.
    pub flushes: u64,
    pub uniques: Uniques,
    /// When each place had come to it.
    pub agreed_ms: Vec<Option<i64>>,
}

/// A place that views all hot counters.
pub struct Place {
    pub pollers: Vec<Poller>,
    pub armed_ms: Vec<Option<i64>>,
    pub replicas: Vec<Replica>,
}

pub type Ticket = Rc<Vec<(usize, Have)>>;

pub struct World {
    pub plan: Plan,
    pub air: Air<Event>,
    pub leads: Vec<Lead>,
    /// The leads of each counter.
    pub leads_of: Vec<Vec<usize>>,
    pub roots: Vec<Root>,
    pub places: Vec<Place>,
    /// The hot counters of each partition.
    pub viewed: Vec<Vec<usize>>,
    /// Polls that wait, by partition and place.
    pub held: Vec<Vec<Held<Ticket>>>,
    pub rests: Vec<Rest>,
    pub traffic: Traffic,
    /// How far each datacenter's clock is off.
    pub skew_ms: Vec<i64>,
    pub is_viewing: bool,
    /// When hot counters are written no more.
    pub hot_until_ms: i64,
    pub visitors: Vec<u32>,
    /// Names of counters and datacenters.
    pub ids: Vec<CounterId>,
    pub names: Vec<Datacenter>,
    key: HashKey,
}

fn id_of(counter: usize) -> CounterId {
    CounterId::parse(format!("page/{counter:05}")).expect("an id")
}

impl World {
    pub fn new(plan: Plan) -> Self {
        let mut air = Air::new(BEGIN_MS, plan.seed);
        let ring = Ring::new(plan.partitions);
        let partitions = usize::try_from(plan.partitions).expect("few");
        let key = HashKey::from([1; 16]);
        let before = visitors(&key, 0..VISITORS_BEFORE);
        let mut leads = Vec::new();
        let mut leads_of = Vec::new();
        let mut roots = Vec::new();
        let mut viewed = vec![Vec::new(); partitions];
        for counter in 0..plan.counters {
            let writers = plan.writers(counter, &mut air.chance);
            let uniques = match plan.is_everywhere(counter) {
                true => before.clone(),
                false => Uniques::new(),
            };
            let first = leads.len();
            for datacenter in &writers {
                let number = u64::try_from(leads.len()).expect("few");
                leads.push(Lead {
                    counter,
                    datacenter: *datacenter,
                    pusher: Pusher::new(1, 1_000 + number),
                    sequence: 0,
                    added: 0,
                    last_write_ms: 0,
                    uniques: uniques.clone(),
                    armed_ms: None,
                    pushed_ms: None,
                    cold_interval_ms: i64::MAX,
                    is_writing: false,
                });
            }
            leads_of.push((first..leads.len()).collect());
            let id = id_of(counter);
            let partition = usize::try_from(ring.partition_of(id.as_str())).expect("few");
            if plan.is_hot(counter) {
                viewed[partition].push(counter);
            }
            roots.push(Root {
                partition,
                gathering: Gathering::new(View::new(1), Marks::new(), 7),
                watch: Watch::default(),
                leads: writers.into_iter().map(name_of).collect(),
                armed_ms: None,
            });
        }
        let mut world = Self {
            places: Vec::new(),
            held: vec![vec![Held::default(); plan.datacenters]; partitions],
            rests: vec![Rest::default(); plan.hot],
            traffic: Traffic::default(),
            skew_ms: skews(plan.datacenters, &mut air.chance),
            is_viewing: false,
            hot_until_ms: i64::MAX,
            ids: (0..plan.counters).map(id_of).collect(),
            names: (0..plan.datacenters).map(name_of).collect(),
            visitors: vec![VISITORS_BEFORE; plan.hot],
            plan,
            air,
            leads,
            leads_of,
            roots,
            viewed,
            key,
        };
        for lead in 0..world.leads.len() {
            if !plan.is_hot(world.leads[lead].counter) {
                world.schedule_write(lead);
            }
        }
        world
    }

    /// The clock of a datacenter.
    pub fn local_ms(&self, datacenter: usize) -> i64 {
        self.air.now_ms + self.skew_ms[datacenter]
    }

    /// Every datacenter begins to view the hot counters.
    pub fn begin_viewing(&mut self) {
        self.is_viewing = true;
        let partitions = self.viewed.len();
        for place in 0..self.plan.datacenters {
            let now_ms = self.local_ms(place);
            self.places.push(Place {
                pollers: vec![Poller::new(now_ms); partitions],
                armed_ms: vec![None; partitions],
                replicas: vec![Replica::default(); self.plan.hot],
            });
            for partition in 0..partitions {
                // They do not begin in one moment.
                let at_ms =
                    self.air.now_ms + i64::try_from(self.air.chance.below(250)).expect("small");
                self.places[place].armed_ms[partition] = Some(at_ms);
                self.air.at(at_ms, Event::PollDue(place, partition));
            }
        }
    }

    /// Hot counters are written until a moment just before `until_ms`, each until its own.
    pub fn write_hot(&mut self, until_ms: i64) {
        self.hot_until_ms = until_ms;
        for counter in 0..self.plan.hot {
            let leads = self.leads_of[counter].clone();
            self.rests[counter] = Rest {
                writing: leads.len(),
                agreed_ms: vec![None; self.plan.datacenters],
                ..Rest::default()
            };
            for lead in leads {
                self.leads[lead].is_writing = true;
                self.schedule_write(lead);
            }
        }
    }

    fn schedule_write(&mut self, lead: usize) {
        let counter = self.leads[lead].counter;
        let seldom = if self.plan.is_hot(counter) && !self.is_viewing {
            8
        } else {
            1
        };
        let mean_ms = self.plan.write_ms(counter) * seldom;
        let after_ms = mean_ms / 2 + self.air.chance.below(mean_ms + 1);
        let at_ms = self.air.now_ms + i64::try_from(after_ms).expect("soon");
        if self.plan.is_hot(counter) && at_ms >= self.hot_until_ms {
            self.come_to_rest(lead);
        } else {
            self.air.at(at_ms, Event::Write(lead));
        }
    }

    fn come_to_rest(&mut self, lead: usize) {
        self.leads[lead].is_writing = false;
        let counter = self.leads[lead].counter;
        let leads = &self.leads_of[counter];
        let rest = &mut self.rests[counter];
        rest.writing -= 1;
        if rest.writing == 0 {
            let leads = || leads.iter().map(|lead| &self.leads[*lead]);
            rest.last_write_ms = self.air.now_ms;
            rest.flushes = leads().map(|lead| lead.sequence).sum();
            for lead in leads() {
                rest.uniques.merge(&lead.uniques);
            }
        }
    }

    fn write(&mut self, number: usize) {
        let lead = &mut self.leads[number];
        let now_ms = self.air.now_ms + self.skew_ms[lead.datacenter];
        lead.sequence += 1;
        lead.added += 1 + u128::from(lead.sequence % 3);
        lead.last_write_ms = now_ms;
        lead.pusher.changed(now_ms);
        let counter = lead.counter;
        if self.plan.is_everywhere(counter) {
            let new = self.visitors[counter];
            let old = u32::try_from(self.air.chance.below(u64::from(new))).expect("small");
            self.visitors[counter] += 1;
            lead.uniques.merge(&visitors(&self.key, new..new + 1));
            lead.uniques.merge(&visitors(&self.key, old..old + 1));
        }
        self.traffic.writes += u64::from(self.plan.is_hot(counter));
        self.arm_lead(number);
        self.schedule_write(number);
    }

    /// Lives until that time.
    pub fn live_until(&mut self, end_ms: i64) {
        while let Some(event) = self.air.next_before(end_ms) {
            match event {
                Event::Write(lead) => self.write(lead),
                Event::LeadDue(lead) => self.lead_due(lead),
                Event::Push(lead, push) => self.on_push(lead, &push),
                Event::Pushed(lead, pushed) => self.on_pushed(lead, &pushed),
                Event::WatchLead(lead, for_ms) => self.on_watch(lead, for_ms),
                Event::RootDue(counter) => self.root_due(counter),
                Event::PollDue(place, partition) => self.poll_due(place, partition),
                Event::Poll(place, partition, haves) => self.on_poll(place, partition, haves),
                Event::HoldDue(place, partition) => self.hold_due(place, partition),
                Event::Polled(place, partition, news) => self.on_polled(place, partition, &news),
            }
        }
    }

    /// Where a counter's root lives.
    pub fn home(&self, counter: usize) -> usize {
        home_of(self.roots[counter].partition) % self.plan.datacenters
    }
}

fn visitors(key: &HashKey, numbers: std::ops::Range<u32>) -> Uniques {
    let token = |number: u32| Token::from_hash(hash(key, &number.to_le_bytes()));
    let mut sketch = Sketch::new();
    sketch.insert_many(&numbers.map(token).collect::<Vec<_>>());
    Uniques::of(Source::of_all(key.id()), sketch)
}

/// Clocks are up to 50 ms off; two of them ten minutes, in either direction.
fn skews(datacenters: usize, chance: &mut Chance) -> Vec<i64> {
    let mut skews: Vec<i64> = (0..datacenters).map(|_| chance.around(50)).collect();
    skews[1] = 600_000;
    skews[2] = -600_000;
    skews
}
