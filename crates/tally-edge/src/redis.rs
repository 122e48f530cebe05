//! Redis's dialect.
//!
//! | module | holds |
//! |---|---|
//! | [`calls`] | commands as requests by HTTP |
//! | [`batch`] | commands that arrive over a connection of Redis's protocol |
//! | [`work`] | the commands of one request, by whichever door they arrive |
//! | [`hll`] | unique elements from and for Redis |

pub mod batch;
pub(crate) mod calls;
pub(crate) mod hll;
pub(crate) mod work;
