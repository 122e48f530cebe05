//! Redis's words over HTTP, as clients of its REST dialect say them.
//!
//! | module | holds |
//! |---|---|
//! | [`request`] | the forms of a request |
//! | [`command`] | the table of commands |
//! | [`space`] | what a command works on |
//! | [`strings`], [`keys`], [`collections`] | what commands do |
//! | [`sorted`], [`sorted_ranges`], [`sorted_sets`], [`float`] | commands of sorted sets, which are boards |
//! | [`scripts`], [`scripts_of_regions`], [`scripts_of_analytics`], [`script_table`] | the scripts of rate limits that are known |
//! | [`reply`], [`error`] | what commands are answered with |
//! | [`notifications`] | what listeners are told of keys |
//!
//! A command is decided by the owner of its keys, in one turn.

pub mod collections;
pub mod command;
pub mod error;
pub mod float;
pub mod glob;
pub mod keys;
pub mod notifications;
pub mod options;
pub mod reply;
pub mod request;
pub mod script_table;
pub mod scripts;
pub mod scripts_of_analytics;
mod scripts_of_regions;
pub mod sha1;
pub mod sorted;
pub mod sorted_ranges;
pub mod sorted_sets;
pub mod space;
pub mod strings;

pub use space::VALUE_BYTES_MAX;
