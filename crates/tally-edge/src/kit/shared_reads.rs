//! Values that the requests of an isolate share, and their reads: see [`SharedRead`], which decides.
//!
//! Invariant: a read continues if its client hangs up, because others may wait for it. They wait by their own timers,
//! because the platform forbids one request to resume another.

use std::cell::RefCell;
use std::hash::Hash;

use futures_channel::oneshot;
use futures_util::future::LocalBoxFuture;

use super::request_context::RequestContext;
use tally_core::isolate::shared_read::{
    AfterFault, ReadEnd, ReadRule, ReadStep, ReadTicket, ReadValue, SharedRead,
};
use tally_host::{Host, State};
use tally_wire::messages::Fault;
use tally_wire::problem::Problem;

/// How often a request checks a read that another one began, milliseconds.
const LOOK_EVERY_MS: u64 = 5;

/// How a value of the directory is read. Its ages are the caller's.
pub const DIRECTORY_READ: ReadRule = ReadRule {
    fresh_ms: 0,
    usable_ms: 0,
    stale_ms: 0,
    read_ms: 3_000,
    after_fault: AfterFault::RestAll,
};

/// How often a request waits for reads of others, which changes of this isolate make void. Then it reads by itself.
const WAITS_MAX: u32 = 2;

/// The values of one kind that an isolate caches. There is one such cache for each kind of names and values.
pub struct SharedReads<K, V, const MAX: usize>(RefCell<SharedRead<K, V, Fault, MAX>>);

/// The outcome of a read.
pub type ReadOutcome<V> = Result<ReadValue<V>, Fault>;

/// A value, and whether this request has read it.
pub struct SharedValue<V> {
    /// The value.
    pub value: V,
    /// Whether no other request had begun to read it.
    pub is_own: bool,
}

/// Why there is no value.
pub enum NoValue {
    /// The caller may not read.
    Refused(Problem),
    /// It cannot be read.
    Fault(Fault),
}

impl NoValue {
    /// The refusal of the caller, or what `unread` says of a fault.
    pub fn into_problem(self, unread: impl FnOnce(Fault) -> Problem) -> Problem {
        match self {
            Self::Refused(problem) => problem,
            Self::Fault(fault) => unread(fault),
        }
    }
}

impl<K: Eq + Hash + 'static, V: 'static, const MAX: usize> State for SharedReads<K, V, MAX> {
    fn begin(_host: &Host) -> Self {
        Self(RefCell::default())
    }
}

impl<K, V, const MAX: usize> SharedReads<K, V, MAX>
where
    K: Clone + Eq + Hash + 'static,
    V: Clone + 'static,
{
    /// Works with the cached values.
    pub fn with<T>(host: &Host, work: impl FnOnce(&mut SharedRead<K, V, Fault, MAX>) -> T) -> T {
        work(&mut host.state::<Self>().0.borrow_mut())
    }

    /// The value of a name by a rule. A caller without a key pays `calls` for a read that it waits for.
    ///
    /// # Errors
    /// Why there is none.
    pub async fn value(
        context: &RequestContext,
        key: &K,
        rule: &ReadRule,
        calls: u64,
        read: impl Fn(Host) -> LocalBoxFuture<'static, ReadOutcome<V>>,
    ) -> Result<SharedValue<V>, NoValue> {
        let host = &context.host;
        let mut waits = 0;
        let (outcome, is_own) = loop {
            let now_ms = host.now_ms();
            let step = Self::with(host, |reads| match waits < WAITS_MAX {
                true => reads.next(key, now_ms, rule),
                false => ReadStep::Read(reads.begin_alone(now_ms)),
            });
            match step {
                ReadStep::Use(value) => break (Ok(value), false),
                ReadStep::UseAndRead(value, ticket) => {
                    Self::read(context, key, ticket, read(host.clone()), |_| {});
                    break (Ok(value), false);
                }
                ReadStep::Read(ticket) => {
                    let read = || read(host.clone());
                    let outcome = Self::read_paid(context, key, ticket, calls, read).await;
                    break (outcome.map_err(NoValue::Refused)?, true);
                }
                ReadStep::Wait(ticket) => match Self::wait(host, key, ticket, rule).await {
                    Some(outcome) => break (outcome, false),
                    None => waits += 1,
                },
                ReadStep::Refuse(fault) => break (Err(fault), false),
            }
        };
        let value = outcome.or_else(|fault| {
            let now_ms = host.now_ms();
            let stale = Self::with(host, |reads| reads.within(key, now_ms, rule.stale_ms));
            stale.ok_or(NoValue::Fault(fault))
        })?;
        Ok(SharedValue { value, is_own })
    }

    /// The value of a name as it is read for this request alone. Later requests share it.
    ///
    /// # Errors
    /// Why there is none.
    pub async fn read_alone(
        context: &RequestContext,
        key: &K,
        calls: u64,
        read: impl Fn(Host) -> LocalBoxFuture<'static, ReadOutcome<V>>,
    ) -> Result<V, NoValue> {
        let host = &context.host;
        let ticket = Self::with(host, |reads| reads.begin_alone(host.now_ms()));
        let read = || read(host.clone());
        let outcome = Self::read_paid(context, key, ticket, calls, read).await;
        outcome.map_err(NoValue::Refused)?.map_err(NoValue::Fault)
    }

    /// Reads, where the caller may, and waits for the outcome.
    async fn read_paid(
        context: &RequestContext,
        key: &K,
        ticket: ReadTicket,
        calls: u64,
        read: impl FnOnce() -> LocalBoxFuture<'static, ReadOutcome<V>>,
    ) -> Result<Result<V, Fault>, Problem> {
        // Who calls is not known yet where a key is read.
        if calls > 0
            && let Err(problem) = context.visitor().read(calls)
        {
            Self::with(&context.host, |reads| reads.give_up(key, ticket));
            return Err(problem);
        }
        let (done, doing) = oneshot::channel();
        Self::read(context, key, ticket, read(), |outcome| {
            let _ = done.send(outcome);
        });
        let late = || Err(Fault::Unavailable("the read took too long".to_owned()));
        Ok(doing.await.unwrap_or_else(|_| late()))
    }

    /// Reads, also if the client hangs up.
    fn read(
        context: &RequestContext,
        key: &K,
        ticket: ReadTicket,
        read: LocalBoxFuture<'static, ReadOutcome<V>>,
        then: impl FnOnce(Result<V, Fault>) + 'static,
    ) {
        let (host, key) = (context.host.clone(), key.clone());
        context.wait_until(async move {
            let outcome = read.await;
            let value = outcome.clone().map(ReadValue::into_value);
            let now_ms = host.now_ms();
            Self::with(&host, |reads| reads.end(&key, ticket, now_ms, outcome));
            then(value);
        });
    }

    /// The outcome of another request's read; `None` where it is not known.
    async fn wait(
        host: &Host,
        key: &K,
        ticket: ReadTicket,
        rule: &ReadRule,
    ) -> Option<Result<V, Fault>> {
        loop {
            host.sleep_ms(LOOK_EVERY_MS).await;
            let now_ms = host.now_ms();
            match Self::with(host, |reads| reads.ended(key, ticket, now_ms, rule)) {
                ReadEnd::UnderWay => {}
                ReadEnd::Ended(outcome) => return Some(outcome),
                ReadEnd::Unknown => return None,
            }
        }
    }
}
