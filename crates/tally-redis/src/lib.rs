//! Redis's commands over HTTP, in the REST dialect of its clients, decided purely.
//!
//! | module | holds |
//! |---|---|
//! | [`request`] | the forms of a request |
//! | [`command`] | the table of commands |
//! | [`space`] | the values that a command works on |
//! | [`strings`], [`keys`], [`collections`], [`window`], [`field_ends`] | the commands |
//! | [`sorted`], [`sorted_sets`], [`float`] | commands of sorted sets, which are boards |
//! | [`scripts`] | known scripts of rate-limit clients |
//! | [`words`] | words that say how many others follow |
//! | [`together`] | commands of several connections that run as one batch |
//! | [`keyspace`] | which commands of a request run together, and what becomes of a key |
//! | [`options`], [`glob`] | options of commands, and patterns of names |
//! | [`error`], [`reply_error`], [`reply_room`], [`kept_replies`] | replies, the room for those of a request, and for those that are stored |
//! | [`mod@random`] | random numbers that follow from a seed |
//! | [`account_room`] | the room for values, by account |
//! | [`notifications`] | notifications to listeners |
//!
//! The owner of its keys runs a command in one synchronous step. Replies are messages too: [`tally_wire::redis`].

#![allow(
    rustdoc::private_intra_doc_links,
    reason = "who reads these pages works on the program, and has its private items too"
)]

pub mod account_room;
pub mod collections;
pub mod command;
pub mod error;
pub mod field_ends;
pub mod float;
pub mod glob;
pub mod kept_replies;
pub mod keys;
pub mod keyspace;
pub mod notifications;
pub mod options;
mod random;
pub mod reply_error;
pub mod reply_room;
pub mod request;
pub mod scripts;
pub mod sorted;
pub mod sorted_sets;
pub mod space;
pub mod strings;
pub mod together;
pub mod window;
pub mod words;

/// The largest key that is no counter with its value, in bytes: the sum of keys, fields and members.
pub const VALUE_BYTES_MAX: usize = 64 * 1024;
