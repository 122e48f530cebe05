//! A run from its beginning to its end, and what it has shown.

use futures_util::future::join;
use serde_json::json;

use super::figures::{Cost, KINDS, Times};
use super::plan::Plan;
use super::service::{CALM_MS, CURIOUS_MS, OFF_MS, Service};

/// Readers begin, and leads learn that somebody watches.
const WARM_UP_MS: u64 = 4_000;

/// After the last write, or healing, all is given so long.
const REST_MS: u64 = 6_000;

/// Watchers are given so long, which is more than two updates that got lost.
const WATCHED_MS: u64 = 4_000;

/// So long of the rest costs are counted of counters that are read and not written.
const QUIET_MS: u64 = 2_000;

/// When the last lease is over after the last reader has left: the root's and the leads' own.
const LEASES_MS: u64 = 25_000;

/// What a run has shown.
pub struct Shown {
    plan: Plan,
    /// From the last write of a counter until each reader was told of it.
    pub agreed: Times,
    /// The same of watchers of `/live`.
    watched: Times,
    /// As `agreed`, while two clocks were off.
    pub off: Times,
    /// From healing until each reader was told of all that had not been told before.
    pub healed: Vec<(u64, Times)>,
    /// Readers that were not told all within the time given.
    pub missing: u64,
    /// Watchers likewise.
    unwatched: u64,
    written: Cost,
    quiet: Cost,
    cold: Cost,
    hot_unread: Cost,
    leads: usize,
    reads: u64,
    failed_reads: u64,
}

/// Runs a plan.
pub fn run(plan: Plan) -> Shown {
    let service = Service::new(plan);
    let mut shown = Shown {
        plan,
        agreed: Times::default(),
        watched: Times::default(),
        off: Times::default(),
        healed: Vec::new(),
        missing: 0,
        unwatched: 0,
        written: Cost::default(),
        quiet: Cost::default(),
        cold: Cost::default(),
        hot_unread: Cost::default(),
        leads: service.leads(),
        reads: 0,
        failed_reads: 0,
    };
    service.world.run(service.begin());
    let readers = join(service.read_all(), service.watch_all());
    service.world.run(join(readers, shown.while_read(&service)));
    service.world.run(shown.while_unread(&service));
    shown.agreed = std::mem::take(&mut shown.agreed).sorted();
    shown.watched = std::mem::take(&mut shown.watched).sorted();
    shown.off = std::mem::take(&mut shown.off).sorted();
    shown.reads = service.reads.get();
    shown.failed_reads = service.failed_reads.get();
    shown
}

impl Shown {
    async fn while_read(&mut self, service: &Service) {
        service.world.sleep_ms(WARM_UP_MS).await;
        for round in 0..self.plan.rounds {
            self.round(service, round).await;
            if round == 0 {
                // Clocks that were ten minutes off are set right.
                for (place, _) in OFF_MS {
                    service.world.set_clock(service.sites[place], 0);
                }
                service.world.sleep_ms(WARM_UP_MS).await;
            }
        }
        for round in 0..self.plan.watched_rounds {
            self.watched_round(service, round).await;
        }
        for split_ms in self.plan.splits_ms {
            let mut times = Times::default();
            for _ in 0..self.plan.splits_each {
                self.split(service, *split_ms, &mut times).await;
            }
            self.healed.push((*split_ms, times.sorted()));
        }
        service.is_read.set(false);
    }

    async fn round(&mut self, service: &Service, round: usize) {
        let world = &service.world;
        service.calm_ms.set(CURIOUS_MS);
        let before = world.figures();
        let until_ms = world.now_ms() + ms(self.plan.writing_ms);
        let writing = service.write_all(0..self.plan.hot, self.plan.writing_ms, 1);
        let looking = async {
            world.sleep_ms(self.plan.writing_ms).await;
            world.figures()
        };
        let (writes, after) = join(writing, looking).await;
        self.written
            .add(&before, &after, self.plan.writing_ms, writes);
        let end_ms = until_ms + ms(REST_MS);
        world
            .sleep_ms(left_ms(end_ms - ms(QUIET_MS), world.now_ms()))
            .await;
        let before = world.figures();
        world.sleep_ms(left_ms(end_ms, world.now_ms())).await;
        self.quiet.add(&before, &world.figures(), QUIET_MS, 0);
        let times = if round == 0 {
            &mut self.off
        } else {
            &mut self.agreed
        };
        let truths = service.truths.borrow();
        self.missing += times.push_all(&truths, &service.seen.borrow());
        service.calm_ms.set(CALM_MS);
    }

    /// Writes end at another time of a second in each round, since hubs look once a second.
    async fn watched_round(&mut self, service: &Service, round: u64) {
        let world = &service.world;
        let second_ms = u64::try_from(world.now_ms().rem_euclid(1_000)).expect("below a second");
        let phase_ms = round * 1_000 / self.plan.watched_rounds;
        let for_ms = 1_000 + (1_000 + phase_ms - second_ms) % 1_000;
        service.write_all(0..self.plan.hot, for_ms, 1).await;
        world.sleep_ms(WATCHED_MS).await;
        let truths = service.truths.borrow();
        self.unwatched += self.watched.push_all(&truths, &service.watched.borrow());
    }

    async fn split(&mut self, service: &Service, split_ms: u64, times: &mut Times) {
        let world = &service.world;
        let heals_ms = world.now_ms() + ms(split_ms);
        service.split(split_ms);
        // Both sides write until the end of it.
        world.sleep_ms(split_ms - self.plan.writing_ms).await;
        service.calm_ms.set(CURIOUS_MS);
        service
            .write_all(0..self.plan.hot, self.plan.writing_ms, 1)
            .await;
        world
            .sleep_ms(left_ms(heals_ms + ms(REST_MS), world.now_ms()))
            .await;
        for (truth, seen) in service.truths.borrow().iter().zip(&*service.seen.borrow()) {
            for seen in seen {
                match seen.value == truth.value {
                    // It had seen all of it before.
                    true if seen.since_ms <= heals_ms => {}
                    true => times.push(seen.since_ms - heals_ms),
                    false => self.missing += 1,
                }
            }
        }
        service.calm_ms.set(CALM_MS);
    }

    /// The last reader has left; counters are written as before.
    async fn while_unread(&mut self, service: &Service) {
        let world = &service.world;
        let for_ms = self.plan.unread_ms;
        if for_ms == 0 {
            return;
        }
        world.sleep_ms(LEASES_MS).await;
        let (hot, all) = (self.plan.hot, self.plan.counters);
        let before = world.figures();
        let writes = service.write_all(hot..all, for_ms, 1).await;
        self.cold.add(&before, &world.figures(), for_ms, writes);
        world.sleep_ms(LEASES_MS).await;
        let before = world.figures();
        let writes = service.write_all(0..hot, for_ms, 8).await;
        self.hot_unread
            .add(&before, &world.figures(), for_ms, writes);
    }

    /// Prints what is promised.
    pub fn print(&self) {
        self.agreed.line("last write → every reader is told");
        self.watched.line("last write → every watcher is told");
        self.off
            .line("the same while two clocks are ten minutes off");
        for (split_ms, times) in &self.healed {
            times.line(&format!(
                "split of {split_ms} ms healed → every reader is told"
            ));
        }
        println!(
            "not told: {} readers, {} watchers; reads {}, of them failed {}",
            self.missing, self.unwatched, self.reads, self.failed_reads
        );
        for (name, cost, counters) in [
            ("hot, written", &self.written, self.plan.hot),
            ("hot, read only", &self.quiet, self.plan.hot),
            ("cold", &self.cold, self.plan.counters - self.plan.hot),
            ("hot, unread", &self.hot_unread, self.plan.hot),
        ] {
            println!(
                "{name}: {counters} counters, {} ms, {} writes, {} rows",
                cost.ms, cost.writes, cost.rows
            );
            let names = KINDS.iter().map(|(name, _)| *name).chain(["others"]);
            for (name, (calls, bytes)) in names.zip(cost.calls) {
                println!("  {name}: {calls} calls, {bytes} bytes");
            }
        }
    }

    /// All of it as JSON.
    pub fn json(&self) -> String {
        let healed = self.healed.iter();
        let healed =
            healed.map(|(split_ms, times)| json!({"split_ms": split_ms, "times": times.json()}));
        let all = json!({
            "datacenters": self.plan.datacenters,
            "counters": self.plan.counters,
            "hot": self.plan.hot,
            "seed": self.plan.seed,
            "agreed": self.agreed.json(),
            "watched": self.watched.json(),
            "off": self.off.json(),
            "healed": healed.collect::<Vec<_>>(),
            "missing": self.missing,
            "unwatched": self.unwatched,
            "kinds": KINDS.map(|(name, _)| name),
            "written": self.written.json(),
            "quiet": self.quiet.json(),
            "cold": self.cold.json(),
            "hot_unread": self.hot_unread.json(),
            "leads": self.leads,
            "reads": self.reads,
            "failed_reads": self.failed_reads,
        });
        format!("{all:#}\n")
    }
}

fn ms(milliseconds: u64) -> i64 {
    i64::try_from(milliseconds).expect("a stretch")
}

fn left_ms(until_ms: i64, now_ms: i64) -> u64 {
    u64::try_from(until_ms - now_ms).unwrap_or(0)
}
