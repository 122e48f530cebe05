//! The senders that put writes of a counter into a queue of the platform, as its root knows them, and their rows.
//!
//! Invariants: a session of a sender is in its row, and [`InboxId::of_sessions`] in the root, before the sender may
//! send. The latter stays until no session is open and the leads have counted all writes that were accepted in former
//! ones.

use std::cell::Cell;

use crate::directory::roots::lead_calls::LEADS_AT_ONCE;
use crate::kit::store::{Store, blob, integer};
use tally_core::cluster::root::Root;
use tally_core::counter::id::{CounterId, Datacenter};
use tally_core::counter::ledger::WriteKey;
use tally_core::counter::numbered_writes::Numbers;
use tally_core::counter::queue::sessions::SenderLane;
use tally_core::counter::queue::{InboxId, QUEUE_HOLDS_MS};
use tally_core::isolate::open_slots::ObjectUser;
use tally_host::Host;
use tally_host::object::SqlValue;
use tally_shared::concurrency::all_settled;
use tally_shared::open_objects;
use tally_wire::messages::{CloseSession, Fault, OpenSession, ReadNumbers};
use tally_wire::names::CellAddress;
use tally_wire::stored::Damage;

/// One row for each sender of a counter. `holds`: whether a write of it may wait; `at`: when the row was written.
pub(crate) const SENDERS_SCHEMA: &str = "CREATE TABLE IF NOT EXISTS senders (id TEXT NOT NULL, lane BLOB NOT NULL, \
    at INTEGER NOT NULL, holds INTEGER NOT NULL, body BLOB NOT NULL, PRIMARY KEY (id, lane)) WITHOUT ROWID";

/// The most senders of a counter that its root stores, usually 80 bytes each: a read that asks whether all is counted
/// reads 330 KB. For further senders a single row has the day of the last.
const SENDERS_MAX: i64 = 4_096;

/// How often the row of an open session is rewritten, milliseconds: its time bounds how long the queue may hold writes
/// of it.
const WRITTEN_EVERY_MS: i64 = 86_400_000;

/// How long the row of a sender without queued writes is kept, milliseconds: it detects a late copy of a message that
/// opened a session. Older rows are deleted at the same interval.
const KEPT_MS: i64 = 3_600_000;

/// How long a lead may take to report its decisions, milliseconds.
const NUMBERS_MS_MAX: u64 = 1_000;

/// The row of a sender: its lane, when it was written, and its state.
type Sender = (WriteKey, i64, SenderLane);

/// The senders of the counters of one partition.
pub(super) struct Senders {
    host: Host,
    store: Store,
    /// When rows were last deleted, unix milliseconds.
    deleted_ms: Cell<i64>,
}

impl Senders {
    /// The senders in an object's database.
    pub(super) fn new(host: &Host, store: &Store) -> Self {
        Self {
            host: host.clone(),
            store: store.clone(),
            deleted_ms: Cell::default(),
        }
    }

    /// Whether the session that is to be opened is closed.
    ///
    /// # Errors
    /// `Unavailable` where SQLite refuses, `Broken` for an unreadable row; as for all methods below.
    pub(super) fn is_closed(&self, open: &OpenSession) -> Result<bool, Fault> {
        let known = self.row(&open.counter, open.lane)?;
        Ok(known.is_some_and(|(_, _, known)| known.is_closed(open.session)))
    }

    /// Whether a sender is stored, or there is room for another.
    pub(super) fn has_room(&self, open: &OpenSession) -> Result<bool, Fault> {
        if self.row(&open.counter, open.lane)?.is_some() {
            return Ok(true);
        }
        let rows = self.store.run(
            "SELECT COUNT(*) FROM senders WHERE id = ? AND holds = 1",
            vec![open.counter.as_str().into()],
        )?;
        let count = rows.first().and_then(|row| row.first());
        Ok(count.and_then(integer).unwrap_or(0) < SENDERS_MAX)
    }

    /// Opens a session of the current generation. Returns whether it is open: it may have been closed by now.
    pub(super) fn open(&self, open: &OpenSession, generation: u64) -> Result<bool, Fault> {
        let known = self.row(&open.counter, open.lane)?;
        let (_, at_ms, mut known) = known.unwrap_or((open.lane, 0, SenderLane::default()));
        let is_new = known.open(generation, open.session);
        if known.is_closed(open.session) {
            return Ok(false);
        }
        if is_new || self.host.now_ms().saturating_sub(at_ms) >= WRITTEN_EVERY_MS {
            self.put(&open.counter, open.lane, &known)?;
        }
        Ok(true)
    }

    /// Closes a session.
    pub(super) fn close(&self, close: &CloseSession) -> Result<(), Fault> {
        let known = self.row(&close.counter, close.lane)?;
        let mut known = known.map(|(_, _, known)| known).unwrap_or_default();
        if !known.is_closed(close.session) {
            known.close(close.session, &close.accepted);
            self.put(&close.counter, close.lane, &known)?;
        }
        let now_ms = self.host.now_ms();
        if now_ms.abs_diff(self.deleted_ms.get()) >= KEPT_MS.unsigned_abs() {
            self.deleted_ms.set(now_ms);
            self.delete_old(now_ms)?;
        }
        Ok(())
    }

    /// Asks leads whether all writes of closed sessions are counted, if none is open. Needs no lock.
    pub(super) async fn reconcile(&self, counter: &CounterId, root: &Root) -> Result<(), Fault> {
        let held = self.that_hold(counter, root)?;
        let is_open = |(_, _, known): &Sender| known.is_open(root.generation);
        if held.is_empty() || held.iter().any(is_open) {
            return Ok(());
        }
        let lanes: Vec<WriteKey> = held.iter().map(|(lane, _, _)| *lane).collect();
        let ask = |datacenter: &Datacenter| {
            let read = ReadNumbers {
                to: CellAddress::lead(counter, datacenter),
                lanes: lanes.clone(),
            };
            async move {
                open_objects::call_admitted(&self.host, &read, ObjectUser::Change, NUMBERS_MS_MAX)
                    .await
            }
        };
        let answers = all_settled(root.datacenters.iter().map(ask), LEADS_AT_ONCE).await;
        let answers: Vec<Vec<Numbers>> = answers.into_iter().flatten().collect();
        for (index, lane) in lanes.into_iter().enumerate() {
            let by: Vec<&Numbers> = answers
                .iter()
                .filter_map(|lanes| lanes.get(index))
                .collect();
            // The row also has writes that were accepted meanwhile.
            let Some((_, _, mut known)) = self.row(counter, lane)? else {
                continue;
            };
            if known.expire_accepted(&by) {
                self.put(counter, lane, &known)?;
            }
        }
        Ok(())
    }

    /// Senders of which the queue may hold writes of the current generation.
    pub(super) fn that_hold(&self, counter: &CounterId, root: &Root) -> Result<Vec<Sender>, Fault> {
        if !root.inboxes.contains(&InboxId::of_sessions()) {
            return Ok(Vec::new());
        }
        let rows = self.store.run(
            "SELECT lane, at, body FROM senders WHERE id = ? AND holds = 1",
            vec![counter.as_str().into()],
        )?;
        let senders = rows.iter().map(|row| self.sender_of(row));
        let mut senders: Vec<Sender> = senders.collect::<Result<_, Fault>>()?;
        let since_ms = self.host.now_ms() - WRITTEN_EVERY_MS - QUEUE_HOLDS_MS;
        senders.retain(|(_, at_ms, known)| *at_ms > since_ms && known.may_hold(root.generation));
        Ok(senders)
    }

    /// Records that the queue holds nothing of the current generation, because its root did not know any sender.
    pub(super) fn void(&self, counter: &CounterId) -> Result<(), Fault> {
        self.store.run(
            "UPDATE senders SET holds = 0 WHERE id = ? AND holds = 1",
            vec![counter.as_str().into()],
        )?;
        Ok(())
    }

    fn row(&self, counter: &CounterId, lane: WriteKey) -> Result<Option<Sender>, Fault> {
        let rows = self.store.run(
            "SELECT lane, at, body FROM senders WHERE id = ? AND lane = ?",
            vec![counter.as_str().into(), lane.0.to_vec().into()],
        )?;
        rows.first().map(|row| self.sender_of(row)).transpose()
    }

    fn put(&self, counter: &CounterId, lane: WriteKey, known: &SenderLane) -> Result<(), Fault> {
        self.store.run(
            "INSERT OR REPLACE INTO senders VALUES (?, ?, ?, ?, ?)",
            vec![
                counter.as_str().into(),
                lane.0.to_vec().into(),
                self.host.now_ms().into(),
                i32::from(known.holds()).into(),
                self.store.put(known)?,
            ],
        )?;
        Ok(())
    }

    /// Deletes rows of senders from which no message can come any more, and of those whose writes are over.
    fn delete_old(&self, now_ms: i64) -> Result<(), Fault> {
        self.store.run(
            "DELETE FROM senders WHERE (holds = 0 AND at <= ?) OR at <= ?",
            vec![
                (now_ms - KEPT_MS).into(),
                (now_ms - WRITTEN_EVERY_MS - QUEUE_HOLDS_MS).into(),
            ],
        )?;
        Ok(())
    }

    fn sender_of(&self, row: &[SqlValue]) -> Result<Sender, Fault> {
        let damaged = || self.store.damaged(Damage::Changed);
        let [lane, at_ms, body] = row else {
            return Err(damaged());
        };
        let lane = blob(lane).and_then(|lane| lane.try_into().ok());
        Ok((
            WriteKey(lane.ok_or_else(damaged)?),
            integer(at_ms).ok_or_else(damaged)?,
            self.store.get(body)?,
        ))
    }
}
