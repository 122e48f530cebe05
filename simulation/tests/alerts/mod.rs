//! Alerts in whole services: when they fire, what their receivers get, and that nothing is lost of it or said wrongly.

mod deliveries;
mod digests;
mod laws;
mod measures;
mod rights;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tally_core::sha256::hmac;
use tally_host::Later;
use tally_simulation::{Answer, Client, ClientRequest, Options, Site, World, admin, deployed};
use tally_wire::alerts::Outgoing;

/// 32 bytes in base64.
const SECRET: &str = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
const SECRET_BYTES: &[u8] = b"0123456789abcdef0123456789abcdef";

/// How long an alert takes at most until it is evaluated, and a little more.
const EVALUATED_MS: u64 = 65_000;

/// One delivery as its receiver gets it.
#[derive(Clone, Debug)]
struct Got {
    at_ms: i64,
    url: String,
    id: String,
    timestamp: i64,
    json: Value,
}

impl Got {
    fn state(&self) -> &str {
        self.json["state"].as_str().expect("a state")
    }

    fn incident(&self) -> &str {
        self.json["incident"].as_str().expect("an incident")
    }
}

/// What a receiver answers.
type Answers = Rc<dyn Fn(&Got) -> Later<Result<u16, String>>>;

/// A receiver: checks signatures as Standard Webhooks says, and answers as it is told to.
#[derive(Clone)]
struct Receiver {
    got: Rc<RefCell<Vec<Got>>>,
    answers: Rc<RefCell<Answers>>,
}

impl Receiver {
    fn of(world: &World) -> Self {
        let receiver = Self {
            got: Rc::default(),
            answers: Rc::new(RefCell::new(Rc::new(|_| Box::pin(async { Ok(204) })))),
        };
        let known = receiver.clone();
        let clock = world.clock();
        world.set_receiver(move |outgoing| {
            let got = read(&outgoing, clock());
            known.got.borrow_mut().push(got.clone());
            let answers = known.answers.borrow().clone();
            answers(&got)
        });
        receiver
    }

    fn answer(&self, answers: impl Fn(&Got) -> Later<Result<u16, String>> + 'static) {
        *self.answers.borrow_mut() = Rc::new(answers);
    }

    fn answer_status(&self, status: u16) {
        self.answer(move |_| Box::pin(async move { Ok(status) }));
    }

    fn got(&self) -> Vec<Got> {
        self.got.borrow().clone()
    }

    fn take(&self) -> Vec<Got> {
        self.got.take()
    }

    fn states(&self) -> Vec<String> {
        self.got()
            .iter()
            .map(|got| got.state().to_owned())
            .collect()
    }
}

fn read(outgoing: &Outgoing, at_ms: i64) -> Got {
    let header = |name: &str| {
        let mut headers = outgoing.headers.iter();
        let value = headers.find(|(known, _)| known == name);
        value.unwrap_or_else(|| panic!("no {name}")).1.clone()
    };
    let (id, timestamp) = (header("webhook-id"), header("webhook-timestamp"));
    let body = String::from_utf8(outgoing.body.clone()).expect("text");
    let signed = format!("{id}.{timestamp}.{body}");
    let expected = STANDARD.encode(hmac(SECRET_BYTES, signed.as_bytes()));
    assert_eq!(header("webhook-signature"), format!("v1,{expected}"));
    assert!(!body.contains("whsec"), "{body}");
    let json: Value = serde_json::from_str(&body).expect("JSON");
    assert_eq!(json["id"], id.as_str());
    assert_eq!(
        json["type"],
        format!("alert.{}", json["state"].as_str().expect("a state"))
    );
    Got {
        at_ms,
        url: outgoing.url.clone(),
        id,
        timestamp: timestamp.parse().expect("a number"),
        json,
    }
}

fn service(seed: u64) -> (World, Site, Client, Receiver) {
    let world = deployed(seed, Options::default());
    let site = world.site("FRA", 2);
    let client = admin(&world, site);
    let receiver = Receiver::of(&world);
    (world, site, client, receiver)
}

fn ask(world: &World, client: &Client, method: &str, path: &str, body: &Value) -> Answer {
    let mut request = ClientRequest::new(method, path);
    if !body.is_null() {
        request = request.json(body.to_string());
    }
    world.run(client.ask(request)).expect("no fault")
}

fn done(world: &World, client: &Client, method: &str, path: &str, body: &Value) -> Value {
    let answer = ask(world, client, method, path, body);
    assert!(answer.status < 300, "{method} {path}: {}", answer.text());
    answer.json()
}

fn alert(watched: &str, of: &str, when: &Value) -> Value {
    json!({watched: of, "when": when, "webhook": "https://hooks.example.com/tally?key=1", "secret": SECRET})
}

fn put(world: &World, client: &Client, name: &str, alert: &Value) -> Value {
    done(world, client, "PUT", &format!("/alerts/{name}"), alert)
}

fn get(world: &World, client: &Client, path: &str) -> Value {
    done(world, client, "GET", path, &Value::Null)
}

fn add(world: &World, client: &Client, counter: &str, delta: u64) {
    let path = format!("/counters/{counter}/increment");
    done(world, client, "POST", &path, &json!({"delta": delta}));
}

fn subtract(world: &World, client: &Client, counter: &str, delta: u64) {
    let path = format!("/counters/{counter}/decrement");
    done(world, client, "POST", &path, &json!({"delta": delta}));
}
