//! Moves of roots. The partition where a root belongs asks the partitions where it belonged by earlier partition
//! counts. The one that has it seals it, and hands over its rows, also repeatedly.
//!
//! Invariant: a root is served by one partition. The former partition's seal is durable before it answers. The new
//! partition writes the last rows and its own role in one transaction, and only then confirms; the former one then
//! deletes its copy. Until that is done the new partition does not hand the root on, so no old copy is left that could
//! be taken over again. A partition that answers that it has no rows stores the counts by which it was asked, and takes
//! over nothing by older ones.
//!
//! After a move the ring leads to the root: a partition without rows of a root forwards its calls to the partition
//! where the root belongs.

use std::rc::Rc;

use futures_channel::oneshot;
use serde::{Deserialize, Serialize};

use super::alarm::Alarm;
use super::push_receiver::Views;
use super::root_places::{RootLocation, RootPlaces};
use super::root_sweep::progress::RootSweep;
use super::roots::Roots;
use super::tablets::LeadSpreads;
use super::totals::DirectoryTotals;
use crate::inbox::inboxes::Inboxes;
use crate::kit::batch::refusal;
use crate::kit::store::Store;
use tally_core::cluster::root::RootEntry;
use tally_core::cluster::sizes::Sizes;
use tally_core::counter::id::CounterId;
use tally_host::Host;
use tally_host::object::{IncomingCall, Object, Reply};
use tally_shared::call::call;
use tally_wire::messages::{
    CallRoot, Fault, GiveRoot, RootCursor, RootHandover, RootRow, RootTaken, decode,
};

/// The most requests for one root before the new partition gives up: each partition may have handed the root on.
const REQUESTS_MAX: usize = 32;

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

/// A root that was taken over, until the former partition has deleted it. Stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct TakenRoot {
    from: u32,
    seal: u64,
}

/// Rows of a root that is handed over.
struct RootRowsPage {
    from: u32,
    seal: u64,
    rows: Vec<RootRow>,
    next: Option<RootCursor>,
    spreads: Vec<u8>,
}

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
        let (answer_sender, answer) = oneshot::channel();
        let (moves, name) = (self.clone(), name.clone());
        // In a task of its own: its writes must not be part of a turn that sends before they are written.
        self.object.wait_until(async move {
            // There is no receiver if the request has ended.
            let _ = answer_sender.send(moves.locate_alone(&name).await);
        });
        let ended = |_| Err(Fault::Unavailable("the object was ended".to_owned()));
        answer.await.unwrap_or_else(ended)
    }

    async fn locate_alone(self: &Rc<Self>, name: &CounterId) -> Result<(), Fault> {
        let lock = self.roots.lock_of(name);
        let _alone = lock.lock().await;
        let sizes = self.places.sizes();
        if self.places.location(name)? != RootLocation::Unknown {
            return Ok(());
        }
        let me = self.places.place(name);
        let mut to_ask = self.places.former_partitions(name);
        to_ask.reverse();
        let mut nothing_at = Vec::new();
        for _ in 0..REQUESTS_MAX {
            let Some(from) = to_ask.pop() else {
                return self.be_home(name);
            };
            let give = GiveRoot {
                counter: name.clone(),
                from,
                to: me,
                sizes: sizes.clone(),
                nothing_at: nothing_at.clone(),
                from_row: None,
            };
            let handover = call(&self.host, &give).await?;
            self.may_take(name, &sizes)?;
            match handover {
                RootHandover::Nothing => nothing_at.push(from),
                RootHandover::ToAnother(other) => to_ask.extend([from, other]),
                RootHandover::Outdated(newer) => {
                    self.adopt_sizes(&newer).await?;
                    return Err(Fault::Repartitioned);
                }
                RootHandover::Rows {
                    seal,
                    rows,
                    next,
                    spreads,
                } => {
                    let page = RootRowsPage {
                        from,
                        seal,
                        rows,
                        next,
                        spreads,
                    };
                    return self.take(name, &sizes, give, page).await;
                }
            }
        }
        Err(moving())
    }

    /// Refuses if the counts have changed since the search began.
    fn may_take(&self, name: &CounterId, sizes: &Sizes) -> Result<(), Fault> {
        let is_same = self.places.sizes() == *sizes;
        match self.places.location(name)? {
            RootLocation::Unknown if is_same => Ok(()),
            _ => Err(Fault::Repartitioned),
        }
    }

    /// Records that no other partition has the root. A root that was handed over from here, and that no partition has
    /// stored, is here again.
    fn be_home(&self, name: &CounterId) -> Result<(), Fault> {
        let bundles = &self.places.bundles;
        if let Some(SealedRoot { seal, .. }) = bundles.note("leaving", name)? {
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
        self.places.cache_located(name);
        Ok(())
    }

    /// Writes the rows of a root; with the last of them it is here.
    async fn take(
        self: &Rc<Self>,
        name: &CounterId,
        sizes: &Sizes,
        give: GiveRoot,
        first: RootRowsPage,
    ) -> Result<(), Fault> {
        let bundles = &self.places.bundles;
        let mut page = first;
        let mut rest = Vec::new();
        let mut is_first = true;
        loop {
            let (records, others): (Vec<RootRow>, Vec<RootRow>) =
                (page.rows.drain(..)).partition(|(table, _)| *table >= RECORDS_FROM);
            rest.extend(others);
            self.store.atomically(|| {
                if is_first {
                    bundles.delete_records(name)?;
                }
                bundles.put_records(name, records.clone())
            })?;
            is_first = false;
            let Some(next) = page.next.take() else {
                break;
            };
            let give = GiveRoot {
                from_row: Some((page.seal, next)),
                ..give.clone()
            };
            let handover = call(&self.host, &give).await?;
            self.may_take(name, sizes)?;
            let RootHandover::Rows {
                seal, rows, next, ..
            } = handover
            else {
                return Err(moving());
            };
            if seal != page.seal {
                return Err(moving());
            }
            (page.rows, page.next) = (rows, next);
        }
        // The alarm is set before the write: if this object crashes right after the write, it rings all the same.
        self.alarm.ring_by(self.host.now_ms()).await?;
        self.may_take(name, sizes)?;
        let root = self.write(name, &page, &rest)?;
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
        page: &RootRowsPage,
        rows: &[RootRow],
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
            let taken = TakenRoot {
                from: page.from,
                seal: page.seal,
            };
            bundles.put_note("arrived", name, &taken)?;
            joined = Some(self.spreads.join(&page.spreads)?);
            self.places.add_moved(0, page.seal)?;
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
        let Some(TakenRoot { from, seal }) = bundles.note("arrived", name)? else {
            return Ok(());
        };
        let taken = RootTaken {
            counter: name.clone(),
            from,
            seal,
        };
        call(&self.host, &taken).await?;
        let still: Option<TakenRoot> = bundles.note("arrived", name)?;
        if still == Some(TakenRoot { from, seal }) {
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
        let leaving: Option<SealedRoot> = bundles.note("leaving", name)?;
        if leaving.is_none_or(|leaving| leaving.seal != taken.seal) {
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
        self.confirm(name).await?;
        if self.places.sizes() != give.sizes {
            return Ok(RootHandover::Outdated(self.places.sizes()));
        }
        let bundles = &self.places.bundles;
        let leaving: Option<SealedRoot> = bundles.note("leaving", name)?;
        let seal = match leaving {
            Some(SealedRoot { to, seal }) if to == give.to => match &give.from_row {
                Some((begun, _)) if *begun != seal => return Err(moving()),
                _ => seal,
            },
            _ if give.from_row.is_some() => return Err(moving()),
            Some(SealedRoot { to, seal }) if give.nothing_at.contains(&to) => {
                self.seal_anew(name, give.to, seal)?
            }
            Some(SealedRoot { to, .. }) => return Ok(RootHandover::ToAnother(to)),
            None => {
                self.places.forget_located(name);
                if !bundles.is_home(name)? {
                    return Ok(RootHandover::Nothing);
                }
                self.seal(name, give.to)?
            }
        };
        let from = give.from_row.map(|(_, from)| from);
        let (rows, next) = bundles.page(name, from)?;
        Ok(RootHandover::Rows {
            seal,
            rows,
            next,
            spreads: self.spreads.at_rest(name)?,
        })
    }

    /// Seals a root, durably. Work in progress here has no effect on it any more.
    fn seal(&self, name: &CounterId, to: u32) -> Result<u64, Fault> {
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
