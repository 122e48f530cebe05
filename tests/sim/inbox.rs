//! An inbox, as `objects::inbox`: events that are acknowledged at once and counted soon.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashSet};
use std::future::{Future, poll_fn};
use std::rc::Rc;
use std::task::Poll;

use tally::core::counter::cell::STAMP_CLAMP_SECONDS;
use tally::core::counter::id::CounterId;
use tally::core::counter::inbox::{Admission, Draining, Head};
use tally::core::counter::ledger::WriteKey;
use tally::core::counter::nonces::Nonce;
use tally::core::counter::numbers::Numbering;
use tally::core::counter::parked::Parked;
use tally::core::counter::queue::{Event, InboxId, Logged};
use tally::protocol::messages::{Appended, Fault};

use super::inbox_rows::InboxRows;
use super::network::{Answer, Message, Reply, Request, all, unavailable};
use super::place::{Task, is_over};
use super::{Air, Airs, Boxed, INBOXES, datacenter};

const ALARM_MS: i64 = 5_000;

const REGISTER_TRIES: usize = 3;

const DRAIN_MS_MAX: i64 = 1_500;

/// So few that some worlds fill it.
const LOG_ROWS_MAX: u64 = 4;

/// One object in memory, as `objects::inbox::InboxCore`.
pub struct Core {
    pub airs: Airs,
    pub me: InboxId,
    pub rows: Rc<RefCell<InboxRows>>,
    pub head: RefCell<Head>,
    pub sending: RefCell<HashSet<i64>>,
    pub parked: RefCell<Parked>,
    pub numbering: RefCell<Numbering>,
    pub is_gathering: Cell<bool>,
    pub begun_ms: Cell<i64>,
    armed_ms: Cell<i64>,
    releases: Rc<Cell<u64>>,
    /// How far its clock is off, milliseconds.
    skew_ms: Rc<Cell<i64>>,
    /// What runs on after its request was answered.
    waited_for: RefCell<Vec<Task>>,
    /// How often it has crashed.
    life: u64,
    lanes: Cell<u64>,
}

/// Where an inbox lives, crash after crash.
pub struct Inbox {
    core: Rc<Core>,
    pub rows: Rc<RefCell<InboxRows>>,
    pub skew_ms: Rc<Cell<i64>>,
    tasks: Vec<(Option<u64>, Task)>,
}

impl Inbox {
    pub fn new(airs: &Airs, number: usize) -> Self {
        let rows = Rc::new(RefCell::new(InboxRows::default()));
        let skew_ms = Rc::new(Cell::default());
        let me = InboxId {
            datacenter: datacenter(number / INBOXES),
            number: u8::try_from(number % INBOXES).expect("few inboxes"),
        };
        Self {
            core: Core::new(airs.clone(), me, rows.clone(), skew_ms.clone(), 0),
            rows,
            skew_ms,
            tasks: Vec::new(),
        }
    }

    pub fn deliver(&mut self, request: Request) {
        let (core, call) = (self.core.clone(), request.call);
        let task = async move {
            let reply = core.clone().work(request.message).await;
            let mut network = core.airs[0].network.borrow_mut();
            network.answers.push((call, reply));
        };
        self.tasks.push((Some(call), task.boxed()));
    }

    /// Memory is gone, and with it whatever was under way here; its callers hear so.
    pub fn crash(&mut self) {
        let Core { airs, me, life, .. } = &*self.core;
        for (call, _) in self.tasks.drain(..) {
            let mut network = airs[0].network.borrow_mut();
            let heard = call.map(|call| (call, Err(unavailable())));
            network.answers.extend(heard);
        }
        let (rows, skew_ms) = (self.rows.clone(), self.skew_ms.clone());
        self.core = Core::new(airs.clone(), me.clone(), rows, skew_ms, life + 1);
    }

    /// When the alarm rings, by the true time; `None` where it is not set.
    pub fn alarm_ms(&self) -> Option<i64> {
        let alarm_ms = self.rows.borrow().alarm_ms;
        alarm_ms.map(|alarm_ms| alarm_ms - self.skew_ms.get())
    }

    /// The alarm rings, if its time has come.
    pub fn alarm(&mut self) {
        let now_ms = self.core.now_ms();
        let is_due = |alarm_ms: &mut i64| *alarm_ms <= now_ms;
        let rang = self.rows.borrow_mut().alarm_ms.take_if(is_due);
        if rang.is_some() {
            let core = self.core.clone();
            let ring = async move { core.on_alarm().await };
            self.tasks.push((None, ring.boxed()));
        }
    }

    /// Runs everything here until it waits. True if something ended.
    pub fn run(&mut self) -> bool {
        if self.tasks.is_empty() && self.core.waited_for.borrow().is_empty() {
            return false;
        }
        let spawned = std::mem::take(&mut *self.core.waited_for.borrow_mut());
        let spawned = spawned.into_iter().map(|task| (None, task));
        self.tasks.extend(spawned);
        let before = self.tasks.len();
        self.tasks.retain_mut(|(_, task)| !is_over(task));
        self.tasks.len() != before || !self.core.waited_for.borrow().is_empty()
    }

    pub fn is_at_rest(&self) -> bool {
        self.tasks.is_empty()
    }
}

impl Core {
    fn new(
        airs: Airs,
        me: InboxId,
        rows: Rc<RefCell<InboxRows>>,
        skew_ms: Rc<Cell<i64>>,
        life: u64,
    ) -> Rc<Self> {
        let head = RefCell::new(rows.borrow().load());
        let mut parked = Parked::default();
        parked.restore(&rows.borrow().all());
        Rc::new(Self {
            airs,
            me,
            rows,
            head,
            sending: RefCell::default(),
            parked: RefCell::new(parked),
            numbering: RefCell::default(),
            is_gathering: Cell::default(),
            begun_ms: Cell::default(),
            armed_ms: Cell::default(),
            releases: Rc::default(),
            skew_ms,
            waited_for: RefCell::default(),
            life,
            lanes: Cell::default(),
        })
    }

    pub fn now_ms(&self) -> i64 {
        self.airs[0].now_ms.get() + self.skew_ms.get()
    }

    /// What belongs to a counter.
    pub fn air(&self, counter: &CounterId) -> &Rc<Air> {
        let mut airs = self.airs.iter();
        airs.find(|air| air.name() == *counter).expect("a counter")
    }

    /// The key of the next write to a counter; its lane tells it from other inboxes', and from those of its own before it
    /// crashed.
    pub fn next_key(&self, counter: &CounterId, now_ms: i64) -> WriteKey {
        let mut random = || {
            let lanes = self.lanes.replace(self.lanes.get() + 1);
            let place = self.me.datacenter.as_str().as_bytes();
            let place = u64::from(place[0]) << 8 | u64::from(place[1]);
            (place << 8 | u64::from(self.me.number)) << 32 | self.life << 8 | lanes
        };
        (self.numbering.borrow_mut()).next(counter, now_ms, &mut random)
    }

    /// Waits for this long by its own clock.
    pub async fn sleep(&self, milliseconds: i64) {
        let begun_ms = self.airs[0].now_ms.get();
        poll_fn(|_| {
            let is_over = self.airs[0].now_ms.get() - begun_ms >= milliseconds;
            if is_over {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
    }

    pub fn wait_until(&self, task: impl Future<Output = ()> + 'static) {
        self.waited_for.borrow_mut().push(Box::pin(task));
    }

    async fn work(self: Rc<Self>, message: Message) -> Reply {
        match message {
            Message::Append(nonce, events) => {
                self.on_append(nonce, events).await.map(Answer::Appended)
            }
            Message::Drain(counter) => self.on_drain(counter).await.map(|()| Answer::Done),
            Message::Release(counter, generation) => {
                self.on_release(&counter, generation).map(|()| Answer::Done)
            }
            Message::MayHold(counter) => {
                let (is_empty, last) = (self.head.borrow().is_empty(), self.head.borrow().batch);
                let may_hold = !is_empty || !self.is_counted(&counter, last);
                Ok(Answer::MayHold(may_hold))
            }
            other => unreachable!("{other:?} is not for an inbox"),
        }
    }

    async fn on_append(
        self: &Rc<Self>,
        nonce: Nonce,
        events: Vec<Event>,
    ) -> Result<Appended, Fault> {
        if self.head.borrow().me.as_ref() != Some(&self.me) {
            self.rows.borrow_mut().put_me(&self.me)?;
            self.head.borrow_mut().me = Some(self.me.clone());
        }
        for _ in 0..REGISTER_TRIES {
            self.register(&events).await?;
            self.arm(ALARM_MS);
            let mut logged = Vec::new();
            for event in &events {
                let Some(generation) = self.rows.borrow().generation_of(&event.counter) else {
                    break;
                };
                logged.push((generation, event.clone()));
            }
            if logged.len() < events.len() || !self.is_armed(self.now_ms() + ALARM_MS) {
                continue;
            }
            let now_ms = self.now_ms();
            let admission = self.head.borrow().admit(nonce, now_ms, LOG_ROWS_MAX);
            let seq = match admission {
                Admission::New(seq) => seq,
                Admission::Repeated => return Ok(Appended::Logged),
                Admission::Stray => return Err(Fault::Broken("a stray append".to_owned())),
                Admission::Full => return Ok(Appended::Full),
            };
            let now = now_ms.div_euclid(1_000);
            for (_, event) in &mut logged {
                let (earliest, latest) = (now - STAMP_CLAMP_SECONDS, now + STAMP_CLAMP_SECONDS);
                event.second = event.second.clamp(earliest, latest);
            }
            let row = Logged {
                nonce,
                at_ms: now_ms,
                events: logged,
            };
            let nonces = self.head.borrow().nonces_with(nonce, seq, now_ms);
            self.rows.borrow_mut().log(seq, &row, nonces.as_ref())?;
            self.head.borrow_mut().logged(nonce, seq, now_ms);
            for (generation, event) in &row.events {
                let mut oracle = self.air(&event.counter).oracle.borrow_mut();
                oracle.logs(event, *generation);
            }
            self.go();
            return Ok(Appended::Logged);
        }
        Err(unavailable())
    }

    /// Lets the roots of counters know of this inbox, where they do not.
    async fn register(&self, events: &[Event]) -> Result<(), Fault> {
        let mut unknown = BTreeMap::new();
        for event in events {
            if self.rows.borrow().generation_of(&event.counter).is_none() {
                unknown.insert(event.counter.clone(), ());
            }
        }
        let ask = |counter: CounterId| {
            let air = self.air(&counter).clone();
            let register = Message::RegisterInbox(self.me.clone());
            let (rows, all_releases) = (self.rows.clone(), self.releases.clone());
            let releases = all_releases.get();
            async move {
                match air.call(air.root(), register).await? {
                    Answer::Generation(_) if all_releases.get() != releases => Ok(()),
                    Answer::Generation(generation) => {
                        rows.borrow_mut().put_generation(&counter, generation)
                    }
                    other => unreachable!("{other:?} answers no registration"),
                }
            }
            .boxed()
        };
        let asked = all(unknown.into_keys().map(ask).collect()).await;
        asked.into_iter().collect()
    }

    fn is_armed(&self, by_ms: i64) -> bool {
        let armed_ms = self.armed_ms.get();
        armed_ms != 0 && armed_ms <= by_ms
    }

    /// Sets the alarm to so many milliseconds from now, unless it rings before.
    pub fn arm(&self, in_ms: i64) {
        let by_ms = self.now_ms() + in_ms;
        if !self.is_armed(by_ms) {
            self.rows.borrow_mut().set_alarm_by(by_ms);
            self.armed_ms.set(by_ms);
        }
    }

    async fn on_alarm(self: &Rc<Self>) {
        self.armed_ms.set(0);
        let due_ms = self.rows.borrow().next_due_ms();
        let is_empty = self.head.borrow().is_empty();
        match due_ms {
            0 if is_empty => return,
            due_ms if is_empty => self.arm((due_ms - self.now_ms()).max(ALARM_MS)),
            _ => self.arm(ALARM_MS),
        }
        self.gather_all().await;
    }

    async fn on_drain(self: &Rc<Self>, counter: CounterId) -> Result<(), Fault> {
        let begun_ms = self.now_ms();
        let mut draining = Draining::new(&self.head.borrow());
        self.rows.borrow_mut().hurry(begun_ms)?;
        self.go();
        poll_fn(|_| {
            let horizon = draining.horizon(&self.head.borrow());
            let is_done = |horizon| self.is_counted(&counter, horizon);
            if horizon.is_some_and(is_done) {
                Poll::Ready(Ok(()))
            } else if self.now_ms() - begun_ms > DRAIN_MS_MAX {
                Poll::Ready(Err(unavailable()))
            } else {
                Poll::Pending
            }
        })
        .await
    }

    fn on_release(&self, counter: &CounterId, generation: u64) -> Result<(), Fault> {
        self.releases.set(self.releases.get() + 1);
        let known = self.rows.borrow().generation_of(counter);
        match known {
            Some(known) if known <= generation => self.rows.borrow_mut().forget(counter),
            _ => Ok(()),
        }
    }
}
