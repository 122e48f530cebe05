//! What the owner of the keys decides before it reads a key, and after a command has run.
//!
//! | module | holds |
//! |---|---|
//! | [`steps`] | which commands of a request run together, and which keys each locks |
//! | [`effects`] | what becomes of a key |

pub mod effects;
pub mod steps;
