//! Boards: members with scores.
//!
//! | module | holds |
//! |---|---|
//! | [`object`], [`state`] | a board, and its members in memory |
//! | [`rows`], [`records`], [`periods`] | its rows: members, keyed writes and changes, ended periods |
//! | [`writes`], [`reads`] | writes to a board, and reads of it |
//! | [`endings`] | the end of a board, and the deletion of what it leaves |
//! | [`moves`], [`move_steps`] | moves of its members from one layout of shards to another, and what each shard does |
//! | [`move_triggers`], [`move_state`] | when members move, and what is kept in memory meanwhile |
//! | [`losses`] | what an object of a board does after its head was discarded |
//! | [`registry`] | the boards of each partition of the directory |

mod endings;
mod losses;
mod move_state;
mod move_steps;
mod move_triggers;
mod moves;
pub(crate) mod object;
mod periods;
mod reads;
mod records;
pub(crate) mod registry;
pub(crate) mod rows;
mod state;
mod writes;
