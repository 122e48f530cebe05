//! The scripts of rate-limit clients.
//!
//! | module | holds |
//! |---|---|
//! | [`table`] | the known scripts, by the SHA-1 of their text |
//! | [`known`] | the commands that name and run them |
//! | `call` | the call of a script, and Lua's numbers |
//! | `hits` | scripts of windows that begin with their first request |
//! | [`analytics`] | scripts over all keys or over boards |
//! | `regions` | scripts of several regions |

pub mod analytics;
mod call;
mod hits;
pub mod known;
mod regions;
pub mod table;
