//! The offsets of clocks.
//!
//! Invariant: the offset of an isolate's clock is the sum of a drawn offset, that of its site and that of its role.
//! Alarms ring by the clock of their site alone.

use std::cell::RefCell;
use std::collections::BTreeMap;

use crate::isolate::Role;
use crate::network::Site;

/// The clocks to set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ClockOf {
    /// All of a site, that of its alarms too.
    Site(Site),
    /// The isolates of a role.
    Role(Role),
}

impl From<Site> for ClockOf {
    fn from(site: Site) -> Self {
        Self::Site(site)
    }
}

impl From<Role> for ClockOf {
    fn from(role: Role) -> Self {
        Self::Role(role)
    }
}

/// How far clocks were set, milliseconds; those that are right are left out.
#[derive(Default)]
pub(crate) struct Clocks(RefCell<BTreeMap<ClockOf, i64>>);

impl Clocks {
    /// Sets how far clocks are off.
    pub(crate) fn set(&self, of: ClockOf, off_ms: i64) {
        let mut clocks = self.0.borrow_mut();
        match off_ms {
            0 => clocks.remove(&of),
            _ => clocks.insert(of, off_ms),
        };
    }

    /// How far they were set.
    pub(crate) fn off_ms(&self, of: impl Into<ClockOf>) -> i64 {
        let clocks = self.0.borrow();
        match clocks.is_empty() {
            true => 0,
            false => clocks.get(&of.into()).copied().unwrap_or(0),
        }
    }
}
