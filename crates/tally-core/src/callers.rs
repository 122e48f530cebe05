//! Who calls, as limits know callers.
//!
//! | module | holds |
//! |---|---|
//! | [`account`] | the room of each narrow writer in a table |
//! | [`owner`] | who has a part of a limiter's table |
//! | [`refused_key`] | the stored form of refused keys |
//! | [`visitors`] | what visitors without a key may write |

pub mod account;
pub mod owner;
pub mod refused_key;
pub mod visitors;
