//! Boards: members with scores.
//!
//! | module | holds |
//! |---|---|
//! | [`object`], [`state`], [`rows`], [`reads`] | a board in memory and in rows, and reads of it |
//! | [`moves`] | moves of a board's members from one layout of shards to another |
//! | [`losses`] | what an object of a board does after its head was discarded |
//! | [`registry`] | the boards of each partition of the directory |

mod losses;
mod moves;
pub(crate) mod object;
mod reads;
pub(crate) mod registry;
pub(crate) mod rows;
mod state;
