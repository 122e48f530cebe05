//! What an isolate remembers and decides by itself, beside its messages.
//!
//! | module | holds |
//! |---|---|
//! | [`body_memory`] | the memory of bulk bodies, shared among their senders |
//! | [`joined_pages`] | a page from many partitions |
//! | [`open_slots`] | the objects in use, where one process runs all of them |
//! | [`shared_read`] | values that requests share, and when one of them reads |
//! | [`view_fallback`] | the parts of a read that come from the root's memory |
//! | [`views`] | the views that default reads share, and when they are fetched |
//! | [`wave`] | when a body that has been read sends its sums |

pub mod body_memory;
pub mod joined_pages;
pub mod open_slots;
pub mod shared_read;
pub mod view_fallback;
pub mod views;
pub mod wave;
