//! Messages of operations: what an owner does to a counter as a whole, each at the root, one after the other.

use serde::{Deserialize, Serialize};

use super::Call;
use crate::core::cluster::root::Root;
use crate::core::counter::id::{CounterId, Datacenter};
use crate::core::counter::ledger::WriteKey;
use crate::core::counter::settings::{TtlMode, UniqueHash};
use crate::core::counter::total::Value;
use crate::protocol::names::Address;
use crate::protocol::version::Version;

calls! {
    Operate => Operated, "/operate", |it| Address::Root(&it.counter);
    Keep => Answered, "/keep", |it| Address::Root(&it.counter);
    Settle => Option<Root>, "/settle", |it| Address::Root(&it.counter);
}

/// Edge → root: do this, once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operate {
    /// The counter.
    pub counter: CounterId,
    /// Where the client is.
    pub datacenter: Datacenter,
    /// What to do.
    pub operation: Operation,
    /// Its name, where the client gave one.
    pub key: Option<OperationKey>,
    /// Do it only while this holds.
    pub condition: Option<Condition>,
}

/// What an owner may do to a counter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Operation {
    /// Replace the settings, creating the counter if need be.
    Put(Put),
    /// Set the value, creating the counter if need be.
    Set(Value),
    /// Set the value of a counter that exists to 0.
    Reset,
    /// End it.
    Delete,
    /// Give it a home, if it has none: the only datacenter that has written, or the client's.
    SettleHome,
    /// Bring it back, by an export or a snapshot.
    BringBack(Box<BringBack>),
}

/// What becomes of a counter that lives already when it is brought back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum IfThere {
    /// Nothing: it is refused.
    Refuse,
    /// It is ended, and begins anew.
    Replace,
    /// It stays as it is; what is brought back is added by its cells.
    Keep,
    /// Its value is set.
    Set,
    /// Its value is raised by that.
    Raise,
    /// Its settings are put.
    PutSettings,
}

/// A counter to bring back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BringBack {
    /// What becomes of one that is there.
    pub if_there: IfThere,
    /// Its settings. A home and a floor are put once its cells have what they had.
    pub settings: Put,
    /// When its time to live was set, unix milliseconds; now where nothing is said.
    pub ttl_set_at_ms: Option<i64>,
    /// When it was created, unix milliseconds.
    pub created_at_ms: Option<i64>,
    /// What its value is besides what its cells hold; `None` where it was never set.
    pub base: Option<Value>,
}

/// Settings, as put.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Put {
    /// Shards, or `None` for automatic.
    pub shards: Option<u8>,
    /// Time to live in seconds and its mode, or `None` for ever.
    pub ttl: Option<(u64, TtlMode)>,
    /// The lowest value that a decrement may leave, or `None` for any.
    pub floor: Option<Value>,
    /// The only datacenter that counts, or `None` for all (with a floor: for whichever it is or was).
    pub home: Option<Datacenter>,
    /// The hash of its unique elements, or `None` for that which it has.
    pub unique_hash: Option<UniqueHash>,
}

/// The name of an operation within its counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperationKey {
    /// The key.
    pub key: WriteKey,
    /// Hash of what it asks for.
    pub fingerprint: u64,
}

/// What must hold of a counter for something to be done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Condition {
    /// It exists.
    Exists,
    /// It has not changed since this version: (operations, cells).
    Unchanged(Version),
}

/// What became of an operation, durably.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Operated {
    /// It was done, now or before under this key.
    Done(Done),
    /// It was done before under this key, and answered with this.
    Answered(Answered),
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
    /// It is there already.
    Exists,
}

/// What was done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done {
    /// Whether the counter is new.
    pub created: bool,
    /// The generation that it was done to.
    pub generation: u64,
    /// Datacenters that could not be told, or asked, yet; the root keeps trying.
    pub pending: Vec<Datacenter>,
    /// The home that the counter has then.
    pub home: Option<Datacenter>,
    /// Whether this is a repeat whose first answer was not kept: its sender may have been cut off.
    pub is_repeat: bool,
}

/// Edge → root: this is what the operation was answered with. The first answer is kept, and comes back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Keep {
    /// The counter.
    pub counter: CounterId,
    /// The operation's key.
    pub key: WriteKey,
    /// The answer.
    pub answer: Answered,
}

/// An answer that was given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answered {
    /// Its status.
    pub status: u16,
    /// Its JSON.
    pub body: String,
}

/// Aggregator → root: a datacenter that the last operation could not observe answers now. The answer is the
/// root as it is then; `None` where the counter has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settle {
    /// The counter.
    pub counter: CounterId,
}
