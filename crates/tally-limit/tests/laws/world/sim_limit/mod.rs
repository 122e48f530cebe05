//! Twenty borrowers and one lender, out of the machines that ship, on a network that loses, repeats and reorders. The
//! borrowers of a limit that holds for the world are datacenters, whose calls wait for a lease; those of a limit of a
//! datacenter are isolates, whose calls go to the limiter itself where nothing is held.
//!
//! Invariant: true time is that of the lender's clock. What is admitted is written down with it, and judged at the
//! end by nothing but that list.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use tally_limit::borrowers::Borrowers;
use tally_limit::lease::{LeaseAnswer, LeaseId, LeaseRequest};
use tally_limit::policy::{Policy, Scope};
use tally_limit::table::Table;

use chance::{between_ms, part};
pub use judge::Figures;
use tally_testing::chance::Chance;

mod calls;
mod chance;
mod isolate;
mod judge;
mod lender;

/// When a world begins, by the lender's clock.
const BEGIN_MS: i64 = 1_777_593_600_000;

const POLICY: &str = "policy";
const KEY: &str = "key";

/// What goes wrong in a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failures {
    None,
    All,
}

/// When calls come.
#[derive(Clone, Copy, Debug)]
pub enum Pace {
    /// At random, evenly over all windows.
    Steady,
    /// One datacenter after the other has all its calls, one after so many milliseconds.
    InTurn { gap_ms: f64 },
}

/// A world to be.
#[derive(Clone, Debug)]
pub struct Plan {
    pub policy: Policy,
    pub datacenters: usize,
    pub pace: Pace,
    /// Calls, in percent of what the limit lets through.
    pub percent: u64,
    /// Whether few datacenters have most of the calls.
    pub is_uneven: bool,
    pub failures: Failures,
    /// Whether isolates are lent parts.
    pub lends: bool,
    /// How many windows it lasts.
    pub windows: i64,
}

#[derive(Debug)]
enum Event {
    /// A call reaches a datacenter.
    Call { at: usize },
    /// A call of an isolate reaches the limiter.
    Checked { from: usize, cost: u64 },
    /// A request reaches the lender.
    Request {
        from: usize,
        life: u64,
        request: LeaseRequest,
    },
    /// An answer reaches a datacenter.
    Answered {
        to: usize,
        life: u64,
        answer: LeaseAnswer,
    },
    /// A borrower is asked for what it does not need, and tells.
    Recall {
        at: usize,
        lease: LeaseId,
        takes_all: bool,
        number: u64,
    },
    RecallReport {
        from: usize,
        report: Option<LeaseRequest>,
        number: u64,
    },
    /// Nobody waits any more for those that were asked.
    RecallLate { number: u64 },
    /// A datacenter no longer waits.
    Late { at: usize, life: u64, sequence: u64 },
    /// A datacenter's timer.
    Tick { at: usize },
    /// A datacenter's object starts anew.
    Restart { at: usize },
    /// The lender's object starts anew, from what is stored.
    Crash,
    /// A datacenter is cut off for so long.
    Cut { at: usize, length_ms: i64 },
}

/// One call that waits.
#[derive(Clone, Copy)]
struct Waiting {
    cost: u64,
    /// Since when; none for one that has just come.
    since_ms: Option<i64>,
}

struct Datacenter {
    borrowers: Borrowers,
    life: u64,
    /// This clock: at the world's beginning, and how many millionths faster it is.
    offset_ms: i64,
    drift_millionths: i64,
    waiting: Vec<Waiting>,
    cut_until_ms: i64,
    /// Its part of the calls, and when its next one comes, after the world's beginning.
    weight: f64,
    next_call_ms: f64,
    calls: u64,
    /// The newest request that was answered.
    answered_sequence: u64,
}

pub struct World {
    plan: Plan,
    chance: Chance,
    now_ms: i64,
    end_ms: i64,
    /// Events by time; the number keeps those of one time in order.
    queue: BinaryHeap<Reverse<(i64, u64)>>,
    events: BTreeMap<u64, Event>,
    number: u64,
    datacenters: Vec<Datacenter>,
    lender: Table,
    /// A number and a body at each place.
    rows: BTreeMap<u64, (u64, Vec<u8>)>,
    down_until_ms: i64,
    recalling: Option<lender::Recall>,
    recalls: u64,
    judge: judge::Judge,
}

impl World {
    /// Lives a world to its end.
    pub fn live(seed: u64, plan: Plan) -> Figures {
        let mut world = Self::new(seed, plan);
        while let Some(Reverse((at_ms, number))) = world.queue.pop() {
            if at_ms > world.end_ms {
                break;
            }
            world.now_ms = at_ms;
            let event = world.events.remove(&number).expect("an event");
            world.happen(event);
        }
        world.judge.figures(&world.plan.policy)
    }

    fn new(seed: u64, plan: Plan) -> Self {
        let mut chance = Chance(seed);
        let fails = plan.failures == Failures::All;
        let count = plan.datacenters;
        let datacenters = (0..count).map(|number| Datacenter {
            borrowers: Borrowers::new(&number.to_string(), 1),
            life: 1,
            offset_ms: between_ms(&mut chance, -5_000, 5_000),
            drift_millionths: if fails {
                between_ms(&mut chance, -9_900, 9_900)
            } else {
                0
            },
            waiting: Vec::new(),
            cut_until_ms: 0,
            weight: if plan.is_uneven {
                1.0 / (number + 1) as f64
            } else {
                1.0
            },
            next_call_ms: 0.0,
            calls: 0,
            answered_sequence: 0,
        });
        let datacenters = datacenters.collect();
        let end_ms = BEGIN_MS + plan.windows * plan.policy.window_ms;
        let mut world = Self {
            plan,
            chance,
            now_ms: BEGIN_MS,
            end_ms,
            queue: BinaryHeap::new(),
            events: BTreeMap::new(),
            number: 0,
            datacenters,
            lender: Table::stored(),
            rows: BTreeMap::new(),
            down_until_ms: 0,
            recalling: None,
            recalls: 0,
            judge: judge::Judge::default(),
        };
        for at in 0..count {
            world.next_call(at);
            world.after(1_000 + at as i64, Event::Tick { at });
            if fails {
                world.next_failure(at);
            }
        }
        if fails {
            world.next_crash();
        }
        world
    }

    fn after(&mut self, delay_ms: i64, event: Event) {
        self.number += 1;
        self.queue
            .push(Reverse((self.now_ms + delay_ms, self.number)));
        self.events.insert(self.number, event);
    }

    fn next_call(&mut self, at: usize) {
        let total: f64 = self.datacenters.iter().map(|one| one.weight).sum();
        let used = self.plan.percent as f64 / 100.0 * self.plan.policy.limit as f64;
        let rate = self.datacenters[at].weight / total * used / self.plan.policy.window_ms as f64;
        match self.plan.pace {
            Pace::Steady => {
                self.datacenters[at].next_call_ms -= part(&mut self.chance).ln() / rate;
            }
            Pace::InTurn { gap_ms } => {
                let many = |one: &Datacenter| (one.weight / total * used).round();
                let before: f64 = self.datacenters[..at].iter().map(many).sum();
                let one = &mut self.datacenters[at];
                if one.calls as f64 >= many(one) {
                    return;
                }
                one.next_call_ms = (before + one.calls as f64) * gap_ms;
                one.calls += 1;
            }
        }
        let one = &self.datacenters[at];
        let delay_ms = BEGIN_MS + one.next_call_ms as i64 - self.now_ms;
        self.after(delay_ms, Event::Call { at });
    }

    fn next_failure(&mut self, at: usize) {
        let typical_ms = self.plan.policy.window_ms.max(5_000) * 4;
        let delay_ms = between_ms(&mut self.chance, 0, typical_ms);
        let event = match self.chance.below(2) {
            0 => Event::Restart { at },
            _ => Event::Cut {
                at,
                length_ms: between_ms(&mut self.chance, 0, typical_ms / 2),
            },
        };
        self.after(delay_ms, event);
    }

    fn next_crash(&mut self) {
        let delay_ms = between_ms(&mut self.chance, 0, self.plan.policy.window_ms.max(5_000));
        self.after(delay_ms, Event::Crash);
    }

    /// What the clock of a datacenter shows.
    fn clock_ms(&self, at: usize) -> i64 {
        let elapsed_ms = self.now_ms - BEGIN_MS;
        let one = &self.datacenters[at];
        self.now_ms + one.offset_ms + elapsed_ms * one.drift_millionths / 1_000_000
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Call { at } => self.called(at),
            Event::Checked { from, cost } => self.checked(from, cost),
            Event::Request {
                from,
                life,
                request,
            } => self.receive_request(from, life, &request),
            Event::Answered { to, life, answer } => self.answered(to, life, &answer),
            Event::Recall {
                at,
                lease,
                takes_all,
                number,
            } => self.recalled(at, &lease, takes_all, number),
            Event::RecallReport {
                from,
                report,
                number,
            } => self.receive_report(from, report.as_ref(), number),
            Event::RecallLate { number } => self.recall_ends(number),
            Event::Late { at, life, sequence } => self.lost(at, life, sequence),
            Event::Tick { at } => self.tick(at),
            Event::Restart { at } => self.restart(at),
            Event::Cut { at, length_ms } => {
                self.datacenters[at].cut_until_ms = self.now_ms + length_ms;
                self.next_failure(at);
            }
            Event::Crash => self.crash(),
        }
    }

    fn called(&mut self, at: usize) {
        self.next_call(at);
        let cost_max = self.plan.policy.capacity().min(3);
        let is_dear = self.plan.failures == Failures::All && self.chance.below(10) == 0;
        let cost = if is_dear {
            1 + self.chance.below(cost_max)
        } else {
            1
        };
        self.judge.checks += 1;
        let call = Waiting {
            cost,
            since_ms: None,
        };
        match self.plan.policy.scope {
            Scope::Global => self.attempt(at, call),
            Scope::Datacenter => self.take(at, cost),
        }
    }

    fn answered(&mut self, to: usize, life: u64, answer: &LeaseAnswer) {
        let is_reached = self.now_ms >= self.datacenters[to].cut_until_ms;
        if is_reached && self.datacenters[to].life == life {
            self.datacenters[to].answered_sequence = answer.sequence;
            let clock_ms = self.clock_ms(to);
            self.datacenters[to]
                .borrowers
                .answered(POLICY, KEY, answer, clock_ms);
            self.wake(to);
        }
    }

    /// No answer came in time.
    fn lost(&mut self, at: usize, life: u64, sequence: u64) {
        let one = &self.datacenters[at];
        if one.life == life && one.answered_sequence < sequence {
            let clock_ms = self.clock_ms(at);
            self.datacenters[at]
                .borrowers
                .lost(POLICY, KEY, sequence, clock_ms);
            self.wake(at);
        }
    }

    fn tick(&mut self, at: usize) {
        let every_ms = match self.plan.policy.scope {
            Scope::Global => 1_000,
            Scope::Datacenter => 100,
        };
        self.after(every_ms, Event::Tick { at });
        let clock_ms = self.clock_ms(at);
        for due_request in self.datacenters[at].borrowers.due_requests(10, clock_ms) {
            self.send(at, due_request.request);
        }
    }

    fn restart(&mut self, at: usize) {
        let one = &mut self.datacenters[at];
        one.life += 1;
        one.borrowers = Borrowers::new(&at.to_string(), one.life);
        // Its callers get an error.
        one.waiting.clear();
        self.next_failure(at);
    }

    fn crash(&mut self) {
        self.recalling = None;
        self.lender = Table::stored();
        let rows = self.rows.iter();
        let mut rows: Vec<_> = rows
            .map(|(place, (number, body))| (number, place, body))
            .collect();
        rows.sort();
        for (number, place, body) in rows {
            let loaded = self.lender.load((*place, *number), body, self.now_ms);
            loaded.expect("a row");
        }
        self.down_until_ms = self.now_ms + between_ms(&mut self.chance, 0, 2_000);
        self.next_crash();
    }
}
