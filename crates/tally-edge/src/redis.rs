//! Redis's dialect.
//!
//! | module | holds |
//! |---|---|
//! | [`calls`] | the commands |
//! | [`hyll`] | unique elements from and for Redis |

pub(crate) mod calls;
pub(crate) mod hyll;
