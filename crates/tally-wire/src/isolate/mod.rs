//! What an isolate remembers and decides by itself, beside its messages.
//!
//! | module | holds |
//! |---|---|
//! | [`aged_cache`] | cached values, and their ages |
//! | [`joined_pages`] | a page from many partitions |
//! | [`known_cells`] | what an isolate knows of cells, beyond its view |
//! | [`open_slots`] | the objects in use, where one process runs all of them |
//! | [`refresh`] | when an isolate asks again for a value that may change |
//! | [`view_fallback`] | the parts of a read that come from the root's memory |

pub mod aged_cache;
pub mod joined_pages;
pub mod known_cells;
pub mod open_slots;
pub mod refresh;
pub mod view_fallback;
