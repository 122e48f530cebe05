//! Messages of the queued path.

use serde::{Deserialize, Serialize};

use super::call::Call;
use super::read::{GlobalSum, Read};
use crate::names::{Address, CellAddress};
use tally_core::counter::id::CounterId;
use tally_core::counter::ledger::WriteKey;
use tally_core::counter::nonces::Nonce;
use tally_core::counter::numbered_writes::Numbers;
use tally_core::counter::queue::write_outcome::DeadLetter;
use tally_core::counter::queue::{Event, InboxId, QueuedDelivery};

calls! {
    Append => AppendResult, "/append", |it| Address::Inbox(&it.to);
    TakeOver => AppendResult, "/take-over", |it| Address::Inbox(&it.to);
    Drain => (), "/drain", |it| Address::Inbox(&it.to);
    ReleaseInbox => (), "/release-inbox", |it| Address::Inbox(&it.to);
    AskInbox => bool, "/may-hold", |it| Address::Inbox(&it.to);
    LetInboxesGo => (), "/let-inboxes-go", |it| Address::Root(&it.counter);
    ReadDead => DeadLetters, "/read-dead", |it| Address::Inbox(&it.to);
    RegisterInbox => u64, "/register-inbox", |it| Address::Root(&it.counter);
    OpenSession => Option<u64>, "/open-session", |it| Address::Root(&it.counter);
    CloseSession => (), "/close-session", |it| Address::Root(&it.counter);
    ReadNumbers => Vec<Numbers>, "/read-numbers", |it| Address::Cell(&it.to);
    ReadDrained => Option<GlobalSum>, "/read-drained", |_| Address::Aggregator;
}

/// Root → inbox: asks whether the inbox may hold events of this counter that are acknowledged and not counted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskInbox {
    /// The inbox.
    pub to: InboxId,
    /// The counter.
    pub counter: CounterId,
}

/// Edge → inbox: logs these events, once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Append {
    /// The inbox; an object learns its own name from it.
    pub to: InboxId,
    /// The append's nonce.
    pub nonce: Nonce,
    /// The events.
    pub events: Vec<Event>,
}

/// The result of an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AppendResult {
    /// The events are durable.
    Logged,
    /// The log is full; nothing was logged.
    Full,
}

/// Consumer of a queue → inbox: keeps these dead letters, and continues to try these writes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TakeOver {
    /// The inbox.
    pub to: InboxId,
    /// Events that can never be counted. A repeat keeps them again.
    pub dead: Vec<DeadLetter>,
    /// Events that could not be counted yet. In a repeat, their keys count once.
    pub deliveries: Vec<QueuedDelivery>,
}

/// Root → itself, when somebody reads the counter: drops the inboxes that no longer hold events of the counter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LetInboxesGo {
    /// The counter.
    pub counter: CounterId,
}

/// Aggregator → inbox: counts all events of this counter that it has acknowledged so far.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drain {
    /// The inbox.
    pub to: InboxId,
    /// The counter.
    pub counter: CounterId,
}

/// Root → inbox: this generation is about to end; acknowledge nothing for it without asking again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReleaseInbox {
    /// The inbox.
    pub to: InboxId,
    /// The counter.
    pub counter: CounterId,
    /// The generation.
    pub generation: u64,
}

/// Edge → inbox: asks for its dead letters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadDead {
    /// The inbox.
    pub to: InboxId,
    /// At most this many, the newest.
    pub limit: u32,
}

/// The dead letters of an inbox.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadLetters {
    /// The newest, newest first.
    pub letters: Vec<DeadLetter>,
    /// How many were dropped because there were more than are kept.
    pub dropped: u64,
}

/// Inbox → root: registers an inbox before it acknowledges events of this counter. The
/// answer is the current generation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegisterInbox {
    /// The counter; it is created if needed.
    pub counter: CounterId,
    /// The inbox.
    pub inbox: InboxId,
}

/// Edge → root: opens a session before writes of this counter go into the queue of the platform. The answer is the
/// current generation, or `None` where the session is closed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenSession {
    /// The counter; it is created if needed.
    pub counter: CounterId,
    /// The lane of the writes.
    pub lane: WriteKey,
    /// The number of the session.
    pub session: u64,
}

/// Edge → root: closes a session: no further write of it is accepted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CloseSession {
    /// The counter.
    pub counter: CounterId,
    /// The lane of the writes.
    pub lane: WriteKey,
    /// The number of the session.
    pub session: u64,
    /// The numbers of the writes that the queue has accepted.
    pub accepted: Numbers,
}

/// Root → lead: asks for the decided writes of these lanes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadNumbers {
    /// The lead.
    pub to: CellAddress,
    /// The lanes; the answer is in their order.
    pub lanes: Vec<WriteKey>,
}

/// Edge → aggregator: sums a counter once its inboxes have counted all that they had acknowledged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadDrained {
    /// What to read.
    pub read: Read,
}
