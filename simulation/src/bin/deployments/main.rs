//! Simulated deployments over standard input and output, for tests that are not written in Rust.
//!
//! A line of JSON comes in, a line goes out, in turn. `{"open": {…}}` makes a deployment, and is answered by its
//! number. Each other line names a deployment and what is to happen there; it then runs until something has ended, or
//! somebody must decide what becomes of a call. What goes out holds the deployment's time and what has ended:
//!
//! `{"world": 1, "do": [{"fetch": {…}, "id": 7}, {"sleep": 100, "id": 8}]}` →
//! `{"now": 1767225600000, "events": [{"id": 7, …}]}`
//!
//! Bodies of requests follow their line as they are; `payload` says how many bytes all of them have.
//!
//! Invariant: nothing happens in a deployment between two lines, so a test that does the same is the same run.

mod deployment;
mod lines;

use std::collections::BTreeMap;
use std::io::{BufRead, Read, Write};

use serde_json::{Value, json};

use deployment::Deployment;

fn main() {
    let mut deployments = BTreeMap::new();
    let mut opened = 0_u64;
    let mut input = std::io::stdin().lock();
    let mut output = std::io::stdout().lock();
    loop {
        let mut line = String::new();
        let length = input.read_line(&mut line);
        if length.expect("whoever began this says lines of text") == 0 {
            return;
        }
        let request: Value = serde_json::from_str(&line).expect("each line is JSON");
        let mut payload = vec![0; lines::number(&request, "payload", 0)];
        let whole = input.read_exact(&mut payload);
        whole.expect("a line says how many bytes follow it");
        let answer = if let Some(options) = request.get("open") {
            opened += 1;
            deployments.insert(opened, Deployment::open(options));
            json!({ "world": opened })
        } else {
            let number = request["world"].as_u64().unwrap_or_default();
            let deployment = deployments.get_mut(&number);
            let deployment = deployment.expect("no deployment has this number");
            let answer = deployment.exchange(&request, &payload);
            if request["closes"] == true {
                deployments.remove(&number);
            }
            answer
        };
        let written = writeln!(output, "{answer}").and_then(|()| output.flush());
        if written.is_err() {
            // Whoever began this is gone.
            return;
        }
    }
}
