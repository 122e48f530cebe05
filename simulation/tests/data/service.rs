//! A whole service with random counters, policies and boards.

use serde_json::{Value, json};
use tally_simulation::{
    Answer, Client, ClientRequest, Faults, Options, Site, World, admin, deployed,
};

/// A service at two sites.
pub struct Service {
    pub world: World,
    pub clients: [Client; 2],
}

impl Service {
    pub fn new(seed: u64, tablets: Option<u32>) -> Self {
        Self::with(seed, tablets, Options::default())
    }

    /// One with a bucket for snapshots.
    pub fn with_bucket(seed: u64, tablets: Option<u32>) -> Self {
        let options = Options {
            has_bucket: true,
            ..Options::default()
        };
        Self::with(seed, tablets, options)
    }

    fn with(seed: u64, tablets: Option<u32>, options: Options) -> Self {
        let world = deployed(seed, options);
        if let Some(tablets) = tablets {
            world.set("TALLY_TABLETS", Some(&tablets.to_string()));
        }
        let sites: [Site; 2] = [world.site("FRA", 2), world.site("SYD", 2)];
        let clients = sites.map(|site| admin(&world, site));
        Self { world, clients }
    }

    /// The answer to a request, asked for until there is one.
    pub fn ask(
        &self,
        site: usize,
        method: &str,
        path: &str,
        body: &str,
        key: Option<&str>,
    ) -> Answer {
        let client = self.clients[site].clone();
        for _ in 0..200 {
            let mut request = ClientRequest::new(method, path);
            if !body.is_empty() {
                request = request.body(body.as_bytes().to_vec());
            }
            if let Some(key) = key {
                request = request.header("idempotency-key", key);
            }
            match self.world.run(client.ask(request)) {
                Ok(answer) if answer.status < 500 => return answer,
                _ => self.world.run_for_ms(500),
            }
        }
        panic!("{method} {path} is never answered");
    }

    /// The answer, which must be well.
    pub fn well(&self, site: usize, method: &str, path: &str, body: &str) -> Value {
        let answer = self.ask(
            site,
            method,
            path,
            body,
            Some(&format!("{method}{path}{body}").replace(' ', "")),
        );
        assert!(
            answer.status < 300,
            "{method} {path}: {} {}",
            answer.status,
            answer.text()
        );
        answer.json()
    }

    pub fn export(&self, query: &str) -> String {
        let answer = self.ask(0, "GET", &format!("/export{query}"), "", None);
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.text()
    }

    pub fn import(&self, query: &str, file: &str, key: Option<&str>) -> Value {
        self.import_again(query, file, key).0
    }

    /// As [`Self::import`], and whether the answer is said to be a replay.
    pub fn import_again(&self, query: &str, file: &str, key: Option<&str>) -> (Value, bool) {
        let answer = self.ask(1, "POST", &format!("/import{query}"), file, key);
        let report = answer.json();
        let kinds = ["counters", "policies", "alerts", "boards", "members"];
        let is_any = kinds.iter().any(|kind| report[kind].as_u64() > Some(0));
        // A body of which nothing was imported, because its lines were refused, is no 200.
        let is_fine = is_any || report["rejected"] == 0;
        assert_eq!(answer.status == 200, is_fine, "{}", answer.text());
        let is_replay = answer.header("idempotency-replayed") == Some("true");
        (report, is_replay)
    }

    /// Everything that a counter can hold, as chance has it.
    pub fn fill(&self, counters: u64, faults: Faults) {
        self.world.set_faults(faults);
        for (id, settings) in [
            ("floor", json!({"floor": -5})),
            ("home", json!({"home": "SYD"})),
            ("ttl", json!({"ttl_seconds": 8_640_000})),
            (
                "sliding",
                json!({"ttl_seconds": 9_000_000, "ttl_mode": "sliding"}),
            ),
            ("shards", json!({"shards": 4})),
            ("redis", json!({"unique_hash": "redis"})),
        ] {
            let path = format!("/counters/set%2F{id}");
            self.well(0, "PUT", &path, &settings.to_string());
        }
        for number in 0..counters {
            self.fill_counter(&format!("page%2F{number}"));
        }
        for id in ["set%2Fhome", "set%2Ffloor", "set%2Fttl", "set%2Fshards"] {
            for site in 0..2 {
                let path = format!("/counters/{id}/increment");
                let key = format!("{id}{site}");
                self.ask(site, "POST", &path, r#"{"delta":7}"#, Some(&key));
            }
        }
        let path = "/counters/set%2Fredis/increment";
        self.well(1, "POST", path, r#"{"delta":1,"unique":"me"}"#);
        self.fill_alerts();
        self.fill_boards();
        self.world.set_faults(Faults::NONE);
        self.world.heal();
        self.world.run_for_ms(30_000);
    }

    fn fill_counter(&self, id: &str) {
        let chance = self.world.chance();
        for write in 0..chance.between(1, 5) {
            let site = chance.pick(2);
            let mut body = json!({"delta": chance.between(1, 9_000)});
            if chance.once_in(2) {
                body["unique"] = json!(format!("visitor-{}", chance.below(50)));
            }
            if chance.once_in(3) {
                body["sample"] = json!(chance.between(1, 500));
            }
            if chance.once_in(3) {
                body["by"] = json!({"country": format!("C{}", chance.below(4))});
            }
            let path = format!("/counters/{id}/increment");
            let key = format!("{id}{write}");
            let answer = self.ask(site, "POST", &path, &body.to_string(), Some(&key));
            assert_eq!(answer.status, 200, "{}", answer.text());
            if chance.once_in(4) {
                let path = format!("/counters/{id}/decrement");
                self.well(site, "POST", &path, r#"{"delta":3}"#);
            }
            if chance.once_in(6) {
                self.world.run_for_ms(chance.between(1, 4_000_000));
            }
            if chance.once_in(12) {
                let path = format!("/counters/{id}/value");
                self.well(site, "PUT", &path, r#"{"value":77}"#);
            }
        }
    }

    /// A policy, and alerts about a counter and about it.
    fn fill_alerts(&self) {
        let policy = r#"{"limit":5,"window_seconds":60}"#;
        self.well(0, "PUT", "/limits/login", policy);
        let busy = json!({"value": {"above": 9_000_000_000_000_000_i64}});
        let refused = json!({"refused_in": {"seconds": 3_600, "above": 1_000_000}});
        for (name, mut alert) in [
            (
                "busy",
                json!({"counter": "page/0", "when": busy, "for_seconds": 60}),
            ),
            ("refused", json!({"policy": "login", "when": refused})),
        ] {
            alert["webhook"] = json!("https://hooks.example.com/tally");
            alert["secret"] = json!("whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=");
            self.well(0, "PUT", &format!("/alerts/{name}"), &alert.to_string());
        }
    }

    /// Boards of each kind, a member who is hidden, and members that Redis's commands wrote.
    fn fill_boards(&self) {
        let settings = r#"{"order":"asc","ties":"first"}"#;
        self.well(0, "PUT", "/boards/game", settings);
        for member in ["ann", "bob", "cleo", "dora"] {
            let score = self.world.chance().below(3);
            let body = json!({"score": score, "metadata": {"of": member}}).to_string();
            self.well(0, "POST", &format!("/boards/game/members/{member}"), &body);
        }
        let hidden = "/boards/game/members/bob";
        self.well(0, "POST", hidden, r#"{"hidden":true}"#);
        for (board, settings, field) in [
            ("sums", r#"{"keep":"sum"}"#, "delta"),
            ("times", r#"{"keep":"best","order":"asc"}"#, "score"),
        ] {
            self.well(0, "PUT", &format!("/boards/{board}"), settings);
            for score in [4, 9, 2] {
                for member in ["ann", "bob"] {
                    let body = json!({ field: score }).to_string();
                    self.well(
                        0,
                        "POST",
                        &format!("/boards/{board}/members/{member}"),
                        &body,
                    );
                }
            }
        }
        self.well(0, "PUT", "/boards/sorted", r#"{"shards":1}"#);
        let long = "x".repeat(600);
        let add = json!(["ZADD", "sorted", "1", "two\nlines", "2", long, "inf", "\""]);
        let added = self.ask(0, "POST", "/redis", &add.to_string(), Some("sorted"));
        assert_eq!(added.status, 200, "{}", added.text());
    }
}
