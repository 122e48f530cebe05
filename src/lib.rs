//! Tally counts things at the edge: one Rust program, compiled to one Wasm module, that runs as two
//! Workers (edge and global aggregator) whose counters are Durable Objects.
//!
//! Dependencies point one way: `core ← protocol ← host ← node ← host::workers`.
//!
//! | module | holds |
//! |---|---|
//! | [`mod@core`] | the crate `tally-core`, pure: counters, sketches, limits, the ring |
//! | [`protocol`] | the crate `tally-protocol`, pure: routes, public JSON, internal messages, names |
//! | [`host`] | what the service asks of its platform; in `host::workers`, for wasm32 only, the platform itself |
//! | [`node`] | the service: edge, aggregator, objects |

#![allow(
    rustdoc::private_intra_doc_links,
    reason = "who reads these pages works on the program, and has its private items too"
)]
#![cfg_attr(
    not(feature = "default"),
    allow(unused, reason = "code of what was left out is not linked")
)]

pub mod host;
pub mod node;

#[doc(no_inline)]
pub use tally_core as core;
#[doc(no_inline)]
pub use tally_protocol as protocol;
