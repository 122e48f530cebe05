//! The decisions of the service, without a platform: pure code, tested natively.
//!
//! | module | holds |
//! |---|---|
//! | [`alert`] | when a number is over its threshold, and who is notified |
//! | [`callers`] | who calls, as limits know callers |
//! | [`board`] | members with scores, and their ranks |
//! | [`counter`] | cells, totals, windows, settings |
//! | [`sketch`] | the crate `tally-sketch`: HyperLogLog and the keyed hash |
//! | [`limit`] | the crate `tally-limit`: policies, meters, leases |
//! | [`cluster`] | the ring, roots, regions |
//! | [`isolate`] | what an isolate remembers and decides by itself |
//! | [`handover`] | how a bundle of rows moves from place to place |
//! | [`order`] | sorted lists |
//! | [`calendar`] | months and their first days, from the crate `tally-logs` |
//! | [`sha256`] | SHA-256 and HMAC |

#![allow(
    rustdoc::private_intra_doc_links,
    reason = "who reads these pages works on the program, and has its private items too"
)]

pub mod alert;
pub mod board;
pub mod callers;
pub mod cluster;
pub mod counter;
pub mod handover;
pub mod isolate;
pub mod order;
pub mod sha256;

#[doc(no_inline)]
pub use tally_limit as limit;
#[doc(no_inline)]
pub use tally_logs::calendar;
#[doc(no_inline)]
pub use tally_sketch as sketch;
