//! A service in many datacenters, those who write its counters, and those who read them.

use std::cell::{Cell, RefCell};

use futures_util::future::join_all;
use serde_json::Value;
use tally_core::cluster::ring::Ring;
use tally_simulation::{
    ADMIN_KEY, Client, ClientRequest, Faults, Options, Received, Site, World, deploy,
};
use tally_wire::names;

use super::places::{home_of, is_american, name_of, one_way_ms};
use super::plan::Plan;

/// Of so many messages between datacenters one comes twice.
const REPEATED_ONCE_IN: u64 = 50;

/// Clocks are off by so much at most, either way.
const SKEW_MS_MAX: i64 = 50;

/// Two datacenters whose clocks are off by more, and by how much.
pub const OFF_MS: [(usize, i64); 2] = [(1, 600_000), (2, -600_000)];

/// Between an answer and the next question of a reader: who has nothing to wait for, who may see news, who waits for
/// the last of it.
pub const CALM_MS: u64 = 1_000;
pub const CURIOUS_MS: u64 = 50;
const EAGER_MS: u64 = 25;

/// A watcher whose stream has ended opens another after so long, as browsers do.
const REOPEN_MS: u64 = 2_000;

/// What one reader was told last, and when first of it without anything else since.
#[derive(Clone, Copy, Default)]
pub struct Seen {
    pub value: u64,
    pub since_ms: i64,
}

/// What all must come to.
#[derive(Clone, Copy, Default)]
pub struct Truth {
    pub value: u64,
    /// When the last write was sent.
    pub last_write_ms: i64,
    pub is_at_rest: bool,
}

/// A service with its writers and readers.
pub struct Service {
    pub plan: Plan,
    pub world: World,
    pub sites: Vec<Site>,
    clients: Vec<Client>,
    /// The datacenters that write each counter.
    writers: Vec<Vec<usize>>,
    pub truths: RefCell<Vec<Truth>>,
    /// By counter and datacenter.
    pub seen: RefCell<Vec<Vec<Seen>>>,
    /// What watchers of `/live` were sent, likewise.
    pub watched: RefCell<Vec<Vec<Seen>>>,
    visitors: Cell<u64>,
    pub is_read: Cell<bool>,
    pub calm_ms: Cell<u64>,
    pub reads: Cell<u64>,
    /// Answers that readers did not get, or that were no value.
    pub failed_reads: Cell<u64>,
}

fn id_of(counter: usize) -> String {
    format!("page-{counter:05}")
}

fn path_of(counter: usize) -> String {
    format!("/counters/{}", id_of(counter))
}

fn record(all: &RefCell<Vec<Vec<Seen>>>, (counter, place): (usize, usize), value: u64, at_ms: i64) {
    let seen = &mut all.borrow_mut()[counter][place];
    if seen.value != value {
        *seen = Seen {
            value,
            since_ms: at_ms,
        };
    }
}

impl Service {
    pub fn new(plan: Plan) -> Self {
        let options = Options {
            skew_ms_max: SKEW_MS_MAX,
            detour_once_in: 0,
            near_us: (300, 1_000),
            ..Options::default()
        };
        let world = World::new(plan.seed, options);
        deploy(&world);
        let places = 0..plan.datacenters;
        let sites: Vec<Site> = places.map(|place| world.site(&name_of(place), 1)).collect();
        for (from, one) in sites.iter().enumerate() {
            for (to, other) in sites.iter().enumerate().skip(from + 1) {
                let (least_ms, most_ms) = one_way_ms(from, to);
                world.set_distance(*one, *other, least_ms, most_ms);
            }
        }
        let clients = sites
            .iter()
            .map(|site| world.client(*site).with_key(ADMIN_KEY));
        let writers = (0..plan.counters).map(|counter| plan.writers(counter, world.chance()));
        Self {
            clients: clients.collect(),
            writers: writers.collect(),
            truths: RefCell::new(vec![Truth::default(); plan.counters]),
            seen: RefCell::new(vec![vec![Seen::default(); plan.datacenters]; plan.hot]),
            watched: RefCell::new(vec![vec![Seen::default(); plan.datacenters]; plan.hot]),
            visitors: Cell::new(0),
            is_read: Cell::new(true),
            calm_ms: Cell::new(CALM_MS),
            reads: Cell::new(0),
            failed_reads: Cell::new(0),
            plan,
            world,
            sites,
        }
    }

    /// How many leads there are.
    pub fn leads(&self) -> usize {
        self.writers.iter().map(Vec::len).sum()
    }

    /// Each partition of the directory is made where it shall be, and each counter is written once by each of its
    /// writers.
    pub async fn begin(&self) {
        let ring = Ring::new(names::DIRECTORY_PARTITIONS);
        for counter in 0..self.plan.counters {
            let partition = ring.partition_of(&id_of(counter));
            let partition = usize::try_from(partition).expect("few");
            let home = home_of(partition) % self.plan.datacenters;
            let result = self.clients[home].get(&path_of(counter)).await;
            let answer = result.expect("no fault");
            assert_eq!(answer.status, 404, "{}", answer.text());
        }
        for counter in 0..self.plan.counters {
            let writers = self.writers[counter].iter();
            join_all(writers.map(|writer| self.write(counter, *writer, 0))).await;
        }
        for (place, off_ms) in OFF_MS {
            self.world.set_clock(self.sites[place], off_ms);
        }
        self.world.set_faults(Faults {
            loses_request_once_in: self.plan.lost_once_in,
            loses_answer_once_in: self.plan.lost_once_in,
            repeats_once_in: REPEATED_ONCE_IN,
            spares_sites: true,
            ..Faults::NONE
        });
    }

    /// Sends one write after a time, and waits until it is acknowledged.
    async fn write(&self, counter: usize, writer: usize, after_ms: u64) {
        self.world.sleep_ms(after_ms).await;
        let ask = ClientRequest::new("POST", format!("{}/increment", path_of(counter)));
        let ask = match self.plan.is_everywhere(counter) {
            true => {
                let known = self.visitors.get();
                self.visitors.set(known + 1);
                let visitor = match known % 2 {
                    0 => known,
                    _ => self.world.chance().below(known),
                };
                ask.json(format!(r#"{{"unique":"visitor-{visitor}"}}"#))
            }
            false => ask,
        };
        let sent_ms = self.world.now_ms();
        let answer = self.clients[writer].ask(ask).await.expect("an answer");
        assert_eq!(answer.status, 200, "{}", answer.text());
        let truth = &mut self.truths.borrow_mut()[counter];
        truth.value += 1;
        truth.last_write_ms = truth.last_write_ms.max(sent_ms);
    }

    /// Writes these counters for a time, each `seldom` times less often than the plan says; ends once all is
    /// acknowledged. Returns how many writes there were.
    pub async fn write_all(
        &self,
        counters: std::ops::Range<usize>,
        for_ms: u64,
        seldom: u64,
    ) -> u64 {
        let all = counters.map(|counter| async move {
            self.truths.borrow_mut()[counter].is_at_rest = false;
            let mut writes = Vec::new();
            let mean_ms = self.plan.write_ms(counter) * seldom;
            for writer in &self.writers[counter] {
                let chance = self.world.chance();
                let mut at_ms = chance.below(mean_ms);
                while at_ms < for_ms {
                    writes.push(self.write(counter, *writer, at_ms));
                    at_ms += mean_ms / 2 + chance.below(mean_ms + 1);
                }
            }
            let count = writes.len();
            join_all(writes).await;
            self.truths.borrow_mut()[counter].is_at_rest = true;
            u64::try_from(count).expect("few")
        });
        join_all(all).await.into_iter().sum()
    }

    /// Cuts the Americas off for a time.
    pub fn split(&self, milliseconds: u64) {
        for (from, one) in self.sites.iter().enumerate() {
            for (to, other) in self.sites.iter().enumerate() {
                if is_american(from) && !is_american(to) {
                    self.world.cut(*one, *other, milliseconds);
                }
            }
        }
    }

    /// A reader in each datacenter reads each hot counter again and again, while anybody reads.
    pub async fn read_all(&self) {
        let counters = 0..self.plan.hot;
        let each =
            counters.flat_map(|counter| (0..self.plan.datacenters).map(move |p| (counter, p)));
        join_all(each.map(|(counter, place)| self.read(counter, place))).await;
    }

    async fn read(&self, counter: usize, place: usize) {
        let chance = self.world.chance();
        // They do not begin in one moment.
        self.world.sleep_ms(chance.below(500)).await;
        while self.is_read.get() {
            self.reads.set(self.reads.get() + 1);
            let ask = ClientRequest::new("GET", path_of(counter)).header("accept", "text/plain");
            let answer = self.clients[place].ask(ask).await;
            let text = answer.ok().filter(|answer| answer.status == 200);
            let value = text.and_then(|answer| answer.text().trim().parse().ok());
            match value {
                Some(value) => record(&self.seen, (counter, place), value, self.world.now_ms()),
                None => self.failed_reads.set(self.failed_reads.get() + 1),
            }
            let pause_ms = self.pause_ms(counter, place);
            self.world.sleep_ms(pause_ms).await;
        }
    }

    /// A watcher in each datacenter has a stream of all hot counters, while anybody reads.
    pub async fn watch_all(&self) {
        join_all((0..self.plan.datacenters).map(|place| self.watch(place))).await;
    }

    async fn watch(&self, place: usize) {
        let ids = (0..self.plan.hot).map(|counter| format!("id={}", id_of(counter)));
        let path = format!("/live?{}", ids.collect::<Vec<_>>().join("&"));
        while self.is_read.get() {
            let opened = self.clients[place].get(&path).await;
            if let Some(live) = opened.ok().and_then(|answer| answer.live) {
                while self.is_read.get() && live.closed().is_none() {
                    if let Some(received) = live.next_within_ms(CALM_MS).await {
                        self.take(place, &received);
                    }
                }
            }
            self.world.sleep_ms(REOPEN_MS).await;
        }
    }

    fn take(&self, place: usize, received: &Received) {
        let updates = received.text.lines();
        for update in updates.filter_map(|line| line.strip_prefix("data: ")) {
            let update: Value = serde_json::from_str(update).expect("an update");
            for counter in 0..self.plan.hot {
                if let Some(value) = update["counters"][id_of(counter)]["value"].as_u64() {
                    record(&self.watched, (counter, place), value, received.at_ms);
                }
            }
        }
    }

    fn pause_ms(&self, counter: usize, place: usize) -> u64 {
        let truth = self.truths.borrow()[counter];
        let waits = truth.is_at_rest && self.seen.borrow()[counter][place].value != truth.value;
        if waits { EAGER_MS } else { self.calm_ms.get() }
    }
}
