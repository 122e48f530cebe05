//! Reads of counters, one or many, cached or strong.
//!
//! | module | holds |
//! |---|---|
//! | [`counter`] | reads of one counter |
//! | [`fetch`] | sums, fetched now or shared |
//! | [`cache`] | the views that default reads share |
//! | [`last_seen`] | answers without the root, and absent counters |
//! | [`distribution`], [`breakdown`] | the distribution of samples, and the counts of a dimension's values |
//! | [`history`] | the history of one counter, and reads of long ranges, piece by piece |
//! | [`uniques`] | unions of unique elements |
//! | [`aggregate`] | sums and histories of all counters with a prefix |
//! | [`top`] | the counters that have most |
//! | [`gathered`] | shared answers to such reads |
//! | [`listing`] | counters by their names |

pub(crate) mod aggregate;
pub(crate) mod breakdown;
pub(crate) mod cache;
pub(crate) mod counter;
#[cfg(feature = "samples")]
pub(crate) mod distribution;
pub(crate) mod fetch;
pub(crate) mod gathered;
pub(crate) mod history;
pub(crate) mod last_seen;
pub(crate) mod listing;
pub(crate) mod top;
pub(crate) mod uniques;
