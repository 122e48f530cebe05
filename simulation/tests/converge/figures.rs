//! What a run has shown, in figures.

use serde_json::{Value, json};
use tally_simulation::Figures;

use super::service::{Seen, Truth};

/// Paths of messages that the figures tell apart, and what they are. Each is counted with its answer.
pub const KINDS: [(&str, &[&str]); 4] = [
    ("pushes", &["/push"]),
    ("watches", &["/watch"]),
    ("questions of readers to roots", &["/view", "/look-up"]),
    ("questions of readers to leads", &["/sum"]),
];

/// What a stretch of time has cost.
#[derive(Clone, Debug, Default)]
pub struct Cost {
    pub ms: u64,
    pub writes: u64,
    /// Calls between isolates and objects, and bytes of both ways, by kind; those of no kind are last.
    pub calls: [(u64, u64); KINDS.len() + 1],
    pub rows: u64,
}

impl Cost {
    /// Adds what was done between two looks at the figures.
    pub fn add(&mut self, before: &Figures, after: &Figures, ms: u64, writes: u64) {
        self.ms += ms;
        self.writes += writes;
        self.rows += after.rows_written - before.rows_written;
        for (path, count) in &after.messages {
            let known = |figures: &std::collections::BTreeMap<String, u64>| {
                figures.get(path).copied().unwrap_or(0)
            };
            let kind = KINDS
                .iter()
                .position(|(_, paths)| paths.contains(&path.as_str()));
            let (calls, bytes) = &mut self.calls[kind.unwrap_or(KINDS.len())];
            *calls += count - known(&before.messages);
            *bytes += known(&after.bytes) - known(&before.bytes);
        }
    }

    pub fn json(&self) -> Value {
        json!({
            "milliseconds": self.ms,
            "writes": self.writes,
            "rows": self.rows,
            "by_kind": self.calls.map(|(calls, bytes)| [calls, bytes]),
        })
    }
}

/// Times, milliseconds.
#[derive(Clone, Debug, Default)]
pub struct Times(Vec<i64>);

impl Times {
    pub fn push(&mut self, time_ms: i64) {
        self.0.push(time_ms);
    }

    /// Adds from the last write of each counter until each had seen it, and returns how many have not.
    pub fn push_all(&mut self, truths: &[Truth], seen: &[Vec<Seen>]) -> u64 {
        let mut missing = 0;
        for (truth, seen) in truths.iter().zip(seen) {
            for seen in seen {
                match seen.value == truth.value {
                    true => self.push((seen.since_ms - truth.last_write_ms).max(0)),
                    false => missing += 1,
                }
            }
        }
        missing
    }

    pub fn sorted(mut self) -> Self {
        self.0.sort_unstable();
        self
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The time that so many thousandths do not exceed; 0 for none. Times must be sorted.
    pub fn thousandth(&self, thousandths: usize) -> i64 {
        let place = (self.0.len() * thousandths).div_ceil(1_000).max(1) - 1;
        self.0.get(place).copied().unwrap_or(0)
    }

    pub fn max(&self) -> i64 {
        self.0.last().copied().unwrap_or(0)
    }

    /// How many lie in each stretch of `width_ms`, from 0.
    fn histogram(&self, width_ms: i64) -> Vec<u64> {
        let mut counts = Vec::new();
        for time_ms in &self.0 {
            let place = usize::try_from(time_ms / width_ms).expect("not negative");
            counts.resize(counts.len().max(place + 1), 0);
            counts[place] += 1;
        }
        counts
    }

    pub fn json(&self) -> Value {
        json!({
            "views": self.len(),
            "median_ms": self.thousandth(500),
            "p99_ms": self.thousandth(990),
            "p999_ms": self.thousandth(999),
            "max_ms": self.max(),
            "histogram_25_ms": self.histogram(25),
        })
    }

    /// As a line of a table.
    pub fn line(&self, name: &str) {
        println!(
            "{name}: median {} ms, p99 {} ms, p99.9 {} ms, max {} ms, of {} views",
            self.thousandth(500),
            self.thousandth(990),
            self.thousandth(999),
            self.max(),
            self.len()
        );
    }
}
