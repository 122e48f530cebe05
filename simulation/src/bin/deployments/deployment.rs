//! One simulated deployment, and what is under way there.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

use futures_util::StreamExt;
use futures_util::future::{AbortHandle, Abortable, LocalBoxFuture};
use futures_util::stream::FuturesUnordered;
use serde_json::{Value, json};
use tally_simulation::{
    Client, ClientRequest, Faults, Housing, Live, OneShot, Options, PendingCall, Role, Site,
    Verdict, World, install,
};

use crate::lines;

/// Where everything is: datacenters are told apart by what requests say of them, as on one machine.
const SITE: &str = "HERE";

/// How often objects that are busy are asked again to let go, and how long after, milliseconds.
const EVICTIONS_MAX: u32 = 200;
const EVICTION_MS: u64 = 50;

/// What each command ends with.
enum Ended {
    Value(Value),
    Opened(u64, Value, Live),
}

/// Calls that somebody must decide about.
#[derive(Default)]
struct Judging {
    is_on: Cell<bool>,
    numbers: Cell<u64>,
    /// Not reported to the caller yet.
    new: RefCell<Vec<(u64, PendingCall)>>,
    open: RefCell<BTreeMap<u64, Rc<OneShot<Verdict>>>>,
    waker: RefCell<Option<Waker>>,
}

impl Judging {
    async fn verdict(self: Rc<Self>, judged: PendingCall) -> Verdict {
        if !self.is_on.get() {
            return Verdict::Answered;
        }
        let number = self.numbers.get() + 1;
        self.numbers.set(number);
        let slot = OneShot::new();
        self.open.borrow_mut().insert(number, slot.clone());
        self.new.borrow_mut().push((number, judged));
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
        slot.wait().await
    }
}

/// One simulated deployment.
pub(crate) struct Deployment {
    pending: FuturesUnordered<LocalBoxFuture<'static, Ended>>,
    aborts: BTreeMap<u64, AbortHandle>,
    streams: BTreeMap<u64, (Live, bool)>,
    judging: Rc<Judging>,
    site: Site,
    /// Last, since all of the others hold parts of it.
    world: Rc<World>,
}

impl Deployment {
    /// Opens one: `seed`, `begins_ms`, `edges`, `folder`, `settings`, `queue` and whether it is `judged`.
    pub(crate) fn open(options: &Value) -> Self {
        let queue = &options["queue"];
        let defaults = Options::default();
        let world = World::new(
            lines::number(options, "seed", 1),
            Options {
                begins_ms: options["begins_ms"].as_i64().unwrap_or(defaults.begins_ms),
                housing: Housing::WithAggregator,
                has_queue: queue.is_object(),
                queue_retries_max: lines::number(queue, "retries", defaults.queue_retries_max),
                queue_batch_max: lines::number(queue, "batch", defaults.queue_batch_max),
                folder: options["folder"].as_str().map(Into::into),
                ..defaults
            },
        );
        if std::env::var_os("LOG").is_some() {
            world.keep_log(true);
        }
        world.set_faults(Faults {
            queue_ms_max: lines::number(queue, "wait_ms", Faults::NONE.queue_ms_max),
            ..Faults::NONE
        });
        install(&world);
        let site = world.site(SITE, lines::number(options, "edges", 1));
        let judging = Rc::<Judging>::default();
        judging.is_on.set(options["judged"] == true);
        let judges = judging.clone();
        world.set_judge(move |judged| Box::pin(judges.clone().verdict(judged)));
        let deployment = Self {
            pending: FuturesUnordered::new(),
            aborts: BTreeMap::new(),
            streams: BTreeMap::new(),
            judging,
            site,
            world: Rc::new(world),
        };
        deployment.set(&options["settings"]);
        deployment
    }

    /// Sets settings: of the `edge`, and of all `others`. `null` takes one away.
    fn set(&self, settings: &Value) {
        let of = |name: &str| settings[name].as_object().cloned().unwrap_or_default();
        for (name, value) in of("edge") {
            self.world.set_for(Role::Edge, &name, value.as_str());
        }
        for (name, value) in of("others") {
            self.world.set_for(Role::Aggregator, &name, value.as_str());
            self.world.set_for(Role::Objects, &name, value.as_str());
        }
    }

    /// Does what a line says, and runs until something has ended.
    pub(crate) fn exchange(&mut self, request: &Value, mut payload: &[u8]) -> Value {
        let mut events = Vec::new();
        for command in request["do"].as_array().into_iter().flatten() {
            events.extend(self.begin(command, &mut payload));
        }
        if events.is_empty() {
            self.run(&mut events);
        }
        let mut texts = Vec::new();
        for (id, (live, is_known)) in &mut self.streams {
            let received = live.take();
            for received in received {
                texts.push(json!({ "id": id, "at_ms": received.at_ms, "text": received.text }));
            }
            let closed = live.closed().filter(|_| !*is_known);
            if let Some((code, reason)) = closed {
                *is_known = true;
                texts.push(json!({ "id": id, "closed": code, "reason": reason }));
            }
        }
        json!({ "now": self.world.now_ms(), "events": events, "texts": texts })
    }

    /// Begins a command. What ends at once is returned.
    fn begin(&mut self, command: &Value, payload: &mut &[u8]) -> Option<Value> {
        let id = lines::number(command, "id", 0);
        if let Some(fetch) = command.get("fetch") {
            self.fetch(id, lines::ask(fetch, payload));
            return None;
        }
        if let Some(milliseconds) = command["sleep"].as_u64() {
            let sleep = self.world.sleep_ms(milliseconds);
            self.pending.push(Box::pin(async move {
                sleep.await;
                Ended::Value(json!({ "id": id }))
            }));
            return None;
        }
        if command["evict"] == true {
            self.evict(id);
            return None;
        }
        if command["restart"] == true {
            self.world.restart(lines::number(command, "later_ms", 0));
            if command["silently"] == true {
                self.world.forget_alarms();
            }
            self.judging.is_on.set(command["judged"] == true);
            self.set(&command["settings"]);
            return Some(json!({ "id": id }));
        }
        if let Some(number) = command["judged"].as_u64() {
            let slot = self.judging.open.borrow_mut().remove(&number);
            if let Some(slot) = slot {
                slot.fill(lines::verdict(lines::text(command, "verdict")));
            }
            return None;
        }
        if let Some(aborted) = command["abort"].as_u64() {
            if let Some(abort) = self.aborts.remove(&aborted) {
                abort.abort();
            }
            return None;
        }
        if let Some(stream) = command["stream"].as_u64() {
            self.stream(stream, command);
            return None;
        }
        Some(self.look(id, command))
    }

    fn fetch(&mut self, id: u64, ask: ClientRequest) {
        let client: Client = self.world.client(self.site);
        let (abort, registration) = AbortHandle::new_pair();
        self.aborts.insert(id, abort);
        let answered = Abortable::new(async move { client.ask(ask).await }, registration);
        self.pending.push(Box::pin(async move {
            match answered.await {
                Ok(Ok(mut answer)) => {
                    let answer_json = lines::answer(id, &answer);
                    match answer.live.take() {
                        Some(live) => Ended::Opened(id, answer_json, live),
                        None => Ended::Value(answer_json),
                    }
                }
                Ok(Err(error)) => Ended::Value(json!({ "id": id, "failed": error.to_string() })),
                Err(aborted) => Ended::Value(json!({ "id": id, "failed": aborted.to_string() })),
            }
        }));
    }

    /// Evicts all objects, each once nothing is under way in it.
    fn evict(&self, id: u64) {
        let world = Rc::downgrade(&self.world);
        self.pending.push(Box::pin(async move {
            let mut left = 0;
            for _ in 0..EVICTIONS_MAX {
                let Some(world) = world.upgrade() else { break };
                left = world.evict_objects();
                if left == 0 {
                    break;
                }
                let sleep = world.sleep_ms(EVICTION_MS);
                drop(world);
                sleep.await;
            }
            Ended::Value(json!({ "id": id, "left": left }))
        }));
    }

    fn stream(&mut self, stream: u64, command: &Value) {
        let Some((live, _)) = self.streams.get(&stream) else {
            return;
        };
        if let Some(text) = command["says"].as_str() {
            live.send(text);
        }
        if command["says_bytes"] == true {
            live.send_bytes();
        }
        if let Some(is_paused) = command["pauses"].as_bool() {
            live.pause(is_paused);
        }
        if command.get("code").is_some() {
            live.close(
                lines::number(command, "code", 1_000),
                lines::text(command, "reason"),
            );
        }
        if command["hangs_up"] == true {
            self.streams.remove(&stream);
        }
    }

    /// Looks into the deployment.
    fn look(&self, id: u64, command: &Value) -> Value {
        if let Some(binding) = command["objects"].as_str() {
            let objects = self.world.objects();
            let names = objects.into_iter().filter(|known| known.0 == binding);
            return json!({ "id": id, "names": names.map(|known| known.1).collect::<Vec<_>>() });
        }
        json!({ "id": id, "errors": self.world.errors() })
    }

    /// Runs until something has ended, or somebody must decide about a call.
    fn run(&mut self, events: &mut Vec<Value>) {
        let (pending, judging) = (&mut self.pending, &self.judging);
        let (streams, aborts) = (&mut self.streams, &mut self.aborts);
        self.world.run(poll_fn(|context| {
            while let Poll::Ready(Some(ended)) = pending.poll_next_unpin(context) {
                events.push(match ended {
                    Ended::Value(value) => value,
                    Ended::Opened(id, value, live) => {
                        streams.insert(id, (live, false));
                        value
                    }
                });
            }
            for (number, judged) in judging.new.take() {
                let PendingCall {
                    binding,
                    name,
                    path,
                } = judged;
                events.push(
                    json!({ "judges": number, "binding": binding, "name": name, "path": path }),
                );
            }
            *judging.waker.borrow_mut() = Some(context.waker().clone());
            match events.is_empty() && !pending.is_empty() {
                true => Poll::Pending,
                false => Poll::Ready(()),
            }
        }));
        for event in events.iter() {
            aborts.remove(&event["id"].as_u64().unwrap_or_default());
        }
    }
}
