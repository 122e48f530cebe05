//! The service itself, over the [`host`](crate::host): what runs in an isolate.
//!
//! | module | holds |
//! |---|---|
//! | [`edge`] | the Worker that clients talk to |
//! | [`aggregator`] | the Worker that sums the world |
//! | [`objects`] | Durable Object shells |
//! | [`shared`] | what these share: calls, what an isolate holds |

pub mod aggregator;
pub mod edge;
pub mod objects;
pub mod shared;
