//! The batches of an inbox that are in flight, and the memory that they take.

use std::collections::HashMap;

use tally_core::counter::memory::{INBOXES_BYTES_MAX, MemoryShare};
use tally_host::Host;
use tally_shared::memory::{self, MemoryKind};

/// The memory of a batch while it is sent, for each byte of its row: an amount takes 64 bytes, of which at least 26 are
/// stored, and its messages.
const BYTES_IN_MEMORY: u64 = 4;

/// The batches in flight, and their part of the memory that all inboxes of this isolate share.
pub(super) struct Sending {
    bytes: HashMap<i64, u64>,
    memory: MemoryShare,
}

impl Sending {
    /// No batches in flight.
    pub(super) fn new(host: &Host) -> Self {
        Self {
            bytes: HashMap::new(),
            memory: memory::share(host, MemoryKind::Inboxes),
        }
    }

    /// Whether a batch is in flight.
    pub(super) fn is_sent(&self, number: i64) -> bool {
        self.bytes.contains_key(&number)
    }

    /// Whether another batch may be read. One batch always may, otherwise nothing would ever be sent.
    pub(super) fn has_room(&self) -> bool {
        self.bytes.is_empty() || self.memory.has_room(INBOXES_BYTES_MAX)
    }

    /// A batch is sent whose row has so many bytes.
    pub(super) fn begin(&mut self, number: i64, row_bytes: u64) {
        let bytes = row_bytes.saturating_mul(BYTES_IN_MEMORY);
        self.bytes.insert(number, bytes);
        self.hold();
    }

    /// A batch is no longer sent.
    pub(super) fn end(&mut self, number: i64) {
        self.bytes.remove(&number);
        self.hold();
    }

    fn hold(&mut self) {
        self.memory.hold(self.bytes.values().sum());
    }
}
