//! The limits of callers without a key, and of holders of shares.
//!
//! Invariant: an address is held no longer than its request; what stays in memory is a hash of it by a key of this
//! isolate. All clients of unknown address share one budget, so that hiding the address evades no limit.

use std::cell::{Cell, RefCell};

use tally_core::callers::owner;
use tally_core::callers::visitors::{
    COUNTER_WRITES, NEW_COUNTERS, READ_CALLS, VisitorWrite, Visitors, WRITES,
};
use tally_core::limit::budgets::{Budget, BudgetSpent};
use tally_core::limit::meter::NEVER_MS;
use tally_core::limit::owner::Owner;
use tally_core::sketch::{HashKey, hash};
use tally_host::{Host, State};
use tally_wire::names::CLIENT_ADDRESS_HEADER;
use tally_wire::problem::{Code, Problem};

/// A counter whose generation is older than this was not created by the write that has just been counted, milliseconds:
/// a write takes 5 s at most, and generations are of the directory's clock.
const CREATED_MS_MAX: i64 = 30_000;

/// The visitors of this isolate.
struct IsolateVisitors {
    visitors: RefCell<Visitors>,
    /// The key of their hashes.
    key: HashKey,
}

impl State for IsolateVisitors {
    fn begin(host: &Host) -> Self {
        Self {
            visitors: RefCell::default(),
            key: HashKey::from(host.random_key().0),
        }
    }
}

/// The hash of an address, or of a counter.
pub fn hashed(host: &Host, bytes: &[u8]) -> u64 {
    hash(&host.state::<IsolateVisitors>().key, bytes)
}

/// The caller, if it is limited.
pub struct Visitor {
    host: Host,
    /// Its hash; `None` for the holder of a key.
    hash: Option<u64>,
    has_address: bool,
    owner: Owner,
    /// When the last write was admitted, if that counted as the first of its counter.
    new_since_ms: Cell<Option<i64>>,
}

impl Visitor {
    /// The holder of a key, who is not limited.
    pub fn unlimited(host: Host) -> Self {
        Self {
            host,
            hash: None,
            has_address: true,
            owner: Owner::default(),
            new_since_ms: Cell::new(None),
        }
    }

    /// The caller at an address, which is empty where it is unknown. A share may be passed on, so it counts too.
    pub fn at(host: Host, address: &[u8]) -> Self {
        Self {
            hash: Some(hashed(&host, address)),
            has_address: !address.is_empty(),
            owner: owner::of_address(address),
            ..Self::unlimited(host)
        }
    }

    /// The party under which limits account for the caller's keys.
    pub fn owner(&self) -> Owner {
        self.owner
    }

    /// Nothing where one more write to a counter, or check of a limit, is let in, which is then used. All else that
    /// could refuse it must have been looked at before.
    ///
    /// # Errors
    /// `quota-exceeded`, with the time to wait.
    pub fn admit(&self, counter: &str) -> Result<(), Problem> {
        let Some(write) = self.write_of(counter) else {
            return Ok(());
        };
        let admitted = self.with_all(|visitors, now_ms| {
            let is_new = visitors.write(write, now_ms)?;
            Ok(is_new.then_some(now_ms))
        });
        self.new_since_ms
            .set(admitted.map_err(|spent| self.refusal(spent))?);
        Ok(())
    }

    /// Succeeds if this many writes to a counter would be admitted. Nothing of the budget is used.
    ///
    /// # Errors
    /// `quota-exceeded`, with the time to wait; `cost-exceeds-limit` if there is never room for this many at once.
    #[cfg_attr(
        not(feature = "boards"),
        expect(dead_code, reason = "writes to boards are budgeted at once")
    )]
    pub fn may_write(&self, counter: &str, writes: u64) -> Result<(), Problem> {
        let Some(write) = self.write_of(counter) else {
            return Ok(());
        };
        let may = self.with_all(|visitors, now_ms| visitors.may_write(write, writes, now_ms));
        may.map_err(|spent| self.refusal(spent))
    }

    fn write_of(&self, counter: &str) -> Option<VisitorWrite> {
        let visitor = self.hash?;
        let both = [&visitor.to_le_bytes()[..], counter.as_bytes()].concat();
        Some(VisitorWrite {
            visitor,
            counter: hashed(&self.host, counter.as_bytes()),
            both: hashed(&self.host, &both),
        })
    }

    /// Refunds what a write has used for a new counter, if the counter existed before: its cell had counted something,
    /// or its generation is older than any write takes.
    pub fn refund_new(&self, generation: u64, has_counted_before: bool) {
        let (Some(visitor), Some(written_ms)) = (self.hash, self.new_since_ms.take()) else {
            return;
        };
        let now_ms = self.host.now_ms();
        let oldest = u64::try_from(now_ms.saturating_sub(CREATED_MS_MAX)).unwrap_or(0);
        if has_counted_before || generation < oldest {
            self.with_all(|visitors, now_ms| visitors.was_there(visitor, written_ms, now_ms));
        }
    }

    /// Succeeds if a read with this many calls to objects is admitted.
    ///
    /// # Errors
    /// `quota-exceeded`, with the time to wait.
    pub fn read(&self, calls: u64) -> Result<(), Problem> {
        let Some(visitor) = self.hash else {
            return Ok(());
        };
        let read = self.with_all(|visitors, now_ms| visitors.read(visitor, calls, now_ms));
        read.map_err(|spent| self.refusal(spent))
    }

    /// Deducts further calls of a read.
    pub fn deduct_calls(&self, calls: u64) {
        if let Some(visitor) = self.hash {
            self.with_all(|visitors, now_ms| visitors.charge_calls(visitor, calls, now_ms));
        }
    }

    fn with_all<T>(&self, work: impl FnOnce(&mut Visitors, i64) -> T) -> T {
        let own = self.host.state::<IsolateVisitors>();
        work(&mut own.visitors.borrow_mut(), self.host.now_ms())
    }

    fn refusal(&self, BudgetSpent { budget, wait_ms }: BudgetSpent) -> Problem {
        let seconds = u32::try_from(wait_ms.div_ceil(1_000)).unwrap_or(u32::MAX);
        let Budget { burst, interval_ms } = budget;
        let what = match budget {
            COUNTER_WRITES => "writes to one counter",
            WRITES => "writes",
            NEW_COUNTERS => "new counters",
            READ_CALLS => "calls to objects for reads",
            _ => "calls",
        };
        if wait_ms == NEVER_MS {
            let detail = format!(
                "without a key an address has {burst} {what} at once, and this needs more; nothing was done, send it in parts"
            );
            return Problem::new(Code::CostExceedsLimit, detail);
        }
        let who = if self.has_address {
            String::new()
        } else {
            format!(
                "; no header has the address of the caller, so all callers share one limit: set {CLIENT_ADDRESS_HEADER} to the header that the proxy in front \
                 writes addresses into"
            )
        };
        let detail = format!(
            "without a key an address has {burst} {what} at once and one more every {interval_ms} ms; \
             this was not done, try again in {seconds} s or send a key{who}"
        );
        Problem::new(Code::QuotaExceeded, detail).with_retry_after(seconds)
    }
}
