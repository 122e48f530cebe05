//! The Durable Object of one (counter, datacenter, shard).
//!
//! Invariant: memory never runs ahead of storage across an await. A flush is decided and written
//! in one synchronous stretch, and the platform holds the answer back until the write is durable.
//! Where a write fails, memory is read again from storage.

use std::cell::RefCell;

use futures_util::lock::Mutex;
use worker::wasm_bindgen;
use worker::{DurableObject, Env, Request, Response, State, durable_object};

use super::cell_store::CellStore;
use super::store::Store;
use crate::counter::cell::Cell as CellState;
use crate::counter::flush::Refusal;
use crate::counter::grant::{Grant, Taken};
use crate::counter::merge::Question;
use crate::platform::call;
use crate::platform::clock::now_ms;
use crate::protocol::messages::{
    Ask, Call, CellAnswer, Close, Configure, Fault, Flush, Flushed, Hello, Register, Sum,
};
use crate::protocol::names::CellAddress;

/// How often a flush asks for a grant before it is refused. The second time is for a generation
/// that ended while the first grant was on its way.
const GRANT_TRIES: usize = 4;

/// One cell. Shard 0 is the lead of its datacenter, see [`super::lead`].
#[durable_object]
pub struct Cell {
    pub(super) env: Env,
    pub(super) rows: CellStore,
    pub(super) state: RefCell<CellState>,
    address: RefCell<Option<CellAddress>>,
    /// Why storage could not be read; every call is refused with it.
    unreadable: RefCell<Option<Fault>>,
    /// Held while a grant is asked for, so that many flushes ask once.
    granting: Mutex<()>,
}

impl DurableObject for Cell {
    fn new(state: State, env: Env) -> Self {
        let (rows, loaded) = CellStore::open(Store::new(state.storage()));
        let cell = Self {
            env,
            rows,
            state: RefCell::default(),
            address: RefCell::default(),
            unreadable: RefCell::default(),
            granting: Mutex::new(()),
        };
        cell.adopt(loaded);
        cell
    }

    async fn fetch(&self, mut request: Request) -> worker::Result<Response> {
        let path = request.path();
        match path.as_str() {
            Flush::PATH => {
                call::reply::<Flush>(&self.on_flush(call::read(&mut request).await).await)
            }
            Ask::PATH => call::reply::<Ask>(&self.on_ask(call::read(&mut request).await)),
            Sum::PATH => call::reply::<Sum>(&self.on_sum(call::read(&mut request).await).await),
            Hello::PATH => {
                call::reply::<Hello>(&self.on_hello(call::read(&mut request).await).await)
            }
            Configure::PATH => {
                call::reply::<Configure>(&self.on_configure(call::read(&mut request).await).await)
            }
            Close::PATH => {
                call::reply::<Close>(&self.on_close(call::read(&mut request).await).await)
            }
            _ => Response::error("no such call", 404),
        }
    }
}

impl Cell {
    fn adopt(&self, loaded: Result<(CellState, Option<CellAddress>), Fault>) {
        match loaded {
            Ok((state, address)) => {
                self.state.replace(state);
                self.address.replace(address);
                self.unreadable.replace(None);
            }
            Err(fault) => {
                self.unreadable.replace(Some(fault));
            }
        }
    }

    /// Refuses while storage cannot be read.
    pub(super) fn readable(&self) -> Result<(), Fault> {
        self.unreadable.borrow().clone().map_or(Ok(()), Err)
    }

    /// Passes a write's outcome on; after a failed one, memory is read from storage again.
    pub(super) fn written(&self, written: Result<(), Fault>) -> Result<(), Fault> {
        if written.is_err() {
            self.adopt(self.rows.load());
        }
        written
    }

    async fn on_flush(&self, flush: Result<Flush, Fault>) -> Result<Flushed, Fault> {
        let flush = flush?;
        self.readable()?;
        for _ in 0..GRANT_TRIES {
            match self.try_flush(&flush) {
                Err(Fault::Refused(Refusal::NeedsGrant)) => self.obtain_grant(&flush.to).await?,
                outcome => return outcome,
            }
        }
        Err(Fault::Unavailable(
            "the counter is being ended and created again".to_owned(),
        ))
    }

    /// Load, decide, write: no await, so nothing comes between.
    fn try_flush(&self, flush: &Flush) -> Result<Flushed, Fault> {
        let now_ms = now_ms();
        let mut state = self.state.borrow_mut();
        let (outcome, changes) = state
            .apply(flush.nonce, &flush.load, now_ms)
            .map_err(Fault::Refused)?;
        let grant = state.grant().ok_or(Fault::Refused(Refusal::NeedsGrant))?;
        let flushed = Flushed {
            generation: grant.generation,
            outcome,
            alone: state.is_alone(),
            shards: grant.settings.shards(),
        };
        let written = self.rows.write(&state, &changes, now_ms.div_euclid(1_000));
        drop(state);
        self.written(written)?;
        Ok(flushed)
    }

    /// Asks the root (a lead) or the lead (another shard) for permission to count.
    pub(super) async fn obtain_grant(&self, me: &CellAddress) -> Result<(), Fault> {
        let _asking = self.granting.lock().await;
        if !self.state.borrow().needs_grant(now_ms()) {
            return Ok(());
        }
        let CellAddress {
            counter,
            datacenter,
            shard,
        } = me;
        let grant = if me.is_lead() {
            let register = Register {
                counter: counter.clone(),
                datacenter: datacenter.clone(),
            };
            call::root(&self.env, counter, &register).await?
        } else {
            let lead = me.sibling(0);
            call::cell(
                &self.env,
                &lead,
                &Hello {
                    to: lead.clone(),
                    shard: *shard,
                },
            )
            .await?
        };
        self.take_grant(me, grant)
    }

    /// Takes a grant into memory and, where it begins something, into storage.
    pub(super) fn take_grant(&self, me: &CellAddress, grant: Grant) -> Result<(), Fault> {
        let taken = self.state.borrow_mut().take_grant(grant, now_ms());
        let stored = match taken {
            Taken::Outdated => return Ok(()),
            Taken::Renewed => self.rows.write_hot(&self.state.borrow()),
            Taken::Born => self.begin(me),
            Taken::Replaced => self.rows.clear().and_then(|()| self.begin(me)),
        };
        self.written(stored)
    }

    fn begin(&self, me: &CellAddress) -> Result<(), Fault> {
        self.rows.write_address(me)?;
        self.address.replace(Some(me.clone()));
        self.rows.write_hot(&self.state.borrow())
    }

    fn on_ask(&self, ask: Result<Ask, Fault>) -> Result<Option<CellAnswer>, Fault> {
        let ask = ask?;
        self.readable()?;
        self.answer(&ask.question)
    }

    /// This cell's own part of an answer.
    pub(super) fn answer(&self, question: &Question) -> Result<Option<CellAnswer>, Fault> {
        let Some(part) = self.state.borrow().answer(question) else {
            return Ok(None);
        };
        let window_uniques = match question.window {
            Some((from, to)) if !question.totals_only => self.rows.window_uniques(from, to)?,
            _ => Vec::new(),
        };
        Ok(Some(CellAnswer {
            part,
            window_uniques,
        }))
    }
}
