//! Boards: members with scores.
//!
//! | module | holds |
//! |---|---|
//! | [`calls`], [`writes`] | the calls of boards that read, configure and end them, and those that write |
//! | [`lanes`] | the lanes of writes to boards |
//! | [`lines`] | lines of `/events` that write to boards |
//! | [`merged`] | several boards read as one |
//! | [`summary`] | cached summaries of boards in other datacenters |

#[cfg(feature = "boards")]
pub(crate) mod calls;
#[cfg(feature = "boards")]
pub(crate) mod lanes;
pub(crate) mod lines;
#[cfg(feature = "boards")]
pub(crate) mod merged;
#[cfg(feature = "boards")]
pub(crate) mod summary;
#[cfg(feature = "boards")]
pub(crate) mod writes;
