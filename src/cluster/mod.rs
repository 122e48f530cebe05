//! Datacenters, pure: where things are and what the directory knows.
//!
//! | module | holds |
//! |---|---|
//! | [`lease`] | how long an isolate may rely on what a root said |
//! | [`region`] | location hints of datacenters |
//! | [`ring`] | which partition holds a key |
//! | [`root`] | generation, settings and datacenters of a counter |

pub mod lease;
pub mod region;
pub mod ring;
pub mod root;
