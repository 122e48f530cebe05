//! Owners, who change counters as a whole, and writes that depend on what was seen.

use tally_simulation::{Answer, ClientRequest};

use super::digits::{amount, set_to};
use super::oracle::{Clear, Moment, Outcome, Way};
use super::plan::Topic;
use super::service::{AskResult, Reader, Service, id};
use super::writes::{TRIES_MAX, TRY_AGAIN_MS, delta, request};

/// Times to live, seconds.
const TTL_SECONDS: [u64; 3] = [2, 10, 60];

/// Shards that may be fixed.
const SHARDS: [u64; 4] = [1, 2, 4, 8];

/// What an owner asks for, and what it is to the oracle.
struct Operation {
    ask: ClientRequest,
    /// The place among the clearings, if it is one.
    clearing: Option<usize>,
    /// The place among the settings, if it is some.
    put: Option<usize>,
    key: Option<String>,
    /// Whether it makes the counter where there is none.
    creates: bool,
    what: String,
}

impl Service {
    fn operation(&self, counter: usize, ask: ClientRequest, what: &str) -> Operation {
        let chance = self.world.chance();
        let key = (chance.once_in(3)).then(|| format!("operation-{}", self.now().order));
        Operation {
            ask,
            clearing: None,
            put: None,
            key,
            creates: false,
            what: format!("{what} of {}", id(counter)),
        }
    }

    /// Sets a counter, or resets it.
    pub async fn set(&self, site: usize, counter: usize, is_reset: bool) {
        let path = format!("/counters/{}", id(counter));
        let (number, ask) = match is_reset {
            true => (
                0,
                ClientRequest::new("PUT", format!("{path}/value?numbers=string"))
                    .json(r#"{"value":0}"#),
            ),
            false => {
                let number = self.counters[counter].borrow_mut().next_set();
                let ask = ClientRequest::new("PUT", format!("{path}/value?numbers=string"));
                let body = format!(r#"{{"value":"{}"}}"#, set_to(number));
                (number, ask.json(body))
            }
        };
        let mut operation = self.operation(counter, ask, &format!("set {number}"));
        let begun = self.now();
        let clearing = self.counters[counter]
            .borrow_mut()
            .clear(Clear::Set(number), begun);
        operation.clearing = Some(clearing);
        operation.creates = true;
        self.operate(site, counter, operation).await;
    }

    /// Deletes a counter.
    pub async fn delete(&self, site: usize, counter: usize) {
        let ask = ClientRequest::new("DELETE", format!("/counters/{}", id(counter)));
        let mut operation = self.operation(counter, ask, "deletion");
        let begun = self.now();
        let clearing = self.counters[counter]
            .borrow_mut()
            .clear(Clear::Delete, begun);
        operation.clearing = Some(clearing);
        self.operate(site, counter, operation).await;
    }

    /// Puts settings: shards, a time to live, a home and a floor.
    pub async fn put(&self, site: usize, counter: usize) {
        let chance = self.world.chance();
        let mut fields = Vec::new();
        // Where one datacenter decides, one cell does.
        let has_shards = chance.once_in(3) && self.plan.topic != Some(Topic::Moves);
        if has_shards {
            fields.push(format!(r#""shards":{}"#, SHARDS[chance.pick(SHARDS.len())]));
        }
        let mut ttl = None;
        if self.plan.has_expiry && chance.once_in(2) {
            let seconds = TTL_SECONDS[chance.pick(TTL_SECONDS.len())];
            let is_sliding = chance.once_in(2);
            let mode = if is_sliding { "sliding" } else { "fixed" };
            fields.push(format!(r#""ttl_seconds":{seconds},"ttl_mode":"{mode}""#));
            let ttl_ms = i64::try_from(seconds * 1_000).expect("few seconds");
            ttl = Some((ttl_ms, is_sliding));
        }
        if !has_shards && (chance.once_in(2) || self.plan.topic == Some(Topic::Moves)) {
            let home = self.plan.datacenter(chance.pick(self.sites.len()));
            fields.push(format!(r#""home":"{home}""#));
        }
        let mut floor = None;
        if !has_shards && self.plan.has_floors && !chance.once_in(3) {
            let least = [0, i128::from(amount(3)), -i128::from(amount(9))][chance.pick(3)];
            fields.push(format!(r#""floor":{least}"#));
            floor = Some(least);
        }
        if self.plan.is_redis {
            fields.push(r#""unique_hash":"redis""#.to_owned());
        }
        let ask = ClientRequest::new("PUT", format!("/counters/{}?numbers=string", id(counter)));
        let ask = ask.json(format!("{{{}}}", fields.join(",")));
        let mut operation = self.operation(counter, ask, &format!("put {fields:?}"));
        let begun = self.now();
        let mut known = self.counters[counter].borrow_mut();
        if let Some((ttl_ms, is_sliding)) = ttl {
            known.clear(Clear::Expiry(ttl_ms, is_sliding), begun);
        }
        operation.put = Some(known.put(floor, begun));
        operation.creates = true;
        drop(known);
        self.operate(site, counter, operation).await;
    }

    /// Asks for an operation; under a key, until it is known what became of it, and once more then.
    async fn operate(&self, site: usize, counter: usize, operation: Operation) {
        let (chance, what) = (self.world.chance(), &operation.what);
        let mut first: Option<serde_json::Value> = None;
        for tries in 0..TRIES_MAX {
            let begun = self.now();
            let ask = match &operation.key {
                Some(key) => operation
                    .ask
                    .clone()
                    .header("idempotency-key", key.as_str()),
                None => operation.ask.clone(),
            };
            let result = self.ask(site, ask, what).await;
            self.say(|| format!("{what} is told {result:?}"));
            let is_first = first.is_none();
            let is_known = match &result {
                AskResult::Done(answer) => {
                    let json = answer.json();
                    if let Some(first) = &first {
                        assert_eq!(first, &json, "{what} is answered in two ways");
                    }
                    first = Some(json);
                    if is_first {
                        // What an attempt before has done may have been finished since.
                        self.was_done(counter, &operation, (answer, tries > 0), begun);
                    }
                    !is_first || operation.key.is_none() || chance.once_in(2)
                }
                AskResult::Refused(code) if code == "overloaded" => false,
                AskResult::Refused(code) => {
                    let known = [
                        "counter-not-found",
                        "below-floor",
                        "needs-home",
                        "precondition-failed",
                    ];
                    assert!(known.contains(&code.as_str()), "{what}: {code}");
                    let is_missing = code == "counter-not-found";
                    assert!(!is_missing || !operation.creates, "{what}: {code}");
                    assert!(is_first, "{what}: {code} after it was done");
                    // An attempt before may be on its way still.
                    if tries == 0 {
                        self.was_refused(counter, &operation);
                    }
                    true
                }
                AskResult::Unknown(_) => false,
            };
            if is_known || operation.key.is_none() {
                return;
            }
            self.world.sleep_ms(chance.below(TRY_AGAIN_MS)).await;
        }
        // It may be that a datacenter which must answer does not, for as long as there are faults.
        self.say(|| format!("{what} is never answered"));
    }

    fn was_done(
        &self,
        counter: usize,
        operation: &Operation,
        (answer, is_repeat): (&Answer, bool),
        begun: Moment,
    ) {
        let now = self.now();
        let json = answer.json();
        let is_loose = is_repeat
            || json["pending_datacenters"]
                .as_array()
                .is_some_and(|all| !all.is_empty());
        let mut known = self.counters[counter].borrow_mut();
        if let Some(place) = operation.clearing {
            let clearing = &mut known.clearings[place];
            clearing.outcome = Outcome::Acknowledged(now);
            clearing.is_loose = is_loose && clearing.clear != Clear::Delete;
        }
        if let Some(place) = operation.put {
            known.was_put(place, Outcome::Acknowledged(now));
        }
        drop(known);
        if !json["value"].is_null() {
            let begun = operation.key.is_none().then_some(begun);
            // The answer to a repeat is that of then.
            if let Some(begun) = begun {
                self.check(counter, answer, begun, None, &operation.what);
            }
        }
    }

    fn was_refused(&self, counter: usize, operation: &Operation) {
        let mut known = self.counters[counter].borrow_mut();
        if let Some(place) = operation.clearing {
            known.clearings[place].outcome = Outcome::Refused;
        }
        if let Some(place) = operation.put {
            known.was_put(place, Outcome::Refused);
        }
    }

    /// Writes if nothing has changed since the reader looked.
    pub async fn write_if(&self, site: usize, counter: usize, reader: &Reader) {
        let Some((version, held)) = reader else {
            return;
        };
        let chance = self.world.chance();
        let adds = !chance.once_in(4);
        let begun = self.now();
        let slot = self.counters[counter]
            .borrow_mut()
            .begin(adds, Way::Direct, begun);
        let Some(slot) = slot else { return };
        let what = format!("write {slot} of {} if {version}", id(counter));
        let dimensions = match adds {
            true => self.dimension_field(counter, slot),
            false => String::new(),
        };
        let ask = request(counter, adds)
            .json(delta(slot, &dimensions))
            .header("if-match", format!("\"{version}\""));
        let result = self.ask(site, ask, &what).await;
        self.say(|| format!("{what} is told {result:?}"));
        let outcome = self.outcome(&result);
        let mut known = self.counters[counter].borrow_mut();
        known.record_outcome(slot, outcome, &what);
        if let AskResult::Done(_) = &result {
            known.matched(version, held, slot, &what);
        }
        drop(known);
        if let AskResult::Done(answer) = result {
            self.check_written(counter, slot, &answer, begun, &what);
        }
    }
}
