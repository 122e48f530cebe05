//! Clients that send many lines in one body, queued events, and registers of unique elements.

use std::collections::BTreeSet;

use tally_simulation::{Answer, ClientRequest};

use super::digits::amount;
use super::oracle::{Outcome, Way};
use super::service::{AskResult, Service, id};
use super::writes::{TRIES_MAX, TRY_AGAIN_MS};

/// Lines of a body, at most.
const LINES_MAX: u64 = 6;

/// How long ago a line of a log is, milliseconds: in the past of every clock.
const PAST_MS: (u64, u64) = (200_000, 900_000);

/// The write of each line: counter and slot.
type Lines = Vec<(usize, usize)>;

impl Service {
    /// Sends a body of several lines, with a key until each line is answered for.
    pub async fn send_body(&self, site: usize, is_log: bool) {
        let chance = self.world.chance();
        let mut lines = Lines::new();
        let mut texts = Vec::new();
        for _ in 0..chance.between(1, LINES_MAX) {
            let counter = chance.pick(self.counters.len());
            let begun = self.now();
            let slot = self.counters[counter]
                .borrow_mut()
                .begin(true, Way::Direct, begun);
            let Some(slot) = slot else { continue };
            let mut fields = format!(r#""id":"{}","delta":{}"#, id(counter), amount(slot));
            if is_log {
                let ago_ms = i64::try_from(chance.between(PAST_MS.0, PAST_MS.1)).expect("minutes");
                let at = (self.world.now_ms() - ago_ms).div_euclid(1_000);
                self.counters[counter].borrow_mut().writes[slot].dated_ms = at * 1_000;
                fields.push_str(&format!(r#","at":{at}"#));
                fields.push_str(&self.dimension_field(counter, slot));
            } else {
                fields.push_str(&self.extras(counter, slot));
            }
            lines.push((counter, slot));
            texts.push(format!("{{{fields}}}\n"));
        }
        let path = if is_log {
            "/ingest?format=ndjson&id=path"
        } else {
            "/events"
        };
        let key = (!chance.once_in(3)).then(|| format!("body-{}", self.now().order));
        let what = format!("body {key:?} of {lines:?}");
        for _ in 0..TRIES_MAX {
            if lines.is_empty() {
                return;
            }
            let mut ask = ClientRequest::new("POST", path).body(texts.concat());
            if let Some(key) = &key {
                ask = ask.header("idempotency-key", key.as_str());
            }
            let result = self.ask(site, ask, &what).await;
            self.say(|| format!("{what} is told {result:?}"));
            let is_known = self.was_counted(&lines, &result, key.is_some(), &what);
            if is_known && chance.once_in(2) || key.is_none() {
                return;
            }
            self.world.sleep_ms(chance.below(TRY_AGAIN_MS)).await;
            if is_known && chance.once_in(2) {
                return;
            }
        }
        panic!("{what} is never answered");
    }

    /// Notes what became of each line. Returns whether all of that is known for good.
    fn was_counted(&self, lines: &Lines, result: &AskResult, has_key: bool, what: &str) -> bool {
        let answer = match result {
            AskResult::Done(answer) => answer,
            AskResult::Refused(code) => {
                assert_eq!(code, "overloaded", "{what}");
                if !has_key {
                    for (counter, slot) in lines {
                        self.counters[*counter].borrow_mut().record_outcome(
                            *slot,
                            Outcome::Refused,
                            what,
                        );
                    }
                }
                return false;
            }
            AskResult::Unknown(_) => return false,
        };
        let codes = failed(answer);
        let mut is_known = true;
        for (line, (counter, slot)) in (1..).zip(lines) {
            let code = codes.iter().find(|(failed, _)| *failed == line);
            let outcome = match code.map(|(_, code)| code.as_str()) {
                None => Outcome::Acknowledged(self.now()),
                Some("counter-ended") => Outcome::Ended(self.now()),
                Some("overloaded") if !has_key => Outcome::Refused,
                Some("unavailable" | "overloaded") => Outcome::Unknown,
                Some(code) => panic!("{what}: line {line}: {code}"),
            };
            is_known &= outcome != Outcome::Unknown;
            self.counters[*counter]
                .borrow_mut()
                .record_outcome(*slot, outcome, what);
        }
        is_known
    }

    /// Sends an event, which is counted later; with a key until it is acknowledged.
    pub async fn send_event(&self, site: usize, counter: usize) {
        let chance = self.world.chance();
        let begun = self.now();
        let slot = self.counters[counter]
            .borrow_mut()
            .begin(true, Way::Queued, begun);
        let Some(slot) = slot else { return };
        let key = chance.once_in(2).then(|| format!("event-{slot}"));
        let what = format!("event {slot} of {} under {key:?}", id(counter));
        for _ in 0..TRIES_MAX {
            let body = format!(
                r#"{{"key":"{}","increment":{}}}"#,
                id(counter),
                amount(slot)
            );
            let mut ask = ClientRequest::new("POST", "/api/event").json(body);
            if let Some(key) = &key {
                ask = ask.header("idempotency-key", key.as_str());
            }
            let result = self.ask(site, ask, &what).await;
            self.say(|| format!("{what} is told {result:?}"));
            let outcome = match &result {
                AskResult::Done(_) => Outcome::Acknowledged(self.now()),
                AskResult::Refused(code) if code == "overloaded" && key.is_some() => {
                    Outcome::Unknown
                }
                AskResult::Refused(code) if code == "overloaded" => Outcome::Refused,
                AskResult::Refused(code) if code == "counter-ended" => Outcome::Ended(self.now()),
                AskResult::Refused(code) => panic!("{what}: {code}"),
                AskResult::Unknown(_) => Outcome::Unknown,
            };
            self.counters[counter]
                .borrow_mut()
                .record_outcome(slot, outcome, &what);
            if key.is_none() || outcome != Outcome::Unknown && chance.once_in(2) {
                return;
            }
            self.world.sleep_ms(chance.below(TRY_AGAIN_MS)).await;
        }
    }

    /// Moves the unique elements of one counter into another, by Redis's registers.
    pub async fn import(&self, site: usize, counter: usize) {
        let from = self.world.chance().pick(self.counters.len());
        if from == counter {
            return;
        }
        let what = format!("import of {} into {}", id(from), id(counter));
        let least = self.counters[from].borrow().surely_seen();
        let path = format!("/uniques?id={}&format=hll&consistency=strong", id(from));
        let AskResult::Done(answer) = self.ask(site, ClientRequest::new("GET", path), &what).await
        else {
            return;
        };
        let is_exact = answer.header("tally-exact") == Some("true");
        let least = if is_exact { least } else { BTreeSet::new() };
        let most = self.counters[from].borrow().maybe_seen();
        let place = self.counters[counter].borrow_mut().import(least, most);
        let path = format!("/counters/{}/uniques/hll", id(counter));
        let result = self
            .ask(
                site,
                ClientRequest::new("PUT", path).body(answer.body),
                &what,
            )
            .await;
        self.say(|| format!("{what} is told {result:?}"));
        let outcome = self.outcome(&result);
        self.counters[counter].borrow_mut().imported(place, outcome);
    }
}

/// The lines that an answer names, and why they were not counted.
fn failed(answer: &Answer) -> Vec<(u64, String)> {
    let json = answer.json();
    let errors = json["errors"].as_array().cloned().unwrap_or_default();
    let errors = errors.iter().map(|error| {
        let code = error["code"].as_str().unwrap_or_default();
        (error["line"].as_u64().unwrap_or(0), code.to_owned())
    });
    errors.collect()
}
