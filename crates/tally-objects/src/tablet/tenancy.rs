//! What a cell knows of the tablet that hosts it.

use std::cell::Cell;
use std::rc::{Rc, Weak};

use super::hosted_rows::TenantAlarm;
use crate::kit::outbox::Outbox;
use tally_core::counter::id::CounterId;

/// The cells that a tablet has in memory.
pub(super) trait Tenants {
    /// The cell of a counter leaves memory.
    fn leave(&self, counter: &CounterId);
}

/// The tablet that hosts a cell.
pub(crate) struct Tenancy {
    pub(super) tablet: Weak<dyn Tenants>,
    pub(super) counter: CounterId,
    /// Its messages to the directory.
    pub(crate) outbox: Rc<Outbox>,
    pub(super) alarm: Rc<TenantAlarm>,
    /// The tablet's number, once it is known.
    pub(crate) number: Rc<Cell<Option<u32>>>,
}

impl Tenancy {
    /// The cell leaves memory.
    pub(crate) fn leave(&self) {
        if let Some(tablet) = self.tablet.upgrade() {
            tablet.leave(&self.counter);
        }
    }
}
