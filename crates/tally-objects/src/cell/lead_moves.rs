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
                self.give_nothing(presence.is_some())?;
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

    /// Answers that there are no rows here. Rows that are in flight to here are refused from now on.
    fn give_nothing(&self, is_arriving: bool) -> Result<(), Fault> {
        self.lead.record_handover();
        self.state.borrow_mut().void_grants();
        if is_arriving {
            let cleared = self.rows.rows.atomically(|| self.rows.rows.clear_bundle());
            self.written(cleared)?;
            self.lead.set(None);
        }
        Ok(())
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
        self.lead.record_handover();
        self.state.borrow_mut().void_grants();
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
            step = match step {
                TakerStep::Ask { from, failed, page } => {
                    let asked = (from, failed, page);
                    self.ask_for(&transfer, &mut taker, asked).await?
                }
                TakerStep::Store {
                    rows,
                    is_first,
                    debt: None,
                } => {
                    self.write_page(&rows, LeadPresence::Arriving, is_first)?;
                    taker.advance()
                }
                TakerStep::Store {
                    rows,
                    is_first,
                    debt: Some(debt),
                } => {
                    let last = (rows, is_first, debt);
                    return self.take(&transfer, &taker, last).await;
                }
                TakerStep::Nowhere => return self.be_here(&transfer, &taker).await,
                TakerStep::Fail => return Err(moving()),
            };
        }
    }

    /// Asks a place for rows of the lead.
    async fn ask_for(
        &self,
        transfer: &LeadTransfer<'_>,
        taker: &mut LeadTaker,
        (from, abandoned, after): (LeadPlace, Option<u64>, LeadRowsAfter),
    ) -> Result<TakerStep<LeadPlace, Vec<u8>, LeadRows>, Fault> {
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
        let handover = call(&self.host, &give).await;
        self.may_take(taker)?;
        Ok(taker.answered(match handover? {
            LeadHandover::Nothing => GiverAnswer::Nothing,
            LeadHandover::ToAnother(to, seal) => GiverAnswer::Elsewhere(to, Some(seal)),
            LeadHandover::Rows { seal, rows, after } => {
                let next = after;
                GiverAnswer::Rows { seal, rows, next }
            }
        }))
    }

    /// Refuses if the lead has been handed on, or is here, since the search began.
    fn may_take(&self, taker: &LeadTaker) -> Result<(), Fault> {
        self.loaded()?;
        let is_here = self.lead_role() == LeadRole::Here;
        match taker.may_go_on(&self.lead.handover_count(), is_here) {
            true => Ok(()),
            false => Err(moving()),
        }
    }

    /// Writes the last page of a lead: this becomes its place.
    async fn take(
        self: &Rc<Self>,
        transfer: &LeadTransfer<'_>,
        taker: &LeadTaker,
        (rows, is_first, debt): (LeadRows, bool, Debt<LeadPlace>),
    ) -> Result<(), Fault> {
        // The alarm is set before the write: if this object crashes right after the write, it rings all the same.
        let due_ms = self.host.now_ms() + DUE_WITHIN_MS;
        self.rows.set_alarm(due_ms).await?;
        self.may_take(taker)?;
        let presence = LeadPresence::Here {
            epoch: transfer.epoch,
            former_place: Some((transfer.name.at(debt.from), debt.seal)),
        };
        self.write_page(&rows, presence, is_first)?;
        self.adopt(self.rows.load());
        let core = self.clone();
        self.object.wait_until(async move {
            // If it fails, the alarm tries again.
            let _ = core.confirm_taken().await;
        });
        Ok(())
    }

    fn write_page(
        &self,
        rows: &[(Vec<u8>, Vec<u8>)],
        presence: LeadPresence,
        is_first: bool,
    ) -> Result<(), Fault> {
        let written = self.rows.create_schema().and_then(|()| {
            self.rows.rows.atomically(|| {
                if is_first {
                    self.rows.rows.clear_bundle()?;
                }
                self.rows.rows.put_bundle(rows)?;
                self.rows.write_presence(&presence)
            })
        });
        self.written(written)?;
        self.lead.set(Some(presence));
        Ok(())
    }

    /// No other place has the lead. If it was handed on from here, and no place has stored it, it is here again.
    async fn be_here(&self, transfer: &LeadTransfer<'_>, taker: &LeadTaker) -> Result<(), Fault> {
        let epoch = transfer.epoch;
        if matches!(self.holding(), Holding::Sealed(_)) {
            let due_ms = self.host.now_ms() + DUE_WITHIN_MS;
            self.rows.set_alarm(due_ms).await?;
        }
        self.may_take(taker)?;
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
