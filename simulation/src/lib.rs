//! The platform of Tally in memory: the other implementation of `tally::host`.

mod alarm;
mod chance;
mod client;
mod core;
mod executor;
mod faults;
mod files;
mod guest;
mod intervention;
mod isolate;
mod journal;
mod network;
mod place;
mod queue;
mod request;
mod slot;
mod storage;
mod streams;
mod world;

pub use chance::Chance;
pub use client::{Answer, Client, Live, NoAnswer};
pub use faults::{Faults, Housing, Options};
pub use intervention::{Judged, Verdict};
pub use isolate::Role;
pub use journal::Figures;
pub use network::Site;
pub use request::{Ask, ORIGIN};
pub use slot::Slot;
pub use streams::{BROKEN, Received};
pub use world::World;
