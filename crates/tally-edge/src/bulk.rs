//! `/events` and `/ingest`: many writes in one body.
//!
//! | module | holds |
//! |---|---|
//! | [`calls`] | the two calls |
//! | [`reader`] | reading of bodies |
//! | [`counting`] | counting of what was read |
//! | [`sender`] | sending of a body to many cells |

pub(crate) mod calls;
pub(crate) mod counting;
pub(crate) mod reader;
pub(crate) mod sender;
