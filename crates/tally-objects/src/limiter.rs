//! Rate limits of one partition of the keys.
//!
//! | module | holds |
//! |---|---|
//! | [`object`], [`store`] | the limiter, and its rows |
//! | [`growth`] | how keys move when the number of limiters changes |
//! | [`leases`], [`lease_recalls`] | how a limiter decides global limits, and how the global one recalls unused quota |
//! | [`reservations`] | several checks of one call at their limiter: all or none |

mod growth;
mod lease_recalls;
mod leases;
pub(crate) mod object;
mod reservations;
mod store;
