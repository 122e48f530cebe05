//! Keyed writes at a lead, as `objects::count`.

use std::rc::Rc;

use tally::counter::cell::LedgerLimits;
use tally::counter::flush::{Changes, Refusal};
use tally::counter::ledger::{Keyed, KeyedOutcome};
use tally::protocol::messages::{Counted, Fault};

use super::GRANT_TRIES;
use super::cell::Core;
use super::network::unavailable;

/// A day: no record goes while the world lasts.
pub const LIMITS: LedgerLimits = LedgerLimits {
    kept_ms: 86_400_000,
    records_max: 1_000,
};

impl Core {
    pub async fn on_count(self: &Rc<Self>, writes: Vec<Keyed>) -> Result<Counted, Fault> {
        for _ in 0..GRANT_TRIES {
            match self.try_count(&writes) {
                Err(Fault::Refused(Refusal::NeedsGrant)) => self.obtain_grant().await?,
                outcome => return outcome,
            }
        }
        Err(unavailable())
    }

    fn try_count(&self, writes: &[Keyed]) -> Result<Counted, Fault> {
        let now_ms = self.now_ms();
        let newest = self.state.borrow_mut().expire_records(now_ms);
        if let Some(newest) = newest {
            self.write(|rows, state| rows.delete_records(newest, state))?;
        }
        let ledger = self.state.borrow().ledger().clone();
        let mut changes = Changes::default();
        let outcomes = {
            let rows = self.rows.borrow();
            let known = |key| rows.record(&ledger, key);
            let mut state = self.state.borrow_mut();
            let applied = state.apply_keyed(writes, LIMITS, now_ms, &known, &mut changes);
            applied.map_err(Fault::Refused)?
        };
        self.write(|rows, state| rows.write(state, &changes, now_ms.div_euclid(1_000)))?;
        for (write, outcome) in writes.iter().zip(&outcomes) {
            if let KeyedOutcome::Counted(recorded) = outcome {
                let mut oracle = self.air.oracle.borrow_mut();
                oracle.counted((self.place, now_ms), write.key, recorded);
            }
        }
        Ok(Counted {
            outcomes,
            shards: self.spread(),
            home: None,
        })
    }
}
