//! The numbers of tablets over which leads are spread: the present one, and former ones.
//!
//! Invariants: a partition decides for its counters, by the setting that it was started with. A setting that differs
//! from that of its data begins a new spread with a higher number. Former spreads are remembered, because leads may
//! still be at their places. A lead gets a grant only at its place under the present spread, and, if there are former
//! ones, only once the former places have handed over its rows. A hot lead is moved out of its tablet. That is stored
//! for this lead only, and its own epoch rises with each move.

use std::cell::{Cell, RefCell};

use super::root_places::SIZES;
use super::root_store::RootStore;
use super::roots::lead_calls::take_over;
use super::values::DeploymentValues;
use crate::kit::store::Store;
use tally_core::cluster::apart::{LeadsApart, is_apart, placed};
use tally_core::cluster::root::RootEntry;
use tally_core::cluster::tablets::{LeadPlace, SPREADS_MAX, SpreadChange, Spreads};
use tally_core::counter::id::{CounterId, Datacenter};
use tally_core::handover::sweep::{Sweep, SweepPace};
use tally_host::Host;
use tally_shared::call::place_among;
use tally_wire::messages::{Fault, LeadLocation, PlaceLead, Register, decode, encode};
use tally_wire::names::{LeadAt, TABLET_COUNT};

/// Name of the row with all spreads. Data without the row has no tablets.
const SPREADS: &str = "spreads";

/// Name of the row with the leads outside their tablets; it does not exist before the first one.
const APART: &str = "apart";

/// Name of the deployment value that holds the progress during a sweep.
pub(super) const SWEEP: &str = "sweep";

/// 16 counters in half a second are 2 million a day in each partition.
pub(super) const SWEEP_PACE: SweepPace = SweepPace {
    bundles_at_once: 16,
    begin_ms: 30_000,
    next_ms: 500,
    again_ms: 300_000,
};

/// The returned leads that are checked together if there is no room for another entry.
const LOOKED_AT_ONCE: usize = 8;

/// The spreads of a partition's leads.
pub(super) struct LeadSpreads {
    host: Host,
    store: Store,
    pub(super) values: DeploymentValues,
    roots: RootStore,
    all: RefCell<Spreads>,
    apart: RefCell<LeadsApart>,
    is_making_room: Cell<bool>,
    /// The progress of the sweep over leads without calls, by the last counter.
    pub(super) sweep: RefCell<Option<Sweep<String>>>,
    /// The leads that did not move at the last sweep of this incarnation.
    pub(super) left: Cell<u64>,
}

/// The places of leads after a counter has come from another partition, or has left for one.
pub(super) struct ChangedPlaces {
    apart: LeadsApart,
    spreads: Option<(Spreads, Sweep<String>)>,
}

impl LeadSpreads {
    /// The spreads of a partition; empty before [`LeadSpreads::open`].
    pub(super) fn new(host: &Host, store: &Store) -> Self {
        Self {
            host: host.clone(),
            store: store.clone(),
            values: DeploymentValues::new(store),
            roots: RootStore::new(store),
            all: RefCell::default(),
            apart: RefCell::default(),
            is_making_room: Cell::default(),
            sweep: RefCell::default(),
            left: Cell::default(),
        }
    }

    /// Reads the spreads, and begins a new one if the setting differs from the newest. With `is_new` there are no rows
    /// yet.
    ///
    /// # Errors
    /// `Unavailable` where SQLite refuses.
    pub(super) fn open(&self, is_new: bool) -> Result<(), Fault> {
        let set: Option<u32> = self.host.number(TABLET_COUNT);
        let mut all = match self.values.get(SPREADS)? {
            Some(body) => decode(&body)?,
            None => self.first(set, is_new)?,
        };
        // An invalid setting changes nothing: the operator must correct it.
        let is_wrong = set.is_none() && self.host.setting(TABLET_COUNT).is_some();
        let changed = match is_wrong {
            true => SpreadChange::Same,
            false => all.change(set, self.host.now_ms()),
        };
        match changed {
            SpreadChange::Same => {}
            SpreadChange::Applied => self.store.atomically(|| self.put(&all).map(drop))?,
            SpreadChange::Full => self.host.fail(&format!(
                "{TABLET_COUNT} has had {SPREADS_MAX} values before: counters stay where the last of them puts them; set it to one of these"
            )),
        }
        self.all.replace(all);
        self.open_apart()?;
        self.open_sweep()
    }

    fn open_apart(&self) -> Result<(), Fault> {
        let apart = self.values.get(APART)?;
        let apart = apart.map(|body| decode(&body)).transpose()?;
        self.apart.replace(apart.unwrap_or_default());
        Ok(())
    }

    /// The spreads, and the places of a counter's leads, in stored form, for a partition that takes the counter over.
    /// # Errors
    /// `Broken` if postcard refuses.
    pub(super) fn at_rest(&self, counter: &CounterId) -> Result<Vec<u8>, Fault> {
        let apart = self.apart.borrow().of_counter(counter);
        encode(&(&*self.all.borrow(), apart))
    }

    /// Removes the entries about the leads of a counter that another partition has now, with these entries. As for
    /// [`LeadSpreads::join`], the caller does it in one commit with the rows of the counter, and passes the result to
    /// [`LeadSpreads::adopt`] after that.
    ///
    /// # Errors
    /// `Unavailable` where SQLite refuses.
    pub(super) fn forget(&self, counter: &CounterId) -> Result<ChangedPlaces, Fault> {
        let mut apart = self.apart.borrow().clone();
        if apart.forget_counter(counter) {
            self.values.put(APART, encode(&apart)?)?;
        }
        Ok(ChangedPlaces {
            apart,
            spreads: None,
        })
    }

    /// Takes over the possible places of leads whose counters come from another partition. The caller does it in one
    /// commit with their rows, and passes the result to [`LeadSpreads::adopt`] after that.
    ///
    /// # Errors
    /// `Unavailable` where SQLite refuses.
    pub(super) fn join(&self, theirs: &[u8]) -> Result<ChangedPlaces, Fault> {
        let (theirs, their_apart): (Spreads, LeadsApart) = decode(theirs)?;
        let mut apart = self.apart.borrow().clone();
        apart.join(&their_apart);
        if apart != *self.apart.borrow() {
            self.values.put(APART, encode(&apart)?)?;
        }
        let mut all = self.all.borrow().clone();
        all.join(&theirs);
        if all == *self.all.borrow() {
            return Ok(ChangedPlaces {
                apart,
                spreads: None,
            });
        }
        let sweep = self.put(&all)?;
        Ok(ChangedPlaces {
            apart,
            spreads: Some((all, sweep)),
        })
    }

    /// Takes stored changes into memory.
    pub(super) fn adopt(&self, changed: ChangedPlaces) {
        self.apart.replace(changed.apart);
        if let Some((all, sweep)) = changed.spreads {
            self.all.replace(all);
            self.sweep.replace(Some(sweep));
        }
    }

    /// Stores changed spreads, and a sweep that begins. The caller does it in one commit.
    fn put(&self, all: &Spreads) -> Result<Sweep<String>, Fault> {
        self.values.put(SPREADS, encode(all)?)?;
        let sweep = Sweep::begin(&SWEEP_PACE, self.host.now_ms());
        self.values.put(SWEEP, encode(&sweep)?)?;
        Ok(sweep)
    }

    /// The first spread: by the setting if no lead can be elsewhere, otherwise none.
    fn first(&self, set: Option<u32>, is_new: bool) -> Result<Spreads, Fault> {
        // Roots of this partition may have left, with leads of that time.
        if !is_new && (!self.roots.is_empty()? || self.values.get(SIZES)?.is_some()) {
            return Ok(Spreads::new(None));
        }
        let first = Spreads::new(set);
        if set.is_some() {
            self.values.put(SPREADS, encode(&first)?)?;
        }
        Ok(first)
    }

    /// The present place and the possible earlier places of a counter's lead in a datacenter. Without a datacenter they
    /// are those by the spreads, at which a lead that lives apart gets no grant.
    ///
    /// # Errors
    /// `Unavailable` where SQLite refuses.
    pub(super) fn locate(
        &self,
        counter: &CounterId,
        datacenter: Option<&Datacenter>,
    ) -> Result<LeadLocation, Fault> {
        let (epoch, place, former_places) = self.spread(counter);
        let moves = datacenter.map_or(Ok(0), |datacenter| self.moves(counter, datacenter))?;
        let (place, former_places) = placed(moves, place, former_places);
        Ok(LeadLocation {
            epoch: epoch.saturating_add(moves),
            place,
            former_places,
        })
    }

    /// The place of a counter's leads under the spreads.
    fn spread(&self, counter: &CounterId) -> (u32, LeadPlace, Vec<LeadPlace>) {
        let place = |tablets| place_among(tablets, counter);
        self.all.borrow().places(place)
    }

    /// The number of moves of a lead out of its tablet, and back. A lead of an ended counter counts as returned.
    fn moves(&self, counter: &CounterId, datacenter: &Datacenter) -> Result<u32, Fault> {
        let (moves, hot) = {
            let apart = self.apart.borrow();
            let hot = apart.generation(counter, datacenter);
            (apart.moves(counter, datacenter), hot)
        };
        let Some(hot) = hot else { return Ok(moves) };
        let has_ended = match self.roots.entry(counter)? {
            Some(RootEntry::Live(root)) => root.generation != hot,
            Some(RootEntry::Ended { .. }) => true,
            // A root whose row was lost is restored from its leads.
            None => false,
        };
        if !has_ended {
            return Ok(moves);
        }
        self.record_move(counter, datacenter, (hot, false))?;
        Ok(self.apart.borrow().moves(counter, datacenter))
    }

    /// Records that a lead of a generation moves out, or back. Returns whether it may.
    fn record_move(
        &self,
        counter: &CounterId,
        datacenter: &Datacenter,
        (generation, is_out): (u64, bool),
    ) -> Result<bool, Fault> {
        let mut apart = self.apart.borrow().clone();
        let may = apart.move_lead((counter, datacenter), generation, is_out);
        if apart != *self.apart.borrow() {
            self.save_apart(apart)?;
        }
        Ok(may)
    }

    fn save_apart(&self, apart: LeadsApart) -> Result<(), Fault> {
        self.values.put(APART, encode(&apart)?)?;
        self.apart.replace(apart);
        Ok(())
    }

    /// Moves a lead out of its tablet, or back. Returns whether it may: only if a tablet hosts it, and if not too many
    /// are outside.
    ///
    /// # Errors
    /// `Unavailable` where SQLite refuses.
    pub(super) fn place_lead(&self, message: &PlaceLead) -> Result<bool, Fault> {
        let PlaceLead {
            counter,
            datacenter,
            apart,
        } = message;
        let root = match self.roots.entry(counter)? {
            Some(RootEntry::Live(root)) if root.datacenters.contains(datacenter) => root,
            _ => return Ok(false),
        };
        let (_, place, _) = self.spread(counter);
        if place == LeadPlace::Own {
            return Ok(false);
        }
        // An entry about an earlier generation is void.
        self.moves(counter, datacenter)?;
        self.record_move(counter, datacenter, (root.generation, *apart))
    }

    /// Removes the entries of some returned leads of a datacenter, so that others may leave.
    ///
    /// # Errors
    /// `Unavailable` where SQLite refuses.
    pub(super) async fn make_room(&self, datacenter: &Datacenter) -> Result<(), Fault> {
        if self.is_making_room.replace(true) {
            return Ok(());
        }
        let made = self.forget_some(datacenter).await;
        self.is_making_room.set(false);
        made
    }

    async fn forget_some(&self, datacenter: &Datacenter) -> Result<(), Fault> {
        let mut entries = Vec::new();
        let all = self.apart.borrow().of(datacenter);
        for counter in all {
            let moves = self.moves(&counter, datacenter)?;
            entries.push((counter, moves));
        }
        let (out, back): (Vec<_>, Vec<_>) =
            entries.into_iter().partition(|(_, moves)| is_apart(*moves));
        // A lead that was allowed to leave and never did leaves now: it returns by itself.
        let drawn = usize::try_from(self.host.random()).unwrap_or(0) % out.len().max(1);
        let drawn = out.into_iter().nth(drawn);
        for (counter, moves) in back.into_iter().take(LOOKED_AT_ONCE).chain(drawn) {
            let at = LeadAt {
                counter: counter.clone(),
                datacenter: datacenter.clone(),
                place: self.locate(&counter, Some(datacenter))?.place,
            };
            // The lead is at the place that answers, and no other place has rows of it.
            let is_back = take_over(&self.host, at).await.is_ok();
            if is_back
                && !is_apart(moves)
                && self.apart.borrow().moves(&counter, datacenter) == moves
            {
                self.forget_lead(&counter, datacenter)?;
            }
        }
        Ok(())
    }

    fn forget_lead(&self, counter: &CounterId, datacenter: &Datacenter) -> Result<(), Fault> {
        let mut apart = self.apart.borrow().clone();
        let mut all = self.all.borrow().clone();
        all.raise(apart.forget(counter, datacenter));
        self.store.atomically(|| {
            self.values.put(SPREADS, encode(&all)?)?;
            self.values.put(APART, encode(&apart)?)
        })?;
        self.all.replace(all);
        self.apart.replace(apart);
        Ok(())
    }

    /// Allows a lead to ask for a grant, at its place.
    ///
    /// # Errors
    /// `NotLocated` if it must first look for its rows at its earlier places; `Unavailable` where SQLite refuses.
    pub(super) fn admit(&self, register: &Register) -> Result<(), Fault> {
        let located = self.locate(&register.counter, Some(&register.datacenter))?;
        if register.place != Some(located.place) {
            return Err(Fault::NotLocated);
        }
        let is_located = located.former_places.is_empty()
            || register.holds.is_some()
            || register.located_epoch == Some(located.epoch);
        // A counter without a root has never had a lead.
        if is_located || self.roots.entry(&register.counter)?.is_none() {
            return Ok(());
        }
        Err(Fault::NotLocated)
    }
}
