//! What is decided without a platform: pure code, tested natively.
//!
//! | module | holds |
//! |---|---|
//! | [`board`] | members with scores, and their ranks |
//! | [`counter`] | cells, totals, windows, settings |
//! | [`sketch`] | HyperLogLog and the keyed hash |
//! | [`limit`] | rate limits: policies, meters, leases |
//! | [`cluster`] | the ring, roots, regions |

pub mod board;
pub mod cluster;
pub mod counter;
pub mod limit;
pub mod sketch;
