//! Messages of Redis's dialect: from the edge to the owner of the keys.

use serde::{Deserialize, Serialize};

use super::Call;
use crate::core::counter::id::Datacenter;
use crate::core::counter::ledger::WriteKey;
use crate::protocol::names::Address;
use crate::protocol::redis::reply::Reply;
use crate::protocol::redis::request::Arguments;

calls! {
    RunCommands => Vec<Reply>, "/run-commands", |_| Address::Keyspace;
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
