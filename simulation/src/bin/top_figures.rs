//! What a top costs in a partition of the directory, over SQLite as it is natively: the first look, and looks after
//! changes. `top_figures [counters]`, 62,500 where no number is given: a sixteenth of a million.
//!
//! Invariant: each answer is compared with what was counted.

use std::time::Instant;

use serde_json::Value;
use tally_simulation::{Client, ClientRequest, Faults, Options, World, admin, deployed};
use tally_wire::names::{DIRECTORY_COUNT, directory};

const COUNTERS: u64 = 62_500;

/// Counters of one body.
const LINES: u64 = 10_000;

/// How long until the directory has the totals of all writes, milliseconds.
const PROPAGATION_MS: u64 = 80_000;

/// By when no edge tells an answer again, milliseconds.
const FORGOTTEN_MS: u64 = 2_000;

fn main() {
    let counters = std::env::args().nth(1);
    let counters = counters.map_or(Ok(COUNTERS), |text| text.parse());
    let counters = counters.expect("the number of counters");
    println!("counters of the partition: {counters}");
    measure(counters, true);
    measure(counters, false);
}

/// What a counter counts at first.
fn count_of(number: u64, are_equal: bool) -> u64 {
    if are_equal { 7 } else { number % 997 + 1 }
}

fn count(world: &World, client: &Client, numbers: std::ops::Range<u64>, of: impl Fn(u64) -> u64) {
    let numbers: Vec<u64> = numbers.collect();
    for some in numbers.chunks(usize::try_from(LINES).expect("small")) {
        let line = |number: &u64| {
            let count = of(*number);
            format!("{{\"id\":\"page/{number:06}\",\"delta\":{count}}}\n")
        };
        let lines: String = some.iter().map(line).collect();
        let write = ClientRequest::new("POST", "/events").body(lines.into_bytes());
        let answer = world.run(client.ask(write)).expect("no fault");
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    world.run_for_ms(PROPAGATION_MS);
}

fn measure(counters: u64, are_equal: bool) {
    let world = deployed(1, Options::default());
    world.set_faults(Faults::NONE);
    world.set("TALLY_TABLETS", Some("16"));
    world.set(DIRECTORY_COUNT, Some("1"));
    let client = admin(&world, world.site("FRA", 1));
    count(&world, &client, 0..counters, |number| {
        count_of(number, are_equal)
    });
    let mut total: u64 = (0..counters)
        .map(|number| count_of(number, are_equal))
        .sum();
    println!("{}", if are_equal { "all equal" } else { "different" });
    let look = |what: &str, query: &str, total: u64| {
        world.run_for_ms(FORGOTTEN_MS);
        let path = format!("/top?prefix=page%2F&limit=100&{query}");
        let begun = Instant::now();
        let answer = world.run(client.get(&path)).expect("no fault");
        let took = begun.elapsed();
        let answer: Value = answer.json();
        assert_eq!(answer["total"].as_u64(), Some(total), "{answer}");
        println!("  {what}, {query}: {} µs", took.as_micros());
    };
    for query in ["by=value", "by=count&window=today", "by=count&window=7d"] {
        look("first look", query, total);
        look("again", query, total);
    }
    for changed in [1, 1_000, counters / 5] {
        count(&world, &client, 0..changed, |_| 5);
        total += 5 * changed;
        for query in ["by=value", "by=count&window=today", "by=count&window=7d"] {
            look(&format!("after {changed} changes"), query, total);
        }
    }
    world.crash(&directory(0));
    look("after a crash", "by=value", total);
    // The next day: those of seven days begin anew.
    world.run_for_ms(86_400_000);
    look("the window rolls", "by=count&window=7d", total);
    look("the window rolls", "by=count&window=today", 0);
}
