//! The place of a lead: this object, or another one in its datacenter.
//!
//! Invariants: a lead counts at one place at a time. A place without a lead's rows waits until the partition confirms
//! the place, by the present spread, and the places of earlier spreads have handed over their rows. A call that arrives
//! at another place is forwarded. A lead that was never moved has no row here, and sends no request about its place.

use std::rc::Rc;

use super::core::CellCore;
use super::lead_role::{LeadName, LeadRole, moved_to, moving};
use super::memory::Busy;
use crate::kit::batch::{bytes_of, refusal};
use crate::kit::own_task::in_own_task;
use futures_util::future::FutureExt;
use tally_core::cluster::tablets::LeadPlace;
use tally_core::counter::id::{CounterId, Datacenter};
use tally_host::object::{IncomingCall, Reply};
use tally_shared::call::{self, tablet_by_setting};
use tally_wire::messages::{
    Call, CallLead, Claim, Close, Configure, Fault, LeadLocation, LeadPresence, LoadReport,
    LocateLead, ReadContents, ReadNumbers, Recall, ReportLead, SumDatacenter, Suspend, WatchLead,
    batch,
};
use tally_wire::names;
use tally_wire::names::CellAddress;

/// How long a partition may take to locate a lead, milliseconds: less than a read waits for a datacenter.
const LOCATE_MS_MAX: u64 = 1_500;

/// How often a call is forwarded: the spread may change meanwhile.
const FORWARDS_MAX: usize = 4;

/// Whether a call needs the lead's rows although it requests no grant, in which the root would name the place.
fn must_find(path: &str) -> bool {
    [
        Claim::PATH,
        Recall::PATH,
        ReadNumbers::PATH,
        ReadContents::PATH,
        SumDatacenter::PATH,
        LoadReport::PATH,
        Configure::PATH,
        Suspend::PATH,
        WatchLead::PATH,
        ReportLead::PATH,
        Close::PATH,
    ]
    .contains(&path)
}

impl CellCore {
    /// Refuses calls of a lead without rows here that is known to be elsewhere.
    pub(super) fn is_not_known_away(&self) -> Result<(), Fault> {
        match self.lead.cached_location.get() {
            Some(place) if self.lead_role() == LeadRole::Unknown => Err(Fault::Moved(place)),
            _ => Ok(()),
        }
    }

    /// The place of the lead, seen from here.
    pub(super) fn lead_role(&self) -> LeadRole {
        match &*self.lead.presence.borrow() {
            Some(LeadPresence::Leaving { to, .. }) => LeadRole::Away(*to),
            Some(LeadPresence::Arriving) => LeadRole::Unknown,
            Some(LeadPresence::Here { .. }) => LeadRole::Here,
            None if self.address.borrow().is_none() && self.state.borrow().is_blank() => {
                LeadRole::Unknown
            }
            None => LeadRole::Here,
        }
    }

    /// The place that this object is; `None` for a tablet that does not know its number.
    pub(super) fn place(&self, name: &LeadName) -> Option<LeadPlace> {
        let Some(tenancy) = &self.tenancy else {
            return Some(LeadPlace::Own);
        };
        if let Some(number) = tenancy.number.get() {
            return Some(LeadPlace::Tablet(number));
        }
        let lead = CellAddress::lead(&name.counter, &name.datacenter);
        let place = LeadPlace::Tablet(tablet_by_setting(&self.host, &lead)?.number);
        self.is_place(name, place).then_some(place)
    }

    /// Whether this object is that place of a lead.
    pub(super) fn is_place(&self, name: &LeadName, place: LeadPlace) -> bool {
        let (tenancy, number) = match (&self.tenancy, place) {
            (None, place) => return place == LeadPlace::Own,
            (Some(_), LeadPlace::Own) => return false,
            (Some(tenancy), LeadPlace::Tablet(number)) => (tenancy, number),
        };
        if let Some(own) = tenancy.number.get() {
            return own == number;
        }
        let placement = names::lead_at(&name.at(place));
        let is_own = self.object.platform().is_at(&placement);
        if is_own {
            tenancy.number.set(Some(number));
        }
        is_own
    }

    /// Finds the lead before a call that needs it and would not search for it.
    pub(super) async fn locate_before(
        self: &Rc<Self>,
        arrived: &IncomingCall,
    ) -> Result<(), Fault> {
        if self.lead_role() != LeadRole::Unknown || !must_find(&arrived.path) {
            return Ok(());
        }
        self.loaded()?;
        let (counter, datacenter) = batch::prefix(&arrived.message)?;
        let name = LeadName {
            counter,
            datacenter,
        };
        // A claim is only sent to leads, and names no shard.
        let is_lead = arrived.path == Claim::PATH
            || batch::prefix::<CellAddress>(&arrived.message)?.is_lead();
        if self.lead_role() != LeadRole::Unknown || !is_lead {
            return Ok(());
        }
        self.is_not_known_away()?;
        self.locate(name).await
    }

    /// Asks for the lead's place, and takes the lead over if its place is here.
    ///
    /// # Errors
    /// `Moved` if it is elsewhere; `Unavailable` if its place is not known, or its holder does not hand it over.
    pub(super) async fn locate(self: &Rc<Self>, name: LeadName) -> Result<(), Fault> {
        let core = self.clone();
        in_own_task(&self.object, async move { core.locate_alone(&name).await }).await
    }

    async fn locate_alone(self: &Rc<Self>, name: &LeadName) -> Result<(), Fault> {
        let _busy = Busy::new(&**self);
        let _alone = self.lead.locating.lock().await;
        let handover_count = self.lead.handover_count();
        let located = self.request_location(name).await?;
        self.loaded()?;
        if !self.is_place(name, located.place) {
            self.lead.cache_location(Some(located.place));
            return Err(Fault::Moved(located.place));
        }
        self.lead.cache_location(None);
        if self.lead_role() == LeadRole::Here {
            self.lead.located_under(located.epoch);
            return Ok(());
        }
        self.search(name, located, handover_count).await
    }

    async fn request_location(&self, name: &LeadName) -> Result<LeadLocation, Fault> {
        let locate = LocateLead {
            counter: name.counter.clone(),
            datacenter: Some(name.datacenter.clone()),
        };
        let location = self.host.within_ms(LOCATE_MS_MAX, self.call_root(&locate));
        let silent = || Fault::Unavailable("the root does not say where the lead lives".to_owned());
        location.await.unwrap_or_else(|| Err(silent()))
    }

    /// Forwards a call to the place of the lead.
    pub(super) async fn call_elsewhere(
        self: &Rc<Self>,
        place: LeadPlace,
        arrived: IncomingCall,
    ) -> Reply {
        let name = match batch::prefix::<(CounterId, Datacenter)>(&arrived.message) {
            Ok((counter, datacenter)) => LeadName {
                counter,
                datacenter,
            },
            Err(fault) => return refusal(&fault),
        };
        let mut place = place;
        for _ in 0..FORWARDS_MAX {
            let reply = if self.is_place(&name, place) {
                match self.locate(name.clone()).await {
                    Ok(()) => self.answer_here(&arrived).await,
                    Err(fault) => {
                        if let Fault::Moved(next) = fault {
                            // That place forwarded the call here: it does not know yet that the lead must move back.
                            self.make_take(&name, next).await;
                        }
                        refusal(&fault)
                    }
                }
            } else {
                let message = CallLead {
                    at: name.at(place),
                    path: arrived.path.clone(),
                    message: arrived.message.clone(),
                };
                match call::call(&self.host, &message).await {
                    Ok(bytes) => Reply::Answer(bytes),
                    Err(fault) => refusal(&fault),
                }
            };
            match moved_to(&reply) {
                None => return reply,
                Some(next) => place = next,
            }
        }
        refusal(&moving())
    }

    /// Makes the lead's new place take it over, if that is not here.
    pub(super) async fn move_on(self: &Rc<Self>, me: &CellAddress) {
        let name = LeadName::of(me);
        if let Err(Fault::Moved(place)) = self.locate(name.clone()).await {
            self.make_take(&name, place).await;
        }
    }

    /// Makes a place take the lead over.
    async fn make_take(&self, name: &LeadName, place: LeadPlace) {
        let take = CallLead::take(name.at(place));
        // If it fails, the next call takes the lead over.
        let _ = call::call(&self.host, &take).await;
    }

    /// Answers a call that another place of the lead has forwarded.
    pub(super) async fn on_call_lead(
        self: &Rc<Self>,
        call: Result<CallLead, Fault>,
    ) -> Result<Vec<u8>, Fault> {
        let CallLead { at, path, message } = call?;
        if path.is_empty() {
            let name = LeadName {
                counter: at.counter,
                datacenter: at.datacenter,
            };
            self.loaded()?;
            if self.lead_role() != LeadRole::Here {
                self.locate(name).await?;
            }
            self.confirm_taken().await?;
            return Ok(Vec::new());
        }
        // Only the root knows the place: the cached location may be outdated.
        self.lead.cache_location(None);
        let arrived = IncomingCall::within(path, message);
        let answered = async move { self.answer_here(&arrived).await };
        Ok(bytes_of(answered.boxed_local().await))
    }
}
