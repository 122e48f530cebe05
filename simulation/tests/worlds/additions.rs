//! Clients that add to a member of a board, and to a number of Redis's dialect.
//!
//! Law: what a reader is told has every addition once that was acknowledged before it asked, or that any reader had
//! seen before; none twice, and none that was never sent. So has what an addition is answered with, and its own
//! besides. At rest every edge says the same.

use std::cell::RefCell;
use std::collections::BTreeSet;

use serde_json::{Value, json};
use tally_simulation::{Chance, ClientRequest};

use super::digits::{amount, decode};
use super::oracle::Moment;
use super::service::{AskResult, Service, whole};
use super::writes::{TRIES_MAX, TRY_AGAIN_MS};

/// Additions of a sum: 4^24 is a whole number of every double.
const ADDITIONS_MAX: usize = 24;

/// Shards that the board may have.
const SHARDS: [u32; 4] = [1, 2, 4, 1];

/// The member of the board that is added to.
const MEMBER: &str = "/boards/scores/members/ann";

/// What is added to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A member's score.
    Score,
    /// A number of Redis's dialect.
    Number,
}

const KINDS: [Kind; 2] = [Kind::Score, Kind::Number];

/// How these clients are.
#[derive(Clone, Debug)]
pub struct Plan {
    pub clients: usize,
    /// The board's shards change, once in so many actions.
    spreads: u64,
    pause_ms: u64,
}

impl Plan {
    pub fn draw(chance: &Chance) -> Self {
        Self {
            clients: 1 + chance.pick(4),
            spreads: [0, 8][chance.pick(2)],
            pause_ms: [5, 400, 4_000][chance.pick(3)],
        }
    }
}

/// An addition that was sent.
#[derive(Clone, Copy, Debug, Default)]
struct Addition {
    /// When a client knew first that it counts.
    known: Option<Moment>,
}

/// All additions to one sum.
#[derive(Debug, Default)]
pub struct Sum(Vec<Addition>);

impl Sum {
    /// Begins an addition, if there is one left. Returns its slot.
    fn begin(&mut self) -> Option<usize> {
        let slot = self.0.len();
        (slot < ADDITIONS_MAX).then(|| {
            self.0.push(Addition::default());
            slot
        })
    }

    fn know(&mut self, slot: usize, now: Moment) {
        self.0[slot].known.get_or_insert(now);
    }

    /// Holds what was told to somebody who asked at a moment against the law. Returns the additions in it.
    fn check(&mut self, value: i128, begun: Moment, now: Moment, what: &str) -> BTreeSet<usize> {
        let held = decode(value, &vec![true; self.0.len()]);
        let held = held.unwrap_or_else(|why| panic!("{what}: {why}"));
        assert_eq!(held.set, 0, "{what}");
        for (slot, addition) in self.0.iter().enumerate() {
            let is_due = addition.known.is_some_and(|known| known < begun);
            let is_held = held.slots.contains(&slot);
            assert!(is_held || !is_due, "{what}: {value} lacks addition {slot}");
        }
        for slot in &held.slots {
            self.know(*slot, now);
        }
        held.slots
    }
}

/// What these clients know, of each kind.
#[derive(Debug, Default)]
pub struct Known([RefCell<Sum>; KINDS.len()]);

impl Known {
    fn of(&self, kind: Kind) -> &RefCell<Sum> {
        match kind {
            Kind::Score => &self.0[0],
            Kind::Number => &self.0[1],
        }
    }
}

fn command(words: Value) -> ClientRequest {
    ClientRequest::new("POST", "/redis").json(words.to_string())
}

/// The sum in an answer, if it has one.
fn sum_in(kind: Kind, json: &Value) -> Option<i128> {
    match kind {
        Kind::Score => whole(&json["score"]),
        Kind::Number if json["result"].is_null() => Some(0),
        Kind::Number => whole(&json["result"]),
    }
}

impl Service {
    /// Makes the board, before anything goes wrong.
    pub async fn prepare_additions(&self) {
        self.spread_board(0, 1).await;
        let (first, what) = (self.now(), "the first addition");
        for kind in KINDS {
            self.add(0, kind).await;
            let sum = self.sum(0, kind, None).await.expect("no fault");
            self.additions
                .of(kind)
                .borrow_mut()
                .check(sum, first, self.now(), what);
        }
    }

    /// Does what a client does, one thing after the other.
    pub async fn use_additions(&self, client: usize) {
        let chance = self.world.chance();
        let plan = self.plan.additions.as_ref().expect("a world with them");
        let home = client % self.sites.len();
        for _ in 0..self.plan.actions {
            self.world.sleep_ms(chance.below(plan.pause_ms + 1)).await;
            let site = if chance.once_in(4) {
                self.any_site()
            } else {
                home
            };
            if chance.once_in(plan.spreads) {
                self.spread_board(site, SHARDS[chance.pick(SHARDS.len())])
                    .await;
                continue;
            }
            let kind = KINDS[chance.pick(KINDS.len())];
            match chance.once_in(3) {
                true => self.look_at_sum(site, kind).await,
                false => self.add(site, kind).await,
            }
        }
    }

    async fn spread_board(&self, site: usize, shards: u32) {
        let settings = json!({"keep": "sum", "scores": "integer", "shards": shards});
        let ask = ClientRequest::new("PUT", "/boards/scores").json(settings.to_string());
        let result = self.ask(site, ask, "spreading").await;
        self.say(|| format!("the board is spread over {shards}: {result:?}"));
    }

    /// Adds; to a score under a key, until it is answered.
    async fn add(&self, site: usize, kind: Kind) {
        let known = self.additions.of(kind);
        let Some(slot) = known.borrow_mut().begin() else {
            return;
        };
        let what = format!("addition {slot} to the {kind:?}");
        let ask = match kind {
            Kind::Score => ClientRequest::new("POST", MEMBER)
                .header("idempotency-key", format!("addition-{slot}"))
                .json(format!(r#"{{"delta":{}}}"#, amount(slot))),
            Kind::Number => command(json!(["INCRBY", "number", amount(slot).to_string()])),
        };
        for _ in 0..TRIES_MAX {
            let begun = self.now();
            let result = self.ask(site, ask.clone(), &what).await;
            self.say(|| format!("{what} is told {result:?}"));
            let json = match result {
                AskResult::Done(answer) => answer.json(),
                _ => Value::Null,
            };
            let is_done = json["error"].is_null() && json != Value::Null;
            if is_done {
                let now = self.now();
                let mut known = known.borrow_mut();
                known.know(slot, now);
                // One under a key is answered as it was first, which may be long ago.
                if kind == Kind::Number {
                    let sum = sum_in(kind, &json).expect("a number");
                    let held = known.check(sum, begun, now, &what);
                    assert!(held.contains(&slot), "{what}: {sum} lacks it");
                }
            }
            if is_done || kind == Kind::Number {
                return;
            }
            self.world
                .sleep_ms(self.world.chance().below(TRY_AGAIN_MS))
                .await;
        }
        panic!("{what} is never answered");
    }

    /// The sum that a reader is answered, if it is answered.
    async fn sum(&self, site: usize, kind: Kind, edge: Option<usize>) -> Option<i128> {
        let ask = match kind {
            Kind::Score => ClientRequest::new("GET", format!("{MEMBER}?consistency=strong")),
            Kind::Number => command(json!(["GET", "number"])),
        };
        let ask = edge.map_or(ask.clone(), |edge| ask.at(edge));
        let answer = self.client(site).ask(ask).await.ok()?;
        let json = answer.json();
        let is_done = answer.status == 200 && json["error"].is_null();
        is_done.then(|| sum_in(kind, &json).unwrap_or_else(|| panic!("{kind:?}: {json}")))
    }

    async fn look_at_sum(&self, site: usize, kind: Kind) {
        let begun = self.now();
        if let Some(sum) = self.sum(site, kind, None).await {
            let what = format!("a reader of the {kind:?} at {site}");
            self.say(|| format!("{what} is told {sum}"));
            let known = self.additions.of(kind);
            known.borrow_mut().check(sum, begun, self.now(), &what);
        }
    }

    /// At rest every edge says the same of each sum.
    pub async fn check_additions_at_rest(&self) {
        for kind in KINDS {
            let mut first = None;
            for site in 0..self.sites.len() {
                for edge in 0..self.plan.edges {
                    let begun = self.now();
                    let what = format!("edge {edge} of {site} at rest, of the {kind:?}");
                    let sum = self.sum(site, kind, Some(edge)).await;
                    let sum = sum.unwrap_or_else(|| panic!("{what}: no answer"));
                    let known = self.additions.of(kind);
                    known.borrow_mut().check(sum, begun, self.now(), &what);
                    assert_eq!(*first.get_or_insert(sum), sum, "{what}");
                }
            }
        }
    }
}
