//! Isolates: all that runs in one shares a memory and a clock.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

use tally_host::Memory;

use crate::builds::Build;
use crate::core::Core;
use crate::executor::Owner;
use crate::network::Site;
use crate::place::Place;

/// What an isolate is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// It answers clients.
    Edge,
    /// It is the global aggregator.
    Aggregator,
    /// Objects live in it.
    Objects,
}

/// One isolate, incarnation after incarnation.
pub struct Isolate {
    pub(crate) role: Role,
    pub(crate) site: Site,
    pub(crate) label: String,
    pub(crate) build: Cell<Build>,
    /// How far its clock is off.
    skew_ms: Cell<i64>,
    memory: RefCell<Rc<Memory>>,
    owner: Cell<Owner>,
    residents: RefCell<Vec<Weak<Place>>>,
}

impl Isolate {
    /// A fresh one.
    pub(crate) fn new(core: &Core, role: Role, site: Site, number: usize) -> Rc<Self> {
        let name = core.network.name(site);
        Rc::new(Self {
            role,
            site,
            label: format!("{role:?} {name}/{number}"),
            build: Cell::new(Build::draw(&core.chance, &core.builds)),
            skew_ms: Cell::new(core.chance.around(core.options.skew_ms_max)),
            memory: RefCell::default(),
            owner: Cell::new(core.executor.owner()),
            residents: RefCell::default(),
        })
    }

    /// The owner of its tasks.
    pub(crate) fn owner(&self) -> Owner {
        self.owner.get()
    }

    /// How far its clock is off, milliseconds.
    pub(crate) fn skew_ms(&self) -> i64 {
        self.skew_ms.get()
    }

    /// Its clock is stepped.
    pub(crate) fn set_skew(&self, skew_ms: i64) {
        self.skew_ms.set(skew_ms);
    }

    /// What it holds in memory.
    pub(crate) fn memory(&self) -> Rc<Memory> {
        self.memory.borrow().clone()
    }

    /// An object lives here from now on.
    pub(crate) fn house(&self, place: &Rc<Place>) {
        let mut residents = self.residents.borrow_mut();
        residents.retain(|resident| resident.strong_count() > 0);
        if !residents
            .iter()
            .any(|known| known.as_ptr() == Rc::as_ptr(place))
        {
            residents.push(Rc::downgrade(place));
        }
    }

    /// The objects that may live here, still.
    pub(crate) fn residents(&self) -> Vec<Rc<Place>> {
        let residents = self.residents.borrow();
        residents.iter().filter_map(Weak::upgrade).collect()
    }

    /// Removes and returns the objects that may live here.
    pub(crate) fn take_residents(&self) -> Vec<Rc<Place>> {
        let residents = self.residents.take();
        residents.iter().filter_map(Weak::upgrade).collect()
    }

    /// Begins another incarnation. Returns the old memory, to be dropped while nothing is borrowed.
    pub(crate) fn renew(&self, core: &Core) -> Rc<Memory> {
        self.owner.set(core.executor.owner());
        self.memory.replace(Rc::default())
    }
}
