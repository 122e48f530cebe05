//! An object that hosts the leads of many counters.
//!
//! | module | holds |
//! |---|---|
//! | [`object`] | the tablet: its tenants, and their calls |
//! | [`rows`], [`hosted_rows`] | the rows of its tenants |
//! | [`fold`] | how rows of tenants are folded into few |
//! | [`alarms`], [`wakes`] | the alarms of its tenants, and when each is due |
//! | [`bundle`] | the rows of a lead while it moves |

mod alarms;
mod bundle;
mod fold;
pub(crate) mod hosted_rows;
pub(crate) mod object;
pub(crate) mod rows;
mod wakes;
