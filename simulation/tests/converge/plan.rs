//! The counters of a run: which are hot, where each is written, how often.
//!
//! | counters | written in | writes a second and datacenter | read |
//! |---|---|---|---|
//! | one in ten of the hot ones | every datacenter | 1 | everywhere |
//! | the other hot ones | 10 datacenters | 4 | everywhere |
//! | cold ones | 1 to 3 datacenters | 1 in 20 s | nowhere |
//!
//! On counters that are written everywhere each write brings a visitor, half of them new. Where nobody reads, hot
//! counters are written eight times less often, which is still many writes for each push.

use tally_simulation::Chance;

/// A cold counter is written about once in so long, in each of its datacenters.
const COLD_WRITE_MS: u64 = 20_000;

/// A hot counter is written about once in so long, in each of its datacenters.
const HOT_WRITE_MS: u64 = 250;

/// A hot counter that is written in all datacenters, likewise.
const EVERYWHERE_WRITE_MS: u64 = 1_000;

/// Hot counters that are written everywhere: one of so many.
const EVERYWHERE: usize = 10;

/// Datacenters that write one of the other hot counters.
const WRITERS: usize = 10;

/// How large a run is.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub datacenters: usize,
    pub counters: usize,
    /// The first so many counters are hot.
    pub hot: usize,
    /// How often hot counters are written for [`Plan::writing_ms`] and then come to rest.
    pub rounds: usize,
    pub writing_ms: u64,
    /// How often hot counters are written and come to rest for watchers of `/live`, each time later in the course of
    /// a second.
    pub watched_rounds: u64,
    /// How long the world is split, each time.
    pub splits_ms: &'static [u64],
    /// How often it is split so: of one split the slowest of so many leads, all at the same moment, is chance.
    pub splits_each: usize,
    /// How long counters are written that nobody reads: first the cold ones, then the hot ones.
    pub unread_ms: u64,
    /// Of so many messages between datacenters one is lost; answers likewise.
    pub lost_once_in: u64,
    pub seed: u64,
}

/// See [`Plan::lost_once_in`]: far more than networks lose.
pub const LOST_ONCE_IN: u64 = 20;

/// Readers of a large run: one for each hot counter and datacenter.
const READERS: usize = 1_000;

/// Cold counters of a large run.
const COLD: usize = 200;

/// In runs of more datacenters it is not measured what counters cost that nobody reads: it takes a quarter of an hour.
const UNREAD: usize = 100;

/// What is run by `make converge`.
pub fn full(datacenters: usize, seed: u64) -> Plan {
    let hot = (READERS / datacenters).max(1);
    Plan {
        datacenters,
        counters: hot + COLD,
        hot,
        rounds: 3,
        writing_ms: 1_500,
        watched_rounds: if datacenters > UNREAD { 4 } else { 10 },
        // Shorter than leases, and longer: then the leads across must be told anew.
        splits_ms: &[3_000, 22_000],
        splits_each: 3,
        unread_ms: if datacenters > UNREAD { 0 } else { 120_000 },
        lost_once_in: LOST_ONCE_IN,
        seed,
    }
}

/// What every `cargo test` runs.
pub fn bounded() -> Plan {
    Plan {
        datacenters: 15,
        counters: 6,
        hot: 3,
        rounds: 2,
        writing_ms: 1_500,
        watched_rounds: 2,
        splits_ms: &[3_000],
        splits_each: 1,
        unread_ms: 0,
        lost_once_in: LOST_ONCE_IN,
        seed: 2,
    }
}

impl Plan {
    pub fn is_hot(&self, counter: usize) -> bool {
        counter < self.hot
    }

    /// Whether the counter is written everywhere; then writes bring visitors.
    pub fn is_everywhere(&self, counter: usize) -> bool {
        self.is_hot(counter) && counter.is_multiple_of(EVERYWHERE)
    }

    /// How often it is written in each of its datacenters, milliseconds.
    pub fn write_ms(&self, counter: usize) -> u64 {
        match counter {
            _ if self.is_everywhere(counter) => EVERYWHERE_WRITE_MS,
            _ if self.is_hot(counter) => HOT_WRITE_MS,
            _ => COLD_WRITE_MS,
        }
    }

    /// The datacenters that write a counter.
    pub fn writers(&self, counter: usize, chance: &Chance) -> Vec<usize> {
        let count = match counter {
            _ if self.is_everywhere(counter) => return (0..self.datacenters).collect(),
            _ if self.is_hot(counter) => WRITERS,
            _ => 1 + chance.pick(3),
        };
        let mut writers = Vec::new();
        while writers.len() < count.min(self.datacenters) {
            let datacenter = chance.pick(self.datacenters);
            if !writers.contains(&datacenter) {
                writers.push(datacenter);
            }
        }
        writers
    }
}
