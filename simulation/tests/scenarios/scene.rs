//! A deployment whose messages a test holds back, loses and lets go, one by one.
//!
//! Life of a message that is held: the test names it before it is sent ([`Scene::hold`], [`Scene::hold_answer`]),
//! waits until it has come ([`Scene::wait_for`]), and lets it go or loses it. Who sent it gives up meanwhile, and may
//! send it again: that copy passes.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

use serde_json::Value;
use tally_core::counter::id::{CounterId, Datacenter};
use tally_host::Later;
use tally_simulation::{
    Answer, ClientRequest, NoAnswer, OneShot, Options, PendingCall, Site, Verdict, World, admin,
    deployed,
};
use tally_wire::names;
use tally_wire::names::{CellAddress, Placement};

/// The counter of all scenarios.
pub const COUNTER: &str = "/counters/hits";

/// Edges of each datacenter.
const EDGES: usize = 8;

/// How long something may take that must happen, milliseconds: longer than any caller waits.
const WAIT_MS_MAX: i64 = 60_000;

/// How long messages that were let go are given to do all they can do, milliseconds.
const SETTLE_MS: u64 = 10_000;

/// A message, or the answer to one, that is held where it has come.
pub struct Held {
    path: &'static str,
    to: String,
    has_come: Cell<bool>,
    verdict: Rc<OneShot<Verdict>>,
}

impl Held {
    /// It goes on.
    pub fn let_go(&self) {
        self.verdict.fill(Verdict::Answered);
    }

    /// It is gone, which whoever sent it hears.
    pub fn lose(&self) {
        self.verdict.fill(Verdict::Unreached);
    }

    fn takes(&self, judged: &PendingCall) -> bool {
        let is_it = judged.path == self.path && judged.name.ends_with(&self.to);
        is_it && !self.has_come.replace(true)
    }
}

/// Those of one direction that wait for their message.
type Holds = Rc<RefCell<Vec<Rc<Held>>>>;

/// A request that is under way.
pub type PendingAnswer = Pin<Box<dyn Future<Output = Result<Answer, NoAnswer>>>>;

/// A deployment.
pub struct Scene {
    pub world: World,
    sites: Vec<Site>,
    requests: Holds,
    answers: Holds,
    /// What has come where, in order: the path and the name of the object.
    arrived: Rc<RefCell<Vec<(String, String)>>>,
}

fn taken(holds: &Holds, judged: &PendingCall) -> Option<Rc<Held>> {
    let mut holds = holds.borrow_mut();
    let place = holds.iter().position(|held| held.takes(judged))?;
    Some(holds.remove(place))
}

impl Scene {
    /// A deployment of these datacenters, of eight edges each, and of objects of their own.
    pub fn new(datacenters: &[&str]) -> Self {
        Self::seeded(1, datacenters)
    }

    /// Such a deployment, whose chance is of this seed.
    pub fn seeded(seed: u64, datacenters: &[&str]) -> Self {
        let world = deployed(seed, Options::default());
        let sites = datacenters.iter().map(|name| world.site(name, EDGES));
        let scene = Self {
            sites: sites.collect(),
            world,
            requests: Rc::default(),
            answers: Rc::default(),
            arrived: Rc::default(),
        };
        let (requests, arrived) = (scene.requests.clone(), scene.arrived.clone());
        scene.world.set_judge(move |judged| -> Later<Verdict> {
            let note = (judged.path.clone(), judged.name.clone());
            arrived.borrow_mut().push(note);
            match taken(&requests, &judged) {
                Some(held) => Box::pin(held.verdict.clone().wait()),
                None => Box::pin(async { Verdict::Answered }),
            }
        });
        let answers = scene.answers.clone();
        scene.world.set_answer_judge(move |judged| -> Later<()> {
            let held = taken(&answers, &judged);
            Box::pin(async move {
                if let Some(held) = held {
                    held.verdict.clone().wait().await;
                }
            })
        });
        scene
    }

    fn hold_one(holds: &Holds, path: &'static str, to: &str) -> Rc<Held> {
        let held = Rc::new(Held {
            path,
            to: to.to_owned(),
            has_come: Cell::new(false),
            verdict: OneShot::new(),
        });
        holds.borrow_mut().push(held.clone());
        held
    }

    /// Holds the next message of a path that comes to an object, by the end of its name.
    pub fn hold(&self, path: &'static str, to: &str) -> Rc<Held> {
        Self::hold_one(&self.requests, path, to)
    }

    /// Holds the answer to the next such message, once it was carried out.
    pub fn hold_answer(&self, path: &'static str, to: &str) -> Rc<Held> {
        Self::hold_one(&self.answers, path, to)
    }

    /// Lets time pass until a message has come.
    pub fn wait_for(&self, held: &Held) {
        self.wait_until(|| held.has_come.get(), held.path);
    }

    /// Lets time pass until something holds.
    pub fn wait_until(&self, holds: impl Fn() -> bool, what: &str) {
        let until_ms = self.world.now_ms() + WAIT_MS_MAX;
        while !holds() {
            assert!(self.world.now_ms() < until_ms, "{what} never came");
            self.world.run_for_ms(1);
        }
    }

    /// Lets all happen that can.
    pub fn settle(&self) {
        self.world.run_for_ms(SETTLE_MS);
    }

    /// How many messages of a path have come to an object, by the end of its name.
    pub fn count(&self, path: &str, to: &str) -> usize {
        let arrived = self.arrived.borrow();
        let those = arrived.iter();
        those
            .filter(|(known, name)| known == path && name.ends_with(to))
            .count()
    }

    /// Makes a request at a datacenter, by its number; of the first edge there unless it names one.
    pub fn begin(&self, site: usize, ask: ClientRequest) -> PendingAnswer {
        let client = admin(&self.world, self.sites[site]);
        let mut pending: PendingAnswer = Box::pin(async move { client.ask(ask).await });
        let sent = poll_fn(|context| Poll::Ready(pending.as_mut().poll(context).is_pending()));
        assert!(self.world.run(sent), "a message takes a time");
        pending
    }

    /// Waits for the answer.
    pub fn end(&self, pending: PendingAnswer) -> Answer {
        self.world.run(pending).expect("clients are answered")
    }

    /// Makes a request, and waits for its answer.
    pub fn ask(&self, site: usize, ask: ClientRequest) -> Answer {
        let pending = self.begin(site, ask);
        self.end(pending)
    }

    /// Makes a request that must be done. Returns what it is answered.
    pub fn done(&self, site: usize, ask: ClientRequest) -> Value {
        let answer = self.ask(site, ask);
        assert!((200..300).contains(&answer.status), "{}", answer.text());
        answer.json()
    }

    /// What a strong read says, which must be exact.
    pub fn read(&self, query: &str) -> Value {
        let path = format!("{COUNTER}?consistency=strong{query}");
        let read = self.done(0, ClientRequest::new("GET", path).at(0));
        assert_eq!(read["exact"], true, "{read}");
        read
    }

    /// The value, once all has happened that can.
    pub fn value(&self) -> i64 {
        self.settle();
        let read = self.read("");
        read["value"].as_i64().expect("a value")
    }

    /// The version of the counter as it is now.
    pub fn version(&self) -> String {
        let read = self.read("");
        read["version"].as_str().expect("a version").to_owned()
    }

    /// Cuts two datacenters from each other for a time.
    pub fn cut(&self, one: usize, other: usize, milliseconds: u64) {
        let (one, other) = (self.sites[one], self.sites[other]);
        self.world.cut(one, other, milliseconds);
    }

    /// The object of a cell: `FRA/0` is the lead of FRA.
    pub fn cell(&self, datacenter: &str, shard: u8) -> Placement {
        names::cell(&CellAddress {
            counter: CounterId::parse("hits").expect("an id"),
            datacenter: Datacenter::parse(datacenter).expect("a name"),
            shard,
        })
    }

    /// How many tables the object of a cell has; `None` where there is no such object.
    pub fn tables(&self, datacenter: &str, shard: u8) -> Option<usize> {
        let tables = "SELECT 1 FROM sqlite_master WHERE type = 'table'";
        let rows = self.world.look(&self.cell(datacenter, shard), tables);
        rows.map(|rows| rows.len())
    }

    /// The object that the last message of a path came to.
    pub fn last_place(&self, binding: &'static str, path: &str) -> Placement {
        let arrived = self.arrived.borrow();
        let last = arrived.iter().rev().find(|(known, _)| known == path);
        Placement {
            binding,
            name: last.expect("it came somewhere").1.clone(),
            location_hint: None,
        }
    }

    /// The edges of the first datacenter whose writes go to each shard, of two. Another counter tells.
    pub fn edges_by_shard(&self) -> [Vec<usize>; 2] {
        let other = |path: &str| format!("/counters/lots{path}");
        self.done(
            0,
            ClientRequest::new("PUT", other("")).json(r#"{"shards":2}"#),
        );
        let mut edges = [Vec::new(), Vec::new()];
        for edge in 0..EDGES {
            // It learns how many there are from the first answer.
            for _ in 0..2 {
                self.done(0, ClientRequest::new("POST", other("/increment")).at(edge));
            }
            let shard = self.last_place(names::CELLS, "/flush").name.contains("/1/");
            edges[usize::from(shard)].push(edge);
        }
        edges
    }
}

fn to_counter(method: &str, path: &str, body: &str) -> ClientRequest {
    let ask = ClientRequest::new(method, format!("{COUNTER}{path}")).at(0);
    if body.is_empty() { ask } else { ask.json(body) }
}

/// An increment.
pub fn add(delta: u64) -> ClientRequest {
    to_counter("POST", "/increment", &format!(r#"{{"delta":{delta}}}"#))
}

/// A decrement.
pub fn take(delta: u64) -> ClientRequest {
    to_counter("POST", "/decrement", &format!(r#"{{"delta":{delta}}}"#))
}

/// An increment with more in its body.
pub fn add_with(json: &str) -> ClientRequest {
    to_counter("POST", "/increment", json)
}

/// Settings.
pub fn put(json: &str) -> ClientRequest {
    to_counter("PUT", "", json)
}

/// A set.
pub fn set(value: i64) -> ClientRequest {
    to_counter("PUT", "/value", &format!(r#"{{"value":{value}}}"#))
}

/// A reset.
pub fn reset() -> ClientRequest {
    set(0)
}

/// A deletion.
pub fn delete() -> ClientRequest {
    to_counter("DELETE", "", "")
}

/// A queued event.
pub fn event(increment: u64) -> ClientRequest {
    let body = format!(r#"{{"key":"hits","increment":{increment}}}"#);
    ClientRequest::new("POST", "/api/event").at(0).json(body)
}

/// Under an idempotency key.
pub fn keyed(ask: ClientRequest) -> ClientRequest {
    ask.header("idempotency-key", "key-of-one-write")
}

/// Only while the counter has this version.
pub fn matching(ask: ClientRequest, version: &str) -> ClientRequest {
    ask.header("if-match", format!("\"{version}\""))
}
