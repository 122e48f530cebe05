//! Boards: members with scores.
//!
//! | module | holds |
//! |---|---|
//! | [`calls`] | the calls of boards |
//! | [`lanes`] | the lanes of writes to boards |
//! | [`lines`] | lines of `/events` that write to boards |
//! | [`summary`] | cached summaries of boards in other datacenters |

pub(crate) mod calls;
pub(crate) mod lanes;
pub(crate) mod lines;
pub(crate) mod summary;
