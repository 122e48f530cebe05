//! Events that are acknowledged and not counted yet.
//!
//! | module | holds |
//! |---|---|
//! | [`object`], [`store`] | the inbox, and its rows |
//! | [`consumer`], [`sending`], [`backlog`] | the counting of an inbox's events, those in flight, and those that wait for long |
//! | [`registry`] | the inboxes in roots |
//! | [`sender_sessions`] | senders to a queue of the platform, as a root stores them |

#[cfg(feature = "queue")]
mod backlog;
#[cfg(feature = "queue")]
mod consumer;
#[cfg(feature = "queue")]
pub(crate) mod object;
pub(crate) mod registry;
pub(crate) mod sender_sessions;
#[cfg(feature = "queue")]
mod sending;
#[cfg(feature = "queue")]
mod store;
