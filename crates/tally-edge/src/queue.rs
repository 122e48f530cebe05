//! Events that are acknowledged at once and counted soon after.
//!
//! | module | holds |
//! |---|---|
//! | [`calls`] | the calls that queue events, and those that show dead letters |
//! | [`producer`] | sending of events to the deployment's queue |

pub(crate) mod calls;
pub(crate) mod producer;
