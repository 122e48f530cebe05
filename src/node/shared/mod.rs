//! What the shells (`objects`, `edge`, `aggregator`) share, and they share nothing else: calls between objects, and
//! what the objects of one isolate hold together.
//!
//! | module | holds |
//! |---|---|
//! | [`boards`] | boards, over however many shards they are spread |
//! | [`mod@call`] | sends a message to an object or a Worker, and answers one |
//! | [`call_batcher`] | joins the calls of one request into batches |
//! | [`queued_writes`] | queued writes, counted |
//! | [`keyed_calls`] | keyed writes, claimed and counted |
//! | [`leads_apart`] | which leads this isolate has heard to live apart from their tablets |
//! | [`lease_requests`] | how holders of leases reach who lends |
//! | [`memory`] | what the objects of this isolate hold together |
//! | [`open_objects`] | objects in use, where one process has them all |
//! | [`partitions`] | the partitions of the directory, and asking all of them |
//! | [`metrics`] | the numbers of this isolate |
//! | [`mod@fleet`] | how they reach those of the deployment |
//! | [`unreadable`] | stored data that could not be read |
//! | [`concurrency`] | runs many futures, a bounded number at a time |

pub mod boards;
pub mod call;
pub mod call_batcher;
pub mod concurrency;
pub mod fleet;
pub mod keyed_calls;
pub mod leads_apart;
pub mod lease_requests;
pub mod memory;
pub mod metrics;
pub mod open_objects;
pub mod partitions;
pub mod queued_writes;
pub mod unreadable;

pub use call::{call, call_within};
