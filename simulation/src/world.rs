//! A world: what tests build, run and look into.

use std::future::Future;
use std::io;
use std::path::Path;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use serde_json::Value;
use tally_host::http::{self, Request, Response};
use tally_host::object::{IncomingCall, Object, Reply, Rows, Shell};
use tally_host::{Delivered, Host, Later, MessageOutcome, Point};
use tally_wire::alerts::Outgoing;
use tally_wire::names::Placement;

use crate::chance::Chance;
use crate::client::Client;
use crate::clocks::ClockOf;
use crate::core::Core;
use crate::executor::Step;
use crate::faults::{Faults, Options};
use crate::intervention::{PendingCall, Verdict};
use crate::isolate::Role;
use crate::journal::{Figures, NotedCall, NotedStep};
use crate::network::Site;

/// Steps of one [`World::run`]; a world that needs more is taken to never end. The largest worlds have about 10
/// million.
const STEPS_MAX: u64 = 100_000_000;

/// A deployment, its network and its clients, decided by a seed.
pub struct World {
    pub(crate) core: Rc<Core>,
}

impl World {
    /// An empty world.
    pub fn new(seed: u64, options: Options) -> Self {
        Self {
            core: Core::new(seed, options),
        }
    }

    /// Keeps a log from now on; `is_shown` prints it too.
    pub fn keep_log(&self, is_shown: bool) {
        self.core.journal.keep(is_shown);
    }

    /// Keeps a history of the calls of clients in a file, from now on.
    ///
    /// # Errors
    /// Where the file cannot be made.
    pub fn keep_history(&self, path: &Path) -> io::Result<()> {
        self.core.history.keep(path)
    }

    /// Notes in the history what is no call, as Jepsen's nemesis does.
    pub fn note_history(&self, what: &str, value: &Value) {
        let now_us = self.core.executor.now_us();
        self.core.history.note(now_us, what, value);
    }

    /// The log so far.
    pub fn log(&self) -> Vec<String> {
        self.core.journal.lines().0
    }

    /// Notes all calls of a path from now on.
    pub fn note_calls(&self, path: &'static str) {
        self.core.journal.note_calls(path);
    }

    /// The calls that were noted so far.
    pub fn calls(&self) -> Vec<NotedCall> {
        self.core.journal.calls()
    }

    /// The steps forward of the clocks of objects so far.
    pub fn clock_steps(&self) -> Vec<NotedStep> {
        self.core.journal.steps()
    }

    /// Notes a line in the log.
    pub fn record(&self, line: impl FnOnce() -> String) {
        self.core.record(line);
    }

    /// What was done so far, in numbers.
    pub fn figures(&self) -> Figures {
        self.core.journal.figures()
    }

    /// How often a request of an isolate was woken by another's task, which Workers would resume in the wrong context.
    pub fn crossed(&self) -> u64 {
        self.core.executor.crossed()
    }

    /// The fingerprint of this run: steps, microseconds, and the state of the random numbers.
    pub fn fingerprint(&self) -> (u64, u64, u64) {
        let executor = &self.core.executor;
        (
            executor.steps(),
            executor.now_us(),
            self.core.chance.state(),
        )
    }

    /// The chance that decides everything.
    pub fn chance(&self) -> &Chance {
        &self.core.chance
    }

    /// Sets what goes wrong from now on.
    pub fn set_faults(&self, faults: Faults) {
        self.core.faults.set(faults);
    }

    /// What goes wrong.
    pub fn faults(&self) -> Faults {
        self.core.faults.get()
    }

    /// Sets a setting of all isolates, or takes it away.
    pub fn set(&self, name: &str, value: Option<&str>) {
        self.core.set(None, name, value);
    }

    /// Sets a setting of the isolates of one role.
    pub fn set_for(&self, role: Role, name: &str, value: Option<&str>) {
        self.core.set(Some(role), name, value);
    }

    /// How objects of a binding are started.
    pub fn register(
        &self,
        binding: &'static str,
        start: impl Fn(Object, Host) -> Rc<dyn Shell> + 'static,
    ) {
        self.core.register(binding, Rc::new(start));
    }

    /// What answers calls of the aggregator.
    pub fn set_aggregator<F: Future<Output = Reply> + 'static>(
        &self,
        answer: impl Fn(Host, IncomingCall, http::Context) -> F + 'static,
    ) {
        let answer = move |host, arrived, context| -> Later<Reply> {
            Box::pin(answer(host, arrived, context))
        };
        self.core.set_aggregator(Rc::new(answer));
    }

    /// What answers clients.
    pub fn set_edge<F: Future<Output = Response> + 'static>(
        &self,
        answer: impl Fn(Box<dyn Request>, Host, http::Context) -> F + 'static,
    ) {
        let answer = move |request, host, context| -> Later<Response> {
            Box::pin(answer(request, host, context))
        };
        self.core.set_edge(Rc::new(answer));
    }

    /// What decides what becomes of each call, before it is carried out.
    pub fn set_judge(&self, judge: impl Fn(PendingCall) -> Later<Verdict> + 'static) {
        self.core.intervention.set(Rc::new(judge));
    }

    /// What decides when the answer of each call goes on its way, after it was carried out and what it wrote is
    /// durable.
    pub fn set_answer_judge(&self, judge: impl Fn(PendingCall) -> Later<()> + 'static) {
        let judge = Rc::new(judge);
        self.core.intervention.set_answer_judge(judge);
    }

    /// What answers requests that leave the deployment, with a status.
    pub fn set_receiver<F: Future<Output = Result<u16, String>> + 'static>(
        &self,
        receive: impl Fn(Outgoing) -> F + 'static,
    ) {
        let receive = move |request| -> Later<Result<u16, String>> { Box::pin(receive(request)) };
        self.core.outside.set(Rc::new(receive));
    }

    /// Binds a data set for points.
    pub fn bind_points(&self) {
        self.core.outside.set_points(Vec::new());
    }

    /// The points that were written to it.
    pub fn points(&self) -> Vec<Point> {
        self.core.outside.points()
    }

    /// What consumes the queue's messages.
    pub fn set_consumer<F: Future<Output = Vec<MessageOutcome>> + 'static>(
        &self,
        consume: impl Fn(Host, Vec<Delivered>) -> F + 'static,
    ) {
        let consume = move |host, delivered| -> Later<Vec<MessageOutcome>> {
            Box::pin(consume(host, delivered))
        };
        self.core.queue.set_consumer(Rc::new(consume));
    }

    /// A site with so many edges at least.
    pub fn site(&self, name: &str, edges: usize) -> Site {
        let site = self.core.network.site(name);
        self.core.isolates(Role::Edge, site, edges);
        site
    }

    /// Sets how long one way between two sites takes, milliseconds: least and most.
    pub fn set_distance(&self, one: Site, other: Site, least_ms: u64, most_ms: u64) {
        let us = (least_ms * 1_000, most_ms * 1_000);
        self.core.network.set_distance(one, other, us);
    }

    /// Sets how far clocks are off from now on, milliseconds. Alarms that are set already ring when they would have.
    pub fn set_clock(&self, of: impl Into<ClockOf>, off_ms: i64) {
        let of = of.into();
        self.core
            .record(|| format!("clock    {of:?} is off by {off_ms} ms"));
        self.core.clocks.set(of, off_ms);
    }

    /// Cuts two sites from each other for a time.
    pub fn cut(&self, one: Site, other: Site, milliseconds: u64) {
        let until_us = self.core.executor.now_us() + milliseconds * 1_000;
        self.core
            .record(|| format!("cut      {one:?} from {other:?} for {milliseconds} ms"));
        self.core.network.cut(one, other, until_us);
    }

    /// Cuts a site from all others for a time.
    pub fn cut_off(&self, site: Site, milliseconds: u64) {
        for other in (0..self.core.network.len()).map(Site) {
            if other != site {
                self.cut(site, other, milliseconds);
            }
        }
    }

    /// Ends all cuts.
    pub fn heal(&self) {
        self.core.record(|| "heal".to_owned());
        self.core.network.heal();
    }

    /// A client at a site.
    pub fn client(&self, site: Site) -> Client {
        Client {
            core: self.core.clone(),
            site,
            address: format!("192.0.2.{}", site.0 % 256),
            headers: Vec::new(),
        }
    }

    /// Runs until the future ends, and everything else meanwhile.
    ///
    /// # Panics
    /// Where nothing can happen any more and the future has not ended, and where there is no end of what happens.
    pub fn run<T>(&self, main: impl Future<Output = T>) -> T {
        let mut main = pin!(main);
        let waker = self.core.executor.main();
        let mut context = Context::from_waker(&waker);
        let last = self.core.executor.steps() + STEPS_MAX;
        while self.core.executor.steps() < last {
            match self.core.step() {
                Step::Main => {
                    if let Poll::Ready(value) = main.as_mut().poll(&mut context) {
                        return value;
                    }
                }
                Step::Ran(..) | Step::Rang => {}
                Step::Nothing => panic!("nothing can happen any more, and the test still waits"),
            }
        }
        panic!("the world has made {STEPS_MAX} steps and does not end");
    }

    /// Lets a time pass.
    pub fn run_for_ms(&self, milliseconds: u64) {
        self.run(self.sleep_ms(milliseconds));
    }

    /// Waits, inside [`World::run`].
    pub fn sleep_ms(&self, milliseconds: u64) -> impl Future<Output = ()> + use<> {
        self.core.executor.sleep(milliseconds.saturating_mul(1_000))
    }

    /// True unix milliseconds.
    pub fn now_ms(&self) -> i64 {
        self.core.now_ms()
    }

    /// True unix milliseconds, for who outlives a borrow of this.
    pub fn clock(&self) -> impl Fn() -> i64 + use<> {
        let core = Rc::downgrade(&self.core);
        move || core.upgrade().map_or(0, |core| core.now_ms())
    }

    /// Waits, for who outlives a borrow of this, milliseconds.
    pub fn sleeper(&self) -> impl Fn(u64) -> Later<()> + use<> {
        let core = Rc::downgrade(&self.core);
        move |milliseconds| -> Later<()> {
            match core.upgrade() {
                Some(core) => Box::pin(core.executor.sleep(milliseconds.saturating_mul(1_000))),
                None => Box::pin(std::future::pending()),
            }
        }
    }

    /// Steps the clocks of all isolates that run: each is off as [`Options::skew_ms_max`] says, anew.
    pub fn step_clocks(&self) {
        self.core.record(|| "the clocks are stepped".to_owned());
        for isolate in self.core.all_clocks() {
            let skew_ms = self.core.chance.around(self.core.options.skew_ms_max);
            isolate.set_skew(skew_ms);
        }
        for place in self.core.all_places() {
            place.note_clock();
        }
    }

    /// Crashes an object. Returns whether it ran.
    pub fn crash(&self, placement: &Placement) -> bool {
        let place = self.core.known_place(placement.binding, &placement.name);
        let place = place.filter(|place| place.is_running());
        place.map(|place| place.crash()).is_some()
    }

    /// Takes an object's storage out for a time, once so many more statements have run. Returns whether there is such
    /// an object.
    pub fn fail_storage(&self, placement: &Placement, statements: u64, milliseconds: u64) -> bool {
        let place = self.core.known_place(placement.binding, &placement.name);
        let fails = Some((statements, milliseconds * 1_000));
        place.map(|place| place.fails_after.set(fails)).is_some()
    }

    /// Evicts an object, where nothing is under way in it. Returns whether it did.
    pub fn evict(&self, placement: &Placement) -> bool {
        let place = self.core.known_place(placement.binding, &placement.name);
        place.is_some_and(|place| place.evict())
    }

    /// Evicts every object and isolate that nothing is under way in. Returns how many.
    pub fn evict_all(&self) -> usize {
        let places = self.core.all_places();
        let objects = places.iter().filter(|place| place.evict()).count();
        let isolates = self.core.all_isolates();
        objects
            + isolates
                .iter()
                .filter(|isolate| self.core.evict_isolate(isolate))
                .count()
    }

    /// Evicts every object that nothing is under way in. Returns how many still run.
    pub fn evict_objects(&self) -> usize {
        let places = self.core.all_places();
        let running = places.iter().filter(|place| place.is_running());
        running.filter(|place| !place.evict()).count()
    }

    /// Stops everything at once, and starts it again after a time, milliseconds: all memory is lost, all storage is
    /// kept.
    pub fn restart(&self, after_ms: u64) {
        self.crash_all_objects();
        for isolate in self.core.all_isolates() {
            self.core.crash_isolate(&isolate);
        }
        for place in self.core.all_places() {
            place.storage.reopen();
        }
        self.core.executor.skip(after_ms.saturating_mul(1_000));
    }

    /// No alarm that is set rings.
    pub fn forget_alarms(&self) {
        for place in self.core.all_places() {
            place.alarm.forget();
        }
    }

    /// Crashes the isolates of a role at a site, and the objects in them.
    pub fn crash_isolates(&self, role: Role, site: Site) {
        for isolate in self.core.isolates(role, site, 0) {
            self.core.crash_isolate(&isolate);
        }
    }

    /// Crashes every object.
    pub fn crash_all_objects(&self) {
        for place in self.core.all_places() {
            place.crash();
        }
    }

    /// Runs a statement in an object's database, past its object: for looking into it. `None` where there is no such
    /// object.
    pub fn look(&self, placement: &Placement, statement: &str) -> Option<Rows> {
        let place = self.core.known_place(placement.binding, &placement.name)?;
        place.storage.run(statement, &[]).ok()
    }

    /// What the service has said that failed.
    pub fn errors(&self) -> Vec<String> {
        self.core.journal.errors()
    }

    /// The objects that there are: binding, name, statements run and rows written.
    pub fn objects(&self) -> Vec<(&'static str, String, u64, u64)> {
        let places = self.core.all_places();
        let figures = places.iter().map(|place| {
            let (statements, rows) = place.storage.figures();
            (place.binding, place.name.clone(), statements, rows)
        });
        figures.collect()
    }

    /// The names of the files in the bucket.
    pub fn files(&self) -> Vec<String> {
        self.core.bucket.names()
    }

    /// What a file in the bucket holds.
    pub fn file(&self, name: &str) -> Option<Vec<u8>> {
        self.core.bucket.get(name)
    }

    /// Puts a file into the bucket, or takes it away.
    pub fn put_file(&self, name: &str, bytes: Option<Vec<u8>>) {
        self.core.bucket.put(name, bytes);
    }

    /// Messages of the queue that are neither done nor dead, and those that are dead.
    pub fn queue(&self) -> (usize, Vec<Vec<u8>>) {
        (self.core.queue.left(), self.core.queue.dead())
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.core.close();
    }
}
