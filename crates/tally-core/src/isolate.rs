//! What an isolate remembers and decides by itself, beside its messages.
//!
//! | module | holds |
//! |---|---|
//! | [`aged_cache`] | cached values, and their ages |
//! | [`body_memory`] | the memory of bulk bodies, shared among their senders |
//! | [`joined_pages`] | a page from many partitions |
//! | [`open_slots`] | the objects in use, where one process runs all of them |
//! | [`view_fallback`] | the parts of a read that come from the root's memory |
//! | [`views`] | the views that default reads share, and when they are fetched |
//! | [`wave`] | when a body that has been read sends its sums |

pub mod aged_cache;
pub mod body_memory;
pub mod joined_pages;
pub mod open_slots;
pub mod view_fallback;
pub mod views;
pub mod wave;
