//! Tally counts things at the edge: one Rust program, compiled to one Wasm module, that runs as two
//! Workers (edge and global aggregator) whose counters are Durable Objects.
//!
//! Dependencies point one way:
//! `counter, sketch, limit, cluster ← protocol ← platform ← objects, edge, aggregator`.
//!
//! | module | holds |
//! |---|---|
//! | [`counter`] | pure: cells, totals, windows, settings |
//! | [`sketch`] | pure: HyperLogLog and the keyed hash |
//! | [`limit`] | pure: rate limits: policies, meters, leases |
//! | [`cluster`] | pure: the ring, roots, regions |
//! | [`protocol`] | pure: routes, public JSON, internal messages, names |
//! | `platform` | wasm32: calls between objects, clock, randomness, bodies |
//! | `objects` | wasm32: Durable Object shells |
//! | `edge` | wasm32: the Worker that clients talk to |
//! | `aggregator` | wasm32: the Worker that sums the world |
//! | `entry` | wasm32: tells the two Workers apart |

pub mod cluster;
pub mod counter;
pub mod limit;
pub mod protocol;
pub mod sketch;

#[cfg(target_arch = "wasm32")]
mod aggregator;
#[cfg(target_arch = "wasm32")]
mod edge;
#[cfg(target_arch = "wasm32")]
mod entry;
#[cfg(target_arch = "wasm32")]
mod objects;
#[cfg(target_arch = "wasm32")]
mod platform;
