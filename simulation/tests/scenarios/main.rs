//! Whole services where one message comes at one moment: the laws that chance alone seldom tries. A scenario holds a
//! message back, loses or repeats it, and asserts what clients are told. `simulation/mutants/broken.mjs` names what
//! each must catch.

mod answers;
mod board_keys;
mod board_periods;
mod board_promises;
mod board_scene;
mod board_sizes;
mod boards;
mod commands;
mod conditions;
mod dialect;
mod elements;
mod endings;
mod flushes;
mod homes;
mod key_ends;
mod key_values;
mod keys;
mod lifetimes;
mod limiters;
mod listeners;
mod lookups;
mod made_keys;
mod operations;
mod queued;
mod reads;
mod scene;
mod shards;
