//! Clients that write.

use tally_simulation::{Answer, ClientRequest};

use super::digits::amount;
use super::oracle::{Moment, Outcome, Way};
use super::service::{AskResult, Service, id};

/// How often a write with a key is sent, at most: faults end before.
pub const TRIES_MAX: usize = 400;

/// Unique elements that clients name.
const ELEMENTS: u64 = 20;

/// The longest pause between two tries, milliseconds.
pub const TRY_AGAIN_MS: u64 = 3_000;

/// The request of a write, without its body.
pub fn request(counter: usize, adds: bool) -> ClientRequest {
    let call = if adds { "increment" } else { "decrement" };
    let path = format!("/counters/{}/{call}?numbers=string", id(counter));
    ClientRequest::new("POST", path)
}

/// The body of a write.
pub fn delta(slot: usize, extras: &str) -> String {
    format!(r#"{{"delta":"{}"{extras}}}"#, amount(slot))
}

impl Service {
    /// What an increment says of itself, as a field of its body: in worlds with dimensions one of three values, or
    /// nothing.
    pub fn dimension_field(&self, counter: usize, slot: usize) -> String {
        if !self.plan.has_dimensions || slot % 4 == 3 {
            return String::new();
        }
        let value = slot % 3;
        self.counters[counter].borrow_mut().writes[slot].dimension = Some(value);
        format!(r#","by":{{"third":"{value}"}}"#)
    }

    /// Draws what an increment brings besides: a unique element, a sample, and what it says of itself.
    pub fn extras(&self, counter: usize, slot: usize) -> String {
        let chance = self.world.chance();
        let mut extras = self.dimension_field(counter, slot);
        let mut known = self.counters[counter].borrow_mut();
        let write = &mut known.writes[slot];
        if self.plan.has_elements && chance.once_in(2) {
            let element = format!("visitor-{}", chance.below(ELEMENTS));
            extras.push_str(&format!(r#","unique":"{element}""#));
            write.element = Some(element);
        }
        if self.plan.has_samples && chance.once_in(2) {
            extras.push_str(&format!(r#","sample":{}.5"#, chance.below(1_000)));
            write.has_sample = true;
        }
        extras
    }

    /// Holds the answer to a write against the laws.
    pub fn check_written(
        &self,
        counter: usize,
        slot: usize,
        answer: &Answer,
        begun: Moment,
        what: &str,
    ) {
        let seen = self.check(counter, answer, begun, None, what);
        let is_gone = self.counters[counter]
            .borrow()
            .is_maybe_gone(slot, self.now());
        assert!(
            seen.slots.contains(&slot) || is_gone,
            "{what}: its own value lacks it: {}",
            answer.text()
        );
    }

    /// Writes once, whatever comes of it.
    pub async fn write(&self, site: usize, counter: usize, adds: bool) {
        let begun = self.now();
        let slot = self.counters[counter]
            .borrow_mut()
            .begin(adds, Way::Direct, begun);
        let Some(slot) = slot else { return };
        let what = format!("write {slot} of {}", id(counter));
        let extras = if adds {
            self.extras(counter, slot)
        } else {
            String::new()
        };
        let ask = request(counter, adds).json(delta(slot, &extras));
        let result = self.ask(site, ask, &what).await;
        self.say(|| format!("{what} is told {result:?}"));
        let outcome = self.outcome(&result);
        self.counters[counter]
            .borrow_mut()
            .record_outcome(slot, outcome, &what);
        if let AskResult::Done(answer) = result {
            self.check_written(counter, slot, &answer, begun, &what);
        }
    }

    /// Writes under a key until it is answered, and once more then from anywhere; another client may send something
    /// else under that key.
    pub async fn write_keyed(&self, site: usize, counter: usize, adds: bool) {
        let chance = self.world.chance();
        let begun = self.now();
        let slot = self.counters[counter]
            .borrow_mut()
            .begin(adds, Way::Direct, begun);
        let Some(slot) = slot else { return };
        let key = format!("key-{slot}");
        let rival = match chance.once_in(6) {
            true => self.counters[counter]
                .borrow_mut()
                .begin(true, Way::Direct, begun),
            false => None,
        };
        if let Some(rival) = rival {
            self.counters[counter].borrow_mut().rival(slot, rival);
            let mine = self.insist(site, counter, (slot, adds), &key);
            let other = self.insist(self.any_site(), counter, (rival, true), &key);
            futures_util::future::join(mine, other).await;
        } else {
            self.insist(site, counter, (slot, adds), &key).await;
        }
    }

    /// Sends a write under a key until its outcome is known; then once more, which must be answered alike.
    async fn insist(&self, site: usize, counter: usize, (slot, adds): (usize, bool), key: &str) {
        let what = format!("write {slot} of {} under {key}", id(counter));
        let chance = self.world.chance();
        let begun = self.now();
        let extras = if adds {
            self.extras(counter, slot)
        } else {
            String::new()
        };
        let mut first: Option<serde_json::Value> = None;
        for _ in 0..TRIES_MAX {
            let ask = request(counter, adds).json(delta(slot, &extras));
            let ask = ask.header("idempotency-key", key);
            let result = self.ask(site, ask, &what).await;
            self.say(|| format!("{what} is told {result:?}"));
            let mut known = self.counters[counter].borrow_mut();
            let outcome = match &result {
                AskResult::Done(_) => Outcome::Acknowledged(self.now()),
                AskResult::Unknown(_) => Outcome::Unknown,
                AskResult::Refused(code) => match code.as_str() {
                    "overloaded" => Outcome::Unknown,
                    "counter-ended" => Outcome::Ended(self.now()),
                    "idempotency-key-reused" => {
                        let is_shared = !known.writes[slot].rivals.is_empty();
                        assert!(is_shared, "{what}: nobody else has its key");
                        Outcome::Refused
                    }
                    "below-floor" => Outcome::Refused,
                    // It says nothing of the attempts before.
                    "needs-home" => return,
                    code => panic!("{what}: {code}"),
                },
            };
            known.record_outcome(slot, outcome, &what);
            drop(known);
            if let AskResult::Done(answer) = &result {
                let json = answer.json();
                if let Some(first) = &first {
                    assert_eq!(first, &json, "{what} is answered in two ways");
                    return;
                }
                self.check_written(counter, slot, answer, begun, &what);
                first = Some(json);
                if chance.once_in(2) {
                    return;
                }
            }
            if matches!(outcome, Outcome::Refused | Outcome::Ended(_)) {
                return;
            }
            self.world.sleep_ms(chance.below(TRY_AGAIN_MS)).await;
        }
        panic!("{what} is never answered");
    }
}
