//! Tally counts things at the edge: one Rust program, compiled to one Wasm module, that runs as two
//! Workers (edge and global aggregator) whose counters are Durable Objects.
//!
//! Dependencies point one way:
//! `counter, sketch, limit, cluster ← protocol ← host ← platform ← objects, edge, aggregator ← host::workers`.
//!
//! | module | holds |
//! |---|---|
//! | [`counter`] | pure: cells, totals, windows, settings |
//! | [`sketch`] | pure: HyperLogLog and the keyed hash |
//! | [`limit`] | pure: rate limits: policies, meters, leases |
//! | [`cluster`] | pure: the ring, roots, regions |
//! | [`protocol`] | pure: routes, public JSON, internal messages, names |
//! | [`host`] | what the service asks of its platform; in `host::workers`, for wasm32 only, the platform itself |
//! | [`platform`] | what the shells share: calls between objects, what an isolate holds |
//! | [`objects`] | Durable Object shells |
//! | [`edge`] | the Worker that clients talk to |
//! | [`aggregator`] | the Worker that sums the world |

#![allow(
    rustdoc::private_intra_doc_links,
    reason = "who reads these pages works on the program, and has its private items too"
)]

pub mod aggregator;
pub mod cluster;
pub mod counter;
pub mod edge;
pub mod host;
pub mod limit;
pub mod objects;
pub mod platform;
pub mod protocol;
pub mod sketch;
