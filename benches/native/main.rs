//! Native micro-benchmarks of the pure part: what a flush, a window, a sketch and a bulk body cost in
//! the processor alone, without the platform. `cargo bench --bench native [-- part of a name]`.
//!
//! Invariant: inputs are the same in every run and on every machine (fixed seeds, clocks that are
//! arguments), and what is counted is compared with what was sent, so that no figure is of wrong work.
//!
//! A small operation is done [`THOUSAND`] times per iteration: µs per iteration are then ns each.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a benchmark that cannot be set up should end"
)]

use std::time::Duration;

mod bulk;
mod cell;
mod fleet;
mod histogram;
mod limit;
mod peers;
mod sketch;
mod snapshots;
mod top_values;

use tally_testing::chance::Chance;

/// How often an iteration repeats an operation of few nanoseconds.
const THOUSAND: u64 = 1_000;

/// Unix milliseconds at which every benchmark begins, in the middle of a minute, hour and day.
const BEGIN_MS: i64 = 1_777_593_630_000;

/// The longest that one line of the table may take. There are 70: 70 · 0.8 s = 56 s at the most, and
/// about 8 s on a machine where none of them reaches it.
const LINE_TIME_MAX: Duration = Duration::from_millis(800);

fn main() {
    divan::Divan::default()
        .max_time(LINE_TIME_MAX)
        .config_with_args()
        .main();
}
