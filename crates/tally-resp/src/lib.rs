//! Redis's protocol over a connection, RESP2 and RESP3, decided purely. Source: "Redis serialization protocol
//! specification", and the replies of Redis 7.0.
//!
//! | module | holds |
//! |---|---|
//! | [`framing`] | commands in the bytes that arrive |
//! | [`step`] | what a connection asks of its platform |
//! | [`connection`] | the state of a connection, and the commands about it |
//! | [`own`] | the names of the commands about the connection |
//! | [`hello`], [`transaction`] | the greeting, and the commands between `MULTI` and `EXEC` |
//! | [`subscriptions`] | what a connection listens to |
//! | [`table`] | `COMMAND`: what clients may ask about commands |
//! | [`shape`] | which form each command's reply has |
//! | [`encoder`] | the bytes of replies |
//!
//! A platform reads bytes, does the [`step::ConnectionStep`]s, and writes the bytes of an [`encoder::Encoder`].

#![allow(
    rustdoc::private_intra_doc_links,
    reason = "who reads these pages works on the program, and has its private items too"
)]

pub mod connection;
pub mod encoder;
pub mod framing;
pub mod hello;
mod own;
pub mod shape;
pub mod step;
pub mod subscriptions;
pub mod table;
pub mod transaction;
