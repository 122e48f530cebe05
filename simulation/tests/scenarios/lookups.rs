//! What an isolate caches of the deployment: one message that gets lost, or fails, keeps nothing old in use.

use std::cell::Cell;
use std::rc::Rc;

use serde_json::{Value, json};
use tally_host::Later;
use tally_simulation::{Answer, ClientRequest, Options, Verdict, World, admin, deployed};

/// Longer than an isolate uses anything of these without asking, milliseconds.
const OLD_MS: u64 = 40_000;

/// How long a call may take that asks twice, milliseconds.
const ASKED_AGAIN_MS: i64 = 1_000;

/// A deployment of two datacenters; the fate of the next look-up.
struct Lookups {
    world: World,
    fate: Rc<Cell<Option<(&'static str, Verdict)>>>,
}

impl Lookups {
    fn new() -> Self {
        let world = deployed(1, Options::default());
        let fate: Rc<Cell<Option<(&'static str, Verdict)>>> = Rc::default();
        let next = fate.clone();
        world.set_judge(move |judged| -> Later<Verdict> {
            let verdict = match next.get() {
                Some((path, verdict)) if path == judged.path => {
                    next.set(None);
                    verdict
                }
                _ => Verdict::Answered,
            };
            Box::pin(async move { verdict })
        });
        Self { world, fate }
    }

    fn ask(
        &self,
        site: &str,
        key: Option<&str>,
        (method, path): (&str, &str),
        body: &Value,
    ) -> Answer {
        let site = self.world.site(site, 1);
        let client = match key {
            Some(key) => self.world.client(site).with_key(key),
            None => admin(&self.world, site),
        };
        let ask = match body {
            Value::Null => ClientRequest::new(method, path),
            body => ClientRequest::new(method, path).json(body.to_string()),
        };
        self.world.run(client.ask(ask)).expect("an answer")
    }

    /// Does something where it is in effect at once.
    fn change(&self, call: (&str, &str), body: &Value) -> Value {
        let answer = self.ask("FRA", None, call, body);
        assert!((200..300).contains(&answer.status), "{}", answer.text());
        answer.json()
    }

    /// Calls elsewhere, where the value is cached, or was: the status, and how long it took.
    fn call(&self, key: Option<&str>, call: (&str, &str)) -> (u16, i64) {
        let begun_ms = self.world.now_ms();
        let answer = self.ask("SYD", key, call, &Value::Null);
        (answer.status, self.world.now_ms() - begun_ms)
    }

    /// What is cached is changed, and gets old. Then the first look-up fails, by each fate.
    fn is_refused_although_one_look_up_fails(
        path: &'static str,
        prepare: impl Fn(&Self) -> (Option<String>, String),
        call: &str,
        refused: u16,
    ) {
        for verdict in [Verdict::Unreached, Verdict::AnswerLost, Verdict::Unanswered] {
            let lookups = Self::new();
            let (key, target) = prepare(&lookups);
            let call = (call, target.as_str());
            assert_eq!(lookups.call(key.as_deref(), call).0, 200, "{path}");
            lookups.change_of(path, key.as_deref());
            lookups.world.run_for_ms(OLD_MS);
            lookups.fate.set(Some((path, verdict)));
            let (status, took_ms) = lookups.call(key.as_deref(), call);
            assert_eq!(lookups.fate.get(), None, "{path} was sent");
            assert_eq!(status, refused, "{path}, {verdict:?}");
            assert!(
                took_ms < ASKED_AGAIN_MS,
                "{path}, {verdict:?}: {took_ms} ms"
            );
        }
    }

    fn change_of(&self, path: &str, key: Option<&str>) {
        match (path, key) {
            ("/policy-get", _) => drop(self.change(
                ("PUT", "/limits/calls/overrides/bob"),
                &json!({"blocked": true}),
            )),
            (_, Some(key)) => {
                let id = key.split('_').nth(1).expect("an id");
                let list = if path == "/key-use" { "keys" } else { "shares" };
                drop(self.change(("DELETE", &format!("/{list}/{id}")), &Value::Null));
            }
            _ => unreachable!("{path}"),
        }
    }
}

#[test]
fn a_policy_is_read_again_if_one_read_of_it_fails() {
    let prepare = |lookups: &Lookups| {
        let policy = json!({"limit": 100, "window_seconds": 60});
        drop(lookups.change(("PUT", "/limits/calls"), &policy));
        (None, "/limits/calls/bob".to_owned())
    };
    Lookups::is_refused_although_one_look_up_fails("/policy-get", prepare, "POST", 429);
}

#[test]
fn a_revoked_key_is_refused_if_one_look_up_of_it_fails() {
    let prepare = |lookups: &Lookups| {
        let made = lookups.change(
            ("POST", "/keys"),
            &json!({"name": "a", "scopes": ["write"]}),
        );
        let key = made["key"].as_str().expect("a key").to_owned();
        (Some(key), "/counters/hits/increment".to_owned())
    };
    Lookups::is_refused_although_one_look_up_fails("/key-use", prepare, "POST", 401);
}

#[test]
fn a_revoked_share_is_refused_if_one_look_up_of_it_fails() {
    let prepare = |lookups: &Lookups| {
        drop(lookups.change(("POST", "/counters/hits/increment"), &Value::Null));
        let made = lookups.change(("POST", "/shares"), &json!({"prefix": "hits"}));
        let share = made["token"].as_str().expect("a token").to_owned();
        (Some(share), "/counters/hits".to_owned())
    };
    Lookups::is_refused_although_one_look_up_fails("/share-get", prepare, "GET", 401);
}
