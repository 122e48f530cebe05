//! Where a bulk body is cut. Each section is summed, counted and released before the next is read. So memory holds the
//! sums of one section, for any number of counters in a body.
//!
//! Invariant: for a body with a key, the bytes alone decide where it is cut. Each section has a key of its own, so a
//! repeated body must be cut in the same places. The charges of this module may therefore never change.

use std::collections::HashSet;

use super::keyed_writes::BodyKey;
use super::{BulkRecord, length};
use crate::idempotency_keys::{fingerprint, section_key};
use tally_core::counter::ledger::WriteKey;

/// What the sums of one section may use: 12,000 counters of about 700 bytes. Four senders at once have room for one
/// section each.
pub const SECTION_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// The charges of a record with a key, in bytes: the most by which it can make the sums grow. In order: for a new
/// counter, for its stamp and its line, and, where present, for an element, an id and a sample.
const CHARGES: [u64; 5] = [700, 64, 96, 176, 256];

/// The charge of a record that writes to a board, in bytes: the size of its write.
pub fn board_line_bytes(record: &[u8]) -> u64 {
    256 + length(record.len())
}

/// A body that has a key, cut into sections.
#[derive(Debug)]
pub struct Sections {
    key: WriteKey,
    bytes_max: u64,
    /// How many sections have ended.
    number: u32,
    bytes: u64,
    names: HashSet<u64>,
    /// Hash of the call and of all records so far.
    chain: u64,
}

impl Sections {
    /// The first section of a body with that key and so many bytes. `call` is the call and its query.
    pub fn new(key: WriteKey, hash: &dyn Fn(&[u8]) -> u64, call: &[&[u8]], bytes_max: u64) -> Self {
        Self {
            key,
            bytes_max,
            number: 0,
            bytes: 0,
            names: HashSet::new(),
            chain: fingerprint(hash, call),
        }
    }

    /// Adds a record: its bytes, and what was read from them. Returns whether the section ends with it. Cost: a hash
    /// of its bytes.
    pub fn add_record(
        &mut self,
        hash: &dyn Fn(&[u8]) -> u64,
        bytes: &[u8],
        record: Option<&BulkRecord<'_>>,
    ) -> bool {
        self.chain = fingerprint(hash, &[&self.chain.to_le_bytes(), bytes]);
        if let Some(record) = record {
            let [counter, line, element, id, sample] = CHARGES;
            let name = record.key.as_bytes();
            let is_new = self.names.insert(hash(name));
            let charges = [
                (is_new, counter + length(name.len())),
                (true, line),
                (record.unique.is_some(), element),
                (record.id.is_some(), id),
                (record.sample.is_some(), sample),
            ];
            let charges = charges.iter().filter(|(applies, _)| *applies);
            self.bytes += charges.map(|(_, bytes)| bytes).sum::<u64>();
        }
        self.bytes >= self.bytes_max
    }

    /// Adds a record that writes to a board, as [`Sections::add_record`].
    pub fn add_board_record(&mut self, hash: &dyn Fn(&[u8]) -> u64, bytes: &[u8]) -> bool {
        self.chain = fingerprint(hash, &[&self.chain.to_le_bytes(), bytes]);
        self.bytes += board_line_bytes(bytes);
        self.bytes >= self.bytes_max
    }

    /// Ends a section that is not the body's last, and returns its key.
    pub fn end(&mut self, hash: &dyn Fn(&[u8]) -> u64) -> BodyKey {
        let key = section_key(hash, self.key, self.number);
        self.number += 1;
        self.bytes = 0;
        self.names = HashSet::new();
        BodyKey {
            key,
            fingerprint: self.chain,
        }
    }

    /// Ends the body's last section, and returns its key. A body of one section is identified by the hash of its bytes,
    /// as a body without sections is.
    pub fn finish(self, hash: &dyn Fn(&[u8]) -> u64, of_body: u64) -> BodyKey {
        let fingerprint = if self.number == 0 {
            of_body
        } else {
            self.chain
        };
        BodyKey {
            key: section_key(hash, self.key, self.number),
            fingerprint,
        }
    }
}
