//! The stored form of a table: a log of rows, each with the newest state of the changed keys.
//!
//! Invariants: the rows that are kept are the newest ones, without gaps, and the newest state of every key that is held
//! and stored lies in one of them. So read in order, each key's last state is its newest, and a key without a state was
//! idle. A row is dropped once no key's newest state lies in it or before it. If the log is much longer than its newest
//! states, the keys of its oldest row are written again. So it has at most [`ROWS_MAX`] rows and the one that is
//! written, and each changed byte costs at most about one more written byte.
//!
//! A body is a byte of version, the time of the table's clock, and entries until its end, in postcard. An entry whose
//! subject begins with a zero is no key: it names the owner of the entries after it, or brings named calls of the next
//! key. Builds without owners read it as an idle key.
//!
//! A row lies at a place. The place of the newest dropped row is free: the next row overwrites it, because deleting a
//! row is charged as writing one. Rows that were dropped before are deleted. So the stored rows are those of the log,
//! and at most one before them.
//!
//! Of the named calls of a key, a row has those that have changed since the row before. So a row is also kept as long
//! as a call in it may be known, unless the call is written again with the oldest row.

use alloc::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::clock::Monotone;
use crate::lender::Lender;
use crate::named::KnownCall;
use crate::owner::Owner;
use crate::policy::Policy;

/// The largest body of a row; the platform's rows are 2 MB at most. Entries are 50 KB at the most (a lease at each of
/// 512 borrowers), and the calls of a key 250 KB, so one that begins 310 KB below this fits.
pub const BODY_BYTES_MAX: usize = 1_000_000;

/// The most rows of a limiter's table: it is read from that many at a start.
pub const ROWS_MAX: usize = 1_000;

/// The log may be longer by this than twice the size of its newest states.
const SLACK_BYTES: u64 = 4_000_000;

const VERSION: u8 = 1;

/// A stored row that cannot be read: the operator must act.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken;

/// One key as it is stored.
#[derive(Serialize)]
pub(super) struct StoredRef<'a> {
    pub(super) subject: &'a str,
    pub(super) policy: &'a Policy,
    pub(super) lender: &'a Lender,
}

/// The same, read.
#[derive(Deserialize)]
pub(super) struct Stored {
    pub(super) subject: String,
    pub(super) policy: Policy,
    pub(super) lender: Lender,
}

/// The beginning of the subject of an entry that names an owner; no policy's name is empty.
const OWNER: &str = "\0owner ";

/// The subject of an entry that is followed by the calls of the next key.
const CALLS: &str = "\0calls";

/// A body that is being written.
pub(super) struct Writer {
    body: Vec<u8>,
    /// The owner of the last pushed entry.
    owner: Owner,
}

impl Writer {
    pub(super) fn new(clock: &Monotone) -> Self {
        let body = postcard::to_extend(clock, vec![VERSION]).unwrap_or_default();
        Self {
            body,
            owner: Owner::default(),
        }
    }

    /// Whether there is room for another entry.
    pub(super) fn has_room(&self) -> bool {
        self.body.len() < BODY_BYTES_MAX - 310_000
    }

    /// Appends an entry of this owner, and changed calls of its key. Returns how long the entry is.
    pub(super) fn push(&mut self, entry: &StoredRef<'_>, owner: Owner, calls: &[KnownCall]) -> u64 {
        if owner != self.owner {
            self.owner = owner;
            self.append(&StoredRef {
                subject: &format!("{OWNER}{}", owner.number()),
                policy: entry.policy,
                lender: &Lender::new(entry.policy),
            });
        }
        if !calls.is_empty() {
            self.append(&StoredRef {
                subject: CALLS,
                policy: entry.policy,
                lender: &Lender::new(entry.policy),
            });
            self.extend(calls);
        }
        self.append(entry)
    }

    fn append(&mut self, entry: &StoredRef<'_>) -> u64 {
        let before = self.body.len();
        self.extend(entry);
        u64::try_from(self.body.len().saturating_sub(before)).unwrap_or(0)
    }

    fn extend<T: Serialize + ?Sized>(&mut self, part: &T) {
        // Writing into memory cannot fail, and every part has a known length.
        if let Ok(body) = postcard::to_extend(part, core::mem::take(&mut self.body)) {
            self.body = body;
        }
    }

    pub(super) fn finish(self) -> Vec<u8> {
        self.body
    }
}

/// A body that is being read: the clock, then entries.
pub(super) struct Reader<'a> {
    rest: &'a [u8],
    owner: Owner,
    calls: Vec<KnownCall>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(body: &'a [u8]) -> Result<(Monotone, Self), Broken> {
        let Some((&VERSION, rest)) = body.split_first() else {
            return Err(Broken);
        };
        let (clock, rest) = postcard::take_from_bytes(rest).map_err(|_| Broken)?;
        let (owner, calls) = (Owner::default(), Vec::new());
        Ok((clock, Self { rest, owner, calls }))
    }

    /// The calls of the entry that was read last.
    pub(super) fn calls(&mut self) -> Vec<KnownCall> {
        core::mem::take(&mut self.calls)
    }

    /// The owner of the entry that was read last.
    pub(super) fn owner(&self) -> Owner {
        self.owner
    }

    /// The next entry and its length; nothing at the end.
    pub(super) fn next(&mut self) -> Result<Option<(Stored, u64)>, Broken> {
        while !self.rest.is_empty() {
            let before = self.rest.len();
            let (stored, rest) =
                postcard::take_from_bytes::<Stored>(self.rest).map_err(|_| Broken)?;
            self.rest = rest;
            if stored.subject == CALLS {
                (self.calls, self.rest) = postcard::take_from_bytes(rest).map_err(|_| Broken)?;
                continue;
            }
            let Some(number) = stored.subject.strip_prefix(OWNER) else {
                let bytes = u64::try_from(before - rest.len()).unwrap_or(0);
                return Ok(Some((stored, bytes)));
            };
            self.owner = Owner::of_number(number.parse().map_err(|_| Broken)?);
        }
        Ok(None)
    }
}

/// A row of the log.
#[derive(Clone, Debug)]
struct Row {
    number: u64,
    place: u64,
    bytes: u64,
    /// Keys whose newest state lies in it.
    live: u64,
    /// The slots of the keys that were written into it.
    slots: Vec<usize>,
    /// Until when a call in it may be known, unless it is written again.
    needed_until_ms: i64,
}

/// The index of the rows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Log {
    rows: VecDeque<Row>,
    newest: u64,
    /// The greatest place.
    places: u64,
    /// The place of a dropped row that is still stored.
    free: Option<u64>,
    bytes: u64,
    live_bytes: u64,
}

impl Log {
    /// The number that the next row gets, from 1.
    pub(super) fn next(&self) -> u64 {
        self.newest.saturating_add(1)
    }

    /// The place of the next row.
    pub(super) fn next_place(&self) -> u64 {
        self.free.unwrap_or(self.places.saturating_add(1))
    }

    /// Records a row that is written or read; numbers rise.
    pub(super) fn push(&mut self, place: u64, number: u64, bytes: usize) {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        self.newest = self.newest.max(number);
        self.places = self.places.max(place);
        self.free.take_if(|free| *free == place);
        self.bytes = self.bytes.saturating_add(bytes);
        self.rows.push_back(Row {
            number,
            place,
            bytes,
            live: 0,
            slots: Vec::new(),
            needed_until_ms: i64::MIN,
        });
    }

    /// Records that the newest state of a key lies in the newest row.
    pub(super) fn add(&mut self, slot: usize, bytes: u64) {
        self.live_bytes = self.live_bytes.saturating_add(bytes);
        if let Some(row) = self.rows.back_mut() {
            row.live = row.live.saturating_add(1);
            row.slots.push(slot);
        }
    }

    /// Records that calls lie in the newest row, and until when they may be known.
    pub(super) fn add_calls(&mut self, calls: &[KnownCall]) {
        let until_ms = calls.iter().map(KnownCall::needed_until_ms).max();
        if let Some((row, until_ms)) = self.rows.back_mut().zip(until_ms) {
            row.needed_until_ms = row.needed_until_ms.max(until_ms);
        }
    }

    /// Records that it no longer lies in this row.
    pub(super) fn remove(&mut self, number: u64, bytes: u64) {
        let index = self.rows.binary_search_by_key(&number, |row| row.number);
        if let Some(row) = index.ok().and_then(|index| self.rows.get_mut(index)) {
            row.live = row.live.saturating_sub(1);
            self.live_bytes = self.live_bytes.saturating_sub(bytes);
        }
    }

    /// The row whose keys must be written again, if the log is too long, and the slots of its keys. `calls_bytes` is
    /// the size of all calls that are known.
    pub(super) fn take_oldest(&mut self, calls_bytes: u64) -> Option<(u64, Vec<usize>)> {
        let bytes_max = self
            .live_bytes
            .saturating_add(calls_bytes)
            .saturating_mul(2)
            .saturating_add(SLACK_BYTES);
        let is_long = self.rows.len() >= ROWS_MAX || self.bytes > bytes_max;
        let oldest = self.rows.front_mut().filter(|_| is_long)?;
        oldest.needed_until_ms = i64::MIN;
        Some((oldest.number, core::mem::take(&mut oldest.slots)))
    }

    /// Drops the oldest rows without newest states. Returns the places of rows to be deleted.
    pub(super) fn truncate(&mut self, now_ms: i64) -> Vec<u64> {
        let mut deleted = Vec::new();
        while self.rows.len() > 1 {
            let is_over = |row: &mut Row| row.live == 0 && row.needed_until_ms <= now_ms;
            let Some(row) = self.rows.pop_front_if(is_over) else {
                break;
            };
            self.bytes = self.bytes.saturating_sub(row.bytes);
            deleted.extend(self.free.replace(row.place));
        }
        deleted
    }
}
