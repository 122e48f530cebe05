//! What the shells (`objects`, `edge`, `aggregator`) share, and they share nothing else: calls between objects, and what the
//! objects of one isolate hold together.
//!
//! | module | holds |
//! |---|---|
//! | [`mod@call`] | sends a message to an object or a Worker, and answers one |
//! | [`dues`] | queued writes, counted |
//! | [`keyed`] | keyed writes, claimed and counted |
//! | [`lend`] | how holders of leases reach who lends |
//! | [`memory`] | what the objects of this isolate hold together |
//! | [`openings`] | objects in use, where one process has them all |
//! | [`measure`] | the numbers of this isolate |
//! | [`settled`] | runs many futures, a bounded number at a time |

pub mod call;
pub mod dues;
pub mod keyed;
pub mod lend;
pub mod measure;
pub mod memory;
pub mod openings;
pub mod settled;

pub use call::{call, call_within};
