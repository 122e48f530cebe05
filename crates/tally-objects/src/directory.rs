//! Partitions of the directory: the counters' roots, totals and orders.
//!
//! | module | holds |
//! |---|---|
//! | [`object`], [`partition`] | one partition: dispatches to its parts, each with its own tables |
//! | [`listings`], [`totals`], [`tops`], [`top_order`] | lists of its counters with totals, their table, its orders, the amounts in them as SQL |
//! | [`roots`], [`root_store`], [`duty_store`] | the roots of its counters, their end, notifications of leads, and their rows |
//! | [`root_places`], [`root_moves`], [`root_bundle`], [`root_sweep`] | the places of roots, their moves to another partition, their rows meanwhile, and those that get no calls |
//! | [`roots::lead_calls`], [`inboxes`] | calls of a root to leads and to inboxes |
//! | [`living_counters`] | the number of a partition's living counters |
//! | [`operations`], [`operation_store`] | settings, set, reset and deletion at a root, each once; the rows of those with a key |
//! | [`push_receiver`] | what a root knows from pushes, and its rows |
//! | [`claims`], [`claim_store`] | claims of idempotency keys, and their rows |
//! | [`values`] | values by name: secrets, and numbers of claims |
//! | [`tablets`], [`lead_sweep`] | the spreads of leads over tablets, present and former, and moves of leads that get no calls |
//! | [`alarm`] | when something is due |

pub(crate) mod alarm;
mod claim_store;
mod claims;
pub(crate) mod duty_store;
pub(crate) mod inboxes;
mod lead_sweep;
mod listings;
mod living_counters;
pub(crate) mod object;
mod operation_store;
mod operations;
pub(crate) mod partition;
mod push_receiver;
mod root_bundle;
mod root_moves;
pub(crate) mod root_places;
mod root_store;
mod root_sweep;
pub(crate) mod roots;
mod tablets;
mod top_order;
mod tops;
mod totals;
pub(crate) mod values;
