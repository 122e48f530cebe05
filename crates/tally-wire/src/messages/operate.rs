//! Messages of operations: changes of a counter as a whole, each done at the root, one after the other.

use serde::{Deserialize, Serialize};

use super::call::Call;
use crate::names::Address;
use crate::snapshot::SnapshotCounter;
use crate::version::Version;
use tally_core::callers::account::AccountId;
use tally_core::cluster::root::Root;
use tally_core::counter::id::{CounterId, Datacenter};
use tally_core::counter::ledger::WriteKey;
use tally_core::counter::settings::{TtlMode, UniqueHash};
use tally_core::counter::total::Value;

calls! {
    Operate => OperationOutcome, "/operate", |it| Address::Root(&it.counter);
    StoreAnswer => StoredAnswer, "/keep", |it| Address::Root(&it.counter);
    Reconcile => Option<Root>, "/settle", |it| Address::Root(&it.counter);
}

/// Edge → root: does this, once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operate {
    /// The counter.
    pub counter: CounterId,
    /// The datacenter of the client.
    pub datacenter: Datacenter,
    /// The operation.
    pub operation: Operation,
    /// Its name, where the client gave one.
    pub key: Option<OperationKey>,
    /// The precondition, if any.
    pub condition: Option<OperationCondition>,
}

/// An operation on a counter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Operation {
    /// Replaces the settings; creates the counter if needed.
    Put(Put),
    /// Sets the value; creates the counter if needed.
    Set(Value),
    /// Ends the counter.
    Delete,
    /// Gives it a home, if it has none: the only datacenter that has written, or the client's.
    AssignHome,
    /// Restores it from an export or a snapshot.
    BringBack(Box<RestoreSource>),
}

/// What a restore does with a counter that exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum IfExists {
    /// The restore is refused.
    Refuse,
    /// It is ended and created anew.
    Replace,
    /// It stays as it is; its cells add the restored counts.
    Keep,
    /// Its value is set.
    Set,
    /// Its value is raised by the restored one.
    Raise,
    /// Its settings are replaced.
    PutSettings,
}

/// A counter to restore.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestoreSource {
    /// What is done with an existing one.
    pub if_there: IfExists,
    /// Its settings. A home and a floor are applied once its cells have their counts.
    pub settings: Put,
    /// When its time to live was set, unix milliseconds; now where missing.
    pub ttl_set_at_ms: Option<i64>,
    /// When it was created, unix milliseconds.
    pub created_at_ms: Option<i64>,
    /// Its value without the counts of its cells; `None` where it was never set.
    pub base: Option<Value>,
}

/// Settings, as a client sent them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Put {
    /// Shards, or `None` for automatic.
    pub shards: Option<u8>,
    /// Time to live in seconds and its mode, or `None` for ever.
    pub ttl: Option<(u64, TtlMode)>,
    /// The lowest value that a decrement may leave, or `None` for any.
    pub floor: Option<Value>,
    /// The only datacenter that counts, or `None` for all (with a floor: for the present one).
    pub home: Option<Datacenter>,
    /// The hash of its unique elements, or `None` for the present one.
    pub unique_hash: Option<UniqueHash>,
    /// How long seconds are kept, or `None` for the deployment's default.
    pub seconds_kept: Option<u32>,
}

/// The name of an operation within its counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperationKey {
    /// The key.
    pub key: WriteKey,
    /// Hash of the request.
    pub fingerprint: u64,
    /// Whose part of the room for keys it fills.
    pub account: AccountId,
}

/// A precondition on a counter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum OperationCondition {
    /// It exists.
    Exists,
    /// It has not changed since this version: (operations, cells).
    Unchanged(Version),
}

/// The result of an operation, durably.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum OperationOutcome {
    /// It was done, now or before under this key.
    Done(Done),
    /// It was done before under this key, with this answer.
    Answered(StoredAnswer),
    /// There is no such counter.
    NotFound,
    /// The key was used for something else.
    Reused,
    /// There is no room for another key.
    Full,
    /// It needs a home, and several datacenters have written.
    NeedsHome,
    /// The value is, or would be, below the floor.
    BelowFloor,
    /// The condition does not hold.
    Changed,
    /// It has unique elements of another hash.
    HashMismatch,
    /// It exists already.
    Exists,
    /// The account has no room for another key.
    PartFull(AccountId),
}

/// The effect of an operation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done {
    /// Whether the counter is new.
    pub created: bool,
    /// The generation that it applied to.
    pub generation: u64,
    /// Datacenters that could not be told, or asked, yet; the root keeps trying.
    pub pending: Vec<Datacenter>,
    /// The home that the counter has then.
    pub home: Option<Datacenter>,
    /// Whether this is a repeat whose first answer was not stored. The sender of the first may have been cut off.
    pub is_repeat: bool,
}

/// Edge → root: stores the answer to an operation. The first answer is kept, and returned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreAnswer {
    /// The counter.
    pub counter: CounterId,
    /// The operation's key.
    pub key: WriteKey,
    /// The answer.
    pub answer: StoredAnswer,
}

/// An answer to a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredAnswer {
    /// Its status.
    pub status: u16,
    /// Its JSON.
    pub body: String,
}

/// Aggregator → root: a datacenter that the last operation could not observe answers now. The answer is the root after
/// the datacenter was observed; `None` where the counter has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reconcile {
    /// The counter.
    pub counter: CounterId,
}

impl Put {
    /// The settings of a counter in a snapshot.
    pub fn of_snapshot(kept: &SnapshotCounter) -> Self {
        let settings = &kept.settings;
        Self {
            shards: settings.shards,
            ttl: settings.ttl.map(|ttl| (ttl.seconds, ttl.mode)),
            floor: settings.floor,
            home: kept.home.clone(),
            unique_hash: Some(settings.unique_hash),
            seconds_kept: settings.seconds_kept,
        }
    }
}
