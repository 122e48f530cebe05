//! What watchers name and see.
//!
//! | module | holds |
//! |---|---|
//! | [`snapshot`] | one counter, as watchers see it |
//! | [`topic`] | what a watcher names |

pub mod snapshot;
pub mod topic;
