//! Who calls, as limits know callers.
//!
//! | module | holds |
//! |---|---|
//! | [`owner`] | who has a part of a limiter's table |
//! | [`visitors`] | what visitors without a key may write |

pub mod owner;
pub mod visitors;
