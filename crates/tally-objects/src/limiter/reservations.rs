//! Several checks of one call at their limiter: all are admitted, or none is consumed.

use std::rc::Rc;

use super::growth::MovedStep;
use super::object::{LimiterCore, NamedDemand};
use tally_core::cluster::spread::DemandStep;
use tally_core::limit::policy::Durability;
use tally_core::limit::table::{self, Full, ReservationRefusal};
use tally_wire::messages::{EndReservation, Fault, Reserve, Reserved};

impl LimiterCore {
    /// Admits all of several checks, or none.
    pub(super) async fn on_reserve(
        self: &Rc<Self>,
        reserve: Result<Reserve, Fault>,
    ) -> Result<Reserved, Fault> {
        let Reserve {
            to,
            id,
            policies,
            demands,
        } = reserve?;
        self.readable()?;
        let all = NamedDemand::all(&policies, &demands)?;
        let mut has_room = true;
        for demand in &all {
            has_room &= self.step_after(&to, demand, false).await? != MovedStep::NoRoom;
        }
        let homes = all
            .iter()
            .map(|demand| match self.step(&to, demand, false) {
                DemandStep::Forward(home) => home,
                _ => to.partition,
            });
        let homes: Vec<u32> = homes.collect();
        if homes.iter().any(|home| *home != to.partition) {
            return Ok(Reserved {
                verdicts: vec![None; all.len()],
                is_reserved: false,
                homes,
            });
        }
        let checks: Vec<table::Check<'_>> = all.iter().map(NamedDemand::check).collect();
        let now_ms = self.host.now_ms();
        let reservation = {
            let mut table = self.table.borrow_mut();
            match id {
                _ if !has_room => Err(ReservationRefusal::Full),
                Some(id) => table.reserve(id, &checks, now_ms),
                None => table
                    .check_all(&checks, now_ms)
                    .map_err(|Full| ReservationRefusal::Full),
            }
        };
        let (verdicts, is_reserved) = match reservation {
            Ok(verdicts) => {
                let is_reserved = verdicts.iter().all(|verdict| verdict.is_allowed);
                (verdicts.into_iter().map(Some).collect(), is_reserved)
            }
            Err(ReservationRefusal::NotAdmitted(verdicts)) => {
                (verdicts.into_iter().map(Some).collect(), false)
            }
            Err(ReservationRefusal::Full) => {
                let refused = checks.iter().map(|check| Some(Full::verdict(check.policy)));
                (refused.collect(), false)
            }
            Err(ReservationRefusal::Cancelled) => (vec![None; checks.len()], false),
        };
        let must_commit = all
            .iter()
            .any(|demand| demand.policy.durability == Durability::Commit);
        self.written(is_reserved && must_commit)?;
        Ok(Reserved {
            verdicts,
            is_reserved,
            homes: Vec::new(),
        })
    }

    /// Settles a reservation.
    pub(super) fn on_end(self: &Rc<Self>, end: Result<EndReservation, Fault>) -> Result<(), Fault> {
        let EndReservation {
            id, is_cancelled, ..
        } = end?;
        self.readable()?;
        let now_ms = self.host.now_ms();
        {
            let mut table = self.table.borrow_mut();
            if is_cancelled {
                table.cancel(id, now_ms);
            } else {
                table.confirm(id, now_ms);
            }
        }
        self.written(false)
    }
}
