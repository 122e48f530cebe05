//! What the shells (`objects`, `edge`, `aggregator`) share; they share nothing else: calls between objects, and state
//! that the objects of one isolate have in common.
//!
//! | module | holds |
//! |---|---|
//! | [`boards`], [`board_shards`], [`board_writes`] | reads and writes boards, over any number of shards |
//! | [`mod@call`] | sends a message to an object or a Worker, and answers one |
//! | [`call_batcher`] | joins the calls of one request into batches |
//! | [`queued_writes`] | counts queued writes |
//! | [`keyed_calls`] | claims and counts keyed writes |
//! | [`known_cells`] | what cells have acknowledged to this isolate |
//! | [`leads_apart`] | caches which leads live apart from their tablets |
//! | [`lease_requests`] | requests of borrowers to the limiters that lend |
//! | [`memory`] | the memory that the objects of this isolate hold together |
//! | [`open_objects`] | counts objects in use, if one process has them all |
//! | [`partitions`] | the partitions of the directory, and questions to all of them |
//! | [`metrics`] | the metrics of this isolate |
//! | [`mod@fleet`] | reports them to the deployment |
//! | [`unreadable`] | stored data that could not be read |
//! | [`directory_ring`] | the number of partitions, and the one of a name |
//! | [`flag_guard`] | flags of work that runs once at a time |
//! | [`concurrency`] | runs many futures, a bounded number at a time |

#![allow(
    rustdoc::private_intra_doc_links,
    reason = "who reads these pages works on the program, and has its private items too"
)]

pub mod board_shards;
pub mod board_writes;
pub mod boards;
pub mod call;
pub mod call_batcher;
pub mod concurrency;
pub mod directory_ring;
pub mod flag_guard;
pub mod fleet;
pub mod keyed_calls;
pub mod known_cells;
pub mod leads_apart;
pub mod lease_requests;
pub mod memory;
pub mod metrics;
pub mod open_objects;
pub mod partitions;
pub mod queued_writes;
pub mod unreadable;

pub use call::{call, call_within};
