//! The service itself, on top of the [`host`](crate::host): what runs in an isolate.
//!
//! | module | holds |
//! |---|---|
//! | [`edge`] | the Worker that clients talk to |
//! | [`aggregator`] | the Worker that sums counters over all datacenters |
//! | [`objects`] | Durable Object shells |
//! | [`shared`] | common parts: calls, shared state of an isolate |

pub mod aggregator;
pub mod edge;
pub mod objects;
pub mod shared;
