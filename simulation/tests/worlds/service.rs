//! A deployment with its clients, and what is known of each counter.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::pin;

use futures_util::future::{Either, select};
use tally_simulation::{ADMIN_KEY, Answer, Client, ClientRequest, NoAnswer, Site, World, deploy};

use super::additions;
use super::digits::Held;
use super::holds;
use super::laws::View;
use super::limits;
use super::oracle::{Counter, Moment, Outcome};
use super::plan::Plan;
use super::puts;
use super::watchers::Watcher;

/// What became of a request.
#[derive(Debug)]
pub enum AskResult {
    Done(Answer),
    /// Nothing was changed: the code.
    Refused(String),
    /// Nobody knows.
    Unknown(String),
}

/// A reader of a counter: the version that it holds, and what that has seen.
pub type Reader = Option<(String, Held)>;

/// A deployment with its clients.
pub struct Service {
    pub world: World,
    pub plan: Plan,
    pub sites: Vec<Site>,
    pub counters: Vec<RefCell<Counter>>,
    pub watchers: RefCell<Vec<Watcher>>,
    pub limits: limits::Known,
    pub additions: additions::Known,
    pub holds: holds::Known,
    /// How often the key of elements was changed, at most.
    pub rotations: Cell<usize>,
    /// Whether edges were started anew, besides what the plan's faults do.
    pub are_edges_restarted: Cell<bool>,
    order: Cell<u64>,
}

/// The id of a counter.
pub fn id(counter: usize) -> String {
    format!("hits-{counter}")
}

/// A whole number, or its decimal string.
pub fn whole(value: &serde_json::Value) -> Option<i128> {
    match value {
        serde_json::Value::String(text) => text.parse().ok(),
        value => value
            .as_i64()
            .map(i128::from)
            .or(value.as_u64().map(i128::from)),
    }
}

/// What an answer says was done.
pub fn judge(outcome: Result<Answer, NoAnswer>, what: &str) -> AskResult {
    let answer = match outcome {
        Ok(answer) => answer,
        Err(error) => return AskResult::Unknown(error.to_string()),
    };
    let code = || answer.json()["code"].as_str().unwrap_or("none").to_owned();
    match answer.status {
        101 | 200..300 => AskResult::Done(answer),
        // A body of which nothing was counted: the problem has the report, which says what became of each line.
        400.. if answer.json()["errors"].is_array() => AskResult::Done(answer),
        503 if code() == "overloaded" => AskResult::Refused(code()),
        503 | 504 => AskResult::Unknown(code()),
        400..500 => AskResult::Refused(code()),
        status => panic!("{what}: {status} {}", answer.text()),
    }
}

impl Service {
    /// The deployment of a plan, where nothing has happened.
    pub fn new(seed: u64, plan: Plan, is_logged: bool) -> Self {
        let world = World::new(seed, plan.options.clone());
        if is_logged {
            world.keep_log(true);
        }
        deploy(&world);
        world.note_calls(puts::READS);
        if let Some(tablets) = plan.tablets {
            world.set(tally_wire::names::TABLET_COUNT, Some(&tablets.to_string()));
        }
        for (name, value) in &plan.settings {
            world.set(name, Some(value));
        }
        if plan.before_once_in > 0 {
            world.set_before_once_in(plan.before_once_in);
        }
        let sites = plan.sites.iter().map(|name| world.site(name, plan.edges));
        let sites = sites.collect();
        // One tick of the clock besides, since moments are whole milliseconds.
        let clocks_ms = 2 * plan.options.skew_ms_max + 2;
        let counter = |_| RefCell::new(Counter::new(clocks_ms));
        Self {
            sites,
            counters: (0..plan.counters).map(counter).collect(),
            order: Cell::default(),
            watchers: RefCell::default(),
            limits: limits::Known::default(),
            additions: additions::Known::default(),
            holds: holds::Known::default(),
            rotations: Cell::default(),
            are_edges_restarted: Cell::default(),
            world,
            plan,
        }
    }

    /// This moment, after all before it.
    pub fn now(&self) -> Moment {
        self.order.set(self.order.get() + 1);
        Moment {
            order: self.order.get(),
            at_ms: self.world.now_ms(),
        }
    }

    /// A client at a site.
    pub fn client(&self, site: usize) -> Client {
        self.world
            .client(self.sites[site % self.sites.len()])
            .with_key(ADMIN_KEY)
    }

    /// Draws a site.
    pub fn any_site(&self) -> usize {
        self.world.chance().pick(self.sites.len())
    }

    /// Makes a request; its client may hang up.
    pub async fn ask(&self, site: usize, ask: ClientRequest, what: &str) -> AskResult {
        let client = self.client(site);
        let outcome = self.impatient(client.ask(ask)).await;
        let result = judge(outcome, what);
        if let AskResult::Unknown(why) = &result {
            self.say(|| format!("{what} is not known: {why}"));
        }
        result
    }

    async fn impatient(
        &self,
        pending: impl Future<Output = Result<Answer, NoAnswer>>,
    ) -> Result<Answer, NoAnswer> {
        let chance = self.world.chance();
        if !chance.once_in(self.plan.hangs_up) {
            return pending.await;
        }
        let patience = pin!(self.world.sleep_ms(chance.below(2_000)));
        match select(pin!(pending), patience).await {
            Either::Left((outcome, _)) => outcome,
            Either::Right(_) => Err(NoAnswer("the client hung up".to_owned())),
        }
    }

    /// What a client says.
    pub fn say(&self, line: impl FnOnce() -> String) {
        self.world.record(|| format!("CLIENT   {}", line()));
    }

    /// What became of a write, by the result of its one request.
    pub fn outcome(&self, result: &AskResult) -> Outcome {
        match result {
            AskResult::Done(_) => Outcome::Acknowledged(self.now()),
            AskResult::Refused(_) => Outcome::Refused,
            AskResult::Unknown(_) => Outcome::Unknown,
        }
    }

    /// Holds what an answer says of a counter against the laws.
    pub fn check(
        &self,
        counter: usize,
        answer: &Answer,
        begun: Moment,
        held: Option<&Held>,
        what: &str,
    ) -> Held {
        let json = answer.json();
        let value = whole(&json["value"]).unwrap_or_else(|| panic!("{what}: {}", answer.text()));
        let view = View {
            value,
            is_exact: json["exact"] == true,
            as_of_ms: json["as_of"].as_i64(),
            begun,
            ended: self.now(),
            held,
            what,
        };
        let seen = self.counters[counter].borrow_mut().check(&view);
        self.say(|| format!("{what} sees {seen:?}, exact: {}", view.is_exact));
        seen
    }
}
