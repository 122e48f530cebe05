//! Datacenters, pure: where things are and what the directory knows.
//!
//! | module | holds |
//! |---|---|
//! | [`lease`] | how long an isolate may rely on what a root said |
//! | [`operation`] | set and reset: what they observed, and what the value is since |
//! | [`region`] | location hints of datacenters |
//! | [`ring`] | which partition holds a key |
//! | [`root`] | generation, settings and datacenters of a counter |

pub mod lease;
pub mod operation;
pub mod region;
pub mod ring;
pub mod root;
