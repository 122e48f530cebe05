//! Moves of roots. The partition where a root belongs asks the partitions where it belonged by earlier partition
//! counts. The one that has it seals it, and hands over its rows, also repeatedly.
//!
//! Invariant: a root is served by one partition. [`tally_core::handover`] decides; this file reads the notes, sends the
//! messages and writes the rows. A partition that answers that it has no rows has stored the counts by which it was
//! asked, and takes over nothing by older ones.
//!
//! After a move the ring leads to the root: a partition without rows of a root forwards its calls to the partition
//! where the root belongs.

use std::rc::Rc;

use serde::{Deserialize, Serialize};

use super::alarm::Alarm;
use super::inboxes::Inboxes;
use super::push_receiver::Views;
use super::root_places::{RootLocation, RootPlaces};
use super::root_sweep::progress::RootSweep;
use super::roots::Roots;
use super::tablets::LeadSpreads;
use super::totals::DirectoryTotals;
use crate::kit::batch::refusal;
use crate::kit::own_task::in_own_task;
use crate::kit::store::Store;
use tally_core::cluster::root::RootEntry;
use tally_core::cluster::sizes::Sizes;
use tally_core::counter::id::CounterId;
use tally_core::handover::giver::{self, Given, GiverRequest};
use tally_core::handover::taker::{GiverAnswer, Taker, TakerStep};
use tally_core::handover::{Debt, Holding, IfNowhere, Sealed};
use tally_host::Host;
use tally_host::object::{IncomingCall, Object, Reply};
use tally_shared::call::call;
use tally_wire::messages::{
    CallRoot, Fault, GiveRoot, RootCursor, RootHandover, RootRow, RootTaken, decode,
};

/// The most requests for one root before the new partition gives up: each partition may have handed the root on.
const REQUESTS_MAX: u8 = 32;

/// The most times that a call is forwarded: the counts may change meanwhile.
const FORWARDS_MAX: u8 = 4;

/// The transfers that are confirmed at once to their former partitions, after a failure.
const CONFIRMED_AT_ONCE: u32 = 16;

/// Rows of tables from this number on are claims or operations.
const RECORDS_FROM: u8 = 6;

/// A sealed root. Stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct SealedRoot {
    /// The partition that takes it over.
    to: u32,
    /// Identifies the transfer.
    seal: u64,
}

/// Rows of a root that is handed over.
struct RootRowsPage {
    rows: Vec<RootRow>,
    spreads: Vec<u8>,
}

/// A search for a root. It ends when the counts change.
type RootTaker = Taker<u32, RootCursor, Sizes>;

type RootStep = TakerStep<u32, RootCursor, RootRowsPage>;

/// Moves the roots of a partition.
pub(super) struct RootMoves {
    pub(super) host: Host,
    pub(super) object: Object,
    pub(super) store: Store,
    pub(super) places: Rc<RootPlaces>,
    pub(super) roots: Rc<Roots>,
    pub(super) views: Rc<Views>,
    pub(super) totals: Rc<DirectoryTotals>,
    pub(super) inboxes: Rc<Inboxes>,
    pub(super) spreads: Rc<LeadSpreads>,
    pub(super) alarm: Rc<Alarm>,
    pub(super) sweep: Rc<RootSweep>,
}

impl RootMoves {
    /// Forwards a call to the partition where its root belongs.
    pub(super) async fn forward(
        &self,
        to: u32,
        arrived: &IncomingCall,
        times_forwarded: u8,
    ) -> Reply {
        if times_forwarded >= FORWARDS_MAX {
            return refusal(&moving());
        }
        let message = CallRoot {
            to,
            sizes: self.places.sizes(),
            forwarded: times_forwarded + 1,
            path: arrived.path.clone(),
            message: arrived.message.clone(),
        };
        match call(&self.host, &message).await {
            Ok(bytes) => Reply::Answer(bytes),
            Err(fault) => refusal(&fault),
        }
    }

    /// Adopts the partition counts of a caller, if they are newer.
    ///
    /// # Errors
    /// `Unavailable` where SQLite refuses, or the alarm cannot be set.
    pub(super) async fn adopt_sizes(&self, sizes: &Sizes) -> Result<(), Fault> {
        if sizes.is_newer_than(&self.places.sizes()) {
            self.places.adopt_sizes(sizes)?;
            self.alarm.arm(self.host.now_ms()).await?;
        }
        Ok(())
    }

    /// Takes over a root that belongs here, wherever it is.
    ///
    /// # Errors
    /// `Unavailable` where a partition that may have it does not answer; `Repartitioned` where the counts change.
    pub(super) async fn locate(self: &Rc<Self>, name: &CounterId) -> Result<(), Fault> {
        let (moves, name) = (self.clone(), name.clone());
        in_own_task(&self.object, async move { moves.locate_alone(&name).await }).await
    }

    async fn locate_alone(self: &Rc<Self>, name: &CounterId) -> Result<(), Fault> {
        let lock = self.roots.lock_of(name);
        let _alone = lock.lock().await;
        if self.places.location(name)? != RootLocation::Unknown {
            return Ok(());
        }
        let (me, sizes) = (self.places.place(name), self.places.sizes());
        let former = self.places.former_partitions(name);
        let mut taker = RootTaker::new(me, sizes, former, REQUESTS_MAX);
        let mut rest = Vec::new();
        let mut step = taker.advance();
        loop {
            step = match step {
                TakerStep::Ask { from, page, .. } => {
                    self.ask(name, &mut taker, (from, page)).await?
                }
                TakerStep::Store {
                    rows: page,
                    is_first,
                    debt,
                } => {
                    rest.extend(self.store_records(name, page.rows, is_first)?);
                    if let Some(debt) = debt {
                        return self.take(name, &taker, (debt, &page.spreads, &rest)).await;
                    }
                    taker.advance()
                }
                TakerStep::Nowhere => return self.be_home(name),
                TakerStep::Fail => return Err(moving()),
            };
        }
    }

    /// Asks a partition for a root, or for more of its rows.
    async fn ask(
        &self,
        name: &CounterId,
        taker: &mut RootTaker,
        (from, from_row): (u32, Option<(u64, RootCursor)>),
    ) -> Result<RootStep, Fault> {
        let give = GiveRoot {
            counter: name.clone(),
            from,
            to: self.places.place(name),
            sizes: self.places.sizes(),
            nothing_at: taker.nothing_at().to_vec(),
            from_row,
        };
        let handover = call(&self.host, &give).await?;
        self.may_take(name, taker)?;
        Ok(taker.answered(match handover {
            RootHandover::Nothing => GiverAnswer::Nothing,
            RootHandover::ToAnother(other) => GiverAnswer::Elsewhere(other, None),
            RootHandover::Outdated(newer) => {
                self.adopt_sizes(&newer).await?;
                return Err(Fault::Repartitioned);
            }
            RootHandover::Rows {
                seal,
                rows,
                next,
                spreads,
            } => GiverAnswer::Rows {
                seal,
                rows: RootRowsPage { rows, spreads },
                next,
            },
        }))
    }

    /// Refuses if the counts have changed since the search began.
    fn may_take(&self, name: &CounterId, taker: &RootTaker) -> Result<(), Fault> {
        let is_here = self.places.location(name)? != RootLocation::Unknown;
        match taker.may_go_on(&self.places.sizes(), is_here) {
            true => Ok(()),
            false => Err(Fault::Repartitioned),
        }
    }

    /// What this partition has of a root.
    pub(super) fn holding(&self, name: &CounterId) -> Result<Holding<u32, u32>, Fault> {
        let bundles = &self.places.bundles;
        if let Some(SealedRoot { to, seal }) = bundles.note("leaving", name)? {
            let version = None;
            return Ok(Holding::Sealed(Sealed { to, version, seal }));
        }
        Ok(match bundles.is_home(name)? {
            true => Holding::Here { since: None },
            false => Holding::Nothing,
        })
    }

    /// Records that no other partition has the root. A root that was handed over from here, and that no partition has
    /// stored, is here again.
    fn be_home(&self, name: &CounterId) -> Result<(), Fault> {
        let bundles = &self.places.bundles;
        match self.holding(name)?.if_nowhere(self.places.sizes().epoch()) {
            IfNowhere::Begins => {}
            IfNowhere::Stays => return Err(Fault::Repartitioned),
            IfNowhere::Returns { seal } => {
                let mut root = None;
                self.store.atomically(|| {
                    self.totals.rewritten(name, || bundles.put_back(name))?;
                    bundles.forget_note("leaving", name)?;
                    self.places.add_moved(seal.wrapping_neg(), 0)?;
                    root = self.stored(name)?;
                    Ok(())
                })?;
                self.arrive(name, root.as_ref());
            }
        }
        self.places.cache_located(name);
        Ok(())
    }

    /// Stores the claims and operations of a page, and returns its other rows.
    fn store_records(
        &self,
        name: &CounterId,
        rows: Vec<RootRow>,
        is_first: bool,
    ) -> Result<Vec<RootRow>, Fault> {
        let bundles = &self.places.bundles;
        let (records, others): (Vec<RootRow>, Vec<RootRow>) =
            (rows.into_iter()).partition(|(table, _)| *table >= RECORDS_FROM);
        self.store.atomically(|| {
            if is_first {
                bundles.delete_records(name)?;
            }
            bundles.put_records(name, records.clone())
        })?;
        Ok(others)
    }

    /// Writes the other rows of a root: it is here from then on.
    async fn take(
        self: &Rc<Self>,
        name: &CounterId,
        taker: &RootTaker,
        (debt, spreads, rows): (Debt<u32>, &[u8], &[RootRow]),
    ) -> Result<(), Fault> {
        // The alarm is set before the write: if this object crashes right after the write, it rings all the same.
        self.alarm.ring_by(self.host.now_ms()).await?;
        self.may_take(name, taker)?;
        let root = self.write(name, debt, (spreads, rows))?;
        self.arrive(name, root.as_ref());
        let (moves, name) = (self.clone(), name.clone());
        self.object.wait_until(async move {
            // If it fails, the alarm tries again.
            let _ = moves.confirm(&name).await;
        });
        Ok(())
    }

    /// Stores a root that was handed over, and returns it. After the commit nothing may fail before memory equals
    /// storage.
    fn write(
        &self,
        name: &CounterId,
        debt: Debt<u32>,
        (spreads, rows): (&[u8], &[RootRow]),
    ) -> Result<Option<RootEntry>, Fault> {
        let bundles = &self.places.bundles;
        let (mut root, mut joined) = (None, None);
        self.store.atomically(|| {
            self.totals.rewritten(name, || {
                bundles.delete_rows(name)?;
                bundles.put_rows(rows.to_vec())
            })?;
            bundles.forget_laid_aside(name)?;
            bundles.forget_note("leaving", name)?;
            bundles.put_note("arrived", name, &debt)?;
            joined = Some(self.spreads.join(spreads)?);
            self.places.add_moved(0, debt.seal)?;
            root = self.stored(name)?;
            Ok(())
        })?;
        if let Some(joined) = joined {
            self.spreads.adopt(joined);
        }
        Ok(root)
    }

    /// The stored root, not the prefetched one.
    fn stored(&self, name: &CounterId) -> Result<Option<RootEntry>, Fault> {
        self.roots.forget_ahead();
        self.roots.entry(name)
    }

    /// Updates memory after the rows of a root have come.
    fn arrive(&self, name: &CounterId, root: Option<&RootEntry>) {
        self.views.forget(name);
        self.roots.forget_ahead();
        self.views.forget_ahead();
        if let Some(RootEntry::Live(root)) = root {
            // Isolates may still hold leases from the former partition.
            self.inboxes.lease(name, root.generation);
        }
        self.places.cache_located(name);
    }

    /// Makes the former partition of a root delete it, if it has not yet.
    async fn confirm(&self, name: &CounterId) -> Result<(), Fault> {
        let bundles = &self.places.bundles;
        let debt: Option<Debt<u32>> = bundles.note("arrived", name)?;
        let Some(Debt { from, seal }) = debt else {
            return Ok(());
        };
        let taken = RootTaken {
            counter: name.clone(),
            from,
            seal,
        };
        call(&self.host, &taken).await?;
        if bundles.note("arrived", name)? == debt {
            bundles.forget_note("arrived", name)?;
        }
        Ok(())
    }

    /// Makes some former partitions delete the roots that were taken over, after a failure. Returns whether none is
    /// left.
    pub(super) async fn confirm_some(&self) -> Result<bool, Fault> {
        let names = self
            .places
            .bundles
            .names_with_notes("arrived", CONFIRMED_AT_ONCE)?;
        let mut is_done = true;
        for name in names {
            is_done &= self.confirm(&name).await.is_ok();
        }
        Ok(is_done
            && self
                .places
                .bundles
                .names_with_notes("arrived", 1)?
                .is_empty())
    }

    /// Handles the message that a root is stored at its new place.
    pub(super) fn on_root_taken(&self, taken: &RootTaken) -> Result<(), Fault> {
        let bundles = &self.places.bundles;
        self.places.is_number(taken.from);
        if self.places.is_plain() {
            return Ok(());
        }
        let name = &taken.counter;
        if !self.holding(name)?.may_delete(taken.seal) {
            return Ok(());
        }
        let mut left = None;
        self.store.atomically(|| {
            bundles.forget_note("leaving", name)?;
            bundles.forget_laid_aside(name)?;
            bundles.delete_records(name)?;
            left = Some(self.spreads.forget(name)?);
            Ok(())
        })?;
        if let Some(left) = left {
            self.spreads.adopt(left);
        }
        Ok(())
    }

    /// Handles the request of another partition to take a root over.
    pub(super) async fn on_give_root(&self, give: GiveRoot) -> Result<RootHandover, Fault> {
        self.places.is_number(give.from);
        if self.places.sizes().is_newer_than(&give.sizes) {
            return Ok(RootHandover::Outdated(self.places.sizes()));
        }
        self.adopt_sizes(&give.sizes).await?;
        let held_ms = self.places.held_for_ms();
        if held_ms > 0 {
            self.host.sleep_ms(held_ms).await;
        }
        let name = &give.counter;
        let lock = self.roots.lock_of(name);
        let _alone = lock.lock().await;
        let given = loop {
            if self.places.sizes() != give.sizes {
                return Ok(RootHandover::Outdated(self.places.sizes()));
            }
            match self.asked(&give)? {
                Given::Pay => self.confirm(name).await?,
                given => break given,
            }
        };
        let seal = match given {
            Given::Old | Given::Pay => return Err(moving()),
            Given::Nothing => {
                self.places.forget_located(name);
                return Ok(RootHandover::Nothing);
            }
            Given::Elsewhere { to, .. } => return Ok(RootHandover::ToAnother(to)),
            Given::Rows { seal } => seal,
            Given::Seal { replaced: None } => self.seal(name, give.to)?,
            Given::Seal {
                replaced: Some(before),
            } => self.seal_anew(name, give.to, before)?,
        };
        let bundles = &self.places.bundles;
        let from = give.from_row.map(|(_, from)| from);
        let (rows, next) = bundles.page(name, from)?;
        Ok(RootHandover::Rows {
            seal,
            rows,
            next,
            spreads: self.spreads.at_rest(name)?,
        })
    }

    /// What is done about a request by the present counts.
    fn asked(&self, give: &GiveRoot) -> Result<Given<u32>, Fault> {
        let holding = self.holding(&give.counter)?;
        let failed = match holding {
            // A partition that has said so takes over nothing by older counts.
            Holding::Sealed(sealed) if give.nothing_at.contains(&sealed.to) => Some(sealed.seal),
            _ => None,
        };
        let request = GiverRequest {
            to: give.to,
            version: give.sizes.epoch(),
            failed,
            continued: give.from_row.as_ref().map(|(seal, _)| *seal),
        };
        let has_debt = self.places.bundles.has_note("arrived", &give.counter)?;
        Ok(giver::asked(&holding, has_debt, &request))
    }

    /// Seals a root, durably. Work in progress here has no effect on it any more.
    fn seal(&self, name: &CounterId, to: u32) -> Result<u64, Fault> {
        self.places.forget_located(name);
        let seal = self.host.random();
        let bundles = &self.places.bundles;
        self.store.atomically(|| {
            self.totals.rewritten(name, || bundles.lay_aside(name))?;
            bundles.put_note("leaving", name, &SealedRoot { to, seal })?;
            self.places.add_moved(seal, 0)
        })?;
        self.views.forget(name);
        self.roots.forget_ahead();
        self.views.forget_ahead();
        Ok(seal)
    }

    /// Hands a root to another partition, because the one that should take it over never will.
    fn seal_anew(&self, name: &CounterId, to: u32, before: u64) -> Result<u64, Fault> {
        let seal = self.host.random();
        let bundles = &self.places.bundles;
        self.store.atomically(|| {
            bundles.put_note("leaving", name, &SealedRoot { to, seal })?;
            self.places.add_moved(seal.wrapping_sub(before), 0)
        })?;
        Ok(seal)
    }
}

/// Whether a call was refused because its root is elsewhere, or is being searched.
pub(super) fn is_refused(reply: &Reply) -> bool {
    let Reply::Answer(bytes) = reply else {
        return false;
    };
    // The encoding of a fault begins with a one.
    bytes.first() == Some(&1)
        && matches!(
            decode::<Result<(), Fault>>(bytes),
            Ok(Err(Fault::Repartitioned))
        )
}

pub(super) fn moving() -> Fault {
    Fault::Unavailable("the counter is moving to another partition of the directory".to_owned())
}
