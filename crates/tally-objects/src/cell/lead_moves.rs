//! Moves of leads. The new place asks the former one, which seals the lead and hands over its rows, also repeatedly.
//!
//! Invariant: the rows of a lead count at one place. The former place's seal is durable before it answers. The new
//! place writes the last rows and its own role in one transaction, and only then confirms, after which the former place
//! deletes its rows. Until that is done the new place neither hands the lead on nor lets it end, so no old copy is left
//! that could be taken over again. A former place without rows voids its own requests for them. A lead that was handed
//! to one place is handed to another only after the first has answered that it has no rows.

use std::rc::Rc;

use super::lead_place::{LeadName, LeadRole};
use super::object::Core;
use super::store::LoadedCell;
use tally_core::cluster::tablets::LeadPlace;
use tally_shared::call::call;
use tally_shared::open_objects;
use tally_wire::messages::{Fault, GiveLead, LeadHandover, LeadPresence, LeadTaken};
use tally_wire::names::CellAddress;

/// The most requests for one lead before the new place gives up: each place may have handed the lead on.
const REQUESTS_MAX: usize = 16;

/// How long the new place waits until one more object may be open, milliseconds.
const ROOM_MS_MAX: i64 = 2_000;

/// How soon the alarm of a moved lead rings, milliseconds: work that was due at its former place may be due.
const DUE_WITHIN_MS: i64 = 1_000;

/// A place that is asked for a lead.
struct CandidatePlace {
    place: LeadPlace,
    /// The seal under which this place has handed the lead on.
    seal: Option<u64>,
    /// That seal, once it is known that this transfer failed.
    abandoned: Option<u64>,
}

impl CandidatePlace {
    fn new(place: LeadPlace) -> Self {
        Self {
            place,
            seal: None,
            abandoned: None,
        }
    }
}

/// Rows of a lead, and the name after which there are more.
struct LeadRowsPage {
    from: LeadPlace,
    seal: u64,
    rows: Vec<(Vec<u8>, Vec<u8>)>,
    after: Option<Vec<u8>>,
}

/// A lead that is being taken over.
struct LeadTransfer<'a> {
    name: &'a LeadName,
    epoch: u32,
    /// The number of handovers when the transfer began. It must not change, see
    /// [`super::lead_place::LeadPlaceState::has_no_handover_since`].
    handover_count: u64,
}

impl Core {
    /// Handles the request of another place to take the lead over.
    pub(super) fn on_give_lead(
        self: &Rc<Self>,
        give: Result<GiveLead, Fault>,
    ) -> Result<LeadHandover, Fault> {
        let give = give?;
        self.loaded()?;
        let seal = match (self.lead_role(), self.lead.presence()) {
            (LeadRole::Unknown, presence) => {
                self.give_nothing(presence.is_some())?;
                return Ok(LeadHandover::Nothing);
            }
            (
                _,
                Some(LeadPresence::Leaving {
                    to, epoch, seal, ..
                }),
            ) => {
                let is_begun = give.after.as_ref().map(|(seal, _)| *seal);
                match (to == give.to, is_begun) {
                    (true, Some(begun)) if begun == seal => seal,
                    (_, Some(_)) => return Err(outdated()),
                    (true, None) if give.epoch == epoch => seal,
                    (true, None) if give.epoch > epoch => self.leave(&give)?,
                    (false, None) if give.abandoned == Some(seal) && give.epoch > epoch => {
                        self.leave(&give)?
                    }
                    (true, None) => return Err(outdated()),
                    (false, None) => return Ok(LeadHandover::ToAnother(to, seal)),
                }
            }
            (_, Some(LeadPresence::Here { former_place, .. })) if former_place.is_some() => {
                let core = self.clone();
                self.object.wait_until(async move {
                    // A later request finds the confirmation done, or begins it again.
                    let _ = core.confirm_taken().await;
                });
                return Err(outdated());
            }
            (_, presence) => {
                let since = match presence {
                    Some(LeadPresence::Here { epoch, .. }) => Some(epoch),
                    _ => None,
                };
                if since >= Some(give.epoch) || give.after.is_some() {
                    return Err(outdated());
                }
                self.leave(&give)?
            }
        };
        let after = give.after.map(|(_, after)| after).unwrap_or_default();
        let (rows, after) = self.rows.rows.page(&after)?;
        Ok(LeadHandover::Rows { seal, rows, after })
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
        match self.lead.presence() {
            Some(LeadPresence::Leaving { seal, to, .. }) if seal == taken.seal => {
                self.pushing.borrow_mut().unarm();
                self.rows.delete_all().await?;
                self.lead.set(None);
                self.lead.cache_location(Some(to));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Takes the lead over from a place where it may be, or from a place to which that one has handed it. Returns
    /// whether it was found.
    pub(super) async fn take_from(
        self: &Rc<Self>,
        name: &LeadName,
        place: LeadPlace,
        epoch: u32,
        handover_count: u64,
    ) -> Result<bool, Fault> {
        let transfer = LeadTransfer {
            name,
            epoch,
            handover_count,
        };
        let mut steps = vec![CandidatePlace::new(place)];
        for _ in 0..REQUESTS_MAX {
            let Some(step) = steps.last_mut() else {
                return Ok(false);
            };
            let from = step.place;
            match self.ask_for(&transfer, from, step.abandoned, None).await? {
                LeadHandover::Rows { seal, rows, after } => {
                    let page = LeadRowsPage {
                        from,
                        seal,
                        rows,
                        after,
                    };
                    return self.take(&transfer, page).await.map(|()| true);
                }
                LeadHandover::ToAnother(next, seal) => {
                    step.seal = Some(seal);
                    if self.is_place(name, next) {
                        break;
                    }
                    steps.push(CandidatePlace::new(next));
                }
                LeadHandover::Nothing => {
                    steps.pop();
                    if let Some(before) = steps.last_mut() {
                        before.abandoned = before.seal;
                    }
                }
            }
            if steps.is_empty() {
                return Ok(false);
            }
        }
        Err(outdated())
    }

    /// Asks a place for rows of the lead.
    async fn ask_for(
        &self,
        transfer: &LeadTransfer<'_>,
        from: LeadPlace,
        abandoned: Option<u64>,
        after: Option<(u64, Vec<u8>)>,
    ) -> Result<LeadHandover, Fault> {
        let to = self.place(transfer.name).ok_or_else(outdated)?;
        if from == LeadPlace::Own {
            // Many leads may be taken over at once, and one process may run all objects.
            let name = transfer.name;
            let lead = CellAddress::lead(&name.counter, &name.datacenter);
            let until_ms = self.host.now_ms() + ROOM_MS_MAX;
            open_objects::room_of_own(&self.host, &lead, until_ms).await?;
        }
        let give = GiveLead {
            at: transfer.name.at(from),
            to,
            epoch: transfer.epoch,
            abandoned,
            after,
        };
        let handover = call(&self.host, &give).await;
        self.may_take(transfer)?;
        handover
    }

    /// Refuses if the lead has been handed on, or is here, since the transfer began.
    fn may_take(&self, transfer: &LeadTransfer<'_>) -> Result<(), Fault> {
        self.loaded()?;
        self.lead.has_no_handover_since(transfer.handover_count)?;
        match self.lead_role() {
            LeadRole::Here => Err(outdated()),
            LeadRole::Unknown | LeadRole::Away(_) => Ok(()),
        }
    }

    /// Writes the rows of a lead, page by page; with the last page this becomes its place.
    async fn take(
        self: &Rc<Self>,
        transfer: &LeadTransfer<'_>,
        first: LeadRowsPage,
    ) -> Result<(), Fault> {
        let mut page = first;
        let mut is_first = true;
        loop {
            let presence = match &page.after {
                Some(_) => LeadPresence::Arriving,
                None => {
                    // The alarm is set before the write: if this object crashes right after the write, it rings all the
                    // same.
                    let due_ms = self.host.now_ms() + DUE_WITHIN_MS;
                    self.rows.set_alarm(due_ms).await?;
                    self.may_take(transfer)?;
                    LeadPresence::Here {
                        epoch: transfer.epoch,
                        former_place: Some((transfer.name.at(page.from), page.seal)),
                    }
                }
            };
            let written = self.write_page(&page.rows, &presence, is_first);
            self.written(written)?;
            is_first = false;
            self.lead.set(Some(presence));
            let Some(after) = page.after.take() else {
                break;
            };
            let position = Some((page.seal, after));
            match self.ask_for(transfer, page.from, None, position).await? {
                LeadHandover::Rows { seal, rows, after } if seal == page.seal => {
                    page = LeadRowsPage {
                        rows,
                        after,
                        ..page
                    };
                }
                _ => return Err(outdated()),
            }
        }
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
        presence: &LeadPresence,
        is_first: bool,
    ) -> Result<(), Fault> {
        self.rows.create_schema()?;
        self.rows.rows.atomically(|| {
            if is_first {
                self.rows.rows.clear_bundle()?;
            }
            self.rows.rows.put_bundle(rows)?;
            self.rows.write_presence(presence)
        })
    }

    /// Makes this object the place of the lead again. The lead was handed to other places, and none of them has stored
    /// it.
    pub(super) async fn reopen(&self, epoch: u32) -> Result<(), Fault> {
        self.rows
            .set_alarm(self.host.now_ms() + DUE_WITHIN_MS)
            .await?;
        self.loaded()?;
        match self.lead.presence() {
            Some(LeadPresence::Leaving { epoch: left, .. }) if left < epoch => {}
            _ => return Err(outdated()),
        }
        let presence = LeadPresence::Here {
            epoch,
            former_place: None,
        };
        let written = self.rows.write_presence(&presence);
        self.written(written)?;
        self.adopt(self.rows.load());
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

fn outdated() -> Fault {
    Fault::Unavailable("the counter is moving to another object".to_owned())
}
