//! What an isolate remembers by itself of the messages that it had. More is in [`tally_core::isolate`].
//!
//! | module | holds |
//! |---|---|
//! | [`known_cells`] | what an isolate knows of cells, beyond its view |
//! | [`refresh`] | when an isolate asks again for a value that may change |

pub mod known_cells;
pub mod refresh;
