//! Messages of Redis's dialect: from the edge to the owner of the keys.

use serde::{Deserialize, Serialize};

use super::call::Call;
use crate::names::Address;
use crate::redis::Reply;
use tally_core::board::placing::ShardAt;
use tally_core::callers::account::AccountId;
use tally_core::counter::id::{CounterId, Datacenter};
use tally_core::counter::ledger::WriteKey;
use tally_core::limit::owner::Owner;

calls! {
    RunCommands => Vec<Reply>, "/run-commands", |_| Address::Keyspace;
    RunSorted => SortedRan, "/run-sorted",
        |it| Address::Board(&it.board, ShardAt::default(), it.home.as_ref());
    Subscribe => (), "/subscribe", |_| Address::Keyspace;
    FindKey => KeyFound, "/find-key", |it| Address::Root(&it.key);
}

/// The arguments of a command, its name first. Never empty.
pub type Arguments = Vec<String>;

/// Edge → keyspace: runs these commands, in their order. Each has a valid number of words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunCommands {
    /// The datacenter of the client: the home of new counters.
    pub datacenter: Datacenter,
    /// The commands.
    pub commands: Vec<Arguments>,
    /// Whether they are a transaction: no other command may run between them.
    pub is_transaction: bool,
    /// The names of these attempts, if the client sent a key for them.
    pub attempts: Option<Attempts>,
    /// Whose part of the room for values and keys they fill.
    pub account: AccountId,
}

/// The names of the attempts of one request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempts {
    /// The caller, as quotas account for it.
    pub caller: u64,
    /// The hash of the request.
    pub request: u64,
    /// The name of each command; `None` for one that reads.
    pub names: Vec<Option<WriteKey>>,
}

/// The name of one attempt, and the hash of its request.
pub type AttemptName = (WriteKey, u64);

/// The channels of a stream, or patterns of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Channels {
    /// Whether these are patterns.
    pub is_pattern: bool,
    /// The channels, or the patterns.
    pub names: Vec<String>,
}

/// Edge → keyspace: adds this listener. Answered by its stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subscribe {
    /// What it listens to.
    pub channels: Channels,
    /// The caller's key.
    pub caller: Owner,
}

/// Keyspace → board: runs these commands of a sorted set, in their order and in one commit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunSorted {
    /// The board.
    pub board: CounterId,
    /// The commands.
    pub commands: Vec<Arguments>,
    /// The names of these attempts, one for each command; `None` for one without a name.
    pub names: Vec<Option<AttemptName>>,
    /// Whether replies to new attempts may be stored. Without room commands with names are refused.
    pub may_keep: bool,
    /// Whether a board may be created.
    pub may_begin: bool,
    /// Whether the members of the board are removed first.
    pub is_anew: bool,
    /// The datacenter of the client: the home of a board that has none.
    pub home: Option<Datacenter>,
}

/// The effect of a command on a sorted set. Sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum SetChange {
    /// No effect.
    #[default]
    Same,
    /// Members or scores have changed.
    Changed,
    /// It has no members any more.
    Emptied,
}

/// How many replies, and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptSize {
    /// The number of replies.
    pub replies: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl KeptSize {
    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            replies: self.replies.saturating_add(other.replies),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }
}

/// The result of commands of a sorted set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SortedRan {
    /// Their replies; `None` where there is no board and none may be created.
    pub replies: Option<Vec<Reply>>,
    /// The changes of each command, as far as they are reported.
    pub changes: Vec<SetChange>,
    /// What was stored of the replies.
    pub kept: KeptSize,
}

impl RunSorted {
    /// Commands on an existing board.
    pub fn on(board: &CounterId, commands: Vec<Arguments>) -> Self {
        Self {
            board: board.clone(),
            commands,
            names: Vec::new(),
            may_keep: false,
            may_begin: false,
            is_anew: false,
            home: None,
        }
    }
}

/// Keyspace → directory: asks whether a counter or a board has this name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FindKey {
    /// The name.
    pub key: CounterId,
}

/// What has a name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyFound {
    /// A counter.
    pub is_counter: bool,
    /// A board; it may have ended.
    pub is_board: bool,
}
