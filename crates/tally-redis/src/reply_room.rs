//! What is left for a request.

use std::cell::Cell;

use crate::glob::StepsLeft;
use tally_wire::redis::{REPLIES_BYTES_MAX, Reply, replies_too_large};

/// What is left for a request: the room of its replies, and the steps of its patterns.
pub struct ReplyRoom {
    bytes: Cell<usize>,
    steps: StepsLeft,
}

impl Default for ReplyRoom {
    fn default() -> Self {
        Self {
            bytes: Cell::new(REPLIES_BYTES_MAX),
            steps: StepsLeft::default(),
        }
    }
}

impl ReplyRoom {
    /// The steps that patterns may still take.
    pub fn steps(&self) -> &StepsLeft {
        &self.steps
    }

    /// Whether no room is left.
    pub fn is_full(&self) -> bool {
        self.bytes.get() == 0
    }

    /// Takes the room of this reply. If there is no room, the reply of a read is replaced by an error. The reply of a
    /// command that has written stays, because the client must learn of it.
    pub fn admit(&self, reply: Reply, is_read: bool) -> Reply {
        let left = self.bytes.get().checked_sub(reply.bytes());
        self.bytes.set(left.unwrap_or(0));
        match left {
            None if is_read => replies_too_large(),
            _ => reply,
        }
    }
}
