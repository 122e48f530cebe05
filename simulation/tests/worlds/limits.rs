//! Clients of rate limits, and the law of limits against plain sums.
//!
//! Law: what was admitted in any interval is at most what the policy says of one of its length, and what was given
//! back meanwhile; whatever is lost, late or crashes. At rest a key has all of its quota again, and no more.
//!
//! When something was admitted lies between its question and its answer. So an interval counts what was asked and
//! answered within.

use std::cell::RefCell;

use tally_core::limit::table::RESERVED_MS_MAX;
use tally_simulation::{Chance, ClientRequest};

use super::oracle::Moment;
use super::puts::{Puts, Unread};
use super::service::{AskResult, Service};
use super::writes::TRIES_MAX;

/// Keys of a world that are limited.
const KEYS: [&str; 2] = ["bob", "eve"];

/// Limits, with the most that a check costs.
const LIMITS: [(u64, u64); 4] = [(3, 1), (10, 4), (1_000, 300), (5_000, 900)];

/// How a limit counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Algorithm {
    Sliding,
    Precise,
    Fixed,
    Bucket,
}

/// How the limits of a world are.
#[derive(Clone, Debug)]
pub struct Plan {
    pub clients: usize,
    algorithm: Algorithm,
    is_global: bool,
    window_seconds: u64,
    limit: u64,
    cost_max: u64,
    /// Policies change, once in so many actions.
    changes: u64,
    pause_ms: u64,
}

impl Plan {
    pub fn draw(chance: &Chance) -> Self {
        let algorithms = [
            Algorithm::Sliding,
            Algorithm::Precise,
            Algorithm::Fixed,
            Algorithm::Bucket,
        ];
        let algorithm = algorithms[chance.pick(4)];
        // The times of at most 1,000 are kept.
        let limits = if algorithm == Algorithm::Precise {
            3
        } else {
            4
        };
        let (limit, cost_max) = LIMITS[chance.pick(limits)];
        Self {
            clients: 1 + chance.pick(4),
            algorithm,
            is_global: chance.once_in(2),
            window_seconds: [5, 10, 60][chance.pick(3)],
            limit,
            cost_max,
            changes: [0, 12][chance.pick(2)],
            pause_ms: [5, 100, 2_000][chance.pick(3)],
        }
    }

    /// The policy with another limit. What is not written at once may be forgotten by a crash.
    fn policy(&self, limit: u64) -> String {
        let algorithm = match self.algorithm {
            Algorithm::Sliding => r#""algorithm":"sliding-window""#,
            Algorithm::Precise => r#""algorithm":"sliding-window","precise":true"#,
            Algorithm::Fixed => r#""algorithm":"fixed-window""#,
            Algorithm::Bucket => r#""algorithm":"token-bucket""#,
        };
        let scope = if self.is_global {
            "global"
        } else {
            "datacenter"
        };
        let window = self.window_seconds;
        format!(
            r#"{{"limit":{limit},"window_seconds":{window},{algorithm},"scope":"{scope}","on_error":"closed","durability":"commit"}}"#
        )
    }

    fn window_ms(&self) -> i64 {
        i64::try_from(self.window_seconds * 1_000).expect("seconds")
    }
}

/// What was admitted, or given back.
#[derive(Clone, Debug)]
struct Use {
    datacenter: &'static str,
    key: usize,
    cost: u64,
    begun: Moment,
    /// None where nobody knows.
    ended: Option<Moment>,
}

/// What clients of limits know.
#[derive(Debug, Default)]
pub struct Known {
    puts: RefCell<Puts>,
    admitted: RefCell<Vec<Use>>,
    given_back: RefCell<Vec<Use>>,
}

impl Service {
    fn limit_plan(&self) -> &Plan {
        self.plan.limits.as_ref().expect("a world with limits")
    }

    /// Makes the policy, before anything goes wrong.
    pub async fn prepare_limits(&self) {
        let limit = self.limit_plan().limit;
        let is_done = || self.limits.puts.borrow().is_made();
        // A client may hang up even then.
        for _ in 0..TRIES_MAX {
            if !is_done() {
                self.put_limit(0, limit).await;
            }
        }
        assert!(is_done());
    }

    async fn put_limit(&self, site: usize, limit: u64) {
        let begun = self.now();
        let place = self.limits.puts.borrow_mut().begin(limit, begun);
        let ask = ClientRequest::new("PUT", "/limits/calls").json(self.limit_plan().policy(limit));
        let what = format!("the limit is {limit}");
        let result = self.ask(site, ask, &what).await;
        self.say(|| format!("{what} is told {result:?}"));
        if let AskResult::Done(_) = result {
            let now = self.now();
            self.limits.puts.borrow_mut().end(place, now);
        }
    }

    /// Does what a client of limits does.
    pub async fn use_limits(&self, client: usize) {
        let chance = self.world.chance();
        let plan = self.limit_plan();
        let home = client % self.sites.len();
        for _ in 0..3 * self.plan.actions {
            self.world.sleep_ms(chance.below(plan.pause_ms + 1)).await;
            if chance.once_in(40) {
                self.world.sleep_ms(plan.window_seconds * 500).await;
            }
            let site = if chance.once_in(4) {
                self.any_site()
            } else {
                home
            };
            if chance.once_in(plan.changes) {
                let limit = [plan.limit, plan.limit * 2, plan.limit / 2 + 1][chance.pick(3)];
                self.put_limit(site, limit).await;
                continue;
            }
            let key = chance.pick(KEYS.len());
            let cost = chance.between(1, plan.cost_max);
            match chance.below(20) {
                0 | 1 => self.give_back(site, key, cost).await,
                2 => self.check_both(site, cost).await,
                3 => drop(self.look_at(site, key).await),
                _ => self.check_limit(site, key, cost).await,
            }
        }
    }

    async fn check_limit(&self, site: usize, key: usize, cost: u64) {
        let ask = ClientRequest::new("POST", format!("/limits/calls/{}", KEYS[key]));
        let ask = ask.json(format!(r#"{{"cost":{cost}}}"#));
        self.consume(site, ask, &[(key, cost)]).await;
    }

    async fn check_both(&self, site: usize, cost: u64) {
        let check = |key: &str| format!(r#"{{"policy":"calls","key":"{key}","cost":{cost}}}"#);
        let checks = KEYS.map(check).join(",");
        let ask = ClientRequest::new("POST", "/limits").json(format!(r#"{{"checks":[{checks}]}}"#));
        self.consume(site, ask, &[(0, cost), (1, cost)]).await;
    }

    async fn consume(&self, site: usize, ask: ClientRequest, costs: &[(usize, u64)]) {
        let begun = self.now();
        let what = format!("check {costs:?}");
        let result = self.ask(site, ask, &what).await;
        self.say(|| format!("{what} is told {result:?}"));
        match result {
            AskResult::Done(answer) => {
                assert_eq!(answer.header("tally-on-error"), None, "{what}");
                let ended = Some(self.now());
                let datacenter = self.plan.datacenter(site);
                let uses = costs.iter().map(|&(key, cost)| Use {
                    datacenter,
                    key,
                    cost,
                    begun,
                    ended,
                });
                self.limits.admitted.borrow_mut().extend(uses);
            }
            AskResult::Refused(code) => {
                let known = ["rate-limited", "quota-exceeded", "overloaded"];
                assert!(known.contains(&code.as_str()), "{what}: {code}");
            }
            AskResult::Unknown(_) => {}
        }
    }

    async fn give_back(&self, site: usize, key: usize, cost: u64) {
        let mut given_back = self.limits.given_back.borrow_mut();
        let (place, datacenter, begun) = (given_back.len(), self.plan.datacenter(site), self.now());
        given_back.push(Use {
            datacenter,
            key,
            cost,
            begun,
            ended: None,
        });
        drop(given_back);
        let ask = ClientRequest::new("POST", format!("/limits/calls/{}/refund", KEYS[key]));
        let ask = ask.json(format!(r#"{{"cost":{cost}}}"#));
        let result = self.ask(site, ask, "refund").await;
        self.say(|| format!("a refund of {cost} to {key} is told {result:?}"));
        if let AskResult::Done(_) = result {
            self.limits.given_back.borrow_mut()[place].ended = Some(self.now());
        }
    }

    /// What a key has left.
    async fn look_at(&self, site: usize, key: usize) -> Option<u64> {
        let ask = ClientRequest::new("GET", format!("/limits/calls/{}", KEYS[key]));
        match self.ask(site, ask, "look").await {
            AskResult::Done(answer) => answer.json()["remaining"].as_u64(),
            _ => None,
        }
    }

    /// Holds all that was admitted against the law.
    pub fn check_admitted(&self) {
        let mut datacenters: Vec<&str> = (0..self.sites.len())
            .map(|site| self.plan.datacenter(site))
            .collect();
        datacenters.dedup();
        let unread = Unread::of(&self.world.calls());
        for key in 0..KEYS.len() {
            if self.limit_plan().is_global {
                self.check_uses(key, None, &unread);
                continue;
            }
            for datacenter in &datacenters {
                self.check_uses(key, Some(datacenter), &unread);
            }
        }
    }

    fn check_uses(&self, key: usize, datacenter: Option<&str>, unread: &Unread) {
        let is_it =
            |one: &&Use| one.key == key && datacenter.is_none_or(|name| one.datacenter == name);
        let admitted = self.limits.admitted.borrow();
        let admitted: Vec<&Use> = admitted.iter().filter(is_it).collect();
        let given_back = self.limits.given_back.borrow();
        let given_back: Vec<&Use> = given_back.iter().filter(is_it).collect();
        let window_ms = self.limit_plan().window_ms();
        let clocks = self.limiter_clocks();
        for first in &admitted {
            let from_ms = first.begun.at_ms;
            // The boundaries of a fixed window are by the limiter's time, which keeps all that it has gained.
            let gained_from_ms = match self.limit_plan().algorithm {
                Algorithm::Fixed => i64::MIN,
                _ => from_ms,
            };
            let gained_ms = clocks.gained_ms(gained_from_ms, from_ms + window_ms);
            // Two clocks may be so far apart besides, and moments are whole milliseconds.
            let clocks_ms = 2 * self.plan.options.skew_ms_max + 2 + gained_ms;
            let upto_ms = match self.limit_plan().algorithm {
                Algorithm::Fixed => (from_ms / window_ms + 1) * window_ms - clocks_ms,
                _ => from_ms + window_ms - clocks_ms,
            };
            if self.limit_plan().algorithm == Algorithm::Fixed && from_ms % window_ms < clocks_ms {
                continue;
            }
            if upto_ms <= from_ms {
                continue;
            }
            let is_in = |one: &&&Use| {
                one.begun.at_ms >= from_ms && one.ended.is_some_and(|at| at.at_ms < upto_ms)
            };
            let used: u64 = admitted.iter().filter(is_in).map(|one| one.cost).sum();
            // A refund may take back what a reservation holds. If that is cancelled, it gives back its cost once more.
            let may_be_in = |one: &&&Use| {
                one.begun.at_ms < upto_ms
                    && one
                        .ended
                        .is_none_or(|at| at.at_ms + RESERVED_MS_MAX >= from_ms)
            };
            let returned: u64 = given_back
                .iter()
                .filter(may_be_in)
                .map(|one| one.cost)
                .sum();
            let skew_ms = self.plan.options.skew_ms_max;
            let puts = self.limits.puts.borrow();
            let limit = puts.largest(from_ms, upto_ms, skew_ms, unread);
            let flows = match self.limit_plan().algorithm {
                // A burst, and what flows in meanwhile.
                Algorithm::Bucket => limit,
                _ => 0,
            };
            assert!(
                used <= limit + flows + returned,
                "{} of {datacenter:?}: {used} were admitted from {from_ms} to {upto_ms}, {limit} is the limit, {returned} were given back",
                KEYS[key]
            );
        }
    }

    /// Nothing is used any more: a key has its quota, and no more.
    pub async fn check_limits_at_rest(&self) {
        let last = self.limits.puts.borrow().last();
        let Some(last) = last else { return };
        for (key, name) in KEYS.iter().enumerate() {
            for site in 0..self.sites.len() {
                let left = self.look_at(site, key).await;
                // None where the client hung up.
                assert_eq!(left.unwrap_or(last), last, "{name} at rest");
            }
        }
    }
}
