//! Limits calls by key in a program of its own, without HTTP: `cargo run -p tally-limit --example limit`.

use std::time::{SystemTime, UNIX_EPOCH};

use tally_limit::policy::Policy;
use tally_limit::table::{Check, Full, Table};

/// Unix milliseconds. The library takes the time as an argument: a Worker takes it from the platform.
fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    })
}

fn main() -> Result<(), Full> {
    // Three calls a minute for each key, in any minute.
    let policy = Policy::sliding(3, 60);
    let mut table = Table::in_memory();
    for call in 1..=5 {
        let check = Check::of("api", &policy, "203.0.113.7", 1);
        let verdict = table.check(&check, now_ms())?;
        println!(
            "call {call}: allowed {}, {} left, try again in {} ms",
            verdict.is_allowed, verdict.remaining, verdict.retry_after_ms
        );
    }
    Ok(())
}
