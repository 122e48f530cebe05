//! Convergence of many datacenters, by the state machines that ship: `cluster::{delta, push, view, watch}`.
//!
//! Nothing here decides anything of convergence: shells hand messages and times to those machines, the network
//! loses 5 % of messages, repeats 2 %, lets them overtake each other, and now and then splits the world.

pub mod air;
#[allow(dead_code, reason = "what the other simulation draws")]
#[path = "../chance.rs"]
pub mod chance;
pub mod ends;
pub mod figures;
pub mod gossip;
pub mod places;
pub mod plan;
pub mod run;
pub mod world;
