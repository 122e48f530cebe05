//! Clients that hold quota before their work, and what must hold of that.
//!
//! # Laws
//! 1. Used and held are together at most the limit, at every instant: see `quota.rs`.
//! 2. A hold is there until its time ends. It ends once: who settles it again is told so, and nothing comes back.
//! 3. What is sent again under its key gets the first answer.
//! 4. Several policies are held together, or none. A refusal leaves nothing taken.
//! 5. At rest each key has all of its quota again, and nothing is held, though clients have vanished.

use std::cell::{Cell, RefCell};

use serde_json::{Value, json};
use tally_simulation::{Answer, Chance, ClientRequest, Role};
use tally_wire::names;

use super::oracle::Moment;
use super::puts::{Puts, Unread};
use super::quota::{Account, GivenBack, Hold, Kind, Part, Policy};
use super::service::{AskResult, Service};
use super::writes::{TRIES_MAX, TRY_AGAIN_MS};

/// Keys of a world that are limited.
const KEYS: [&str; 2] = ["bob", "eve"];

/// Limits, with the most that a call takes.
const LIMITS: [(u64, u64); 4] = [(3, 2), (10, 6), (1_000, 400), (5_000, 1_500)];

/// How often a client sends a call until it knows what became of it, before it gives up.
const PATIENCE: usize = 8;

/// How long the end of a hold is known at least, milliseconds: less than the hour that a call with a key is.
const KNOWN_MS: i64 = 3_000_000;

/// How the holds of a world are.
#[derive(Clone, Debug)]
pub struct Plan {
    pub clients: usize,
    policies: [Policy; 2],
    amount_max: u64,
    /// Limits change, once in so many actions.
    changes: u64,
    pause_ms: u64,
    /// Whether every check has a key. Messages to limiters may arrive twice then.
    pub is_keyed: bool,
    /// When limiters move.
    moves_after_ms: Option<u64>,
}

impl Plan {
    pub fn draw(chance: &Chance) -> Self {
        let (limit, amount_max) = LIMITS[chance.pick(LIMITS.len())];
        let policy = |name| Policy {
            name,
            kind: [Kind::Sliding, Kind::Fixed, Kind::Bucket, Kind::Concurrency][chance.pick(4)],
            is_global: chance.once_in(2),
            window_seconds: [5, 10, 60][chance.pick(3)],
            limit,
        };
        Self {
            clients: 2 + chance.pick(4),
            policies: [policy("tokens"), policy("tenant")],
            amount_max,
            changes: [0, 12][chance.pick(2)],
            pause_ms: [5, 100, 2_000][chance.pick(3)],
            is_keyed: chance.once_in(2),
            moves_after_ms: chance.once_in(2).then(|| chance.below(60_000)),
        }
    }
}

/// What clients of holds know.
#[derive(Debug, Default)]
pub struct Known {
    puts: [RefCell<Puts>; 2],
    parts: RefCell<Vec<Part>>,
    given_back: RefCell<Vec<GivenBack>>,
    /// How many keys of calls were used.
    calls: Cell<u64>,
    /// When limiters moved.
    pub moved_ms: Cell<Option<i64>>,
}

/// What an answer must repeat: all but the limit, which may have changed since.
fn promised(answer: &Answer) -> Value {
    let json = answer.json();
    let rests: Vec<&Value> = json["checks"].as_array().map_or_else(Vec::new, |checks| {
        checks.iter().map(|one| &one["remaining"]).collect()
    });
    json!([
        answer.status,
        json["allowed"],
        json["hold"]["id"],
        json["hold"]["amount"],
        json["settled"],
        json["returned"],
        json["over"],
        json["remaining"],
        rests,
    ])
}

impl Service {
    fn hold_plan(&self) -> &Plan {
        self.plan.holds.as_ref().expect("a world with holds")
    }

    /// Makes the policies, before anything goes wrong.
    pub async fn prepare_holds(&self) {
        for (policy, puts) in self.holds.puts.iter().enumerate() {
            // A client may hang up even then.
            for _ in 0..TRIES_MAX {
                if !puts.borrow().is_made() {
                    self.put_quota(0, policy, self.hold_plan().policies[policy].limit)
                        .await;
                }
            }
            assert!(puts.borrow().is_made());
        }
    }

    /// Sets how many limiters there are at first.
    pub fn place_limiters(&self) {
        if self.hold_plan().moves_after_ms.is_some() {
            self.world.set(names::LIMITER_COUNT, Some("2"));
        }
    }

    /// The number of limiters changes while clients hold quota; some of those who are told so start anew.
    pub async fn move_limiters(&self) {
        let Some(after_ms) = self.hold_plan().moves_after_ms else {
            return;
        };
        let chance = self.world.chance();
        self.world.sleep_ms(after_ms).await;
        self.say(|| "there are 5 limiters".to_owned());
        self.world.set(names::LIMITER_COUNT, Some("5"));
        self.holds.moved_ms.set(Some(self.world.now_ms()));
        for role in [Role::Objects, Role::Aggregator] {
            self.world
                .set_for(role, names::LIMITER_COUNT_BEFORE, Some("2"));
        }
        for _ in 0..4 {
            self.world.sleep_ms(chance.below(10_000)).await;
            match chance.below(3) {
                0 => self.world.crash_all_objects(),
                _ => {
                    let site = self.sites[self.any_site()];
                    self.world.crash_isolates(Role::Edge, site);
                }
            }
        }
    }

    async fn put_quota(&self, site: usize, policy: usize, limit: u64) {
        let begun = self.now();
        let place = self.holds.puts[policy].borrow_mut().begin(limit, begun);
        let Policy { name, .. } = self.hold_plan().policies[policy];
        let fields = self.hold_plan().policies[policy].fields(limit);
        let ask = ClientRequest::new("PUT", format!("/limits/{name}")).json(fields);
        let what = format!("the limit of {name} is {limit}");
        let result = self.ask(site, ask, &what).await;
        self.say(|| format!("{what} is told {result:?}"));
        if let AskResult::Done(_) = result {
            let now = self.now();
            self.holds.puts[policy].borrow_mut().end(place, now);
        }
    }

    /// Does what a client of holds does. It vanishes at its end, whatever it holds.
    pub async fn use_holds(&self, client: usize) {
        let chance = self.world.chance();
        let plan = self.hold_plan();
        // The places of the parts of each hold that is open.
        let mut open: Vec<Vec<usize>> = Vec::new();
        for _ in 0..4 * self.plan.actions {
            self.world.sleep_ms(chance.below(plan.pause_ms + 1)).await;
            if chance.once_in(40) {
                self.world.sleep_ms(chance.below(60_000)).await;
            }
            let site = match chance.once_in(4) {
                true => self.any_site(),
                false => client % self.sites.len(),
            };
            let (policy, key) = (chance.pick(2), chance.pick(KEYS.len()));
            if chance.once_in(plan.changes) {
                let limit = plan.policies[policy].limit;
                let limit = [limit, limit * 2, limit / 2 + 1][chance.pick(3)];
                self.put_quota(site, policy, limit).await;
                continue;
            }
            match chance.below(20) {
                0..=5 => open.extend(self.hold(site, &[policy], key).await),
                6..=8 => open.extend(self.hold(site, &[0, 1], key).await),
                9..=14 if !open.is_empty() => {
                    let parts = open.swap_remove(chance.pick(open.len()));
                    for part in parts {
                        self.end_hold(part).await;
                    }
                }
                // Another client takes its place, which knows none of its holds.
                15 => open.clear(),
                16 => self.return_quota(site, policy, key).await,
                _ => self.use_quota(site, policy, key).await,
            }
        }
    }

    /// Sends a call under a key of its own until its outcome is known, and sometimes once more.
    async fn ask_keyed(&self, site: usize, ask: ClientRequest, what: &str) -> AskResult {
        let chance = self.world.chance();
        self.holds.calls.set(self.holds.calls.get() + 1);
        let ask = ask.header(
            "idempotency-key",
            format!("call-{}", self.holds.calls.get()),
        );
        let begun_ms = self.world.now_ms();
        let mut result = self.ask(site, ask.clone(), what).await;
        for _ in 1..PATIENCE {
            if !matches!(result, AskResult::Unknown(_)) {
                break;
            }
            self.world.sleep_ms(chance.below(TRY_AGAIN_MS)).await;
            result = self.ask(site, ask.clone(), what).await;
        }
        self.say(|| format!("{what} is told {result:?}"));
        if let AskResult::Done(first) = &result
            && chance.once_in(4)
        {
            self.world.sleep_ms(chance.below(TRY_AGAIN_MS)).await;
            match self.ask(site, ask, what).await {
                AskResult::Done(again) => {
                    assert_eq!(promised(first), promised(&again), "{what}");
                    // By the clock of the limiter, which is stepped.
                    let [one, other] =
                        [first, &again].map(|said| said.json()["hold"]["expires_at"].as_i64());
                    let apart_ms = one.unwrap_or(0).abs_diff(other.unwrap_or(0));
                    let gained_ms = self
                        .limiter_clocks()
                        .gained_ms(begun_ms, self.world.now_ms());
                    let clocks_ms = (2 * self.plan.options.skew_ms_max + gained_ms).unsigned_abs();
                    assert!(apart_ms <= clocks_ms, "{what}: {one:?}, {other:?}");
                }
                AskResult::Refused(code) => assert_eq!(code, "overloaded", "{what} again"),
                AskResult::Unknown(_) => {}
            }
        }
        result
    }

    /// Holds an amount of a key of one policy, or of both together. Returns the places of the parts.
    async fn hold(&self, site: usize, policies: &[usize], key: usize) -> Option<Vec<usize>> {
        let chance = self.world.chance();
        let plan = self.hold_plan();
        let (amount, ttl) = (
            chance.between(1, plan.amount_max),
            [1, 5, 30, 60][chance.pick(4)],
        );
        let is_returned = chance.once_in(2);
        let on_expiry = if is_returned { "release" } else { "settle" };
        let ask = match *policies {
            [policy] => {
                let path = format!("/limits/{}/{}/holds", plan.policies[policy].name, KEYS[key]);
                let body = json!({ "amount": amount, "ttl_seconds": ttl, "on_expiry": on_expiry });
                ClientRequest::new("POST", path).json(body.to_string())
            }
            _ => {
                let names = policies.iter().map(|policy| plan.policies[*policy].name);
                let check = |name| json!({ "policy": name, "key": KEYS[key], "cost": amount });
                let checks: Vec<Value> = names.map(check).collect();
                let hold = json!({ "ttl_seconds": ttl, "on_expiry": on_expiry });
                let body = json!({ "checks": checks, "hold": hold });
                ClientRequest::new("POST", "/limits").json(body.to_string())
            }
        };
        let begun = self.now();
        let what = format!("hold {amount} of {policies:?} for {ttl} s, {on_expiry}");
        let answer = self.taken(self.ask_keyed(site, ask, &what).await, &what)?;
        let (hold, known) = (&answer.json()["hold"], self.now());
        let hold = Hold {
            id: hold["id"].as_str().expect("a hold").to_owned(),
            ends_ms: hold["expires_at"].as_i64().expect("a time"),
            is_returned,
            ending: None,
            settled: None,
        };
        let mut parts = self.holds.parts.borrow_mut();
        let places = parts.len()..parts.len() + policies.len();
        let datacenter = self.plan.datacenter(site);
        parts.extend(policies.iter().map(|&policy| Part {
            policy,
            key,
            datacenter,
            amount,
            begun,
            known,
            hold: Some(hold.clone()),
        }));
        Some(places.collect())
    }

    /// The answer to a call that has taken quota.
    fn taken(&self, result: AskResult, what: &str) -> Option<Answer> {
        match result {
            AskResult::Done(answer) => {
                assert_eq!(answer.header("tally-on-error"), None, "{what}");
                Some(answer)
            }
            AskResult::Refused(code) => {
                let known = [
                    "rate-limited",
                    "quota-exceeded",
                    "cost-exceeds-limit",
                    "overloaded",
                ];
                assert!(known.contains(&code.as_str()), "{what}: {code}");
                None
            }
            AskResult::Unknown(_) => None,
        }
    }

    /// Settles or releases a hold, at a site of its datacenter.
    async fn end_hold(&self, place: usize) {
        let chance = self.world.chance();
        let part = self.holds.parts.borrow()[place].clone();
        let Policy { name, kind, .. } = self.hold_plan().policies[part.policy];
        let hold = part.hold.as_ref().expect("a hold");
        let path = format!("/limits/{name}/{}/holds/{}", KEYS[part.key], hold.id);
        let used = [
            Some(0),
            None,
            Some(chance.below(part.amount + 1)),
            Some(chance.below(2 * part.amount)),
        ][chance.pick(4)];
        let settles = |used: Option<u64>| {
            let body = used.map_or_else(
                || "{}".to_owned(),
                |used| json!({ "amount": used }).to_string(),
            );
            ClientRequest::new("POST", format!("{path}/settle")).json(body)
        };
        let ask = match used {
            Some(0) => ClientRequest::new("DELETE", path.clone()),
            used => settles(used),
        };
        let sites =
            (0..self.sites.len()).filter(|site| self.plan.datacenter(*site) == part.datacenter);
        let sites: Vec<usize> = sites.collect();
        let site = sites[chance.pick(sites.len())];
        let ending = self.now();
        self.change_hold(place, |hold| hold.ending = Some(ending));
        let what = format!("settle {used:?} of {} of {name}", part.amount);
        match self.ask_keyed(site, ask, &what).await {
            AskResult::Done(answer) => {
                let settled = settled_of(&answer, &part, kind, used);
                let now = self.now();
                self.change_hold(place, |hold| hold.settled = Some((settled, now)));
                if chance.once_in(3) {
                    let again = self.ask_keyed(site, settles(Some(0)), &what).await;
                    let is_told =
                        matches!(&again, AskResult::Refused(code) if code == "hold-settled");
                    assert!(
                        is_told || !matches!(again, AskResult::Done(_)),
                        "{what} again: {again:?}"
                    );
                }
            }
            AskResult::Refused(code) => self.check_refused_end(place, ending, &code, &what),
            AskResult::Unknown(_) => {}
        }
    }

    fn change_hold(&self, place: usize, change: impl FnOnce(&mut Hold)) {
        let mut parts = self.holds.parts.borrow_mut();
        change(parts[place].hold.as_mut().expect("a hold"));
    }

    /// A hold that cannot be settled has ended by itself.
    fn check_refused_end(&self, place: usize, begun: Moment, code: &str, what: &str) {
        let now = self.now();
        let held_ms = self.holds.parts.borrow()[place].begun.at_ms;
        let gained_ms = self.limiter_clocks().gained_ms(held_ms, now.at_ms);
        let clocks_ms = 2 * self.plan.options.skew_ms_max + 2 + gained_ms;
        self.change_hold(place, |hold| {
            let over_ms = now.at_ms + clocks_ms - hold.ends_ms;
            match code {
                "hold-ended" => assert!(over_ms >= 0, "{what}: ended {} ms early", -over_ms),
                "hold-not-found" => assert!(over_ms >= KNOWN_MS, "{what}: {code} at {begun:?}"),
                code => assert_eq!(code, "overloaded", "{what}"),
            }
            hold.ending = None;
        });
    }

    async fn use_quota(&self, site: usize, policy: usize, key: usize) {
        let chance = self.world.chance();
        let plan = self.hold_plan();
        let Policy { name, kind, .. } = plan.policies[policy];
        if kind == Kind::Concurrency {
            return;
        }
        let cost = chance.between(1, plan.amount_max);
        let ask = ClientRequest::new("POST", format!("/limits/{name}/{}", KEYS[key]));
        let ask = ask.json(format!(r#"{{"cost":{cost}}}"#));
        let (begun, what) = (self.now(), format!("check {cost} of {name}"));
        let result = match plan.is_keyed || chance.once_in(2) {
            true => self.ask_keyed(site, ask, &what).await,
            false => self.ask(site, ask, &what).await,
        };
        if self.taken(result, &what).is_some() {
            let known = self.now();
            self.holds.parts.borrow_mut().push(Part {
                policy,
                key,
                datacenter: self.plan.datacenter(site),
                amount: cost,
                begun,
                known,
                hold: None,
            });
        }
    }

    async fn return_quota(&self, site: usize, policy: usize, key: usize) {
        let chance = self.world.chance();
        let Policy { name, kind, .. } = self.hold_plan().policies[policy];
        if kind == Kind::Concurrency {
            return;
        }
        let cost = chance.between(1, self.hold_plan().amount_max);
        let begun = self.now();
        let mut given_back = self.holds.given_back.borrow_mut();
        let place = given_back.len();
        given_back.push(GivenBack {
            policy,
            key,
            cost,
            begun,
            ended: None,
        });
        drop(given_back);
        let ask = ClientRequest::new("POST", format!("/limits/{name}/{}/refund", KEYS[key]));
        let ask = ask.json(format!(r#"{{"cost":{cost}}}"#));
        let result = self
            .ask_keyed(site, ask, &format!("refund {cost} of {name}"))
            .await;
        if let AskResult::Done(_) = result {
            self.holds.given_back.borrow_mut()[place].ended = Some(self.now());
        }
    }

    /// Holds all that was taken against the law.
    pub fn check_holds(&self) {
        let datacenters = (0..self.sites.len()).map(|site| self.plan.datacenter(site));
        let mut datacenters: Vec<&str> = datacenters.collect();
        datacenters.dedup();
        let unread = Unread::of(&self.world.calls());
        let clocks = self.limiter_clocks();
        let (parts, given_back) = (self.holds.parts.borrow(), self.holds.given_back.borrow());
        for (number, policy) in self.hold_plan().policies.iter().enumerate() {
            let places = if policy.is_global {
                vec![None]
            } else {
                datacenters.iter().map(Some).collect()
            };
            for (key, place) in
                (0..KEYS.len()).flat_map(|key| places.iter().map(move |place| (key, *place)))
            {
                let is_its = |part: &&Part| {
                    let is_there = place.is_none_or(|place| part.datacenter == *place);
                    part.policy == number && part.key == key && is_there
                };
                let is_given = |one: &&GivenBack| one.policy == number && one.key == key;
                let account = Account {
                    policy,
                    puts: &self.holds.puts[number].borrow(),
                    unread: &unread,
                    parts: parts.iter().filter(is_its).collect(),
                    given_back: given_back.iter().filter(is_given).collect(),
                    skew_ms: self.plan.options.skew_ms_max,
                    clocks: &clocks,
                };
                account.check(&format!("{} of {} in {place:?}", KEYS[key], policy.name));
            }
        }
    }

    async fn look_at_quota(&self, site: usize, policy: usize, key: usize) -> Option<Value> {
        let Policy { name, .. } = self.hold_plan().policies[policy];
        let ask = ClientRequest::new("GET", format!("/limits/{name}/{}", KEYS[key]));
        match self.ask(site, ask, "look").await {
            AskResult::Done(answer) => Some(answer.json()),
            _ => None,
        }
    }

    /// Nothing is used or held any more: a key has its quota, and no more. Then a refusal leaves nothing taken.
    pub async fn check_holds_at_rest(&self) {
        let limits = [0, 1].map(|policy| self.holds.puts[policy].borrow().last());
        for site in 0..self.sites.len() {
            for (policy, limit) in limits.iter().enumerate() {
                for key in 0..KEYS.len() {
                    self.check_whole(site, policy, key, *limit).await;
                }
            }
        }
        let [Some(_), Some(limit)] = limits else {
            return;
        };
        let Policy { name, .. } = self.hold_plan().policies[1];
        let all = json!({ "amount": limit, "ttl_seconds": 60, "on_expiry": "release" });
        let ask = ClientRequest::new("POST", format!("/limits/{name}/{}/holds", KEYS[0]))
            .json(all.to_string());
        let AskResult::Done(_) = self.ask_keyed(0, ask, "hold all").await else {
            return;
        };
        assert!(
            self.hold(0, &[0, 1], 0).await.is_none(),
            "nothing is left of {name}"
        );
        self.check_whole(0, 0, 0, limits[0]).await;
    }

    async fn check_whole(&self, site: usize, policy: usize, key: usize, limit: Option<u64>) {
        // None where the client hung up.
        let Some(seen) = self.look_at_quota(site, policy, key).await else {
            return;
        };
        let what = format!(
            "{} of {:?}: {seen}",
            KEYS[key],
            self.hold_plan().policies[policy]
        );
        assert_eq!(seen["holds"].as_u64().unwrap_or(0), 0, "{what}");
        if let Some(limit) = limit {
            assert_eq!(seen["remaining"], limit, "{what}");
        }
    }
}

/// What a settlement has charged, which must fit what was held and used.
fn settled_of(answer: &Answer, part: &Part, kind: Kind, used: Option<u64>) -> u64 {
    let json = answer.json();
    let number = |name: &str| json[name].as_u64().expect("a number");
    let (held, settled, over) = (number("held"), number("settled"), number("over"));
    assert_eq!(held, part.amount, "{json}");
    assert_eq!(number("returned"), held.saturating_sub(settled), "{json}");
    let used = used.unwrap_or(held);
    match kind {
        Kind::Concurrency => assert_eq!((settled, over), (0, 0), "{json}"),
        _ => {
            assert_eq!(settled + over, used, "{json}");
            assert!(settled >= used.min(held), "{json}");
        }
    }
    settled
}
