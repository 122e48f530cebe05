//! Tally counts things at the edge: one Rust program, compiled to one Wasm module, that runs as two
//! Workers (edge and global aggregator) whose counters are Durable Objects.
//!
//! This crate is the program as Cloudflare Workers and workerd run it. The other crates are in the folder `crates`:
//!
//! | crate | holds |
//! |---|---|
//! | `tally-core` | pure: counters, sketches, limits, the ring |
//! | `tally-wire` | pure: messages, stored forms, names, refusals |
//! | `tally-redis` | pure: Redis's commands |
//! | `tally-api` | pure: routes, rights, queries, bodies, answers |
//! | `tally-host` | what the service asks of its platform |
//! | `tally-shared` | what the Workers and the objects share: calls, and the state of an isolate |
//! | `tally-aggregator` | the Worker that sums counters over all datacenters |
//! | `tally-objects` | the Durable Objects |
//! | `tally-edge` | the Worker that clients talk to |
//!
//! Where the three things live that a counter is made of:
//!
//! - The counter, totals of one cell: `CellState` in `crates/tally-core/src/counter/cell.rs` decides,
//!   `CellStore` in `crates/tally-objects/src/cell/store.rs` stores.
//! - The bucket, a count of a second, minute, hour or day: `History` in `crates/tally-core/src/counter/history.rs`
//!   decides, `CellRows` in `crates/tally-objects/src/cell/rows.rs` stores.
//! - The register, of which 16,384 are a HyperLogLog: `Sketch` in `crates/tally-sketch/src/hyperloglog.rs`. Its bytes
//!   are a row of the cell too.
//!
//! Each crate uses those above it alone, and `tally-edge` neither the objects nor the aggregator: the compiler sees to
//! it.
//! This crate alone names the platform.

#[cfg(target_arch = "wasm32")]
mod workers;
