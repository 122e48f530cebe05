//! The owner of the keys of Redis's dialect.
//!
//! | module | holds |
//! |---|---|
//! | [`object`], [`core`], [`store`] | the keyspace, what it has in memory, and its rows |
//! | [`names`] | names of keys, listed and matched |
//! | [`loads`] | what a command loads before it is decided |
//! | [`writes`] | the changes of a command |
//! | [`locks`] | keys that a command holds while it waits |
//! | [`lanes`], [`adds`] | additions to counters that are sent together |
//! | [`counters`], [`sketches`], [`boards`], [`sorted_sets`] | keys that are counters, sketches and boards |
//! | [`ends`], [`postponed_ends`] | ends of keys by their time |
//! | [`scripts`] | scripts of other people's limiters |
//! | [`listeners`] | subscriptions to channels |

mod adds;
mod boards;
mod core;
mod counters;
mod ends;
mod lanes;
mod listeners;
mod loads;
mod locks;
mod names;
pub(crate) mod object;
mod postponed_ends;
mod scripts;
mod sketches;
mod sorted_sets;
mod store;
mod writes;
