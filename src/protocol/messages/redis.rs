//! Messages of Redis's dialect: from the edge to the owner of the keys.

use serde::{Deserialize, Serialize};

use super::Call;
use crate::core::board::placing::ShardAt;
use crate::core::counter::id::{CounterId, Datacenter};
use crate::core::counter::ledger::WriteKey;
use crate::core::limit::owner::Owner;
use crate::protocol::names::Address;
use crate::protocol::redis::notifications::{SetChange, Subscription};
use crate::protocol::redis::reply::Reply;
use crate::protocol::redis::request::Arguments;

calls! {
    RunCommands => Vec<Reply>, "/run-commands", |_| Address::Keyspace;
    RunSorted => SortedRan, "/run-sorted", |it| Address::Board(&it.board, ShardAt::default(), None), lacks (0, 1);
    Subscribe => (), "/subscribe", |_| Address::Keyspace;
    FindKey => KeyFound, "/find-key", |it| Address::Root(&it.key);
}

/// Edge → keyspace: carry these commands out, in their order. Each has as many words as it must.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunCommands {
    /// Where the client is: the home of counters that are new.
    pub datacenter: Datacenter,
    /// The commands.
    pub commands: Vec<Arguments>,
    /// Whether nothing of others may come between them.
    pub is_transaction: bool,
    /// The names of these tries, one for each command, with the hash of what it asks for; empty where the client sent none.
    pub tries: Vec<(WriteKey, u64)>,
}

/// Edge → keyspace: take this listener. Answered by its stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subscribe {
    /// What it listens to.
    pub subscription: Subscription,
    /// With whose key it comes.
    pub caller: Owner,
}

/// Keyspace → board: carry these commands of a sorted set out, in their order and in one commit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunSorted {
    /// The board.
    pub board: CounterId,
    /// The commands.
    pub commands: Vec<Arguments>,
    /// The names of these tries, as in [`RunCommands`].
    pub tries: Vec<(WriteKey, u64)>,
    /// Whether a board that is not there begins.
    pub may_begin: bool,
    /// Whether its members are removed first.
    pub is_anew: bool,
}

/// What came of commands of a sorted set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SortedRan {
    /// Their replies; `None` where there is no board and none may begin.
    pub replies: Option<Vec<Reply>>,
    /// What each has done, as far as that is told. It lacks at the end in the protocol before.
    pub changes: Vec<SetChange>,
}

impl RunSorted {
    /// Commands on a board that is there.
    pub fn on(board: &CounterId, commands: Vec<Arguments>) -> Self {
        Self {
            board: board.clone(),
            commands,
            tries: Vec::new(),
            may_begin: false,
            is_anew: false,
        }
    }
}

/// Keyspace → directory: what other calls have made under this name?
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FindKey {
    /// The name.
    pub key: CounterId,
}

/// What there is under a name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyFound {
    /// A counter.
    pub is_counter: bool,
    /// A board; it may have ended.
    pub is_board: bool,
}
