//! Whole services, and the platform in memory that carries them. One program: each more would be linked anew.

mod administration;
mod alerts;
mod boards;
mod builds;
mod common;
mod data;
mod holds;
mod moving;
mod operations;
mod overrides;
mod platform_objects;
mod platform_runs;
mod platform_storage;
mod repair;
mod service;
mod storage_outage;
mod stored;
mod tablets;
mod totals;
