//! Over how many tablets leads are spread: now, and before that was changed.
//!
//! Invariants: a partition decides for its counters, by the setting that it was started with; a setting that is not that of its data
//! begins a new spread, of a higher number, and what was there before is remembered, since leads may still live there. A lead is granted
//! nothing but at its place under the spread that holds, and, where there are earlier ones, only once they have given what they had.

use std::cell::{Cell, RefCell};

use super::deployment_values::DeploymentValues;
use super::lead_sweep::{SWEEP, Sweep};
use super::root_places::SIZES;
use super::root_store::RootStore;
use super::store::Store;
use crate::core::cluster::tablets::{Changed, SPREADS_MAX, Spreads};
use crate::core::counter::id::CounterId;
use crate::host::Host;
use crate::node::shared::call::place_among;
use crate::protocol::messages::{Fault, Located, Register, decode, encode};
use crate::protocol::names::TABLET_COUNT;

/// Name of the row that earlier builds read: so many tablets, and no other setting would do. Data without it had none.
const FIXED: &str = "tablets";

/// What earlier builds read there once the setting has been changed: no setting does.
const CHANGED: u32 = 0;

/// Name of the row with all spreads; there is none before the setting is changed.
const SPREADS: &str = "spreads";

/// The spreads of a partition's leads.
pub(super) struct LeadSpreads {
    host: Host,
    pub(super) values: DeploymentValues,
    roots: RootStore,
    all: RefCell<Spreads>,
    /// How far leads have been looked at that nobody asks for.
    pub(super) sweep: RefCell<Option<Sweep>>,
    /// Leads that did not move when they were looked at last, of this incarnation's look at all roots.
    pub(super) left: Cell<u64>,
}

impl LeadSpreads {
    /// Those of a partition; none before [`LeadSpreads::open`].
    pub(super) fn new(host: &Host, store: &Store) -> Self {
        Self {
            host: host.clone(),
            values: DeploymentValues::new(store),
            roots: RootStore::new(store),
            all: RefCell::default(),
            sweep: RefCell::default(),
            left: Cell::default(),
        }
    }

    /// Reads the spreads, and begins a new one where the setting is another than that of the newest. `is_new`: there are no rows yet.
    ///
    /// # Errors
    /// `Unavailable` where SQLite refuses.
    pub(super) fn open(&self, is_new: bool) -> Result<(), Fault> {
        let set: Option<u32> = self.host.number(TABLET_COUNT);
        let mut all = match self.values.get(SPREADS)? {
            Some(body) => decode(&body)?,
            None => Spreads::new(self.fixed(set, is_new)?),
        };
        // A setting that may not be so is the operator's to mend: it changes nothing.
        let is_wrong = set.is_none() && self.host.setting(TABLET_COUNT).is_some();
        let changed = match is_wrong {
            true => Changed::Not,
            false => all.change(set, self.host.now_ms()),
        };
        match changed {
            Changed::Not => {}
            Changed::Now => {
                self.values.put(FIXED, encode(&CHANGED)?)?;
                self.values.put(SPREADS, encode(&all)?)?;
                let sweep = Sweep::begin(self.host.now_ms());
                self.values.put(SWEEP, encode(&sweep)?)?;
            }
            Changed::Full => self.host.fail(&format!(
                "{TABLET_COUNT} has had {SPREADS_MAX} values before: counters stay where the last of them puts them; set it to one of these"
            )),
        }
        self.all.replace(all);
        self.open_sweep()
    }

    /// What is known of spreads, at rest, for a partition that takes counters over.
    ///
    /// # Errors
    /// `Broken` should postcard refuse.
    pub(super) fn at_rest(&self) -> Result<Vec<u8>, Fault> {
        encode(&*self.all.borrow())
    }

    /// Takes over where the leads of counters may live that come from another partition. The caller makes it one commit with those, and
    /// reads it anew after it.
    ///
    /// # Errors
    /// `Unavailable` where SQLite refuses.
    pub(super) fn join(&self, theirs: &[u8]) -> Result<(), Fault> {
        let theirs: Spreads = decode(theirs)?;
        let mut all = self.all.borrow().clone();
        all.join(&theirs);
        if all == *self.all.borrow() {
            return Ok(());
        }
        self.values.put(FIXED, encode(&CHANGED)?)?;
        self.values.put(SPREADS, encode(&all)?)?;
        let sweep = Sweep::begin(self.host.now_ms());
        self.values.put(SWEEP, encode(&sweep)?)
    }

    /// Reads the spreads anew, where they are stored.
    ///
    /// # Errors
    /// `Unavailable` where SQLite refuses.
    pub(super) fn reopen(&self) -> Result<(), Fault> {
        if let Some(body) = self.values.get(SPREADS)? {
            self.all.replace(decode(&body)?);
            self.open_sweep()?;
        }
        Ok(())
    }

    /// How many tablets data has whose setting was never changed.
    fn fixed(&self, set: Option<u32>, is_new: bool) -> Result<Option<u32>, Fault> {
        if let Some(body) = self.values.get(FIXED)? {
            return decode(&body).map(Some);
        }
        // Roots that it had may have left, with leads of before.
        if !is_new && (!self.roots.is_empty()? || self.values.get(SIZES)?.is_some()) {
            return Ok(None);
        }
        if let Some(tablets) = set {
            self.values.put(FIXED, encode(&tablets)?)?;
        }
        Ok(set)
    }

    /// Where the leads of a counter live, and may have lived.
    pub(super) fn locate(&self, counter: &CounterId) -> Located {
        let place = |tablets| place_among(&self.host, tablets, counter);
        let (epoch, place, former) = self.all.borrow().places(place);
        Located {
            epoch,
            place,
            former,
        }
    }

    /// Lets a lead ask for a grant, at the place where it lives.
    ///
    /// # Errors
    /// `Unsettled` where it must look first where it lives, or may have lived; `Unavailable` where SQLite refuses.
    pub(super) fn admit(&self, register: &Register) -> Result<(), Fault> {
        let located = self.locate(&register.counter);
        if register.place != Some(located.place) {
            return Err(Fault::Unsettled);
        }
        let is_settled = located.former.is_empty()
            || register.holds.is_some()
            || register.settled == Some(located.epoch);
        // A counter that nobody has heard of has never had a lead.
        if is_settled || self.roots.entry(&register.counter)?.is_none() {
            return Ok(());
        }
        Err(Fault::Unsettled)
    }
}
