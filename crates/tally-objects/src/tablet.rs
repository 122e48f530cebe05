//! An object that hosts the leads of many counters.
//!
//! | module | holds |
//! |---|---|
//! | [`object`] | the tablet: its tenants, and their calls |
//! | [`rows`], [`row_names`], [`hosted_rows`] | the rows of its tenants |
//! | [`tenancy`] | what a tenant knows of its tablet |
//! | [`fold`] | how rows of tenants are folded into few |
//! | [`alarms`] | the alarms of its tenants |
//! | [`wakes`], [`read_ahead`] | the rows that tenants read when they wake |
//! | [`bundle`] | the rows of a lead while it moves |

mod alarms;
mod bundle;
mod fold;
pub(crate) mod hosted_rows;
pub(crate) mod object;
mod read_ahead;
pub(crate) mod row_names;
pub(crate) mod rows;
pub(crate) mod tenancy;
mod wakes;
