//! `/events` and `/ingest`: many writes in one body.
//!
//! | module | holds |
//! |---|---|
//! | [`calls`] | the two calls |
//! | [`reader`], [`records`] | reading of bodies, and what their lines are |
//! | [`counting`] | counting of what was read |
//! | [`reports`] | reports of the counters at the end of a body |
//! | [`sender`] | sending of a body to many cells |

pub(crate) mod calls;
pub(crate) mod counting;
pub(crate) mod reader;
pub(crate) mod records;
pub(crate) mod reports;
pub(crate) mod sender;
