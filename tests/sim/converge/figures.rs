//! What a run has shown, in figures.

use std::fmt::Write;

use serde::Serialize;
use tally::protocol::messages::encode;

/// Kinds of messages.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    Push,
    Pushed,
    Watch,
    Poll,
    Polled,
}

pub const KINDS: [&str; 5] = ["push", "its answer", "watch", "poll", "its answer"];

/// Messages and their bytes, by kind. Bytes are those of bodies: what HTTP adds is not in them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Traffic {
    /// Writes of hot counters.
    pub writes: u64,
    pub hot: [(u64, u64); 5],
    pub cold: [(u64, u64); 5],
}

impl Traffic {
    pub fn note(&mut self, is_hot: bool, kind: Kind, body: &impl Serialize) {
        let bytes = encode(body).expect("a message").len();
        let of = if is_hot {
            &mut self.hot
        } else {
            &mut self.cold
        };
        let place = match kind {
            Kind::Push => 0,
            Kind::Pushed => 1,
            Kind::Watch => 2,
            Kind::Poll => 3,
            Kind::Polled => 4,
        };
        of[place].0 += 1;
        of[place].1 += u64::try_from(bytes).expect("small");
    }

    /// (messages, bytes) of all kinds.
    pub fn all(of: &[(u64, u64); 5]) -> (u64, u64) {
        of.iter()
            .fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }
}

/// Times, milliseconds.
#[derive(Clone, Debug, Default)]
pub struct Times(Vec<i64>);

impl Times {
    pub fn push(&mut self, time_ms: i64) {
        self.0.push(time_ms);
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
    pub fn histogram(&self, width_ms: i64) -> Vec<u64> {
        let mut counts = Vec::new();
        for time_ms in &self.0 {
            let place = usize::try_from(time_ms / width_ms).expect("not negative");
            counts.resize(counts.len().max(place + 1), 0);
            counts[place] += 1;
        }
        counts
    }

    /// As JSON.
    pub fn json(&self) -> String {
        format!(
            "{{\"views\":{},\"median_ms\":{},\"p99_ms\":{},\"p999_ms\":{},\"max_ms\":{},\"histogram_25_ms\":{:?}}}",
            self.len(),
            self.thousandth(500),
            self.thousandth(990),
            self.thousandth(999),
            self.max(),
            self.histogram(25)
        )
    }
}

/// A table that is printed as it stands.
#[derive(Default)]
pub struct Table(String);

impl Table {
    pub fn line(&mut self, name: &str, figure: impl std::fmt::Display) {
        writeln!(self.0, "| {name} | {figure} |").expect("a string");
    }

    pub fn times(&mut self, name: &str, times: &Times) {
        let figure = format!(
            "median {} ms, p99 {} ms, max {} ms, of {} views",
            times.thousandth(500),
            times.thousandth(990),
            times.max(),
            times.len()
        );
        self.line(name, figure);
    }

    pub fn print(&self) {
        println!("| what | figure |\n|---|---|\n{}", self.0);
    }
}

/// Tenths, as a decimal fraction.
pub fn tenths(dividend: u64, divisor: u64) -> String {
    decimals(dividend, divisor, 1)
}

/// A decimal fraction with so many digits after the point.
pub fn decimals(dividend: u64, divisor: u64, digits: usize) -> String {
    let scale = 10_u64.pow(u32::try_from(digits).expect("few"));
    let scaled = dividend * scale / divisor.max(1);
    format!("{}.{:0digits$}", scaled / scale, scaled % scale)
}
