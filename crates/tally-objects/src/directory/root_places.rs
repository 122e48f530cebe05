//! The places of roots, seen from one partition: by the present and former partition counts.
//!
//! Invariants: a root is served by one partition at a time. After a change of the counts, a partition without rows of a
//! root does nothing for it before the partitions where earlier counts put it have been asked. The holder of its lock
//! checks again whether the root is still here. Counts that were never changed are not stored, and nobody is asked
//! about them.
//!
//! The first partition decides the present count, by the setting that it was started with. The others receive it from
//! callers that ask for a root by it, and from the first.

use std::cell::{Cell, RefCell};

use super::root_bundle::{LEAVING_SCHEMA, RootBundles};
use super::values::DeploymentValues;
use crate::kit::store::Store;
use tally_core::cluster::sizes::{BEFORE_MAX, Sizes};
use tally_core::counter::bounded_map::BoundedMap;
use tally_core::counter::id::CounterId;
use tally_host::Host;
use tally_shared::partitions;
use tally_wire::messages::{Fault, decode, encode};
use tally_wire::names;
use tally_wire::names::{DIRECTORY_COUNT, DIRECTORY_PARTITIONS};

/// Names of rows: the partition counts, and below, the sums of what has moved.
pub(super) const SIZES: &str = "directory";
const MOVED: &str = "moved";
/// Name of the row with the most partitions that there ever were. A partition adopts each number that is larger than
/// its own.
const EVER: &str = "directory-ever";

/// The most roots that are cached as located here: about 100 bytes each. Forgetting one costs a call.
const LOCATED_MAX: usize = 4_096;

/// How long no root leaves a partition while all partitions are asked, milliseconds. After that roots may move for as
/// long.
const HELD_MS: i64 = 300;

/// The place of a root, seen from here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum RootLocation {
    /// Here, or nowhere.
    Here,
    /// It belongs to that partition.
    Away(u32),
    /// It belongs here, and may still be at an earlier place.
    Unknown,
}

/// The sums of seals of roots that have left, and of those that came, with the change that they belong to. Stored.
type Moved = (u32, u64, u64);

/// A partition's knowledge of the places of roots.
pub(crate) struct RootPlaces {
    host: Host,
    store: Store,
    values: DeploymentValues,
    pub(super) bundles: RootBundles,
    number: Cell<Option<u32>>,
    sizes: RefCell<Sizes>,
    located: RefCell<BoundedMap<CounterId, u32, LOCATED_MAX>>,
    held_ms: Cell<i64>,
}

impl RootPlaces {
    /// The places in an object's database.
    pub(super) fn new(host: &Host, store: &Store, bundles: RootBundles) -> Self {
        Self {
            host: host.clone(),
            store: store.clone(),
            values: DeploymentValues::new(store),
            bundles,
            number: Cell::default(),
            sizes: RefCell::new(Sizes::new(DIRECTORY_PARTITIONS)),
            located: RefCell::default(),
            held_ms: Cell::new(i64::MIN),
        }
    }

    /// Reads the counts. The first partition begins a change if its setting differs. `is_new`: there are no rows yet.
    ///
    /// # Errors
    /// `Unavailable` where SQLite refuses; as for all methods below.
    pub(super) fn open(&self, is_new: bool) -> Result<(), Fault> {
        let stored = match is_new {
            true => None,
            false => self.values.get(SIZES)?,
        };
        if let Some(body) = stored {
            let sizes: Sizes = decode(&body)?;
            self.make_tables()?;
            self.sizes.replace(sizes);
        }
        let set = self.set();
        if set == self.sizes().now() || !self.is_me(0) {
            return Ok(());
        }
        match self.sizes().changed(set) {
            Some(sizes) => self.adopt_sizes(&sizes),
            None => {
                self.host.fail(&format!(
                    "{DIRECTORY_COUNT} has had {BEFORE_MAX} values before that roots may lie by: it is changed once they have moved"
                ));
                Ok(())
            }
        }
    }

    /// The count in the setting; the former one if the setting is not allowed.
    pub(super) fn set(&self) -> u32 {
        let is_wrong = self.host.setting(DIRECTORY_COUNT).is_some();
        match self.host.number(DIRECTORY_COUNT) {
            Some(set) if u64::from(partitions::COUNT_MAX) >= u64::from(set) => set,
            _ if is_wrong => self.sizes().now(),
            _ => DIRECTORY_PARTITIONS,
        }
    }

    fn make_tables(&self) -> Result<(), Fault> {
        for statement in LEAVING_SCHEMA {
            self.store.run(statement, vec![])?;
        }
        Ok(())
    }

    /// The counts that this partition acts by.
    pub(super) fn sizes(&self) -> Sizes {
        self.sizes.borrow().clone()
    }

    /// Whether the count is the default, and was never changed.
    pub(super) fn is_plain(&self) -> bool {
        *self.sizes.borrow() == Sizes::new(DIRECTORY_PARTITIONS)
    }

    /// Adopts counts that are newer than the known ones. They are durable before anything is answered by them.
    pub(super) fn adopt_sizes(&self, sizes: &Sizes) -> Result<(), Fault> {
        let known = self.sizes();
        if !sizes.is_newer_than(&known) {
            return Ok(());
        }
        self.make_tables()?;
        self.store.atomically(|| {
            if sizes.since() != known.since() {
                self.put_moved((sizes.since(), 0, 0))?;
            }
            let ever = known.span().max(sizes.span()).max(self.ever()?);
            self.values.put(EVER, encode(&ever)?)?;
            self.values.put(SIZES, encode(sizes)?)
        })?;
        self.sizes.replace(sizes.clone());
        self.located.borrow_mut().clear();
        Ok(())
    }

    /// The most partitions that there ever were: files of snapshots lie with each of them.
    pub(crate) fn ever(&self) -> Result<u32, Fault> {
        let span = self.sizes.borrow().span();
        let stored = self.values.get(EVER)?;
        let stored: Option<u32> = stored.map(|body| decode(&body)).transpose()?;
        Ok(stored.map_or(span, |ever| ever.max(span)))
    }

    /// Records the partitions that have files of snapshots. They may be more than this deployment ever had.
    pub(crate) fn record_folders(&self, numbers: impl Iterator<Item = u32>) -> Result<(), Fault> {
        let numbers = numbers.filter(|number| *number < partitions::COUNT_MAX);
        let found = numbers.max().map_or(0, |last| last + 1);
        match found > self.ever()? {
            true => self.values.put(EVER, encode(&found)?),
            false => Ok(()),
        }
    }

    /// Whether no partition but those of the default count ever had files of snapshots.
    pub(crate) fn is_ever_plain(&self) -> Result<bool, Fault> {
        Ok(self.is_plain() && self.ever()? == DIRECTORY_PARTITIONS)
    }

    /// Records this partition's number, as a caller names it.
    pub(super) fn is_number(&self, number: u32) {
        self.number.set(Some(number));
    }

    /// This partition's number; `None` for an object that is no partition. Cost: before a caller has named it, a test
    /// of each number.
    pub(crate) fn number(&self) -> Option<u32> {
        let number = self.number.get();
        number.or_else(|| (0..partitions::COUNT_MAX).find(|number| self.is_me(*number)))
    }

    /// Whether this is the partition of that number.
    pub(crate) fn is_me(&self, number: u32) -> bool {
        if let Some(known) = self.number.get() {
            return known == number;
        }
        let placement = names::directory(number);
        let is_me = self.store.object().platform().is_at(&placement);
        if is_me {
            self.number.set(Some(number));
        }
        is_me
    }

    /// Where a root belongs.
    pub(super) fn place(&self, name: &CounterId) -> u32 {
        partitions::place_among(self.sizes.borrow().now(), name)
    }

    /// The partitions where earlier counts put a root, the latest first, without the present one.
    pub(super) fn former_partitions(&self, name: &CounterId) -> Vec<u32> {
        let place = self.place(name);
        let mut numbers = Vec::new();
        for number in self.sizes.borrow().before() {
            let before = partitions::place_among(number, name);
            if before != place && !numbers.contains(&before) {
                numbers.push(before);
            }
        }
        numbers
    }

    /// The place of a root.
    pub(super) fn location(&self, name: &CounterId) -> Result<RootLocation, Fault> {
        let place = self.place(name);
        let is_mine = self.is_me(place);
        if is_mine && (!self.sizes.borrow().is_changing() || self.is_located(name)) {
            return Ok(RootLocation::Here);
        }
        if self.bundles.is_home(name)? {
            return Ok(RootLocation::Here);
        }
        Ok(match is_mine {
            true if self.former_partitions(name).is_empty()
                && !self.bundles.has_note("leaving", name)? =>
            {
                RootLocation::Here
            }
            true => RootLocation::Unknown,
            false => RootLocation::Away(place),
        })
    }

    /// Refuses work that has waited while the root moved elsewhere.
    ///
    /// # Errors
    /// `Repartitioned` where it did.
    pub(super) fn is_here(&self, name: &CounterId) -> Result<(), Fault> {
        match self.location(name)? {
            RootLocation::Here => Ok(()),
            _ => Err(Fault::Repartitioned),
        }
    }

    fn is_located(&self, name: &CounterId) -> bool {
        let mut located = self.located.borrow_mut();
        located.get(name) == Some(&self.sizes.borrow().epoch())
    }

    /// Caches that no other partition has a root.
    pub(super) fn cache_located(&self, name: &CounterId) {
        let epoch = self.sizes.borrow().epoch();
        self.located.borrow_mut().insert(name.clone(), epoch);
    }

    /// Forgets that no other partition has a root: another one has received what is here, and may have taken the root
    /// over.
    pub(super) fn forget_located(&self, name: &CounterId) {
        self.located.borrow_mut().remove(name);
    }

    /// The sums of the seals of roots that have left and that came, since the first change that is not over.
    pub(super) fn moved(&self) -> Result<(u64, u64), Fault> {
        let (since, left, came) = self.stored_moved()?;
        let is_current = since == self.sizes.borrow().since();
        Ok(if is_current { (left, came) } else { (0, 0) })
    }

    fn stored_moved(&self) -> Result<Moved, Fault> {
        let body = self.values.get(MOVED)?;
        let moved = body.map(|body| decode(&body)).transpose()?;
        Ok(moved.unwrap_or_default())
    }

    fn put_moved(&self, moved: Moved) -> Result<(), Fault> {
        self.values.put(MOVED, encode(&moved)?)
    }

    /// Adds to these sums. The caller does it in one commit with the rows.
    pub(super) fn add_moved(&self, left: u64, came: u64) -> Result<(), Fault> {
        let (known_left, known_came) = self.moved()?;
        let since = self.sizes.borrow().since();
        let sums = (known_left.wrapping_add(left), known_came.wrapping_add(came));
        self.put_moved((since, sums.0, sums.1))
    }

    /// Lets no root leave for a moment.
    pub(super) fn hold(&self) {
        let now_ms = self.host.now_ms();
        if now_ms.saturating_sub(self.held_ms.get()) >= 2 * HELD_MS {
            self.held_ms.set(now_ms);
        }
    }

    /// For how long no root may leave, milliseconds.
    pub(super) fn held_for_ms(&self) -> u64 {
        let over_ms = self.held_ms.get().saturating_add(HELD_MS);
        let left_ms = over_ms.saturating_sub(self.host.now_ms());
        u64::try_from(left_ms.clamp(0, HELD_MS)).unwrap_or(0)
    }
}
