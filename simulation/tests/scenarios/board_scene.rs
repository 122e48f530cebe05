//! A deployment for scenarios of boards: its objects, what a test does to messages of theirs, and how clients ask.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

use serde_json::{Value, json};
use tally_core::board::placing::{ShardAt, group_of};
use tally_core::counter::id::CounterId;
use tally_host::Later;
use tally_simulation::{
    Answer, Client, ClientRequest, Options, Site, Verdict, World, admin, deployed,
};
use tally_wire::names;
use tally_wire::names::Placement;

/// Edges of each datacenter.
const EDGES: usize = 4;

/// What happens to messages of a path that go to an object, by the end of its name: a delay, and an outcome.
type Rule = (&'static str, String, u64, Verdict);

/// A deployment.
pub struct BoardScene {
    pub world: World,
    sites: Vec<Site>,
    rules: Rc<RefCell<Vec<Rule>>>,
}

/// The unix second of a moment in an answer.
pub fn second(moment: &Value) -> i64 {
    moment.as_i64().expect("a moment") / 1_000
}

impl BoardScene {
    pub fn new(datacenters: &[&str]) -> Self {
        let world = deployed(1, Options::default());
        world.set("TALLY_REDIS", Some("1"));
        let sites = datacenters.iter().map(|name| world.site(name, EDGES));
        let scene = Self {
            sites: sites.collect(),
            world,
            rules: Rc::default(),
        };
        let (rules, sleep) = (scene.rules.clone(), scene.world.sleeper());
        scene.world.set_judge(move |judged| -> Later<Verdict> {
            let rules = rules.borrow();
            let mut fits = rules
                .iter()
                .filter(|(path, to, ..)| judged.path == *path && judged.name.ends_with(to));
            let Some((_, _, milliseconds, verdict)) = fits.next().cloned() else {
                return Box::pin(async { Verdict::Answered });
            };
            let slept = sleep(milliseconds);
            Box::pin(async move {
                slept.await;
                verdict
            })
        });
        scene
    }

    /// From now on messages of a path to an object take longer, and have this outcome.
    pub fn rule(&self, path: &'static str, to: &str, milliseconds: u64, verdict: Verdict) {
        let rule = (path, to.to_owned(), milliseconds, verdict);
        self.rules.borrow_mut().push(rule);
    }

    /// All messages arrive again.
    pub fn lift_rules(&self) {
        self.rules.borrow_mut().clear();
    }

    /// A client of a datacenter.
    pub fn client(&self, site: usize) -> Client {
        admin(&self.world, self.sites[site])
    }

    /// Makes a request at an edge of a datacenter.
    pub fn send(&self, (site, edge): (usize, usize), request: ClientRequest) -> Answer {
        let client = self.client(site);
        let pending = client.ask(request.at(edge));
        self.world.run(pending).expect("clients are answered")
    }

    pub fn ask(&self, from: (usize, usize), method: &str, path: &str, body: &str) -> (u16, Value) {
        let mut request = ClientRequest::new(method, path);
        if !body.is_empty() {
            request = request.body(body.as_bytes().to_vec());
        }
        let answer = self.send(from, request);
        (answer.status, answer.json())
    }

    /// A request to the first edge that must be done.
    pub fn done(&self, method: &str, path: &str, body: &str) -> Value {
        let (status, answer) = self.ask((0, 0), method, path, body);
        assert!((200..300).contains(&status), "{method} {path}: {answer}");
        answer
    }

    pub fn get(&self, path: &str) -> Value {
        self.done("GET", path, "")
    }

    /// The unix second at which the period of the board `b` began.
    pub fn period(&self) -> i64 {
        second(&self.get("/boards/b")["period"]["starts_at"])
    }

    /// The result of a command of Redis's dialect.
    pub fn run(&self, words: &[&str]) -> Value {
        let (_, mut reply) = self.ask((0, 0), "POST", "/redis", &json!(words).to_string());
        assert!(reply["error"].is_null(), "{words:?}: {reply}");
        reply["result"].take()
    }

    /// Writes lines that are made from numbers. All must be accepted.
    pub fn lines(&self, board: &str, numbers: Range<usize>, line: impl Fn(usize) -> Value) {
        let all: Vec<usize> = numbers.collect();
        for some in all.chunks(10_000) {
            let body: String = some
                .iter()
                .map(|number| format!("{}\n", line(*number)))
                .collect();
            let answer = self.done("POST", &format!("/boards/{board}/members"), &body);
            assert_eq!(answer["accepted"], some.len(), "{answer}");
        }
    }

    /// Lets all happen that can.
    pub fn settle(&self) {
        self.world.run_for_ms(10_000);
    }

    /// Lets time pass up to so many milliseconds before the next full hour.
    pub fn pass_to_hour(&self, before_ms: i64) {
        const HOUR_MS: i64 = 3_600_000;
        let left_ms = HOUR_MS - self.world.now_ms() % HOUR_MS - before_ms;
        let left_ms = if left_ms < 0 {
            left_ms + HOUR_MS
        } else {
            left_ms
        };
        self.world.run_for_ms(left_ms.unsigned_abs());
    }
}

/// The owner of a board.
pub fn owner(board: &str) -> Placement {
    let board = CounterId::parse(board).expect("a name");
    names::board(&board, ShardAt::default(), None)
}

/// A name of a group of members.
pub fn name_in(group: u32) -> String {
    let mut names = (0..).map(|number| format!("m{number}"));
    let is_in = |name: &String| group_of(name.as_bytes()) == group;
    names.find(is_in).expect("every group has names")
}

/// The names of rows.
pub fn names_of(answer: &Value) -> Vec<&str> {
    let rows = answer["entries"].as_array().expect("rows").iter();
    rows.filter_map(|row| row["member"].as_str()).collect()
}
