//! A service whose leads, or roots, move.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use futures_util::future::{join, join_all};
use tally_simulation::{
    Client, ClientRequest, Options, Role, Site, Verdict, World, admin, deployed,
};

/// Calls by which leads and roots move.
const MOVING: [&str; 10] = [
    "/locate-lead",
    "/place-lead",
    "/give-lead",
    "/lead-taken",
    "/call-lead",
    "/give-root",
    "/root-taken",
    "/call-root",
    "/directory-swept",
    "/directory-sizes",
];

/// How often a client sends a write until it is answered.
const TRIES_MAX: usize = 200;

pub struct Deployment {
    pub world: World,
    pub sites: [Site; 2],
    /// The variable that is changed.
    variable: &'static str,
    /// Each call by which leads or roots move, as often as it was made.
    pub moved: Rc<RefCell<Vec<String>>>,
    /// What becomes of the call of this path that is made so often from now.
    pub fails: Rc<RefCell<Option<(String, u32, Verdict)>>>,
    /// Whether every object must crash now.
    crashes: Rc<Cell<bool>>,
}

impl Deployment {
    pub fn new(seed: u64, variable: &'static str, number: Option<&str>) -> Self {
        let world = deployed(seed, Options::default());
        world.set(variable, number);
        let sites = [world.site("FRA", 2), world.site("SYD", 2)];
        let moved: Rc<RefCell<Vec<String>>> = Rc::default();
        let fails: Rc<RefCell<Option<(String, u32, Verdict)>>> = Rc::default();
        let crashes: Rc<Cell<bool>> = Rc::default();
        let (moves, failing, crashing) = (moved.clone(), fails.clone(), crashes.clone());
        world.set_judge(move |judged| {
            let mut verdict = Verdict::Answered;
            if MOVING.contains(&judged.path.as_str()) {
                moves.borrow_mut().push(judged.path.clone());
            }
            let mut failing = failing.borrow_mut();
            if let Some((path, left, fate)) =
                failing.as_mut().filter(|fails| fails.0 == judged.path)
            {
                *left -= 1;
                if *left == 0 {
                    verdict = *fate;
                    crashing.set(*fate == Verdict::Answered);
                    path.clear();
                }
            }
            Box::pin(async move { verdict })
        });
        Self {
            world,
            sites,
            variable,
            moved,
            fails,
            crashes,
        }
    }

    pub fn client(&self, site: usize) -> Client {
        admin(&self.world, self.sites[site])
    }

    /// So many tablets, or partitions, from now on; some of those who know of another number start anew.
    pub fn change(&self, number: Option<&str>, restarted: &[Role]) {
        self.world.set(self.variable, number);
        for role in restarted {
            for site in self.sites {
                self.world.crash_isolates(*role, site);
            }
        }
        self.world.crash_all_objects();
    }

    /// Writes each counter once, from one site and the other in turn, under the key of a round.
    pub fn write_each(&self, counters: &[impl AsRef<str>], round: u64) {
        let key = format!("key-{round}");
        let each = counters.iter().enumerate();
        let each = each.map(|(number, counter)| self.write(number % 2, counter.as_ref(), &key));
        self.world.run(join_all(each));
    }

    /// Writes the counter that is deleted later.
    pub fn write_gone(&self) {
        let client = self.client(0);
        let write = client.post("/counters/gone/increment", "{}");
        let answer = self.world.run(write).expect("an answer");
        assert_eq!(answer.status, 200);
    }

    /// Writes under a key until it is answered. Whoever counts it twice is found out by the value.
    pub async fn write(&self, site: usize, counter: &str, key: &str) {
        for _ in 0..TRIES_MAX {
            let write = ClientRequest::new("POST", format!("/counters/{counter}/increment"))
                .header("idempotency-key", key)
                .json("{}");
            match self.client(site).ask(write).await {
                Ok(answer) if answer.status == 200 => return,
                Ok(answer) => assert!(
                    [503, 504].contains(&answer.status),
                    "{} {}",
                    answer.status,
                    answer.text()
                ),
                Err(_) => {}
            }
            self.world.sleep_ms(300).await;
        }
        panic!("a write under {key} is never answered");
    }

    /// Writes to each counter at both sites, all at once, each write under a key of its own. Every object crashes as
    /// soon as that is asked for.
    pub fn write_while_objects_crash(&self, round: usize, counters: &[&str]) {
        let is_over = Cell::new(false);
        let writes = async {
            let each = (0..2 * counters.len()).map(|number| {
                let key = format!("key-{round}-{number}");
                async move { self.write(number % 2, counters[number / 2], &key).await }
            });
            join_all(each).await;
            is_over.set(true);
        };
        self.world
            .run(join(writes, self.crash_when_asked(&is_over)));
    }

    /// Has every object crash as soon as that is asked for.
    pub async fn crash_when_asked(&self, is_over: &Cell<bool>) {
        while !is_over.get() {
            self.world.sleep_ms(1).await;
            if self.crashes.take() {
                self.world.crash_all_objects();
            }
        }
    }

    /// How often a call by which leads or roots move was made.
    pub fn calls(&self, path: &str) -> usize {
        let moved = self.moved.borrow();
        moved.iter().filter(|call| call.as_str() == path).count()
    }

    /// What lists and tops tell of a counter, which ask no lead.
    pub fn listed_values(&self, counter: &str) -> (Option<u64>, Option<u64>) {
        let read = |path: &str, rows: &str| {
            let read = self.world.run(self.client(0).get(path));
            let read = read.expect("an answer").json();
            let rows = read[rows].as_array().cloned().unwrap_or_default();
            let row = rows.into_iter().find(|row| row["id"] == counter);
            row.and_then(|row| row["value"].as_u64())
        };
        let list = read("/counters?values=1&limit=1000", "entries");
        (list, read("/top?by=value&limit=1000", "entries"))
    }

    /// The value that every edge gives, exactly, once all is well.
    pub fn value(&self, counter: &str) -> Option<u64> {
        let path = format!("/counters/{counter}?consistency=strong");
        let mut last = String::new();
        for _ in 0..30 {
            let read = self
                .world
                .run(self.client(0).get(&path))
                .expect("an answer");
            if read.status == 404 {
                return None;
            }
            last = read.text();
            if read.status == 200 && read.json()["exact"] == true {
                return read.json()["value"].as_u64();
            }
            self.world.run_for_ms(1_000);
        }
        panic!("{counter} has no exact value: {last}");
    }
}

/// Has the first, second and third call of each path fail, or all objects crash right after it, each in a world of
/// its own.
pub fn each_failure(paths: &[&str], fails_once: impl Fn(u64, &str, Verdict, u32)) {
    let mut seed = 10;
    for path in paths {
        for fate in [Verdict::Unreached, Verdict::AnswerLost, Verdict::Answered] {
            for nth in 1..=3 {
                seed += 1;
                fails_once(seed, path, fate, nth);
            }
        }
    }
}
