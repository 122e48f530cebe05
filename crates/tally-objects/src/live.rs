//! Objects of live views: a hub or a live reader.
//!
//! | module | holds |
//! |---|---|
//! | [`watcher`] | which of the two an object is |
//! | [`hub`], [`streams`] | the streams of watchers, and their connections |
//! | [`reader`] | reads of watched counters, once for all watchers |

mod hub;
mod reader;
mod streams;
pub(crate) mod watcher;
