//! A datacenter in memory: a lead and its shards, out of the state machines that ship and a shell that
//! does what the object's shell does, in the same order (the names of its functions are the same).
//!
//! Invariant: between two awaits a shell does what the platform commits as one turn, so a crash leaves
//! the rows of whole turns, and nothing of memory.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

use tally::counter::cell::Cell as CellState;
use tally::counter::flush::{Load, Refusal};
use tally::counter::grant::{Grant, Taken};
use tally::counter::merge::{Part, Question};
use tally::counter::nonces::Nonce;
use tally::counter::split::Step;
use tally::protocol::messages::{DatacenterSum, Fault, Flushed};

use oracle::Oracle;
use rows::Rows;

#[path = "shards/edge.rs"]
pub mod edge;
#[path = "shards/network.rs"]
pub mod network;
#[path = "shards/oracle.rs"]
pub mod oracle;
#[path = "shards/place.rs"]
pub mod place;
#[expect(dead_code, reason = "windows of unique elements have their own test")]
#[path = "rows.rs"]
mod rows;
#[path = "shards/world.rs"]
pub mod world;

use network::{Answer, Message, Network, Reply, Turns, all, unavailable};
use place::Task;

/// Cells of the datacenter; the lead is the first.
pub const CELLS: usize = 8;

/// Where the root is called.
pub const ROOT: usize = CELLS;

/// The counter's only generation.
pub const GENERATION: u64 = 1;

const SHARDS_MAX: u8 = 8;

const GRANT_TRIES: usize = 4;

/// What all objects share.
pub struct Air {
    pub network: RefCell<Network>,
    pub oracle: RefCell<Oracle>,
    pub now_ms: Cell<i64>,
    /// Whether the root is about to end the counter, and lets nobody count meanwhile.
    pub is_ending: Cell<bool>,
}

impl Air {
    pub fn call(&self, to: usize, message: Message) -> impl Future<Output = Reply> + use<> {
        self.network.borrow_mut().call(to, message)
    }
}

/// One object in memory, as `objects::cell::Core`.
pub struct Core {
    shard: u8,
    air: Rc<Air>,
    rows: Rc<RefCell<Rows>>,
    state: RefCell<CellState>,
    is_sealing: Cell<bool>,
    granting: Turns,
    /// How many of the next writes storage refuses.
    pub refused_writes: Cell<u32>,
    /// What runs on after its request was answered.
    waited_for: RefCell<Vec<Task>>,
}

impl Core {
    fn new(shard: u8, air: Rc<Air>, rows: Rc<RefCell<Rows>>) -> Rc<Self> {
        let state = rows.borrow().load();
        Rc::new(Self {
            shard,
            air,
            rows,
            state: RefCell::new(state),
            is_sealing: Cell::default(),
            granting: Turns::default(),
            refused_writes: Cell::default(),
            waited_for: RefCell::default(),
        })
    }

    /// Whether the lead may choose a number of shards: it counts, and knows how many there are.
    pub fn is_born(&self) -> bool {
        self.state.borrow().generation().is_some()
    }

    /// Shards that writes spread over, as this cell knows.
    pub fn spread(&self) -> u8 {
        self.state.borrow().spread()
    }

    /// Whether the lead still has shards to seal.
    pub fn has_to_seal(&self) -> bool {
        !self.state.borrow().to_seal().is_empty()
    }

    fn now_ms(&self) -> i64 {
        self.air.now_ms.get()
    }

    /// One commit, and `written` after it.
    fn write(&self, body: impl FnOnce(&mut Rows, &CellState)) -> Result<(), Fault> {
        let refused = self.refused_writes.get();
        if refused > 0 {
            self.refused_writes.set(refused - 1);
            let stored = self.rows.borrow().load();
            self.state.borrow_mut().adopt(stored);
            return Err(unavailable());
        }
        body(&mut self.rows.borrow_mut(), &self.state.borrow());
        Ok(())
    }

    fn save(&self) -> Result<(), Fault> {
        self.write(|rows, state| rows.write_hot(state))
    }

    async fn work(self: Rc<Self>, message: Message) -> Reply {
        match message {
            Message::Flush(nonce, load) => self.on_flush(nonce, load).await.map(Answer::Flushed),
            Message::Hello(shard) => self.on_hello(shard).await.map(Answer::Grant),
            Message::Seal(generation) => self.seal(generation).map(Answer::Part),
            Message::Suspend(generation) => {
                self.on_suspend(generation).await.map(|()| Answer::Done)
            }
            Message::Sum(question) => self.on_sum(question).await.map(Answer::Sum),
            Message::Ask(question) => Ok(Answer::Part(self.state.borrow().answer(&question))),
            Message::Register => unreachable!("cells register nobody"),
        }
    }

    async fn on_flush(self: &Rc<Self>, nonce: Nonce, load: Load) -> Result<Flushed, Fault> {
        for _ in 0..GRANT_TRIES {
            match self.try_flush(nonce, &load) {
                Err(Fault::Refused(Refusal::NeedsGrant)) => self.obtain_grant().await?,
                outcome => return outcome,
            }
        }
        Err(unavailable())
    }

    fn try_flush(self: &Rc<Self>, nonce: Nonce, load: &Load) -> Result<Flushed, Fault> {
        let now_ms = self.now_ms();
        let applied = self.state.borrow_mut().apply(nonce, load, now_ms);
        let (outcome, changes) = applied.map_err(Fault::Refused)?;
        self.write(|rows, state| rows.write(state, &changes, now_ms.div_euclid(1_000)))?;
        if changes.hot {
            let elsewhere = self.state.borrow().elsewhere_after(&outcome);
            let mut oracle = self.air.oracle.borrow_mut();
            oracle.committed(self.shard, nonce, &outcome, elsewhere);
        }
        if self.shard == 0 {
            // `note_flush`: what is left is sealed whatever `decide` says; steps come by `decide`.
            self.seal_what_is_left();
        }
        let state = self.state.borrow();
        Ok(Flushed {
            generation: state.generation().unwrap_or(0),
            outcome,
            elsewhere: state.elsewhere_after(&outcome),
            shards: state.spread(),
            linger_ms: 0,
        })
    }

    async fn obtain_grant(&self) -> Result<(), Fault> {
        let _asking = self.granting.lock().await;
        if !self.state.borrow().needs_grant(self.now_ms()) {
            return Ok(());
        }
        let seals = self.state.borrow().seals();
        let asked = match self.shard {
            0 => self.air.call(ROOT, Message::Register).await?,
            shard => self.air.call(0, Message::Hello(shard)).await?,
        };
        let Answer::Grant(grant) = asked else {
            unreachable!("an answer to something else");
        };
        if !self.state.borrow_mut().unseal(seals) {
            return Ok(());
        }
        self.take_grant(grant)
    }

    fn take_grant(&self, grant: Grant) -> Result<(), Fault> {
        let taken = self.state.borrow_mut().take_grant(grant, self.now_ms());
        match taken {
            Taken::Outdated => Ok(()),
            // `begin` writes the address besides, which is nothing here.
            Taken::Renewed | Taken::Born => self.save(),
            Taken::Replaced => unreachable!("there is one generation"),
        }
    }

    fn seal(&self, generation: u64) -> Result<Option<Part>, Fault> {
        let part = self.state.borrow_mut().seal(generation);
        if part.is_some() {
            self.save()?;
        }
        Ok(part)
    }

    async fn on_hello(&self, shard: u8) -> Result<Grant, Fault> {
        for _ in 0..GRANT_TRIES {
            if !self.state.borrow().needs_grant(self.now_ms()) {
                return self.grant_shard(shard);
            }
            self.obtain_grant().await?;
        }
        Err(unavailable())
    }

    fn grant_shard(&self, shard: u8) -> Result<Grant, Fault> {
        let admission = self.state.borrow_mut().admit(shard);
        let admission = admission.map_err(Fault::Refused)?;
        if admission.was_sealed {
            self.write(|rows, state| rows.write_sealed(state, shard))?;
        } else if admission.is_new {
            self.save()?;
        }
        Ok(admission.grant)
    }

    async fn on_sum(&self, question: Question) -> Result<DatacenterSum, Fault> {
        if self.state.borrow().generation() != Some(question.generation) {
            return Ok(DatacenterSum::default());
        }
        let mut sum = DatacenterSum::default();
        let mut asked = Vec::new();
        {
            // `kept_and_asked`.
            let state = self.state.borrow();
            let own = state.answer(&question).map(|part| (0, part));
            let mut parts: Vec<(u8, Part)> = own.into_iter().collect();
            for shard in 1..state.shards_ever() {
                match state.sealed_part(shard) {
                    Some(part) if !question.is_about_times() => {
                        parts.extend(part.map(|part| (shard, part.clone())));
                    }
                    _ => asked.push(shard),
                }
            }
            for (shard, part) in parts {
                add(&mut sum, shard, part);
            }
        }
        let ask = |shard: &u8| {
            self.air
                .call((*shard).into(), Message::Ask(question))
                .boxed()
        };
        let answers = all(asked.iter().map(ask).collect()).await;
        for (shard, answer) in asked.into_iter().zip(answers) {
            match answer {
                Ok(Answer::Part(Some(part))) => add(&mut sum, shard, part),
                Ok(_) => {}
                Err(_) => sum.missing.push(shard),
            }
        }
        Ok(sum)
    }

    async fn on_suspend(&self, generation: u64) -> Result<(), Fault> {
        if self.seal(generation)?.is_none() {
            return Ok(());
        }
        let shards_ever = self.state.borrow().shards_ever();
        let seal = |shard: u8| {
            self.air
                .call(shard.into(), Message::Seal(generation))
                .boxed()
        };
        let sealed = all((1..shards_ever).map(seal).collect()).await;
        sealed.into_iter().try_for_each(|sealed| sealed.map(|_| ()))
    }

    /// Lead: what `decide` does once the load has spoken.
    pub fn decide(self: &Rc<Self>, step: Step) {
        let spread = self.state.borrow().spread();
        let wanted = match step {
            Step::Double => spread.saturating_mul(2).min(SHARDS_MAX),
            Step::Halve => (spread / 2).max(1),
            Step::Stay => spread,
        };
        if wanted != spread {
            self.state.borrow_mut().spread_over(wanted);
            let _ = self.save();
        }
        self.seal_what_is_left();
    }

    /// Lead: the alarm, which seals within itself besides.
    pub fn on_alarm(self: &Rc<Self>) {
        self.decide(Step::Stay);
        let left = self.state.borrow().to_seal();
        let core = self.clone();
        self.wait_until(async move {
            core.seal_shards(left).await;
        });
    }

    fn wait_until(&self, task: impl Future<Output = ()> + 'static) {
        self.waited_for.borrow_mut().push(Box::pin(task));
    }

    fn seal_what_is_left(self: &Rc<Self>) {
        let left = self.state.borrow().to_seal();
        if left.is_empty() || self.is_sealing.replace(true) {
            return;
        }
        let core = self.clone();
        self.wait_until(async move {
            core.seal_shards(left).await;
            core.is_sealing.set(false);
        });
    }

    async fn seal_shards(&self, shards: Vec<(u8, u64)>) {
        let Some(generation) = self.state.borrow().generation() else {
            return;
        };
        let seal = |(shard, _): &(u8, u64)| {
            let to = usize::from(*shard);
            self.air.call(to, Message::Seal(generation)).boxed()
        };
        let answers = all(shards.iter().map(seal).collect()).await;
        for ((shard, admissions), sealed) in shards.into_iter().zip(answers) {
            let Ok(Answer::Part(part)) = sealed else {
                continue;
            };
            let is_current = self.state.borrow().generation() == Some(generation);
            if is_current && self.state.borrow_mut().keep_sealed(shard, part, admissions) {
                let _ = self.write(|rows, state| rows.write_sealed(state, shard));
            }
        }
    }
}

fn add(sum: &mut DatacenterSum, shard: u8, part: Part) {
    sum.cells.push((shard, part.totals));
    sum.summary.add_part(part, Vec::new());
}

trait Boxed: Future + Sized + 'static {
    fn boxed(self) -> Pin<Box<dyn Future<Output = Self::Output>>> {
        Box::pin(self)
    }
}

impl<F: Future + Sized + 'static> Boxed for F {}
