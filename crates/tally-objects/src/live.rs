//! Objects of live views: a hub or a live reader.
//!
//! | module | holds |
//! |---|---|
//! | [`watcher`] | which of the two an object is |
//! | [`hub`], [`streams`] | the streams of watchers, and their connections |
//! | [`second_alarm`] | the alarm of a hub |
//! | [`reader`] | reads of watched counters, once for all watchers |

mod hub;
mod reader;
mod second_alarm;
mod streams;
pub(crate) mod watcher;
