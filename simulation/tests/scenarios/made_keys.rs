//! Keys that calls make: their rights end when they are said to, budgets hold over isolates, and what admins did is
//! noted.

use std::cell::Cell;
use std::rc::Rc;

use futures_util::future::join_all;
use serde_json::{Value, json};
use tally_api::live::VISITOR_STREAMS_MAX;
use tally_host::object::SqlValue;
use tally_simulation::{
    Answer, Client, ClientRequest, Faults, Live, Options, Role, Site, Verdict, World, admin,
    deployed,
};
use tally_wire::audit::AUDIT_ROWS_MAX;
use tally_wire::names;
use tally_wire::names::Placement;

/// Where a revoked key may still be good: as the guide says.
const REVOKED_MS: u64 = 30_000;

/// How long one that is known goes on where the directory does not answer.
const STALE_MS: u64 = 900_000;

struct Keys {
    world: World,
    sites: [Site; 2],
    admin: Client,
}

impl Keys {
    fn new(seed: u64) -> Self {
        let world = deployed(seed, Options::default());
        let sites = [world.site("FRA", 2), world.site("SYD", 2)];
        let admin = admin(&world, sites[0]);
        Self {
            world,
            sites,
            admin,
        }
    }

    fn ask(&self, method: &str, path: &str, body: &Value) -> Answer {
        self.ask_as(&self.admin, 0, method, path, body)
    }

    fn ask_as(
        &self,
        client: &Client,
        edge: usize,
        method: &str,
        path: &str,
        body: &Value,
    ) -> Answer {
        let mut ask = ClientRequest::new(method, path).at(edge);
        if !body.is_null() {
            ask = ask.json(body.to_string());
        }
        self.world.run(client.ask(ask)).expect("an answer")
    }

    fn make(&self, body: Value) -> Value {
        let answer = self.ask("POST", "/keys", &body);
        assert_eq!(answer.status, 201, "{}", answer.text());
        answer.json()
    }

    fn client(&self, site: usize, made: &Value) -> Client {
        let key = made["key"].as_str().expect("a key");
        self.world.client(self.sites[site]).with_key(key)
    }

    fn status(&self, client: &Client, edge: usize, path: &str) -> u16 {
        self.ask_as(client, edge, "POST", path, &Value::Null).status
    }

    fn acts(&self) -> Vec<Value> {
        let answer = self.ask("GET", "/audit", &Value::Null);
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()["entries"].as_array().expect("acts").clone()
    }
}

fn path_of(made: &Value) -> String {
    format!("/keys/{}", made["id"].as_str().expect("an id"))
}

const HIT: &str = "/counters/blog%2Fhome/increment";

#[test]
fn a_key_that_was_made_does_what_its_scopes_and_prefixes_say_until_it_ends() {
    let keys = Keys::new(1);
    let made = keys.make(json!({
        "name": "blog", "scopes": ["write"], "prefixes": ["blog/", "shop/"], "expires_in_seconds": 600
    }));
    let token = made["key"].as_str().expect("a key");
    assert!(token.starts_with(&format!("tally_{}_", made["id"].as_str().expect("an id"))));
    let client = keys.client(1, &made);
    assert_eq!(keys.status(&client, 0, HIT), 200);
    assert_eq!(keys.status(&client, 1, "/counters/shop%2Fa/increment"), 200);
    assert_eq!(keys.status(&client, 0, "/counters/other/increment"), 403);
    let read = keys.ask_as(&client, 0, "GET", "/counters/blog%2Fhome", &Value::Null);
    assert_eq!(read.status, 403, "{}", read.text());
    let answer = keys.ask("GET", &path_of(&made), &Value::Null);
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert!(
        !answer.text().contains(&token[23..]),
        "the secret is told once"
    );
    assert!(answer.json()["last_used_at"].is_i64(), "{}", answer.text());
    keys.world.run_for_ms(600_000);
    assert_eq!(keys.status(&client, 0, HIT), 401);
}

#[test]
fn a_revoked_key_is_refused_everywhere_within_the_bound_and_where_it_was_revoked_at_once() {
    let keys = Keys::new(2);
    let made = keys.make(json!({"name": "blog", "scopes": ["write"]}));
    let clients = [keys.client(0, &made), keys.client(1, &made)];
    for client in &clients {
        for edge in 0..2 {
            assert_eq!(keys.status(client, edge, HIT), 200);
        }
    }
    let revoked = keys.ask("DELETE", &path_of(&made), &Value::Null);
    assert_eq!(revoked.json()["status"], "revoked", "{}", revoked.text());
    assert_eq!(keys.status(&clients[0], 0, HIT), 401);
    keys.world.run_for_ms(REVOKED_MS);
    for client in &clients {
        for edge in 0..2 {
            assert_eq!(keys.status(client, edge, HIT), 401);
        }
    }
    let missing = keys.ask("GET", &path_of(&made), &Value::Null);
    assert_eq!(
        missing.json()["code"],
        "key-not-found",
        "{}",
        missing.text()
    );
}

#[test]
fn a_busy_key_that_was_revoked_ends_within_the_bound_too() {
    let keys = Keys::new(3);
    let made = keys.make(json!({"name": "blog", "scopes": ["write"]}));
    let client = keys.client(1, &made);
    assert_eq!(keys.status(&client, 0, HIT), 200);
    keys.ask("DELETE", &path_of(&made), &Value::Null);
    let began_ms = keys.world.now_ms();
    let mut last_ms = began_ms;
    while keys.world.now_ms() - began_ms < 60_000 {
        if keys.status(&client, 0, HIT) == 200 {
            last_ms = keys.world.now_ms();
        }
        keys.world.run_for_ms(500);
    }
    let good_ms = u64::try_from(last_ms - began_ms).expect("later");
    assert!(good_ms < REVOKED_MS, "{good_ms}");
}

#[test]
fn guessed_keys_cost_no_call_each() {
    let keys = Keys::new(4);
    let made = keys.make(json!({"name": "blog", "scopes": ["write"]}));
    assert_eq!(keys.status(&keys.client(0, &made), 0, HIT), 200);
    let calls = Rc::new(Cell::new(0));
    let count = calls.clone();
    keys.world.set_judge(move |_| {
        count.set(count.get() + 1);
        Box::pin(async { Verdict::Answered })
    });
    let token = made["key"].as_str().expect("a key").to_owned();
    for number in 0..200_u64 {
        let guessed = format!("tally_{number:016x}_{number:080x}");
        let known_id = format!("{}{number:080x}", &token[..23]);
        for key in [guessed, known_id, "tally_not-a-key-at-all".to_owned()] {
            let client = keys.world.client(keys.sites[0]).with_key(&key);
            assert_eq!(keys.status(&client, 0, HIT), 401, "{key}");
        }
    }
    assert_eq!(calls.get(), 0);
    // Nor does one that was good once, more than once in a while.
    keys.ask("DELETE", &path_of(&made), &Value::Null);
    calls.set(0);
    let client = keys.client(0, &made);
    for _ in 0..100 {
        assert_eq!(keys.status(&client, 0, HIT), 401);
    }
    assert!(calls.get() <= 1, "{}", calls.get());
}

#[test]
fn both_secrets_are_good_for_the_time_of_grace_and_repeating_a_rotation_loses_neither() {
    let keys = Keys::new(5);
    let made = keys.make(json!({"name": "blog", "scopes": ["write"]}));
    let old = keys.client(1, &made);
    assert_eq!(keys.status(&old, 0, HIT), 200);
    let rotate = format!("{}/rotate", path_of(&made));
    // The answer to the first is lost.
    keys.ask("POST", &rotate, &json!({"keep_seconds": 120}));
    let answer = keys.ask("POST", &rotate, &json!({"keep_seconds": 120}));
    assert_eq!(answer.status, 200, "{}", answer.text());
    let new = keys.client(1, &answer.json());
    keys.world.run_for_ms(2_000);
    assert_eq!(
        keys.status(&new, 0, HIT),
        200,
        "at once, also where another is known"
    );
    assert_eq!(keys.status(&old, 0, HIT), 200);
    keys.world.run_for_ms(120_000);
    assert_eq!(keys.status(&old, 0, HIT), 401);
    assert_eq!(keys.status(&new, 0, HIT), 200);
    let answer = keys.ask("POST", &rotate, &json!({"keep_seconds": 0}));
    let newest = keys.client(0, &answer.json());
    assert_eq!(keys.status(&newest, 0, HIT), 200);
    keys.world.run_for_ms(REVOKED_MS);
    assert_eq!(keys.status(&new, 0, HIT), 401);
}

#[test]
fn where_the_directory_is_away_known_keys_go_on_for_a_while_and_others_are_unknown_not_refused() {
    let keys = Keys::new(6);
    let made = keys.make(json!({"name": "limits", "scopes": ["write"], "prefixes": ["limits/"]}));
    let client = keys.client(0, &made);
    let check = "/limits/login/bob";
    let policy = json!({"limit": 1_000_000, "window_seconds": 60});
    let ask = |client: &Client, edge: usize| {
        let answer = keys.ask_as(client, edge, "POST", check, &policy);
        answer.status
    };
    assert_eq!(ask(&client, 0), 200);
    keys.world.set_judge(|judged| {
        let verdict = match judged.binding == names::DIRECTORY {
            true => Verdict::Unreached,
            false => Verdict::Answered,
        };
        Box::pin(async move { verdict })
    });
    // The other isolate does not know it.
    assert_eq!(ask(&client, 1), 503);
    keys.world.run_for_ms(STALE_MS - 60_000);
    assert_eq!(ask(&client, 0), 200);
    keys.world.run_for_ms(120_000);
    assert_eq!(ask(&client, 0), 503);
    // Keys of the configuration need nobody.
    let by_config = keys.ask_as(&keys.admin, 0, "POST", check, &policy);
    assert_eq!(by_config.status, 200, "{}", by_config.text());
}

#[test]
fn a_budget_holds_over_isolates_and_datacenters_and_refuses_before_anything_is_counted() {
    let keys = Keys::new(7);
    let made = keys.make(json!({"name": "blog", "scopes": ["write"], "rate_per_minute": 100}));
    let clients = [keys.client(0, &made), keys.client(1, &made)];
    let answers = keys.world.run(join_all((0..240_usize).map(|number| {
        let (client, world) = (&clients[number % 2], &keys.world);
        async move {
            world.sleep_ms(world.chance().below(20_000)).await;
            let ask = ClientRequest::new("POST", HIT).at(number / 2 % 2);
            client.ask(ask).await.expect("an answer")
        }
    })));
    let counted = answers.iter().filter(|answer| answer.status == 200).count();
    let refused: Vec<&Answer> = answers
        .iter()
        .filter(|answer| answer.status == 429)
        .collect();
    assert_eq!(counted + refused.len(), 240);
    assert!((90..=100).contains(&counted), "{counted}");
    for answer in refused {
        assert!(answer.header("retry-after").is_some());
        assert_eq!(
            answer.header("ratelimit-policy"),
            Some("\"key\";q=100;w=60")
        );
        assert_eq!(answer.json()["code"], "quota-exceeded");
    }
    keys.world.run_for_ms(5_000);
    let read = keys.ask(
        "GET",
        "/counters/blog%2Fhome?consistency=strong",
        &Value::Null,
    );
    assert_eq!(read.json()["value"], counted, "{}", read.text());
}

#[test]
fn a_body_of_many_lines_uses_one_for_each_and_is_refused_whole() {
    let keys = Keys::new(8);
    let made = keys.make(json!({
        "name": "blog", "scopes": ["write"], "prefixes": ["", "limits/"], "rate_per_minute": 50
    }));
    let client = keys.client(0, &made);
    let lines = |count: usize| "{\"id\":\"blog/home\"}\n".repeat(count);
    let send = |count: usize| {
        let ask = ClientRequest::new("POST", "/events")
            .at(0)
            .body(lines(count));
        keys.world.run(client.ask(ask)).expect("an answer")
    };
    keys.ask(
        "PUT",
        "/limits/login",
        &json!({"limit": 1_000, "window_seconds": 60}),
    );
    let first = send(30);
    assert_eq!(
        (first.status, &first.json()["accepted"]),
        (200, &json!(30)),
        "{}",
        first.text()
    );
    let over = send(30);
    assert_eq!(
        (over.status, &over.json()["code"]),
        (429, &json!("quota-exceeded")),
        "{}",
        over.text()
    );
    let never = send(60);
    assert_eq!(
        never.json()["code"],
        "cost-exceeds-limit",
        "{}",
        never.text()
    );
    let redis: Vec<Vec<&str>> = vec![vec!["INCR", "blog/home"]; 40];
    let piped = keys.ask_as(&client, 0, "POST", "/redis/pipeline", &json!(redis));
    assert_eq!(piped.status, 429, "{}", piped.text());
    let checks: Vec<Value> = (0..32)
        .map(|key| json!({"policy": "login", "key": key.to_string()}))
        .collect();
    let many = keys.ask_as(&client, 0, "POST", "/limits", &json!({"checks": checks}));
    assert_eq!(many.status, 429, "{}", many.text());
    let read = keys.ask(
        "GET",
        "/counters/blog%2Fhome?consistency=strong",
        &Value::Null,
    );
    assert_eq!(read.json()["value"], 30, "{}", read.text());
}

/// A body of so many writes, checks or commands.
type BodyOf = fn(usize) -> String;

/// Bodies of each call whose bodies use one for each.
const BODIES: [(&str, BodyOf); 9] = [
    ("/events", |count| "{\"id\":\"blog/home\"}\n".repeat(count)),
    ("/boards/game/members", |count| {
        "{\"member\":\"a\",\"delta\":1}\n".repeat(count)
    }),
    ("/redis/pipeline", |count| {
        json!(vec![["INCR", "sold"]; count]).to_string()
    }),
    ("/redis/multi-exec", |count| {
        json!(vec![["INCR", "sold"]; count]).to_string()
    }),
    // Commands that need no object use as much, and so do refused ones, and each of several keys.
    ("/redis/pipeline", |count| {
        json!(vec![["PING"]; count]).to_string()
    }),
    ("/redis/pipeline", |count| {
        json!(vec![["GET", "sold"]; count]).to_string()
    }),
    ("/redis", |count| {
        let keys = (0..count).map(|key| format!("visitors{key}"));
        let words: Vec<String> = ["PFMERGE".to_owned()].into_iter().chain(keys).collect();
        json!(words).to_string()
    }),
    ("/limits", |count| {
        json!({"checks": vec![json!({"policy": "login", "key": "bob"}); count]}).to_string()
    }),
    ("/ingest?format=ndjson", |count| {
        "{\"id\":\"blog/home\"}\n".repeat(count)
    }),
];

#[test]
fn a_body_that_is_refused_for_its_budget_uses_none_of_it() {
    let keys = Keys::new(12);
    let policy = json!({"limit": 1_000, "window_seconds": 60});
    assert_eq!(keys.ask("PUT", "/limits/login", &policy).status, 201);
    assert_eq!(keys.ask("PUT", "/boards/game", &json!({})).status, 201);
    for (path, body_of) in BODIES {
        let made = keys.make(json!({
            "name": "a", "scopes": ["write"], "prefixes": ["", "limits/"], "rate_per_minute": 4
        }));
        let client = keys.client(0, &made);
        let send = |count: usize| {
            let ask = ClientRequest::new("POST", path).at(0).body(body_of(count));
            keys.world.run(client.ask(ask)).expect("an answer")
        };
        for count in [5, 5, 5, 6, 5, 5] {
            let never = send(count);
            assert_eq!(never.status, 400, "{path} {count}: {}", never.text());
            assert!(
                never.text().contains(&format!("this needs {count} of")),
                "{path}: {}",
                never.text()
            );
        }
        assert_eq!(send(2).status, 200, "{path}");
        for _ in 0..4 {
            let over = send(3);
            assert_eq!(over.status, 429, "{path}: {}", over.text());
            assert!(over.header("retry-after").is_some(), "{path}");
        }
        let rest = send(2);
        assert_eq!(rest.status, 200, "{path}: {}", rest.text());
        assert_eq!(send(1).status, 429, "{path}");
        keys.world.run_for_ms(120_000);
        let whole = send(4);
        assert_eq!(whole.status, 200, "{path}: {}", whole.text());
    }
}

#[test]
fn nobody_makes_a_key_that_may_do_more_than_their_own() {
    let keys = Keys::new(9);
    let made = keys.make(json!({
        "name": "blog admin", "scopes": ["admin"], "prefixes": ["blog/"],
        "expires_in_seconds": 86_400, "rate_per_minute": 600
    }));
    let client = keys.client(0, &made);
    let try_to = |body: Value| {
        let answer = keys.ask_as(&client, 0, "POST", "/keys", &body);
        answer.status
    };
    let bounds = json!({
        "expires_in_seconds": 3_600, "rate_per_minute": 60, "name": "x", "scopes": ["write"], "prefixes": ["blog/a"]
    });
    let with = |field: &str, value: Value| {
        let mut body = bounds.clone();
        body[field] = value;
        body
    };
    assert_eq!(try_to(bounds.clone()), 201);
    for (field, value) in [
        ("prefixes", json!(["blog/", "shop/"])),
        ("prefixes", json!(["blo"])),
        ("prefixes", Value::Null),
        ("prefixes", json!(["limits/"])),
        ("expires_in_seconds", Value::Null),
        ("expires_in_seconds", json!(864_000)),
        ("rate_per_minute", Value::Null),
        ("rate_per_minute", json!(601)),
    ] {
        assert_eq!(try_to(with(field, value.clone())), 403, "{field} {value}");
    }
    // Nor changes its own, nor sees those of others.
    let own = path_of(&made);
    let longer = keys.ask_as(&client, 0, "PATCH", &own, &json!({"expires_at": null}));
    assert_eq!(longer.status, 403, "{}", longer.text());
    let other = keys.make(json!({"name": "other", "scopes": ["read"]}));
    let seen = keys.ask_as(&client, 0, "GET", "/keys", &Value::Null).json();
    assert_eq!(seen["entries"].as_array().map(Vec::len), Some(2), "{seen}");
    for method in ["GET", "DELETE"] {
        let refused = keys.ask_as(&client, 0, method, &path_of(&other), &Value::Null);
        assert_eq!(refused.status, 404, "{}", refused.text());
    }
    // One without the scope sees and makes none.
    let reader = keys.client(0, &other);
    for (method, body) in [("GET", Value::Null), ("POST", bounds)] {
        let refused = keys.ask_as(&reader, 0, method, "/keys", &body);
        assert_eq!(refused.status, 403, "{}", refused.text());
    }
    let log = keys.ask_as(&client, 0, "GET", "/audit", &Value::Null);
    assert_eq!(log.status, 403, "{}", log.text());
}

/// What a key called `ops` did, one call of which was refused, and the key.
fn administered() -> (Keys, Value) {
    let keys = Keys::new(10);
    let made = keys.make(json!({"name": "ops", "scopes": ["admin"], "prefixes": ["", "limits/"]}));
    let ops = keys.client(1, &made);
    let policy = json!({"limit": 5, "window_seconds": 60});
    for (method, path, body) in [
        ("PUT", "/counters/blog%2Fhome", json!({"floor": 0})),
        ("PUT", "/counters/blog%2Fhome/value", json!({"value": 0})),
        ("PUT", "/limits/login", policy),
        ("POST", "/shares", json!({"prefix": "blog/"})),
        ("DELETE", "/counters/blog%2Fhome", Value::Null),
        ("DELETE", "/counters/none", Value::Null),
        ("POST", "/counters/hits/increment", Value::Null),
    ] {
        let answer = keys.ask_as(&ops, 0, method, path, &body);
        let is_well = match path {
            "/counters/none" => answer.status == 404,
            _ => answer.status < 300,
        };
        assert!(is_well, "{method} {path}: {}", answer.text());
    }
    (keys, made)
}

#[test]
fn what_admins_did_is_noted_with_who_and_how_it_ended() {
    let (keys, made) = administered();
    let id = made["id"].as_str().expect("an id");
    let acts = keys.acts();
    let entries: Vec<[&str; 4]> = acts
        .iter()
        .map(|act| {
            ["by", "call", "target", "outcome"].map(|name| act[name].as_str().unwrap_or_default())
        })
        .collect();
    let expected = [
        ["ops", "DELETE /counters/{id}", "none", "refused"],
        ["ops", "DELETE /counters/{id}", "blog/home", "done"],
        ["ops", "POST /shares", "blog/", "done"],
        ["ops", "PUT /limits/{policy}", "login", "done"],
        ["ops", "PUT /counters/{id}/value", "blog/home", "done"],
        ["ops", "PUT /counters/{id}", "blog/home", "done"],
        ["all", "POST /keys", id, "done"],
    ];
    assert_eq!(entries, expected);
    assert_eq!(
        (&acts[0]["status"], &acts[1]["key_id"]),
        (&json!(404), &json!(id))
    );
}

#[test]
fn what_admins_did_is_listed_by_pages_and_times_for_400_days() {
    let (keys, _) = administered();
    let list = |query: &str| {
        let path = format!("/audit?{query}");
        keys.ask("GET", &path, &Value::Null).json()
    };
    let page = list("limit=3");
    let cursor = page["cursor"].as_str().expect("more");
    let next = list(&format!("limit=100&cursor={cursor}"));
    assert_eq!(next["entries"].as_array().map(Vec::len), Some(4), "{next}");
    assert_eq!(next["cursor"], Value::Null);
    let acts = keys.acts();
    let second_of = |act: &Value| act["began_at"].as_i64().map(|at| at.div_euclid(1_000));
    let second = second_of(&acts[2]).expect("a time");
    let in_second = acts.iter().filter(|act| second_of(act) == Some(second));
    let at_once = list(&format!("from={second}&to={second}"));
    assert_eq!(
        at_once["entries"].as_array().map(Vec::len),
        Some(in_second.count()),
        "{at_once}"
    );
    for (span, status) in [
        ("from=10&to=5", 400),
        ("from=5&to=5", 200),
        ("to=5", 200),
        ("from=2100-01-01", 200),
        ("from=9999999999999", 400),
    ] {
        let answer = keys.ask("GET", &format!("/audit?{span}"), &Value::Null);
        assert_eq!(answer.status, status, "{span}: {}", answer.text());
    }
    keys.world.run_for_ms(399 * 86_400_000);
    assert_eq!(keys.acts().len(), 7);
    keys.world.run_for_ms(2 * 86_400_000);
    assert_eq!(keys.acts(), Vec::<Value>::new());
}

#[test]
fn a_key_and_its_entry_are_made_together_and_survive_crashes() {
    for seed in 20..40 {
        let keys = Keys::new(seed);
        keys.world.set_faults(Faults::SOME);
        let mut made = Vec::new();
        for number in 0..6 {
            let body = json!({"name": format!("key {number}"), "scopes": ["read"]});
            let ask = ClientRequest::new("POST", "/keys").json(body.to_string());
            if let Ok(answer) = keys.world.run(keys.admin.ask(ask))
                && answer.status == 201
            {
                made.push(answer.json());
            }
            keys.world.crash(&names::directory(0));
        }
        keys.world.set_faults(Faults::NONE);
        keys.world.run_for_ms(60_000);
        keys.world.crash_isolates(Role::Edge, keys.sites[0]);
        let listed = keys.ask("GET", "/keys", &Value::Null).json();
        let listed: Vec<&str> = listed["entries"]
            .as_array()
            .expect("keys")
            .iter()
            .map(|key| key["id"].as_str().expect("an id"))
            .collect();
        for key in &made {
            assert!(
                listed.contains(&key["id"].as_str().expect("an id")),
                "seed {seed}"
            );
            let client = keys.client(0, key);
            let read = keys.ask_as(&client, 1, "GET", "/counters", &Value::Null);
            assert_eq!(read.status, 200, "seed {seed}: {}", read.text());
        }
        let acts = keys.acts();
        for id in listed {
            let noted = acts
                .iter()
                .filter(|act| act["target"] == id && act["outcome"] == "done");
            assert_eq!(noted.count(), 1, "seed {seed}: {id} {acts:?}");
        }
    }
}

#[test]
fn an_act_is_noted_before_it_is_done() {
    let keys = Keys::new(11);
    // Nobody hears how it ends.
    keys.world.set_judge(|judged| {
        let verdict = match judged.path == "/operate" {
            true => Verdict::Unanswered,
            false => Verdict::Answered,
        };
        Box::pin(async move { verdict })
    });
    let answer = keys.ask("DELETE", "/counters/hits", &Value::Null);
    assert_eq!(answer.status, 503, "{}", answer.text());
    let acts = keys.acts();
    assert_eq!(acts.len(), 1, "{acts:?}");
    assert_eq!(
        (&acts[0]["target"], &acts[0]["outcome"]),
        (&json!("hits"), &json!("unknown"))
    );
}

#[test]
fn made_up_keys_make_an_isolate_that_knows_nothing_ask_once_a_second_while_the_directory_is_away() {
    let keys = Keys::new(12);
    let calls = Rc::new(Cell::new(0));
    let count = calls.clone();
    keys.world.set_judge(move |judged| {
        let is_away = judged.binding == names::DIRECTORY;
        count.set(count.get() + i32::from(is_away));
        let verdict = match is_away {
            true => Verdict::Unreached,
            false => Verdict::Answered,
        };
        Box::pin(async move { verdict })
    });
    let began_ms = keys.world.now_ms();
    for number in 0..100_u64 {
        let guessed = format!("tally_{number:016x}_{number:080x}");
        let client = keys.world.client(keys.sites[0]).with_key(&guessed);
        assert_eq!(keys.status(&client, 0, HIT), 503, "unknown, not refused");
    }
    let seconds = (keys.world.now_ms() - began_ms) / 1_000 + 1;
    // Each asks a few times for one answer.
    assert!(
        i64::from(calls.get()) <= 4 * seconds,
        "{} in {seconds} s",
        calls.get()
    );
}

#[test]
fn deleting_all_keys_of_redis_is_noted_and_other_commands_are_not() {
    let keys = Keys::new(13);
    for command in ["SET", "FLUSHALL"] {
        let words: Vec<&str> = match command {
            "SET" => vec!["SET", "a", "1"],
            _ => vec!["FLUSHALL"],
        };
        let answer = keys.ask("POST", "/redis", &json!(words));
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    let acts = keys.acts();
    assert_eq!(acts.len(), 1, "{acts:?}");
    assert_eq!(
        (&acts[0]["target"], &acts[0]["outcome"]),
        (&json!("FLUSHALL"), &json!("done"))
    );
}

/// A share of `blog/`, and where it was made.
fn shared() -> (Keys, Client) {
    let keys = Keys::new(14);
    for path in ["/counters/blog%2Fhome", "/counters/shop"] {
        let counted = keys.ask("POST", &format!("{path}/increment"), &Value::Null);
        assert_eq!(counted.status, 200, "{}", counted.text());
    }
    let scored = json!({"score": 1});
    let board = keys.ask("POST", "/boards/blog%2Fgame/members/ann", &scored);
    assert_eq!(board.status, 200, "{}", board.text());
    let text = keys.ask("POST", "/redis", &json!(["SET", "blog/secret", "text"]));
    assert_eq!(text.status, 200, "{}", text.text());
    let made = keys.ask("POST", "/shares", &json!({"prefix": "blog/"}));
    assert_eq!(made.status, 201, "{}", made.text());
    let token = made.json()["token"].as_str().expect("a token").to_owned();
    let client = keys.world.client(keys.sites[0]).with_key(&token);
    (keys, client)
}

#[test]
fn streams_by_a_share_and_by_a_made_key_end_after_a_while_and_by_a_configured_one_do_not() {
    let (keys, guest) = shared();
    let socket =
        || ClientRequest::new("GET", "/live?id=blog%2Fhome").header("upgrade", "websocket");
    let open = |client: &Client, ask| {
        let answer = keys.world.run(client.ask(ask)).expect("no fault");
        answer.live.expect("a stream")
    };
    let events = ClientRequest::new("GET", "/live?id=blog%2Fhome");
    let by_share = [open(&guest, socket()), open(&guest, events)];
    let by_key = open(&keys.admin, socket());
    let is_open = |live: &Live| live.closed().is_none();
    keys.world.run_for_ms(595_000);
    assert!(by_share.iter().all(is_open));
    keys.world.run_for_ms(10_000);
    assert!(!by_share.iter().any(is_open));
    assert_eq!(by_share[0].closed().map(|(code, _)| code), Some(1_013));
    assert!(is_open(&by_key));
    // The share is still there.
    drop(open(&guest, socket()));
    let made = keys.make(json!({"name": "blog", "scopes": ["read"], "prefixes": ["blog/"]}));
    let holder = keys.client(0, &made);
    let by_made = open(&holder, socket());
    keys.world.run_for_ms(3_595_000);
    assert!(is_open(&by_made));
    keys.world.run_for_ms(10_000);
    assert!(!is_open(&by_made) && is_open(&by_key));
}

#[test]
fn a_share_reads_counters_and_nothing_else() {
    let (keys, guest) = shared();
    for path in [
        "/counters/blog%2Fhome",
        "/counters/blog%2Fhome/history",
        "/counters/blog%2Fhome/breakdown?by=country",
        "/counters/blog%2F*/aggregate/history",
        "/counters/blog%2F*/aggregate",
        "/counters?prefix=blog%2F",
        "/top?prefix=blog%2F",
        "/live?id=blog%2Fhome",
        "/healthz",
    ] {
        let answer = keys.ask_as(&guest, 0, "GET", path, &Value::Null);
        assert_eq!(answer.status, 200, "{path}");
    }
    let calls = [
        ("GET", "/counters/shop", Value::Null),
        ("POST", "/counters/blog%2Fhome/increment", Value::Null),
        ("GET", "/boards", Value::Null),
        ("GET", "/boards?prefix=blog%2F", Value::Null),
        ("GET", "/boards/blog%2Fgame", Value::Null),
        ("GET", "/boards/blog%2Fgame/members", Value::Null),
        (
            "GET",
            "/boards/blog%2Fgame/members?format=ndjson",
            Value::Null,
        ),
        ("GET", "/live?board=blog%2Fgame", Value::Null),
        ("GET", "/uniques?id=blog%2Fhome&format=hll", Value::Null),
        ("GET", "/export?prefix=blog%2F", Value::Null),
        ("GET", "/keys", Value::Null),
        ("GET", "/shares", Value::Null),
        ("GET", "/audit", Value::Null),
        ("GET", "/alerts", Value::Null),
        ("GET", "/limits", Value::Null),
        ("POST", "/limits/login/bob", Value::Null),
        ("GET", "/metrics", Value::Null),
        ("GET", "/redis/get/blog%2Fsecret", Value::Null),
        ("POST", "/redis", json!(["KEYS", "blog/*"])),
        ("POST", "/redis/pipeline", json!([["GET", "blog/secret"]])),
        ("POST", "/redis/multi-exec", json!([["GET", "blog/secret"]])),
        (
            "GET",
            "/redis/subscribe/__keyspace@0__:blog%2Fsecret",
            Value::Null,
        ),
        (
            "GET",
            "/redis/psubscribe/__keyspace@0__:blog%2F*",
            Value::Null,
        ),
    ];
    for (method, path, body) in calls {
        let answer = keys.ask_as(&guest, 0, method, path, &body);
        assert_eq!(answer.status, 403, "{method} {path}: {}", answer.text());
        let reply = answer.json();
        match path.starts_with("/redis") {
            true => {
                let error = reply["error"].as_str().unwrap_or_default();
                assert!(error.starts_with("NOPERM "), "{path}: {reply}");
            }
            false => assert_eq!(reply["code"], "forbidden", "{path}"),
        }
    }
}

#[test]
fn reads_and_streams_of_a_share_are_those_of_their_address() {
    let (keys, guest) = shared();
    let streams = |client: &Client, count: usize| {
        let open = |_| {
            let ask = ClientRequest::new("GET", "/live?id=blog%2Fhome").at(0);
            let ask = ask.header("upgrade", "websocket");
            keys.world.run(client.ask(ask)).expect("an answer")
        };
        (0..count).map(open).collect::<Vec<Answer>>()
    };
    let open = streams(&guest, VISITOR_STREAMS_MAX);
    assert!(open.iter().all(|answer| answer.status == 101));
    let over = streams(&guest, 1).remove(0);
    assert_eq!(
        (over.status, &over.json()["code"]),
        (429, &json!("quota-exceeded"))
    );
    // Somebody else with the same link has others.
    let other = guest.clone().from_address("192.0.2.200");
    assert_eq!(streams(&other, 1).remove(0).status, 101);
    // A hub that has lost its memory still knows whose sockets it holds.
    let hubs = keys.world.objects().into_iter();
    let hubs =
        hubs.filter(|(binding, name, ..)| *binding == names::WATCHERS && name.starts_with("h1/"));
    let slept = hubs.filter(|(binding, name, ..)| {
        let name = name.clone();
        keys.world.evict(&Placement {
            binding,
            name,
            location_hint: None,
        })
    });
    assert_eq!(slept.count(), 1);
    assert_eq!(streams(&guest, 1).remove(0).status, 429);
    // A list takes 16 calls to objects at least, and each of these is another.
    let list = |client: &Client, number: usize| {
        let path = format!("/counters?prefix=blog%2F{number}");
        keys.ask_as(client, 0, "GET", &path, &Value::Null).status
    };
    let refused = (0..2_000).find(|number| list(&guest, *number) == 429);
    assert!(refused.is_some(), "nothing bounds its reads");
    assert_eq!(list(&other, 0), 200);
}

/// Fills the log with entries of calls that were done, and others that were refused, before those that are there.
fn fill_log(keys: &Keys, done: u64, refused: u64) {
    let log = names::directory(0);
    let run = |sql: String| keys.world.look(&log, &sql).expect("the log");
    let rows = |from_ms: u64, count: u64, outcome: &str| {
        format!(
            "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < {count}) \
             INSERT INTO acts SELECT printf('%015d/%016x', {from_ms} + i, i), \
             (SELECT body FROM acts WHERE place IN ({outcome})) FROM n"
        )
    };
    let now_ms = keys.world.now_ms().unsigned_abs();
    let refused_place = "SELECT place FROM acts_refused LIMIT 1";
    let done_place =
        "SELECT place FROM acts WHERE place NOT IN (SELECT place FROM acts_refused) LIMIT 1";
    run(rows(now_ms - 2_000_000, done, done_place));
    run(rows(now_ms - 1_000_000, refused, refused_place));
    let between = format!(
        "INSERT OR IGNORE INTO acts_refused SELECT place FROM acts WHERE place >= '{:015}' AND place < '{:015}'",
        now_ms - 1_000_000,
        now_ms - 500_000
    );
    run(between);
    // The next write of the object commits them; then it counts anew.
    let none = keys.ask("DELETE", "/counters/none", &Value::Null);
    assert_eq!(none.status, 404, "{}", none.text());
    assert!(keys.world.crash(&log));
}

#[test]
fn refused_calls_push_no_call_that_was_done_out_of_the_log() {
    let keys = Keys::new(15);
    let delete = |keys: &Keys, id: &str| {
        let path = format!("/counters/{id}");
        keys.ask("DELETE", &path, &Value::Null).status
    };
    assert_eq!(keys.status(&keys.admin, 0, "/counters/one/increment"), 200);
    assert_eq!(delete(&keys, "one"), 200);
    assert_eq!(delete(&keys, "none"), 404);
    let count = |what: &str| {
        let sql = format!("SELECT count(*) FROM {what}");
        let rows = keys.world.look(&names::directory(0), &sql).expect("a log");
        match rows[0][0] {
            SqlValue::Integer(count) => count,
            _ => panic!("a count"),
        }
    };
    let refused = 500;
    fill_log(&keys, AUDIT_ROWS_MAX - refused - 3, refused);
    let done = count("acts") - count("acts_refused");
    assert_eq!(count("acts"), i64::try_from(AUDIT_ROWS_MAX).expect("few"));
    for _ in 0..250 {
        assert_eq!(delete(&keys, "none"), 404);
    }
    assert_eq!(count("acts") - count("acts_refused"), done);
    assert!(count("acts") <= i64::try_from(AUDIT_ROWS_MAX).expect("few"));
    let newest = &keys.acts()[0];
    assert_eq!(newest["outcome"], "refused", "{newest}");
}

#[test]
fn acts_of_one_admin_push_no_act_of_another_out_of_the_log() {
    let keys = Keys::new(16);
    let log = names::directory(0);
    let narrow = keys.make(json!({"name": "one", "scopes": ["admin"], "prefixes": ["one/"]}));
    let attacker = keys.client(0, &narrow);
    let child = keys.ask_as(
        &attacker,
        0,
        "POST",
        "/keys",
        &json!({
            "name": "below", "scopes": ["admin"], "prefixes": ["one/"]
        }),
    );
    let child = keys.client(0, &child.json());
    let delete = |client: &Client, id: &str| {
        let path = format!("/counters/one%2F{id}");
        keys.ask_as(client, 0, "DELETE", &path, &Value::Null).status
    };
    for client in [&attacker, &child] {
        assert_eq!(keys.status(client, 0, "/counters/one%2Fa/increment"), 200);
        assert_eq!(delete(client, "a"), 200);
        assert_eq!(delete(client, "none"), 404);
    }
    // The attacker's acts fill the log, after those of the others.
    let known = keys.acts().len();
    let run = |sql: String| keys.world.look(&log, &sql).expect("the log");
    let now_ms = keys.world.now_ms().unsigned_abs() - 1_000;
    let rows = usize::try_from(AUDIT_ROWS_MAX).expect("few") - known;
    run(format!(
        "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < {rows}) \
         INSERT INTO acts SELECT printf('%015d/%016x', {now_ms}, i), \
         (SELECT body FROM acts JOIN acts_by USING (place) WHERE account = '{id}' LIMIT 1) FROM n",
        id = narrow["id"].as_str().expect("an id")
    ));
    run(format!(
        "INSERT OR IGNORE INTO acts_by SELECT place, '{}' FROM acts WHERE place >= '{now_ms:015}' AND place < '{:015}'",
        narrow["id"].as_str().expect("an id"),
        now_ms + 1
    ));
    assert_eq!(delete(&attacker, "none"), 404);
    assert!(keys.world.crash(&log));
    let theirs = |keys: &Keys| {
        let rows = run(
            "SELECT place FROM acts WHERE place NOT IN (SELECT place FROM acts_by WHERE account = '"
                .to_owned()
                + narrow["id"].as_str().expect("an id") + "') ORDER BY place",
        );
        assert!(!rows.is_empty(), "{:?}", keys.world.now_ms());
        rows
    };
    let before = theirs(&keys);
    for round in 0..150 {
        for client in [&attacker, &child] {
            let expected = [404, 200][round % 2];
            if expected == 200 {
                assert_eq!(keys.status(client, 0, "/counters/one%2Fa/increment"), 200);
            }
            assert_eq!(delete(client, ["none", "a"][round % 2]), expected);
        }
    }
    assert_eq!(theirs(&keys), before);
    let count = run("SELECT count(*) FROM acts".to_owned());
    assert!(
        matches!(count[0][0], SqlValue::Integer(count) if count <= 100_000),
        "{count:?}"
    );
}

#[test]
fn patterns_of_all_streams_are_bounded_and_no_key_takes_what_others_need() {
    let keys = Keys::new(22);
    let clients: Vec<Client> = (0..3)
        .map(|_| keys.make(json!({"name": "listener", "scopes": ["read"]})))
        .map(|made| keys.client(0, &made))
        .collect();
    let mut lives = Vec::new();
    let mut open = |client: &Client, pattern: &str| {
        let path = format!("/redis/psubscribe/__keyspace@0__:{pattern}");
        let ask = ClientRequest::new("GET", &path);
        let mut answer = keys.world.run(client.ask(ask)).expect("no fault");
        lives.extend(answer.live.take());
        answer.status
    };
    let costly = format!("*{}", "b".repeat(256));
    for client in &clients[..2] {
        let opened: Vec<u16> = (0..8).map(|_| open(client, &costly)).collect();
        assert_eq!(opened, vec![200; 8]);
        assert_eq!(open(client, "*b"), 429);
    }
    assert_eq!(open(&clients[2], "*b"), 503);
}

#[test]
fn without_randomness_no_secret_is_made_and_nothing_is_stored() {
    let keys = Keys::new(60);
    let secretless = |is_so| {
        let faults = keys.world.faults();
        keys.world.set_faults(Faults {
            secrets_fail: is_so,
            ..faults
        });
    };
    let blog = json!({"name": "blog", "scopes": ["write"]});
    let share = json!({"prefix": "blog/", "expires_in_seconds": 600});
    let alert = json!({
        "alert": "first",
        "body": {
            "counter": "blog/a", "when": {"value": {"above": 10}},
            "webhook": "https://hooks.example.com/tally"
        }
    });
    let refused = |path: &str, body: &Value| {
        let answer = keys.ask("POST", path, body);
        assert_eq!(answer.status, 503, "{path}: {}", answer.text());
        assert_eq!(answer.json()["code"], "unavailable");
        let detail = answer.text();
        assert!(detail.contains("no randomness"), "{path}: {detail}");
    };
    // The deployment has no keys of hashes yet: they are secrets too.
    secretless(true);
    refused("/counters/blog%2Fa/increment", &json!({"unique": "ann"}));
    refused("/keys", &blog);
    secretless(false);
    let made = keys.make(blog.clone());
    let answer = keys.ask("POST", "/shares", &share);
    assert_eq!(answer.status, 201, "{}", answer.text());

    secretless(true);
    refused("/keys", &blog);
    refused(&format!("{}/rotate", path_of(&made)), &json!({}));
    refused("/shares", &share);
    refused("/uniques/rotate", &Value::Null);
    let answer = keys.ask("POST", "/import", &alert);
    assert!(answer.text().contains("no randomness"), "{}", answer.text());
    // What is there goes on, and what was not made is not there.
    assert_eq!(keys.status(&keys.client(0, &made), 0, HIT), 200);
    let listed = |path: &str, list: &str| {
        let answer = keys.ask("GET", path, &Value::Null).json();
        answer[list].as_array().expect("a list").len()
    };
    assert_eq!(listed("/keys", "entries"), 1);
    assert_eq!(listed("/shares", "entries"), 1);
    assert_eq!(listed("/alerts", "entries"), 0);
}
