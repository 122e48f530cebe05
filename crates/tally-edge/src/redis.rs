//! Redis's dialect.
//!
//! | module | holds |
//! |---|---|
//! | [`calls`] | the commands |
//! | [`hll`] | unique elements from and for Redis |

pub(crate) mod calls;
pub(crate) mod hll;
