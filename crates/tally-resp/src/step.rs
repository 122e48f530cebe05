//! What a connection asks of its platform.

use crate::hello::Greeting;
use tally_redis::notifications::Subscription;
use tally_redis::request::CommandBatch;

/// Output of more bytes is sent before further commands run. One batch of replies may have more.
pub const OUTPUT_BYTES_MAX: usize = 64 * 1_024;

/// What the platform does next.
#[derive(Debug, PartialEq, Eq)]
pub enum ConnectionStep {
    /// Check the key of the connection, and report by `Connection::proved`.
    Prove,
    /// Check this key, and report by `Connection::authenticated`.
    Authenticate(Login),
    /// Run these commands, and report by `Connection::ran`.
    Run(CommandBatch),
    /// Open a stream, and report by `Connection::listening`.
    Listen(Subscription),
    /// Send what was written, before more is written.
    Send,
    /// Close the streams of which no channel is listened to any more: see `Connection::is_heard`.
    Unlisten,
    /// Close the connection, once what was written is sent.
    Close,
}

/// A key that a client has sent.
#[derive(Debug, PartialEq, Eq)]
pub struct Login {
    /// The key.
    pub key: String,
    /// What else a `HELLO` asks for; `None` for `AUTH`.
    pub(crate) greeting: Option<Greeting>,
}

/// What a client has yet to send, if it is to stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owed {
    /// A command that is admitted, such as `AUTH` with a valid key.
    Admission,
    /// The rest of a command that is behind that number of others.
    Rest(u64),
}
