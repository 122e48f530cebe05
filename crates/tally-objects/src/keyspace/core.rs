//! The keyspace in memory: its rows, and the parts that answer its commands.

use std::cell::Cell;
use std::rc::Rc;

use super::boards::Boards;
use super::counters::Counters;
use super::lanes::AddLanes;
use super::listeners::Listeners;
use super::locks::Locks;
use super::postponed_ends::PostponedEnds;
use super::store::KeyspaceStore;
use crate::kit::storage_guard::StorageGuard;
use tally_host::Host;
use tally_redis::reply_error::ReplyError;
use tally_wire::messages::Fault;
use tally_wire::redis::{Reply, UNAVAILABLE};

/// The most times that a command is decided, because others may count meanwhile.
pub(super) const ROUNDS_MAX: usize = 8;

/// How many counters are read or added to at once.
pub(super) const COUNTERS_AT_ONCE: usize = 64;

/// The keyspace.
pub(super) struct KeyspaceCore {
    pub(super) host: Host,
    pub(super) rows: KeyspaceStore,
    pub(super) counters: Rc<Counters>,
    pub(super) lanes: Rc<AddLanes>,
    pub(super) boards: Boards,
    pub(super) elements: ElementLine,
    pub(super) locks: Locks,
    pub(super) listeners: Rc<Listeners>,
    pub(super) ends: PostponedEnds,
    pub(super) storage: StorageGuard,
}

/// The refusal of a command whose keys do not stay as they were read.
pub(super) fn busy() -> ReplyError {
    let text = "others count this key all the time; nothing was done, try again";
    ReplyError::Reply(Reply::err(text))
}

/// The reply to a command of unknown outcome.
pub(super) fn unavailable(fault: &Fault) -> Reply {
    let sentence = "the command may or may not have been carried out";
    Reply::Error(match fault {
        Fault::Unavailable(what) => format!("{UNAVAILABLE} {what}; {sentence}"),
        Fault::TooMany(limit) => {
            format!("ERR there are more than {limit} keys; give a longer prefix")
        }
        other => format!("{UNAVAILABLE} {other}; {sentence}"),
    })
}

pub(super) fn reply_of(done: Result<Reply, ReplyError>) -> Reply {
    match done {
        Ok(reply) | Err(ReplyError::Reply(reply)) => reply,
        Err(ReplyError::Fault(fault)) => unavailable(&fault),
    }
}

/// The lane by which elements reach cells.
pub(super) struct ElementLine {
    pub(super) lane: u64,
    pub(super) next: Cell<u64>,
}

impl ElementLine {
    pub(super) fn new(host: &Host) -> Self {
        Self {
            lane: host.random(),
            next: Cell::new(1),
        }
    }
}
