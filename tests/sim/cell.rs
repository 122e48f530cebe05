//! A cell's shell, as `objects::cell`, `objects::commit` and `objects::balance`.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::rc::Rc;
use std::task::Poll;

use tally::core::counter::cell::Cell as CellState;
use tally::core::counter::flush::{Changes, Load, Refusal};
use tally::core::counter::grant::{Grant, Taken};
use tally::core::counter::merge::Part;
use tally::core::counter::nonces::Nonce;
use tally::protocol::messages::{Fault, Flushed};

use super::network::{Answer, Message, Reply, Turns, unavailable};
use super::place::Task;
use super::store::Store;
use super::{Air, CELLS, GRANT_TRIES, datacenter, shard_of};

/// What a lane is told to gather in a busy world, milliseconds, by the sequence of its flush.
const LINGER_MS: [u32; 4] = [0, 5, 0, 20];

type Outcome = Result<Flushed, Fault>;

type Slot = Rc<RefCell<Option<Outcome>>>;

/// One object in memory, as `objects::cell::Core`.
pub struct Core {
    pub place: usize,
    pub air: Rc<Air>,
    pub rows: Rc<RefCell<Store>>,
    pub state: RefCell<CellState>,
    /// How far its clock is off, milliseconds.
    skew_ms: Rc<Cell<i64>>,
    pub is_sealing: Cell<bool>,
    granting: Turns,
    /// How many of the next writes storage refuses.
    pub refused_writes: Cell<u32>,
    /// What runs on after its request was answered.
    pub waited_for: RefCell<Vec<Task>>,
    is_committing: Cell<bool>,
    waiting: RefCell<Vec<(Nonce, Load, Slot)>>,
}

impl Core {
    pub fn new(
        place: usize,
        air: Rc<Air>,
        rows: Rc<RefCell<Store>>,
        skew_ms: Rc<Cell<i64>>,
    ) -> Rc<Self> {
        let state = rows.borrow().load();
        air.oracle.borrow().check_cell(place, &state);
        Rc::new(Self {
            place,
            air,
            rows,
            state: RefCell::new(state),
            skew_ms,
            is_sealing: Cell::default(),
            granting: Turns::default(),
            refused_writes: Cell::default(),
            waited_for: RefCell::default(),
            is_committing: Cell::default(),
            waiting: RefCell::default(),
        })
    }

    pub fn shard(&self) -> u8 {
        shard_of(self.place)
    }

    pub fn is_lead(&self) -> bool {
        self.shard() == 0
    }

    /// Another cell of the datacenter.
    pub fn sibling(&self, shard: u8) -> usize {
        self.place - self.place % CELLS + usize::from(shard)
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

    pub fn now_ms(&self) -> i64 {
        self.air.now_ms.get() + self.skew_ms.get()
    }

    /// One commit. Where storage refuses it, memory is read again.
    pub fn write(&self, body: impl FnOnce(&mut Store, &CellState)) -> Result<(), Fault> {
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

    pub fn save(&self) -> Result<(), Fault> {
        self.write(|rows, state| rows.write_hot(state))
    }

    pub async fn work(self: Rc<Self>, message: Message) -> Reply {
        match message {
            Message::Flush(nonce, load) => self.on_flush(nonce, load).await.map(Answer::Flushed),
            Message::Count(writes, moves, keys) => self
                .on_count(writes, moves, keys)
                .await
                .map(Answer::Counted),
            Message::Claim(here, keys, struck_at) => self
                .on_claim(here, keys, struck_at)
                .await
                .map(Answer::Claimed),
            Message::Recall(writes) => Ok(Answer::Counted(self.on_recall(&writes))),
            Message::Hello(shard) => self.on_hello(shard).await.map(Answer::Grant),
            Message::Seal(generation) => self.seal(generation).map(Answer::Part),
            Message::Suspend(generation) => self.on_suspend(generation).await.map(done),
            Message::Configure(grant) => self.on_configure(grant).await.map(done),
            Message::Close(generation) => self.on_close(generation).await.map(done),
            Message::Sum(question) => self.on_sum(question).await.map(Answer::Sum),
            Message::Ask(question) => Ok(Answer::Part(self.state.borrow().answer(&question))),
            other => unreachable!("{other:?} is for the root"),
        }
    }

    async fn on_flush(self: &Rc<Self>, nonce: Nonce, load: Load) -> Outcome {
        for _ in 0..GRANT_TRIES {
            match self.commit(nonce, &load).await {
                Err(Fault::Refused(Refusal::NeedsGrant)) => self.obtain_grant().await?,
                outcome => return outcome,
            }
        }
        Err(unavailable())
    }

    /// Counts a flush in this commit or the next.
    async fn commit(self: &Rc<Self>, nonce: Nonce, load: &Load) -> Outcome {
        if self.is_committing.get() {
            let slot = Slot::default();
            let waiting = (nonce, load.clone(), slot.clone());
            self.waiting.borrow_mut().push(waiting);
            return poll_fn(move |_| match slot.borrow_mut().take() {
                Some(outcome) => Poll::Ready(outcome),
                None => Poll::Pending,
            })
            .await;
        }
        let (mut outcomes, has_written) = self.write_together(&[(nonce, load)]);
        if has_written && self.air.is_busy {
            self.is_committing.set(true);
            let core = self.clone();
            self.wait_until(async move { core.go_on().await });
        }
        outcomes.pop().expect("an outcome")
    }

    /// Waits for the commit under way, and writes what has come meanwhile, until nothing has.
    async fn go_on(self: Rc<Self>) {
        loop {
            let _ = self.air.call(self.air.disk(), Message::Sync).await;
            let waiting = std::mem::take(&mut *self.waiting.borrow_mut());
            if waiting.is_empty() {
                self.is_committing.set(false);
                return;
            }
            let flushes: Vec<(Nonce, &Load)> =
                waiting.iter().map(|(n, load, _)| (*n, load)).collect();
            let (outcomes, _) = self.write_together(&flushes);
            for ((_, _, slot), outcome) in waiting.iter().zip(outcomes) {
                *slot.borrow_mut() = Some(outcome);
            }
        }
    }

    /// Load, decide, write: no await, so nothing comes between.
    fn write_together(self: &Rc<Self>, flushes: &[(Nonce, &Load)]) -> (Vec<Outcome>, bool) {
        let now_ms = self.now_ms();
        let mut together = Changes::default();
        let mut outcomes = Vec::new();
        for (nonce, load) in flushes {
            let mut state = self.state.borrow_mut();
            let applied = state.apply_in(*nonce, load, now_ms, &mut together);
            outcomes.push(
                applied
                    .map_err(Fault::Refused)
                    .map(|outcome| Flushed::after(&state, outcome)),
            );
        }
        let second = now_ms.div_euclid(1_000);
        if let Err(fault) = self.write(|rows, state| rows.write(state, &together, second)) {
            outcomes.fill(Err(fault));
            return (outcomes, false);
        }
        for ((nonce, _), outcome) in flushes.iter().zip(&mut outcomes) {
            let Ok(flushed) = outcome else { continue };
            self.air
                .oracle
                .borrow_mut()
                .flushed((self.place, now_ms), *nonce, flushed);
            if self.air.is_busy {
                let number = usize::try_from(flushed.outcome.sequence).expect("few flushes");
                flushed.linger_ms = LINGER_MS[number % LINGER_MS.len()];
            }
        }
        if self.is_lead() {
            // `note_flush`: what is left is sealed whatever the load says; steps come by `decide`.
            self.seal_what_is_left();
        }
        (outcomes, together.hot)
    }

    pub async fn obtain_grant(&self) -> Result<(), Fault> {
        let _asking = self.granting.lock().await;
        if !self.state.borrow().needs_grant(self.now_ms()) {
            return Ok(());
        }
        let (asked_ms, seals) = (self.now_ms(), self.state.borrow().seals());
        let asked = match self.shard() {
            0 => {
                let register = Message::Register(datacenter(self.place / CELLS));
                self.air.call(self.air.root(), register).await?
            }
            shard => {
                self.air
                    .call(self.sibling(0), Message::Hello(shard))
                    .await?
            }
        };
        let Answer::Grant(grant) = asked else {
            unreachable!("an answer to something else");
        };
        if !self.state.borrow_mut().unseal(seals) {
            return Ok(());
        }
        self.take_grant(grant, asked_ms)
    }

    fn take_grant(&self, grant: Grant, asked_ms: i64) -> Result<(), Fault> {
        let taken = self.state.borrow_mut().take_grant(grant, asked_ms);
        match taken {
            Taken::Outdated => Ok(()),
            // `begin` writes the address besides, which is nothing here.
            Taken::Renewed | Taken::Born => self.save(),
            Taken::Replaced => {
                self.write(|rows, _| rows.close(0, &[]))?;
                self.save()
            }
        }
    }

    pub fn seal(&self, generation: u64) -> Result<Option<Part>, Fault> {
        let part = self.state.borrow_mut().seal(generation);
        if part.is_some() {
            self.save()?;
        }
        Ok(part)
    }

    pub fn wait_until(&self, task: impl Future<Output = ()> + 'static) {
        self.waited_for.borrow_mut().push(Box::pin(task));
    }
}

fn done((): ()) -> Answer {
    Answer::Done
}
