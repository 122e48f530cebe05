//! Moves of leads. The new place asks the former one, which seals the lead and hands over its rows, also repeatedly.
//!
//! Invariant: the rows of a lead count at one place. [`tally_core::handover`] decides; this file sends the messages and
//! writes the rows. Until a lead is confirmed to its former place, it does not end, so no old copy is left that could
//! be taken over again. A place without rows voids its own requests for them when it says so.

use std::rc::Rc;

use super::core::CellCore;
use super::lead_role::{LeadName, LeadRole, moving};
use super::store::LoadedCell;
use tally_core::cluster::tablets::LeadPlace;
use tally_core::handover::giver::{Given, GiverRequest, asked};
use tally_core::handover::taker::{GiverAnswer, Taker, TakerStep};
use tally_core::handover::{Debt, Holding, IfNowhere, Sealed};
use tally_shared::call::call;
use tally_shared::open_objects;
use tally_wire::messages::{Fault, GiveLead, LeadHandover, LeadLocation, LeadPresence, LeadTaken};
use tally_wire::names::CellAddress;

/// The most requests for one lead before the new place gives up: each place may have handed the lead on.
const REQUESTS_MAX: u8 = 32;

/// How long the new place waits until one more object may be open, milliseconds.
const ROOM_MS_MAX: i64 = 2_000;

/// How soon the alarm of a moved lead rings, milliseconds: work that was due at its former place may be due.
const DUE_WITHIN_MS: i64 = 1_000;

/// Rows of a lead, by the bytes of their names.
type LeadRows = Vec<(Vec<u8>, Vec<u8>)>;

/// The seal and the name after which more rows are asked for; `None` to begin.
type LeadRowsAfter = Option<(u64, Vec<u8>)>;

/// A search for a lead. Its mark is the number of handovers when it began, see
/// [`super::lead_role::LeadPlaceState::handover_count`].
type LeadTaker = Taker<LeadPlace, Vec<u8>, u64>;

/// A lead that is being taken over.
struct LeadTransfer<'a> {
    name: &'a LeadName,
    /// This place.
    to: LeadPlace,
    epoch: u32,
}

impl CellCore {
    /// Handles the request of another place to take the lead over.
    pub(super) fn on_give_lead(
        self: &Rc<Self>,
        give: Result<GiveLead, Fault>,
    ) -> Result<LeadHandover, Fault> {
        let give = give?;
        self.loaded()?;
        let presence = self.lead.presence();
        let has_debt = matches!(&presence, Some(LeadPresence::Here { former_place, .. }) if former_place.is_some());
        let request = GiverRequest {
            to: give.to,
            version: give.epoch,
            failed: give.abandoned,
            continued: give.after.as_ref().map(|(seal, _)| *seal),
        };
        let seal = match asked(&self.holding(), has_debt, &request) {
            Given::Old => return Err(moving()),
            Given::Pay => {
                let core = self.clone();
                self.object.wait_until(async move {
                    // A later request finds the confirmation done, or begins it again.
                    let _ = core.confirm_taken().await;
                });
                return Err(moving());
            }
            Given::Nothing => {
                // This voids what the place has begun, and deletes rows that were arriving.
                self.adopt(self.rows.load());
                self.loaded()?;
                return Ok(LeadHandover::Nothing);
            }
            Given::Elsewhere { to, seal } => return Ok(LeadHandover::ToAnother(to, seal)),
            Given::Seal { .. } => self.leave(&give)?,
            Given::Rows { seal } => seal,
        };
        let after = give.after.map(|(_, after)| after).unwrap_or_default();
        let (rows, after) = self.rows.rows.page(&after)?;
        Ok(LeadHandover::Rows { seal, rows, after })
    }

    /// What this place has of the lead.
    fn holding(&self) -> Holding<LeadPlace, u32> {
        match (self.lead_role(), self.lead.presence()) {
            (_, Some(LeadPresence::Leaving { to, epoch, seal })) => Holding::Sealed(Sealed {
                to,
                version: Some(epoch),
                seal,
            }),
            (LeadRole::Unknown, _) => Holding::Nothing,
            (_, Some(LeadPresence::Here { epoch, .. })) => Holding::Here { since: Some(epoch) },
            _ => Holding::Here { since: None },
        }
    }

    /// Seals the lead durably. Work in progress here has no effect any more.
    fn leave(&self, give: &GiveLead) -> Result<u64, Fault> {
        let seal = self.host.random();
        let presence = LeadPresence::Leaving {
            to: give.to,
            epoch: give.epoch,
            seal,
        };
        let written = self.rows.write_presence(&presence);
        self.written(written)?;
        self.pushing.borrow_mut().forget();
        self.adopt(Ok(LoadedCell {
            presence: Some(presence),
            ..LoadedCell::default()
        }));
        Ok(seal)
    }

    /// Handles the message that the lead is stored at its new place.
    pub(super) async fn on_lead_taken(&self, taken: Result<LeadTaken, Fault>) -> Result<(), Fault> {
        let taken = taken?;
        self.loaded()?;
        let holding = self.holding();
        match holding {
            Holding::Sealed(Sealed { to, .. }) if holding.may_delete(taken.seal) => {
                self.pushing.borrow_mut().unarm();
                self.rows.delete_all().await?;
                self.lead.set(None);
                self.lead.cache_location(Some(to));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Takes the lead over from the place that has it. If no place has it, it may begin here, or it is here again.
    pub(super) async fn search(
        self: &Rc<Self>,
        name: &LeadName,
        located: LeadLocation,
        handover_count: u64,
    ) -> Result<(), Fault> {
        let given_to = match self.holding() {
            Holding::Sealed(sealed) => Some(sealed.to),
            Holding::Nothing | Holding::Here { .. } => None,
        };
        let places = given_to.into_iter().chain(located.former_places);
        let (to, epoch) = (located.place, located.epoch);
        let transfer = LeadTransfer { name, to, epoch };
        let mut taker = LeadTaker::new(to, handover_count, places, REQUESTS_MAX);
        let mut step = taker.advance();
        loop {
            if self.begins_use(&step) {
                // The alarm is set before the write. So it rings if this object crashes right after the write.
                let due_ms = self.host.now_ms() + DUE_WITHIN_MS;
                self.rows.set_alarm(due_ms).await?;
            }
            self.loaded()?;
            let is_here = self.lead_role() == LeadRole::Here;
            if !taker.may_go_on(&self.lead.handover_count(), is_here) {
                return Err(moving());
            }
            step = match step {
                TakerStep::Ask { from, failed, page } => {
                    taker.answered(self.ask_for(&transfer, from, failed, page).await?)
                }
                // A place has no rows of an earlier try but those of the same bundle.
                TakerStep::Store { rows, debt, .. } => {
                    self.store(&transfer, &rows, debt)?;
                    if debt.is_some() {
                        return Ok(());
                    }
                    taker.advance()
                }
                TakerStep::Nowhere => return self.be_here(epoch),
                TakerStep::Fail => return Err(moving()),
            };
        }
    }

    /// Whether rows are in use here after a step.
    fn begins_use(&self, step: &TakerStep<LeadPlace, Vec<u8>, LeadRows>) -> bool {
        match step {
            TakerStep::Store { debt, .. } => debt.is_some(),
            TakerStep::Nowhere => matches!(self.holding(), Holding::Sealed(_)),
            TakerStep::Ask { .. } | TakerStep::Fail => false,
        }
    }

    /// Asks a place for rows of the lead.
    async fn ask_for(
        &self,
        transfer: &LeadTransfer<'_>,
        from: LeadPlace,
        abandoned: Option<u64>,
        after: LeadRowsAfter,
    ) -> Result<GiverAnswer<LeadPlace, Vec<u8>, LeadRows>, Fault> {
        if from == LeadPlace::Own {
            // Many leads may be taken over at once, and one process may run all objects.
            let name = transfer.name;
            let lead = CellAddress::lead(&name.counter, &name.datacenter);
            let until_ms = self.host.now_ms() + ROOM_MS_MAX;
            open_objects::room_of_own(&self.host, &lead, until_ms).await?;
        }
        let give = GiveLead {
            at: transfer.name.at(from),
            to: transfer.to,
            epoch: transfer.epoch,
            abandoned,
            after,
        };
        Ok(match call(&self.host, &give).await? {
            LeadHandover::Nothing => GiverAnswer::Nothing,
            LeadHandover::ToAnother(to, seal) => GiverAnswer::Elsewhere(to, Some(seal)),
            LeadHandover::Rows { seal, rows, after } => {
                let next = after;
                GiverAnswer::Rows { seal, rows, next }
            }
        })
    }

    /// Writes a page of a lead. With the last one this becomes its place.
    fn store(
        self: &Rc<Self>,
        transfer: &LeadTransfer<'_>,
        rows: &[(Vec<u8>, Vec<u8>)],
        debt: Option<Debt<LeadPlace>>,
    ) -> Result<(), Fault> {
        let presence = debt.map_or(LeadPresence::Arriving, |debt| LeadPresence::Here {
            epoch: transfer.epoch,
            former_place: Some((transfer.name.at(debt.from), debt.seal)),
        });
        let written = self.rows.create_schema().and_then(|()| {
            self.rows.rows.atomically(|| {
                self.rows.rows.put_bundle(rows)?;
                self.rows.write_presence(&presence)
            })
        });
        self.written(written)?;
        self.lead.set(Some(presence));
        if debt.is_some() {
            self.adopt(self.rows.load());
            let core = self.clone();
            self.object.wait_until(async move {
                // If it fails, the alarm tries again.
                let _ = core.confirm_taken().await;
            });
        }
        Ok(())
    }

    /// No other place has the lead. If it was handed on from here, and no place has stored it, it is here again.
    fn be_here(&self, epoch: u32) -> Result<(), Fault> {
        match self.holding().if_nowhere(epoch) {
            IfNowhere::Begins => self.lead.located_under(epoch),
            IfNowhere::Stays => return Err(moving()),
            IfNowhere::Returns { .. } => {
                let presence = LeadPresence::Here {
                    epoch,
                    former_place: None,
                };
                let written = self.rows.write_presence(&presence);
                self.written(written)?;
                self.adopt(self.rows.load());
            }
        }
        Ok(())
    }

    /// Makes the former place delete its rows, if it has not yet.
    ///
    /// # Errors
    /// `Unavailable` where it does not answer.
    pub(super) async fn confirm_taken(&self) -> Result<(), Fault> {
        let _alone = self.lead.confirming.lock().await;
        self.loaded()?;
        let presence = self.lead.presence();
        let Some(LeadPresence::Here {
            epoch,
            former_place: Some((at, seal)),
        }) = presence.clone()
        else {
            return Ok(());
        };
        call(&self.host, &LeadTaken { at, seal }).await?;
        self.loaded()?;
        if self.lead.presence() != presence {
            return Ok(());
        }
        let confirmed = LeadPresence::Here {
            epoch,
            former_place: None,
        };
        let written = self.rows.write_presence(&confirmed);
        self.written(written)?;
        self.lead.set(Some(confirmed));
        Ok(())
    }
}
