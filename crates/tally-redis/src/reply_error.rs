//! Why a command was not run.

use tally_wire::messages::Fault;
use tally_wire::redis::Reply;

/// Why a command was not run.
#[derive(Clone, Debug)]
pub enum ReplyError {
    /// The reply to the client.
    Reply(Reply),
    /// It is unknown whether the command was run, or it could not be run.
    Fault(Fault),
}

impl From<Fault> for ReplyError {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<Reply> for ReplyError {
    fn from(reply: Reply) -> Self {
        Self::Reply(reply)
    }
}
