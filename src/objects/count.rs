//! Keyed writes at a lead: claimed for it at the root, decided here alone.
//!
//! Invariant: a keyed write is answered only after it and its record were written in one commit.

use std::cell::RefCell;
use std::rc::Rc;

use worker::Env;

use super::cell::{Core, GRANT_TRIES};
use crate::counter::cell::LedgerLimits;
use crate::counter::flush::{Changes, Refusal};
use crate::counter::ledger::{RECORDS_MAX, Recorded, WriteKey};
use crate::platform::clock::now_ms;
use crate::platform::measure;
use crate::protocol::messages::{Count, Counted, Fault};
use crate::protocol::metrics::Metric;
use crate::protocol::names::IDEMPOTENCY_SECONDS;

/// How long keys are kept where nothing is set, and the shortest and longest that may be set, in seconds:
/// a day, a minute, a week.
const KEPT_SECONDS: (i64, i64, i64) = (86_400, 60, 7 * 86_400);

/// How long keys are kept, milliseconds.
pub(super) fn kept_ms(env: &Env) -> i64 {
    let (usual, least, most) = KEPT_SECONDS;
    let set = env.var(IDEMPOTENCY_SECONDS).ok();
    let seconds = set.and_then(|text| text.to_string().parse::<i64>().ok());
    seconds.unwrap_or(usual).clamp(least, most) * 1_000
}

/// What a cell's ledger is bound by; read once, since a variable is a call into JavaScript.
pub(super) fn ledger_limits(env: &Env) -> LedgerLimits {
    LedgerLimits {
        kept_ms: kept_ms(env),
        records_max: RECORDS_MAX,
    }
}

impl Core {
    pub(super) async fn on_count(
        self: &Rc<Self>,
        count: Result<Count, Fault>,
    ) -> Result<Counted, Fault> {
        let count = count?;
        self.readable()?;
        for _ in 0..GRANT_TRIES {
            match self.try_count(&count) {
                Err(Fault::Refused(Refusal::NeedsGrant)) => self.obtain_grant(&count.to).await?,
                outcome => return outcome,
            }
        }
        Err(Fault::Unavailable(
            "the counter is being ended and created again".to_owned(),
        ))
    }

    /// Load, decide, write: no await, so nothing comes between.
    fn try_count(self: &Rc<Self>, count: &Count) -> Result<Counted, Fault> {
        let now_ms = now_ms();
        self.let_records_go(now_ms)?;
        let ledger = self.state.borrow().ledger().clone();
        let broken: RefCell<Option<Fault>> = RefCell::default();
        let known = |key: WriteKey| -> Option<Recorded> {
            self.rows.record(&ledger, key).unwrap_or_else(|fault| {
                broken.replace(Some(fault));
                None
            })
        };
        let mut changes = Changes::default();
        let (outcomes, written) = {
            let mut state = self.state.borrow_mut();
            let outcomes = state
                .apply_keyed(
                    &count.writes,
                    self.ledger_limits,
                    now_ms,
                    &known,
                    &mut changes,
                )
                .map_err(Fault::Refused)?;
            // A record that could not be looked up may be there: nothing may be kept of this.
            let written = match broken.take() {
                Some(fault) => Err(fault),
                None => self.rows.write(&state, &changes, now_ms.div_euclid(1_000)),
            };
            (outcomes, written)
        };
        if written.is_err() {
            measure::count(Metric::CommitFailed);
        }
        self.written(written)?;
        if changes.hot {
            measure::committed(1);
            self.note_writes(&count.to, count.writes.len(), now_ms);
        }
        let newest = self.state.borrow().ledger().slots().last();
        if newest != ledger.slots().last() {
            self.arm_for_ledger();
        }
        Ok(Counted {
            outcomes,
            shards: self.state.borrow().spread(),
        })
    }

    /// Deletes records that were kept long enough.
    pub(super) fn let_records_go(&self, now_ms: i64) -> Result<(), Fault> {
        let newest = self.state.borrow_mut().expire_records(now_ms);
        match newest {
            Some(newest) => {
                let deleted = self.rows.delete_records(newest, &self.state.borrow());
                self.written(deleted)
            }
            None => Ok(()),
        }
    }

    /// Rings when the oldest records may go.
    pub(super) fn arm_for_ledger(self: &Rc<Self>) {
        let due_ms = self.state.borrow().ledger().due_at_ms();
        if let Some(due_ms) = due_ms {
            self.arm_at(due_ms);
        }
    }
}
