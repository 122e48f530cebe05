//! Who calls, as limits know callers.
//!
//! | module | holds |
//! |---|---|
//! | [`account`] | the room of each narrow writer in a table |
//! | [`owner`] | who has a part of a limiter's table |
//! | [`visitors`] | what visitors without a key may write |

pub mod account;
pub mod owner;
pub mod visitors;
