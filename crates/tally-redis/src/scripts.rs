//! The scripts of rate-limit clients.
//!
//! | module | holds |
//! |---|---|
//! | [`table`] | the known scripts, by the SHA-1 of their text |
//! | [`known`] | the commands that name and run them |
//! | `call` | the call of a script, and Lua's numbers |
//! | [`analytics`] | scripts over all keys or over boards |
//! | `regions` | scripts of several regions |

pub mod analytics;
mod call;
pub mod known;
mod regions;
pub mod table;
