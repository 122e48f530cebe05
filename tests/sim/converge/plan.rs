//! The counters of a run: which are hot, where each is written, how often.
//!
//! | counters | written in | writes a second and datacenter | viewed |
//! |---|---|---|---|
//! | a twentieth of the hot ones | every datacenter | 1 | everywhere |
//! | the other hot ones | 10 datacenters | 4 | everywhere |
//! | cold ones | 1 to 3 datacenters | 1 in 20 s | nowhere |
//!
//! A write here is a change of a lead's sums, that is a flush: it may stand for many increments. On counters
//! that are written everywhere each write brings two visitors, one of them new. Where nobody views, hot counters
//! are written eight times less often, which is still many writes for each push.

use super::chance::Chance;

/// A cold counter is written about once in so long, in each of its datacenters.
const COLD_WRITE_MS: u64 = 20_000;

/// A hot counter is written about once in so long, in each of its datacenters.
const HOT_WRITE_MS: u64 = 250;

/// A hot counter that is written in all datacenters, likewise.
const EVERYWHERE_WRITE_MS: u64 = 1_000;

/// Hot counters that are written everywhere: one of so many.
const EVERYWHERE: usize = 20;

/// How large a run is.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub datacenters: usize,
    pub counters: usize,
    /// The first so many counters are hot.
    pub hot: usize,
    pub partitions: u32,
    /// How often hot counters are written for [`Plan::writing_ms`] and then come to rest.
    pub rounds: usize,
    pub writing_ms: i64,
    /// How long the world is split, each time.
    pub splits_ms: &'static [i64],
    /// How long all goes on after the last view has left.
    pub cold_ms: i64,
    pub seed: u64,
}

/// What is run by `make converge`.
pub fn full(datacenters: usize) -> Plan {
    Plan {
        datacenters,
        counters: 10_000,
        hot: 200,
        partitions: 16,
        rounds: 3,
        writing_ms: 1_500,
        // Shorter than leases, and longer: then the leads across must be told anew.
        splits_ms: &[3_000, 22_000],
        cold_ms: 145_000,
        seed: 1,
    }
}

/// What every `make test` runs.
pub fn bounded() -> Plan {
    Plan {
        datacenters: 20,
        counters: 400,
        hot: 10,
        partitions: 8,
        rounds: 2,
        writing_ms: 1_500,
        splits_ms: &[3_000, 22_000],
        cold_ms: 145_000,
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
    pub fn writers(&self, counter: usize, chance: &mut Chance) -> Vec<usize> {
        let count = match counter {
            _ if self.is_everywhere(counter) => {
                return (0..self.datacenters).collect();
            }
            _ if self.is_hot(counter) => 10,
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
