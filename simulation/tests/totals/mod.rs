//! What the directory has been told of counters, in whole services against plain integers.

mod away;
mod bodies;
mod breakdowns;
mod fleet;
mod lists;
mod pushes;
mod sums;
mod tops;
mod verdicts;

use tally_simulation::{
    Answer, Client, ClientRequest, Options, Site, World, admin as client, deployed,
};

/// By when everything is told that nobody writes any more: 8 s of quiet, or what a fault has made late.
const PROPAGATION_MS: u64 = 70_000;

fn service(seed: u64, options: Options) -> (World, [Site; 2]) {
    let world = deployed(seed, options);
    let sites = [world.site("FRA", 2), world.site("SYD", 2)];
    (world, sites)
}

fn get(world: &World, client: &Client, path: &str) -> serde_json::Value {
    let answer = world.run(client.get(path)).expect("no fault");
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    answer.json()
}

async fn ask(client: &Client, method: &str, path: &str, json: &str) -> Option<Answer> {
    let mut ask = ClientRequest::new(method, path);
    if !json.is_empty() {
        ask = ask.json(json);
    }
    let answer = client.ask(ask).await.ok();
    answer.filter(|answer| answer.status < 300)
}

/// What rows say by this name, and the count of each.
fn rows_of(answer: &serde_json::Value, name: &str) -> Vec<(String, i64)> {
    // A top is a list of counters, a breakdown has rows of values.
    let rows = answer.get("entries").unwrap_or(&answer["rows"]);
    let rows = rows.as_array().expect("rows").iter();
    rows.map(|row| {
        let text = row[name].as_str().expect("a text").to_owned();
        (text, row["count"].as_i64().expect("a number"))
    })
    .collect()
}
