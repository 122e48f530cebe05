//! A run from its beginning to its end, and what it has shown.

use super::figures::{KINDS, Table, Times, Traffic, decimals, tenths};
use super::gossip::{self, Gossip};
use super::plan::Plan;
use super::world::{BEGIN_MS, World};

/// Views begin, and ask for the whole.
const WARM_UP_MS: i64 = 4_000;

/// After the last write, or healing, all is given so long.
const REST_MS: i64 = 3_000;

/// When the last lease is over after the last view has left: the root's and the leads' own.
const LEASES_MS: i64 = 25_000;

/// What a run has shown.
pub struct Shown {
    plan: Plan,
    /// From the last write of a counter until each view agreed.
    pub agreed: Times,
    /// From healing until each view agreed that did not before.
    pub healed: Vec<(i64, Times)>,
    /// Views that never agreed within the time given.
    pub missing: u64,
    writing: Traffic,
    writing_ms: i64,
    quiet: Traffic,
    quiet_ms: i64,
    cold: Traffic,
    cold_ms: i64,
    leads: u64,
    /// The shortest time between two pushes of a lead that nobody watched.
    pub cold_interval_ms: i64,
    pub gossip: Gossip,
}

/// Runs a plan.
pub fn run(plan: Plan) -> Shown {
    let mut world = World::new(plan);
    world.live_until(BEGIN_MS + 1_000);
    world.begin_viewing();
    world.live_until(BEGIN_MS + 1_000 + WARM_UP_MS);
    let mut shown = Shown {
        plan,
        agreed: Times::default(),
        healed: Vec::new(),
        missing: 0,
        writing: Traffic::default(),
        writing_ms: 0,
        quiet: Traffic::default(),
        quiet_ms: 0,
        cold: Traffic::default(),
        cold_ms: 0,
        leads: u64::try_from(world.leads.len()).expect("few"),
        cold_interval_ms: 0,
        gossip: gossip::run(plan),
    };
    for round in 0..plan.rounds {
        shown.round(&mut world, round);
    }
    for split_ms in plan.splits_ms {
        shown.split(&mut world, *split_ms);
    }
    shown.grow_cold(&mut world);
    shown.agreed = shown.agreed.sorted();
    shown
}

impl Shown {
    fn round(&mut self, world: &mut World, round: usize) {
        let began_ms = world.air.now_ms;
        let until_ms = began_ms + self.plan.writing_ms;
        world.traffic = Traffic::default();
        world.write_hot(until_ms);
        world.live_until(began_ms + self.plan.writing_ms / 2);
        if round == 1 {
            // Clocks that were ten minutes off are set right, in the middle of it all.
            world.skew_ms[1] = 0;
            world.skew_ms[2] = 0;
        }
        world.live_until(until_ms);
        add(&mut self.writing, &world.traffic);
        self.writing_ms += self.plan.writing_ms;
        world.live_until(until_ms + REST_MS - 1_000);
        world.traffic = Traffic::default();
        world.live_until(until_ms + REST_MS);
        add(&mut self.quiet, &world.traffic);
        self.quiet_ms += 1_000;
        for rest in &world.rests {
            assert_eq!(rest.writing, 0, "writes have an end");
            for agreed_ms in &rest.agreed_ms {
                match agreed_ms {
                    Some(agreed_ms) => self.agreed.push(agreed_ms - rest.last_write_ms),
                    None => self.missing += 1,
                }
            }
        }
    }

    fn split(&mut self, world: &mut World, split_ms: i64) {
        let heals_ms = world.air.now_ms + split_ms;
        world.air.is_split = true;
        // Both sides write until the end of it.
        world.live_until(heals_ms - self.plan.writing_ms);
        world.write_hot(heals_ms);
        world.live_until(heals_ms);
        let agreed_before: Vec<Vec<bool>> = world
            .rests
            .iter()
            .map(|rest| rest.agreed_ms.iter().map(Option::is_some).collect())
            .collect();
        world.air.is_split = false;
        world.live_until(heals_ms + REST_MS);
        let mut times = Times::default();
        for (rest, before) in world.rests.iter().zip(&agreed_before) {
            for (agreed_ms, before) in rest.agreed_ms.iter().zip(before) {
                match agreed_ms {
                    _ if *before => {}
                    Some(agreed_ms) => times.push(agreed_ms - heals_ms),
                    None => self.missing += 1,
                }
            }
        }
        self.healed.push((split_ms, times.sorted()));
    }

    /// The last view leaves; counters are written as before.
    fn grow_cold(&mut self, world: &mut World) {
        world.is_viewing = false;
        let until_ms = world.air.now_ms + self.plan.cold_ms;
        world.write_hot(until_ms);
        world.live_until(world.air.now_ms + LEASES_MS);
        world.traffic = Traffic::default();
        let hot = self.plan.hot;
        for lead in world.leads.iter_mut().filter(|lead| lead.counter < hot) {
            // What it said while its lease ran out is no checkpoint.
            lead.cold_interval_ms = i64::MAX;
        }
        world.live_until(until_ms);
        self.cold = world.traffic;
        self.cold_ms = self.plan.cold_ms - LEASES_MS;
        let leads = world.leads.iter();
        // Two clocks were set right by ten minutes: that ends an interval.
        let steady = leads.filter(|lead| ![1, 2].contains(&lead.datacenter));
        self.cold_interval_ms = steady.map(|lead| lead.cold_interval_ms).min().unwrap_or(0);
    }

    /// Prints all of it as a table.
    pub fn print(&self) {
        let plan = &self.plan;
        let (hot, datacenters) = (u64::try_from(plan.hot).expect("few"), plan.datacenters);
        let mut table = Table::default();
        table.line(
            "datacenters, counters, of them hot",
            format!("{datacenters}, {}, {hot}", plan.counters),
        );
        table.times("last write → every view agrees", &self.agreed);
        for (split_ms, times) in &self.healed {
            table.times(
                &format!(
                    "world split for {} s: healed → every view agrees",
                    split_ms / 1_000
                ),
                times,
            );
        }
        table.line("views that did not agree", self.missing);
        let gossip = &self.gossip;
        table.times("gossip: last write → every view agrees", &gossip.times);
        table.line(
            "gossip: rounds of 100 ms until all agree, and log2 of the datacenters",
            format!(
                "{}, {}",
                tenths(u64::try_from(gossip.times.max()).expect("later"), 100),
                datacenters.ilog2()
            ),
        );
        let (messages, bytes) = Traffic::all(&self.writing.hot);
        let seconds_of = |ms: i64| hot * u64::try_from(ms).expect("a stretch") / 1_000;
        let per = |messages: u64, bytes: u64, of: u64| {
            format!(
                "{} messages, {} bytes",
                tenths(messages, of),
                bytes / of.max(1)
            )
        };
        table.line(
            "hot, while written: per write",
            per(messages, bytes, self.writing.writes),
        );
        table.line(
            "hot, while written: per counter and second",
            per(messages, bytes, seconds_of(self.writing_ms)),
        );
        for (kind, (messages, bytes)) in KINDS.iter().zip(self.writing.hot) {
            table.line(
                &format!("… of that: {kind}"),
                per(messages, bytes, seconds_of(self.writing_ms)),
            );
        }
        let (messages, bytes) = Traffic::all(&self.quiet.hot);
        table.line(
            "hot, viewed and not written: per counter and second",
            per(messages, bytes, seconds_of(self.quiet_ms)),
        );
        table.line(
            "gossip, while written: per write",
            per(gossip.messages, gossip.bytes, gossip.writes),
        );
        table.line(
            "gossip, while written: per counter and second",
            per(gossip.messages, gossip.bytes, seconds_of(gossip.for_ms)),
        );
        let counters_of = |count: usize| u64::try_from(count).expect("few");
        for (name, of, counters) in [
            (
                "nobody views, written now and then: per counter and second",
                &self.cold.cold,
                counters_of(plan.counters - plan.hot),
            ),
            (
                "nobody views, written all the time: per counter and second",
                &self.cold.hot,
                hot,
            ),
        ] {
            let (messages, bytes) = Traffic::all(of);
            let seconds = counters * u64::try_from(self.cold_ms).expect("a stretch") / 1_000;
            let figure = format!(
                "{} messages, {} bytes",
                decimals(messages, seconds, 3),
                decimals(bytes, seconds, 1)
            );
            table.line(name, figure);
        }
        table.line(
            "nobody views, all counters written: per minute and lead",
            self.cold_pushes(),
        );
        table.line(
            "nobody views: shortest time between two pushes of a lead",
            format!("{} ms", self.cold_interval_ms),
        );
        table.print();
    }

    fn cold_pushes(&self) -> String {
        let pushes = self.cold.hot[0].0 + self.cold.cold[0].0;
        let bytes = self.cold.hot[0].1 + self.cold.cold[0].1;
        let lead_minutes = self.leads * u64::try_from(self.cold_ms).expect("a stretch") / 60_000;
        let per_lead = tenths(pushes, lead_minutes);
        format!("{per_lead} pushes, {} bytes each", bytes / pushes.max(1))
    }

    /// All of it as JSON.
    pub fn json(&self) -> String {
        let healed: Vec<String> = (self.healed.iter())
            .map(|(split_ms, times)| {
                format!("{{\"split_ms\":{split_ms},\"times\":{}}}", times.json())
            })
            .collect();
        let traffic = |of: &[(u64, u64); 5], writes: u64, ms: i64| {
            let (messages, bytes) = Traffic::all(of);
            format!(
                "{{\"milliseconds\":{ms},\"writes\":{writes},\"messages\":{messages},\"bytes\":{bytes},\"by_kind\":{:?}}}",
                of.map(|(messages, bytes)| [messages, bytes])
            )
        };
        format!(
            "{{\n\"datacenters\":{},\n\"counters\":{},\n\"hot\":{},\n\"agreed\":{},\n\"healed\":[{}],\n\"missing\":{},\n\"writing\":{},\n\"quiet\":{},\n\"cold\":{},\n\"hot_unviewed\":{},\n\"leads\":{},\n\"cold_interval_ms\":{},\n\"gossip\":{{\"times\":{},\"writes\":{},\"messages\":{},\"bytes\":{},\"milliseconds\":{}}}\n}}\n",
            self.plan.datacenters,
            self.plan.counters,
            self.plan.hot,
            self.agreed.json(),
            healed.join(","),
            self.missing,
            traffic(&self.writing.hot, self.writing.writes, self.writing_ms),
            traffic(&self.quiet.hot, self.quiet.writes, self.quiet_ms),
            traffic(&self.cold.cold, 0, self.cold_ms),
            traffic(&self.cold.hot, self.cold.writes, self.cold_ms),
            self.leads,
            self.cold_interval_ms,
            self.gossip.times.json(),
            self.gossip.writes,
            self.gossip.messages,
            self.gossip.bytes,
            self.gossip.for_ms,
        )
    }
}

fn add(sum: &mut Traffic, other: &Traffic) {
    sum.writes += other.writes;
    for (sum, other) in sum.hot.iter_mut().zip(other.hot) {
        *sum = (sum.0 + other.0, sum.1 + other.1);
    }
}
