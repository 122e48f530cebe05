//! What a world is like, drawn from its seed: how large, how it is set up, what goes wrong, and what its clients do.

use super::{additions, holds, limits};
use tally_simulation::{Chance, Faults, Housing, Options};

/// What clients do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Add,
    Take,
    Keyed,
    Read,
    ReadStrong,
    ReadAgain,
    Wait,
    /// A body of events, and one of lines of a log.
    Body,
    Log,
    /// A queued event.
    Event,
    Set,
    Reset,
    Delete,
    Put,
    /// A write that depends on what its reader has seen.
    WriteIf,
    Import,
    /// A setting of the deployment changes.
    Setting,
    /// A datacenter is cut off.
    Cut,
    /// Every object crashes at once.
    Outage,
    /// What has all that was counted, and what is told of all counters.
    Window,
    History,
    Sum,
    List,
    /// Watches all counters.
    Watch,
    /// The clocks of all isolates are stepped.
    Clocks,
    /// Elements are hashed by another key from now on.
    Rotate,
    /// Leads are spread over another number of tablets from now on.
    Spread,
    /// An isolate or an object is upgraded from the build before.
    Upgrade,
}

/// What a world dwells on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topic {
    /// Keyed writes of counters whose home moves.
    Moves,
    Floors,
    /// Times to live and deletions.
    Endings,
    /// Queued events.
    Events,
    Sets,
}

const TOPICS: [Topic; 5] = [
    Topic::Moves,
    Topic::Floors,
    Topic::Endings,
    Topic::Events,
    Topic::Sets,
];

/// What every world has, with its weight.
const USUAL: [(u64, Action); 4] = [
    (20, Action::Add),
    (6, Action::Read),
    (6, Action::ReadStrong),
    (6, Action::ReadAgain),
];

/// What half of all worlds have, with the most that it weighs.
const UNUSUAL: [(u64, Action); 8] = [
    (10, Action::Take),
    (16, Action::Keyed),
    (6, Action::Wait),
    (8, Action::Body),
    (5, Action::Log),
    (12, Action::Event),
    (2, Action::Cut),
    (1, Action::Outage),
];

/// What owners do to counters as a whole, in half of all worlds, with the most that it weighs.
const OPERATIONS: [(u64, Action); 5] = [
    (5, Action::Set),
    (3, Action::Reset),
    (3, Action::Delete),
    (6, Action::Put),
    (10, Action::WriteIf),
];

/// What else clients do, in half of all worlds each, with the most that it weighs.
const LOOKS: [(u64, Action); 7] = [
    (6, Action::Window),
    (4, Action::History),
    (4, Action::Sum),
    (3, Action::List),
    (4, Action::Watch),
    (2, Action::Clocks),
    (1, Action::Rotate),
];

/// Names of datacenters, in regions that are far from each other.
const SITES: [&str; 3] = ["FRA", "SYD", "LHR"];

/// Their regions.
const REGIONS: [&str; 3] = ["WEUR", "OC", "WEUR"];

/// What is not sent again where its outcome is open: operations without a key, policies, what limits consume and give
/// back, and commands of Redis's dialect; and what carries any of these along with its entry of the log. Sent again
/// late it would undo what was acknowledged meanwhile, or be done twice.
const ONCE: &[&str] = &[
    "/operate",
    "/act-do",
    "/policy-put",
    "/limit-check",
    "/limit-reserve",
    "/run-commands",
];

/// The same where every call to a limiter has a name, so that a limiter does each once.
const ONCE_BUT_CALLS: &[&str] = &["/operate", "/act-do", "/policy-put", "/run-commands"];

/// How long messages may be held back, milliseconds.
const SLOW_MS_MAX: [u64; 4] = [300, 3_000, 20_000, 90_000];

/// How far clocks may be off, milliseconds.
const SKEWS_MS: [i64; 4] = [0, 0, 2_000, 60_000];

/// How long clients wait between what they do, at most, milliseconds.
const PAUSES_MS: [u64; 4] = [50, 400, 2_000, 20_000];

/// What a world is like.
#[derive(Clone, Debug)]
pub struct Plan {
    pub options: Options,
    pub faults: Faults,
    pub sites: &'static [&'static str],
    pub edges: usize,
    pub counters: usize,
    pub clients: usize,
    /// What each client does, in number.
    pub actions: usize,
    pub pause_ms: u64,
    /// Requests whose client hangs up, once in so many.
    pub hangs_up: u64,
    pub weights: Vec<(u64, Action)>,
    pub settings: Vec<(&'static str, String)>,
    /// How many tablets host the leads, if any do.
    pub tablets: Option<u32>,
    /// Whether writes bring unique elements, and samples.
    pub has_elements: bool,
    pub has_samples: bool,
    /// Whether increments say dimensions.
    pub has_dimensions: bool,
    /// Whether settings have times to live, and floors.
    pub has_expiry: bool,
    pub has_floors: bool,
    /// Whether unique elements are hashed as Redis does.
    pub is_redis: bool,
    /// What nearly all is about, if it is.
    pub topic: Option<Topic>,
    /// Clients of rate limits.
    pub limits: Option<limits::Plan>,
    /// Clients of a board and of Redis's dialect.
    pub additions: Option<additions::Plan>,
    /// Clients that hold quota.
    pub holds: Option<holds::Plan>,
    /// Who begins is of the build before, once in so many times; 0 where all are of one build.
    pub before_once_in: u64,
}

fn one_of<T: Copy>(chance: &Chance, all: &[T]) -> T {
    all[chance.pick(all.len())]
}

/// Once in so many times, or never in half of all worlds.
fn rate(chance: &Chance, least: u64, most: u64) -> u64 {
    match chance.once_in(2) {
        true => 0,
        false => chance.between(least, most),
    }
}

fn draw_faults(chance: &Chance) -> Faults {
    Faults {
        loses_request_once_in: rate(chance, 10, 200),
        loses_answer_once_in: rate(chance, 10, 200),
        repeats_once_in: rate(chance, 4, 60),
        spares_sites: false,
        slow_once_in: rate(chance, 4, 60),
        slow_ms_max: one_of(chance, &SLOW_MS_MAX),
        crashes_object_once_in: rate(chance, 40, 1_000),
        crashes_isolate_once_in: rate(chance, 100, 2_000),
        evicts_once_in: rate(chance, 3, 60),
        storage_out_once_in: rate(chance, 100, 2_000),
        storage_out_ms_max: chance.between(50, 5_000),
        commit_us_max: one_of(chance, &[0, 3_000, 50_000]),
        timer_late_us_max: 2_000,
        alarm_late_ms_max: one_of(chance, &[20, 500, 20_000]),
        loses_client_once_in: rate(chance, 10, 100),
        redelivers_once_in: rate(chance, 3, 40),
        queue_ms_max: one_of(chance, &[1_000, 20_000]),
        files_fail_once_in: 0,
        enqueue_fails_once_in: rate(chance, 5, 50),
        secrets_fail: false,
    }
}

fn draw_settings(chance: &Chance) -> Vec<(&'static str, String)> {
    use tally_wire::names;
    let mut settings = Vec::new();
    // Cells split and join all the time.
    if chance.once_in(2) {
        let rate = one_of(chance, &[1, 2, 10]);
        settings.push((names::SPLIT_FLUSHES_PER_SECOND, rate.to_string()));
        let quiet_ms = one_of(chance, &[500, 5_000, 60_000]);
        settings.push((names::QUIET_MS, quiet_ms.to_string()));
    }
    if chance.once_in(4) {
        settings.push((names::DATACENTERS, names::DATACENTERS_REGION.to_owned()));
    }
    settings
}

impl Plan {
    /// The plan of a seed.
    pub fn draw(seed: u64) -> Self {
        let mut plan = Self::draw_first(seed);
        let chance = Chance::new(seed.wrapping_mul(0x9e37_79b9).wrapping_add(23));
        for (most, action) in LOOKS {
            plan.weights.push((rate(&chance, 1, most), action));
        }
        plan.limits = chance.once_in(3).then(|| limits::Plan::draw(&chance));
        // Drawn apart, so that worlds without are what they were.
        plan.has_dimensions =
            Chance::new(seed.wrapping_mul(0x9e37_79b9).wrapping_add(29)).once_in(3);
        if chance.once_in(2) && !plan.is_redis {
            plan.dwell_on(one_of(&chance, &TOPICS), &chance);
        }
        // Drawn apart, so that worlds where nothing moves are what they were.
        let apart = Chance::new(seed.wrapping_mul(0x9e37_79b9).wrapping_add(29));
        if apart.once_in(3) {
            let all: u64 = plan.weights.iter().map(|(weight, _)| weight).sum();
            let weight = all.div_ceil(apart.between(4, 30));
            plan.weights.push((weight, Action::Spread));
        }
        let hot = Chance::new(seed.wrapping_mul(0x9e37_79b9).wrapping_add(37));
        if hot.once_in(3) {
            plan.let_leads_leave(&hot);
        }
        let adds = Chance::new(seed.wrapping_mul(0x9e37_79b9).wrapping_add(41));
        plan.additions = adds.once_in(3).then(|| additions::Plan::draw(&adds));
        plan
    }

    /// The plan of a seed whose clients hold quota, while much goes wrong. Little else happens.
    pub fn draw_holds(seed: u64) -> Self {
        let mut plan = Self::draw_first(seed);
        let chance = Chance::new(seed.wrapping_mul(0x9e37_79b9).wrapping_add(43));
        let holds = holds::Plan::draw(&chance);
        plan.weights = vec![
            (20, Action::Add),
            (6, Action::ReadStrong),
            (rate(&chance, 1, 6), Action::Cut),
            (rate(&chance, 1, 2), Action::Outage),
            (rate(&chance, 1, 3), Action::Clocks),
            (6, Action::Wait),
        ];
        plan.clients = 2;
        plan.counters = 1;
        plan.is_redis = false;
        if holds.is_keyed {
            plan.options.once = ONCE_BUT_CALLS;
        }
        plan.holds = Some(holds);
        plan
    }

    /// Nearly every lead that is written under keys, or has a home, leaves its tablet, and goes back once it rests.
    fn let_leads_leave(&mut self, chance: &Chance) {
        use tally_wire::names;
        self.settings
            .push((names::LEAVE_PER_SECOND, "1".to_owned()));
        let is_quiet = |(name, _): &(&str, String)| *name == names::QUIET_MS;
        if !self.settings.iter().any(is_quiet) {
            let quiet_ms = one_of(chance, &[500, 2_000, 6_000]);
            self.settings.push((names::QUIET_MS, quiet_ms.to_string()));
        }
    }

    /// The plan of a seed in a deployment that is changed over from the build before, isolate by isolate and object
    /// by object.
    pub fn draw_upgrade(seed: u64) -> Self {
        let mut plan = Self::draw(seed);
        let chance = Chance::new(seed.wrapping_mul(0x9e37_79b9).wrapping_add(31));
        plan.before_once_in = one_of(&chance, &[1, 1, 2, 3]);
        let all: u64 = plan.weights.iter().map(|(weight, _)| weight).sum();
        let weight = all.div_ceil(chance.between(3, 12));
        plan.weights.push((weight, Action::Upgrade));
        plan
    }

    /// Little else happens than what belongs to a topic, while much goes wrong.
    fn dwell_on(&mut self, topic: Topic, chance: &Chance) {
        self.topic = Some(topic);
        self.faults.loses_request_once_in = one_of(chance, &[8, 20]);
        self.faults.loses_answer_once_in = one_of(chance, &[8, 20]);
        self.faults.repeats_once_in = one_of(chance, &[4, 20]);
        self.faults.slow_once_in = one_of(chance, &[3, 8]);
        self.faults.slow_ms_max = one_of(chance, &[300, 3_000, 20_000]);
        self.faults.crashes_object_once_in = one_of(chance, &[30, 100, 1_000]);
        self.faults.crashes_isolate_once_in = 0;
        self.faults.evicts_once_in = one_of(chance, &[0, 3]);
        self.faults.storage_out_once_in = 0;
        self.pause_ms = one_of(chance, &[50, 400, 2_000]);
        self.clients = self.clients.max(4);
        self.actions = self.actions.max(12);
        self.counters = 1 + chance.pick(2);
        let (sites, extra): (usize, &[(u64, Action)]) = match topic {
            Topic::Moves => (
                3,
                &[
                    (30, Action::Keyed),
                    (8, Action::Put),
                    (4, Action::WriteIf),
                    (4, Action::ReadStrong),
                ],
            ),
            Topic::Floors => (
                2,
                &[
                    (16, Action::Take),
                    (8, Action::Add),
                    (8, Action::Keyed),
                    (1, Action::Put),
                    (10, Action::ReadStrong),
                ],
            ),
            Topic::Endings => (
                2,
                &[
                    (16, Action::Add),
                    (8, Action::Event),
                    (6, Action::Put),
                    (4, Action::Delete),
                    (8, Action::ReadStrong),
                ],
            ),
            Topic::Events => (
                2,
                &[
                    (30, Action::Event),
                    (2, Action::Delete),
                    (4, Action::Set),
                    (10, Action::ReadStrong),
                ],
            ),
            Topic::Sets => (
                2,
                &[
                    (20, Action::Add),
                    (8, Action::Set),
                    (2, Action::Reset),
                    (10, Action::ReadStrong),
                ],
            ),
        };
        self.sites = &SITES[..sites];
        self.weights = extra.to_vec();
        self.has_expiry = topic == Topic::Endings;
        self.has_floors = topic == Topic::Floors;
        self.options.has_queue = false;
    }

    /// The plan of a seed as it was drawn first: worlds that saw faults are lived through by theirs.
    pub fn draw_first(seed: u64) -> Self {
        let chance = Chance::new(seed.wrapping_mul(0x9e37_79b9).wrapping_add(17));
        let options = Options {
            skew_ms_max: one_of(&chance, &SKEWS_MS),
            housing: match chance.below(3) {
                0 => Housing::Alone,
                count => Housing::Shared(chance.pick(4) + usize::from(count > 1)),
            },
            aggregators: 1 + chance.pick(2),
            has_queue: chance.once_in(3),
            queue_batch_max: 1 + chance.pick(20),
            once: ONCE,
            ..Options::default()
        };
        let is_redis = chance.once_in(6);
        let mut weights = USUAL.to_vec();
        for (most, action) in UNUSUAL {
            weights.push((rate(&chance, 1, most), action));
        }
        if chance.once_in(2) {
            for (most, action) in OPERATIONS {
                weights.push((rate(&chance, 1, most), action));
            }
        }
        if is_redis {
            // A counter that is made anew by a write has the usual hash.
            weights.retain(|(_, action)| *action != Action::Delete);
            weights.push((8, Action::Import));
        }
        let settings = draw_settings(&chance);
        if !settings.is_empty() {
            weights.push((2, Action::Setting));
        }
        // Drawn apart, so that worlds without tablets are what they were.
        let apart = Chance::new(seed.wrapping_mul(0x9e37_79b9).wrapping_add(18));
        Self {
            options,
            tablets: apart.once_in(2).then(|| one_of(&apart, &[1, 2, 20])),
            faults: draw_faults(&chance),
            sites: &SITES[..1 + chance.pick(SITES.len())],
            edges: 1 + chance.pick(3),
            counters: 1 + chance.pick(3),
            clients: 2 + chance.pick(8),
            actions: 4 + chance.pick(20),
            pause_ms: one_of(&chance, &PAUSES_MS),
            hangs_up: rate(&chance, 5, 40),
            weights,
            settings,
            has_elements: is_redis || chance.once_in(2),
            has_samples: chance.once_in(3),
            has_dimensions: false,
            has_expiry: !is_redis && chance.once_in(3),
            has_floors: chance.once_in(2),
            is_redis,
            limits: None,
            additions: None,
            holds: None,
            topic: None,
            before_once_in: 0,
        }
    }

    /// The name of the datacenter of a site.
    pub fn datacenter(&self, site: usize) -> &'static str {
        let is_region = |(name, _): &(&str, String)| *name == tally_wire::names::DATACENTERS;
        match self.settings.iter().any(is_region) {
            true => REGIONS[site],
            false => self.sites[site],
        }
    }

    /// Draws what a client does next.
    pub fn action(&self, chance: &Chance) -> Action {
        let total = self.weights.iter().map(|(weight, _)| weight).sum();
        let mut left = chance.below(total);
        for (weight, action) in &self.weights {
            match left.checked_sub(*weight) {
                Some(less) => left = less,
                None => return *action,
            }
        }
        Action::Wait
    }
}
