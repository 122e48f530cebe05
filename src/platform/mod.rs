//! What the shells (`objects`, `edge`, `aggregator`) share of the platform, and they share nothing
//! else: calls between objects, the clock, randomness, deadlines, bodies.
//!
//! | module | holds |
//! |---|---|
//! | [`call`] | sends a message to an object or a Worker, and answers one |
//! | [`clock`] | the wall clock, timers, randomness |
//! | [`dues`] | queued writes, counted |
//! | [`keyed`] | keyed writes, claimed and counted |
//! | [`lend`] | how holders of leases reach who lends |
//! | [`memory`] | what the objects of this isolate hold together |
//! | [`openings`] | objects in use, where one process has them all |
//! | [`measure`] | the numbers of this isolate |
//! | [`mod@setting`] | settings of the deployment |
//! | [`settled`] | runs many futures, a bounded number at a time |
//! | [`turn`] | answers that wait for nothing |

pub mod call;
pub mod clock;
pub mod dues;
pub mod keyed;
pub mod lend;
pub mod measure;
pub mod memory;
pub mod openings;
pub mod setting;
pub mod settled;
pub mod turn;
