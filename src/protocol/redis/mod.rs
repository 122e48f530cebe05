//! Redis's words over HTTP, as clients of its REST dialect say them.
//!
//! | module | holds |
//! |---|---|
//! | [`request`] | the forms of a request |
//! | [`command`] | the table of commands |
//! | [`space`] | what a command works on |
//! | [`strings`], [`keys`], [`collections`] | what commands do |
//! | [`scripts`], [`scripts_of_regions`], [`script_table`] | the scripts of rate limits that are known |
//! | [`reply`], [`error`] | what commands are answered with |
//!
//! A command is decided by the owner of its keys, in one turn.

pub mod collections;
pub mod command;
pub mod error;
pub mod glob;
pub mod keys;
pub mod options;
pub mod reply;
pub mod request;
pub mod script_table;
pub mod scripts;
mod scripts_of_regions;
pub mod sha1;
pub mod space;
pub mod strings;

pub use space::VALUE_BYTES_MAX;
