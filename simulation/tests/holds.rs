//! Holds of quota, in whole services: what is held is used, a hold ends once, and several are held together or not at
//! all, through crashes, moves of limiters, and clients that vanish.

use std::cell::Cell;
use std::rc::Rc;

use serde_json::{Value, json};
use tally_host::Later;
use tally_simulation::{
    Answer, ClientRequest, Options, PendingCall, Role, Site, Verdict, World, admin, deployed,
};
use tally_wire::names;

/// Both scopes of a policy.
const SCOPES: [&str; 2] = ["datacenter", "global"];

/// The path of messages to limiters that decide.
const CHECKS: &str = "/limit-check";

/// A deployment with a policy of 100 a minute for each scope, and clients that hold quota.
struct Gateway {
    world: World,
    site: Site,
}

impl Gateway {
    fn new() -> Self {
        let world = deployed(1, Options::default());
        let site = world.site("FRA", 3);
        world.set(names::LIMITER_COUNT, Some("2"));
        let gateway = Self { world, site };
        for scope in SCOPES {
            gateway.put(scope, 100, scope);
        }
        gateway
    }

    fn put(&self, policy: &str, limit: u64, scope: &str) {
        let fields =
            json!({ "limit": limit, "window_seconds": 60, "scope": scope, "on_error": "closed" });
        let put = ClientRequest::new("PUT", format!("/limits/{policy}")).json(fields.to_string());
        assert_eq!(self.ask(put).status, 201);
    }

    fn ask(&self, ask: ClientRequest) -> Answer {
        let client = admin(&self.world, self.site);
        self.world
            .run(client.ask(ask))
            .expect("clients are answered")
    }

    fn post(&self, path: &str, body: &Value) -> Answer {
        self.ask(ClientRequest::new("POST", format!("/limits/{path}")).json(body.to_string()))
    }

    fn hold(&self, policy: &str, key: &str, amount: u64, seconds: u64) -> Answer {
        let body = json!({ "amount": amount, "ttl_seconds": seconds });
        self.post(&format!("{policy}/{key}/holds"), &body)
    }

    /// The id of a hold that is opened.
    fn held(&self, policy: &str, key: &str, amount: u64, seconds: u64) -> String {
        let answer = self.hold(policy, key, amount, seconds);
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()["hold"]["id"]
            .as_str()
            .expect("an id")
            .to_owned()
    }

    fn settle(&self, policy: &str, key: &str, hold: &str, amount: u64) -> Answer {
        let body = json!({ "amount": amount });
        self.post(&format!("{policy}/{key}/holds/{hold}/settle"), &body)
    }

    fn look(&self, policy: &str, key: &str) -> Value {
        let answer = self.ask(ClientRequest::new("GET", format!("/limits/{policy}/{key}")));
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()
    }

    /// Loses messages to limiters of the world while the cell says so.
    fn lose_checks_of_the_world(&self) -> Rc<Cell<bool>> {
        let is_away = Rc::new(Cell::new(false));
        let away = is_away.clone();
        self.world
            .set_judge(move |judged: PendingCall| -> Later<Verdict> {
                let verdict =
                    match away.get() && judged.path == CHECKS && judged.name.starts_with("g1/") {
                        true => Verdict::Unreached,
                        false => Verdict::Answered,
                    };
                Box::pin(async move { verdict })
            });
        is_away
    }

    /// Who starts from now on knows of five limiters; all objects do.
    fn move_limiters(&self) {
        self.world.set(names::LIMITER_COUNT, Some("5"));
        for role in [Role::Objects, Role::Aggregator] {
            self.world
                .set_for(role, names::LIMITER_COUNT_BEFORE, Some("2"));
        }
        self.world.crash_all_objects();
    }
}

fn code(answer: &Answer) -> String {
    answer.json()["code"].as_str().unwrap_or("none").to_owned()
}

#[test]
fn what_is_held_is_used_until_it_is_settled_once() {
    let gateway = Gateway::new();
    for policy in SCOPES {
        let hold = gateway.held(policy, "bob", 60, 600);
        let check = gateway.post(&format!("{policy}/bob"), &json!({ "cost": 41 }));
        assert_eq!(check.status, 429, "{}", check.text());
        assert_eq!(gateway.hold(policy, "bob", 41, 600).status, 429);
        let settled = gateway.settle(policy, "bob", &hold, 20);
        assert_eq!(settled.json()["returned"], 40, "{}", settled.text());
        assert_eq!(gateway.look(policy, "bob")["remaining"], 80);
        assert_eq!(
            code(&gateway.settle(policy, "bob", &hold, 0)),
            "hold-settled"
        );
        gateway.held(policy, "bob", 80, 600);
        assert_eq!(gateway.hold(policy, "bob", 1, 600).status, 429);
    }
}

#[test]
fn a_hold_whose_client_has_vanished_counts_from_its_end_for_a_window() {
    let gateway = Gateway::new();
    for policy in SCOPES {
        gateway.held(policy, "bob", 60, 10);
    }
    gateway.world.run_for_ms(11_000);
    for policy in SCOPES {
        let seen = gateway.look(policy, "bob");
        assert_eq!(seen["remaining"], 40, "{seen}");
        assert_eq!(gateway.hold(policy, "bob", 41, 10).status, 429);
    }
    gateway.world.run_for_ms(61_000);
    for policy in SCOPES {
        assert_eq!(gateway.look(policy, "bob")["remaining"], 100);
    }
}

#[test]
fn a_hold_that_was_answered_is_there_after_a_crash() {
    let gateway = Gateway::new();
    for policy in SCOPES {
        let hold = gateway.held(policy, "bob", 60, 600);
        gateway.world.crash_all_objects();
        let seen = gateway.look(policy, "bob");
        assert_eq!([&seen["remaining"], &seen["held"]], [40, 60], "{seen}");
        let settled = gateway.settle(policy, "bob", &hold, 20);
        assert_eq!(settled.status, 200, "{}", settled.text());
        gateway.world.crash_all_objects();
        assert_eq!(gateway.look(policy, "bob")["remaining"], 80);
        assert_eq!(
            code(&gateway.settle(policy, "bob", &hold, 0)),
            "hold-settled"
        );
    }
}

#[test]
fn holds_go_with_their_keys_where_limiters_move() {
    let gateway = Gateway::new();
    let keys: Vec<String> = (0..8).map(|key| format!("key-{key}")).collect();
    let each = || {
        SCOPES
            .iter()
            .flat_map(|policy| keys.iter().map(move |key| (*policy, key)))
    };
    let holds: Vec<String> = each()
        .map(|(policy, key)| gateway.held(policy, key, 60, 600))
        .collect();
    gateway.move_limiters();
    for ((policy, key), hold) in each().zip(&holds) {
        assert_eq!(
            gateway.hold(policy, key, 41, 600).status,
            429,
            "{policy} {key}"
        );
        let seen = gateway.look(policy, key);
        assert_eq!(seen["held"], 60, "{policy} {key}: {seen}");
        let settled = gateway.settle(policy, key, hold, 20);
        assert_eq!(settled.status, 200, "{policy} {key}: {}", settled.text());
        assert_eq!(gateway.look(policy, key)["remaining"], 80, "{policy} {key}");
    }
}

/// Holds 30 of the tokens and of the tenant together, under a key.
fn both(name: Option<&str>, cost: u64) -> ClientRequest {
    let checks =
        ["tokens", "tenant"].map(|policy| json!({ "policy": policy, "key": "bob", "cost": cost }));
    let body = json!({ "checks": checks, "hold": { "ttl_seconds": 600 } });
    let ask = ClientRequest::new("POST", "/limits").json(body.to_string());
    match name {
        Some(name) => ask.header("idempotency-key", name),
        None => ask,
    }
}

#[test]
fn a_refusal_of_several_holds_leaves_nothing_taken_where_limiters_move_too() {
    let gateway = Gateway::new();
    gateway.put("tokens", 100, "datacenter");
    gateway.put("tenant", 50, "global");
    let opened = gateway.ask(both(Some("first"), 30));
    assert_eq!(opened.status, 200, "{}", opened.text());
    for name in ["second", "third", "third"] {
        let refused = gateway.ask(both(Some(name), 30));
        assert_eq!(
            (refused.status, &refused.json()["hold"]),
            (429, &Value::Null),
            "{}",
            refused.text()
        );
        for (policy, left) in [("tokens", 70), ("tenant", 20)] {
            let seen = gateway.look(policy, "bob");
            assert_eq!(
                [&seen["remaining"], &seen["held"]],
                [left, 30],
                "{policy} after {name}: {seen}"
            );
        }
        if name == "second" {
            gateway.move_limiters();
        }
    }
}

#[test]
fn several_holds_of_which_one_was_not_decided_are_all_taken_by_the_next_try() {
    let gateway = Gateway::new();
    gateway.put("tokens", 100, "datacenter");
    gateway.put("tenant", 100, "global");
    let is_away = gateway.lose_checks_of_the_world();
    is_away.set(true);
    // Nobody can repeat what has no key.
    let unknown = gateway.ask(both(None, 30));
    assert_eq!(unknown.status, 503, "{}", unknown.text());
    assert_eq!(gateway.look("tokens", "bob")["remaining"], 100);
    let unknown = gateway.ask(both(Some("first"), 30));
    assert_eq!(unknown.status, 503, "{}", unknown.text());
    is_away.set(false);
    let opened = gateway.ask(both(Some("first"), 30));
    assert_eq!(opened.status, 200, "{}", opened.text());
    let hold = opened.json()["hold"]["id"]
        .as_str()
        .expect("an id")
        .to_owned();
    for policy in ["tokens", "tenant"] {
        let seen = gateway.look(policy, "bob");
        assert_eq!(
            [&seen["remaining"], &seen["held"]],
            [70, 30],
            "{policy}: {seen}"
        );
        let settled = gateway.settle(policy, "bob", &hold, 10);
        assert_eq!(settled.status, 200, "{policy}: {}", settled.text());
    }
}

#[test]
fn a_repeat_of_several_holds_that_is_not_decided_ends_none_of_them() {
    let gateway = Gateway::new();
    gateway.put("tokens", 100, "datacenter");
    gateway.put("tenant", 100, "global");
    let opened = gateway.ask(both(Some("first"), 30));
    assert_eq!(opened.status, 200, "{}", opened.text());
    // Another request under its key does not either.
    assert_eq!(
        code(&gateway.ask(both(Some("first"), 31))),
        "idempotency-key-reused"
    );
    for policy in ["tokens", "tenant"] {
        assert_eq!(gateway.look(policy, "bob")["held"], 30, "{policy}");
    }
    gateway.lose_checks_of_the_world().set(true);
    assert_eq!(gateway.ask(both(Some("first"), 30)).status, 503);
    assert_eq!(gateway.look("tokens", "bob")["held"], 30);
}
