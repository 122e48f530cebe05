//! Commands that several connections send at once, and that run as one batch, as those of a pipeline do.
//!
//! Invariants: the commands of a connection stay next to each other and in their order, and its replies are those to
//! its own commands. Only quick commands of one kind share a batch, so no connection waits for another one's long
//! command, and no reply is so large that it leaves no room for others.

use crate::command::{Act, Command};
use crate::request::{COMMANDS_MAX, PIPELINE_BYTES_MAX};
use tally_wire::messages::Arguments;
use tally_wire::redis::Reply;

/// Kinds of commands that the owner of the keys handles together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BatchKind {
    /// Additions to counters.
    Additions,
    /// Commands of sorted sets with short replies that remove nothing.
    Sorted,
}

/// The batch of several connections: at most as large as that of one.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct SharedBatch {
    parts: Vec<Vec<Arguments>>,
    commands: usize,
    bytes: usize,
}

fn bytes_of(commands: &[Arguments]) -> usize {
    commands.iter().flatten().map(String::len).sum()
}

fn kind_of(args: &Arguments) -> Option<BatchKind> {
    let command = Command::find(args).ok()?;
    match (command.act, command.name) {
        (Act::Add, _) => Some(BatchKind::Additions),
        (
            Act::Sorted,
            "ZADD" | "ZINCRBY" | "ZSCORE" | "ZCARD" | "ZRANK" | "ZREVRANK" | "ZCOUNT" | "ZLEXCOUNT",
        ) => Some(BatchKind::Sorted),
        _ => None,
    }
}

impl BatchKind {
    /// The kind of all these commands; `None` if they have to be a batch by themselves.
    pub fn of(commands: &[Arguments]) -> Option<Self> {
        let (first, rest) = commands.split_first()?;
        let kind = kind_of(first)?;
        let is_one = rest.iter().all(|args| kind_of(args) == Some(kind));
        is_one.then_some(kind)
    }
}

impl SharedBatch {
    /// Whether these commands fit into it. An empty one takes any.
    pub fn has_room(&self, commands: &[Arguments]) -> bool {
        self.parts.is_empty()
            || (self.commands + commands.len() <= COMMANDS_MAX
                && self.bytes + bytes_of(commands) <= PIPELINE_BYTES_MAX)
    }

    /// Adds the commands of a connection.
    pub fn add(&mut self, commands: Vec<Arguments>) {
        self.commands += commands.len();
        self.bytes += bytes_of(&commands);
        self.parts.push(commands);
    }

    /// The commands of each connection, in the order in which they were added.
    pub fn into_parts(self) -> Vec<Vec<Arguments>> {
        self.parts
    }
}

/// The outcome of each connection's commands. `lengths`: how many commands each has sent.
pub fn divide(
    lengths: &[usize],
    outcome: Result<Vec<Reply>, String>,
) -> Vec<Result<Vec<Reply>, String>> {
    let mut rest = match outcome {
        Ok(replies) => replies.into_iter(),
        Err(text) => return vec![Err(text); lengths.len()],
    };
    let part = |length: &usize| Ok(rest.by_ref().take(*length).collect());
    lengths.iter().map(part).collect()
}
