//! The rows of an inbox.

use std::cell::Cell;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::kit::store::{Store, blob, integer};
use tally_core::counter::id::CounterId;
use tally_core::counter::nonces::Nonces;
use tally_core::counter::queue::inbox::{DrainWait, InboxBatch, InboxState, NewBatch, last_within};
use tally_core::counter::queue::write_outcome::DeadLetter;
use tally_core::counter::queue::{
    BATCH_LOG_BYTES_MAX, DEAD_LETTERS_MAX, InboxId, LOGGED_HEAD_BYTES, LogRow, LogRowHead, RETRY_MS,
};
use tally_host::object::SqlValue;
use tally_wire::messages::{DeadLetters, Fault, decode, encode};
use tally_wire::stored;

const SCHEMA: &[&str] = &[
    "CREATE TABLE IF NOT EXISTS log (seq INTEGER PRIMARY KEY, body BLOB NOT NULL)",
    "CREATE TABLE IF NOT EXISTS batches (number INTEGER PRIMARY KEY, tries INTEGER NOT NULL, \
        due_at INTEGER NOT NULL, body BLOB NOT NULL)",
    "CREATE TABLE IF NOT EXISTS known (id TEXT PRIMARY KEY, generation INTEGER NOT NULL) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS dead (seq INTEGER PRIMARY KEY AUTOINCREMENT, body BLOB NOT NULL)",
    "CREATE TABLE IF NOT EXISTS state (name TEXT PRIMARY KEY, body BLOB NOT NULL) WITHOUT ROWID",
];

/// The bytes of a row of the log that are read for its head: the head after a frame of 6 bytes.
const HEAD_BYTES: i64 = LOGGED_HEAD_BYTES + 6;

/// The most counters whose generation is stored, about 60 bytes each. Forgetting one costs a call to the root.
const KNOWN_MAX: i64 = 100_000;

/// The rows of an inbox.
pub struct InboxStore {
    store: Store,
    /// An upper bound of the number of stored generations.
    known: Cell<i64>,
}

impl InboxStore {
    /// The rows of an object's database.
    pub fn new(store: Store) -> Self {
        Self {
            store,
            known: Cell::new(KNOWN_MAX),
        }
    }

    /// The database.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Creates missing tables, and loads the state: only the heads of the newest rows of the log are read. Cost: O(rows
    /// since the nonces were written).
    ///
    /// # Errors
    /// `Unreadable` for a schema from the future, `Unavailable` where SQLite refuses; as for all methods below.
    pub fn load(&self) -> Result<InboxState, Fault> {
        if !self.store.has_schema()? {
            self.store.create_schema(SCHEMA)?;
        }
        let nonces: Nonces = self.state("nonces")?.unwrap_or_default();
        let me = self.state("me")?;
        let nonces_upto = self.state("nonces_upto")?.unwrap_or(0);
        let log = self
            .store
            .run("SELECT MIN(seq), MAX(seq) FROM log", vec![])?;
        let log = log.first().and_then(|row| match row.as_slice() {
            [first, last] => Some((integer(first)?, integer(last)?)),
            _ => None,
        });
        let rows = self.store.run(
            "SELECT seq, substr(body, 1, ?) FROM log WHERE seq > ? ORDER BY seq",
            vec![HEAD_BYTES.into(), nonces_upto.into()],
        )?;
        let read = |row: &Vec<_>| -> Option<(i64, Option<LogRowHead>)> {
            // The whole row is read, and checked, when it becomes part of a batch.
            let head = row.get(1).and_then(blob).map(stored::beginning);
            let head = head.and_then(|head| decode::<LogRowHead>(head).ok());
            Some((row.first().and_then(integer)?, head))
        };
        let batch = self.number("SELECT MAX(number) FROM batches")?;
        let newer = rows.iter().filter_map(read);
        Ok(InboxState::restore(
            me,
            (nonces, nonces_upto),
            batch,
            log,
            newer,
        ))
    }

    fn number(&self, sql: &str) -> Result<i64, Fault> {
        let rows = self.store.run(sql, vec![])?;
        let number = rows.first().and_then(|row| row.first()).and_then(integer);
        Ok(number.unwrap_or(0))
    }

    fn state<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, Fault> {
        let rows = self
            .store
            .run("SELECT body FROM state WHERE name = ?", vec![name.into()])?;
        let body = rows.first().and_then(|row| row.first());
        body.map(|body| self.store.get(body)).transpose()
    }

    fn put_state<T: Serialize>(&self, name: &str, value: &T) -> Result<(), Fault> {
        self.store.run(
            "INSERT OR REPLACE INTO state VALUES (?, ?)",
            vec![name.into(), self.store.put(value)?],
        )?;
        Ok(())
    }

    /// Writes the name of this inbox.
    pub fn put_me(&self, me: &InboxId) -> Result<(), Fault> {
        self.put_state("me", me)
    }

    /// The generation that the root has named for a counter.
    pub fn generation_of(&self, counter: &CounterId) -> Result<Option<u64>, Fault> {
        let rows = self.store.run(
            "SELECT generation FROM known WHERE id = ?",
            vec![counter.as_str().into()],
        )?;
        let generation = rows.first().and_then(|row| row.first()).and_then(integer);
        Ok(generation.and_then(|number| u64::try_from(number).ok()))
    }

    /// Stores a generation.
    pub fn put_generation(&self, counter: &CounterId, generation: u64) -> Result<(), Fault> {
        let generation = i64::try_from(generation)
            .map_err(|_| Fault::Broken("a generation is too large".to_owned()))?;
        if self.known.get() >= KNOWN_MAX {
            self.known.set(self.number("SELECT COUNT(*) FROM known")?);
        }
        if self.known.get() >= KNOWN_MAX {
            self.store.run("DELETE FROM known", vec![])?;
            self.known.set(0);
        }
        self.known.set(self.known.get() + 1);
        self.store.run(
            "INSERT OR REPLACE INTO known VALUES (?, ?)",
            vec![counter.as_str().into(), generation.into()],
        )?;
        Ok(())
    }

    /// Deletes a counter's generation.
    pub fn forget(&self, counter: &CounterId) -> Result<(), Fault> {
        let sql = "DELETE FROM known WHERE id = ?";
        self.store.run(sql, vec![counter.as_str().into()])?;
        Ok(())
    }

    /// Writes a row of the log, and with it the nonces of appends where they are due.
    pub fn log(&self, seq: i64, row: &LogRow, nonces: Option<&Nonces>) -> Result<(), Fault> {
        let put = || {
            let sql = "INSERT INTO log VALUES (?, ?)";
            self.store.run(sql, vec![seq.into(), self.store.put(row)?])
        };
        match nonces {
            None => put().map(|_| ()),
            Some(nonces) => self.store.atomically(|| {
                put()?;
                self.put_nonces(nonces, seq)
            }),
        }
    }

    fn put_nonces(&self, nonces: &Nonces, upto_seq: i64) -> Result<(), Fault> {
        self.put_state("nonces", nonces)?;
        self.put_state("nonces_upto", &upto_seq)
    }

    /// The first rows of the log, within the number and length of one batch; `None` for one that can never be read. A
    /// damaged row stops all after it, so that acknowledged events stay until it is repaired.
    pub fn first_rows(&self, limit: u32) -> Result<Vec<(i64, Option<LogRow>)>, Fault> {
        let sql = "SELECT seq, length(body) FROM log ORDER BY seq LIMIT ?";
        let rows = self.store.run(sql, vec![i64::from(limit).into()])?;
        let lengths: Vec<(i64, u64)> = rows.iter().filter_map(numbers).collect();
        let Some(last) = last_within(&lengths, BATCH_LOG_BYTES_MAX) else {
            return Ok(Vec::new());
        };
        let sql = "SELECT seq, body FROM log WHERE seq <= ? ORDER BY seq";
        let rows = self.store.run(sql, vec![last.into()])?;
        let read = |row: &Vec<_>| match row.as_slice() {
            [seq, body] => {
                let seq = integer(seq)?;
                let body = self.store.body(body);
                Some(body.map(|body| (seq, decode(body).ok())))
            }
            _ => None,
        };
        rows.iter().filter_map(read).collect()
    }

    /// Turns rows of the log into a batch, and into rows of deferred writes, all or nothing.
    pub fn begin(
        &self,
        next: &NewBatch,
        waiting: &[InboxBatch],
        head: &InboxState,
        now_ms: i64,
    ) -> Result<(), Fault> {
        self.store.atomically(|| {
            self.put_nonces(&head.nonces, head.log.1)?;
            let upto = vec![next.upto_seq.into()];
            self.store.run("DELETE FROM log WHERE seq <= ?", upto)?;
            self.bury(&next.dead)?;
            for row in waiting {
                self.put_batch(row, now_ms + RETRY_MS.1)?;
            }
            self.put_batch(&next.batch, now_ms)
        })
    }

    fn put_batch(&self, batch: &InboxBatch, due_at_ms: i64) -> Result<(), Fault> {
        if batch.deliveries.is_empty() {
            let sql = "DELETE FROM batches WHERE number = ?";
            self.store.run(sql, vec![batch.number.into()])?;
            return Ok(());
        }
        self.store.run(
            "INSERT OR REPLACE INTO batches VALUES (?, ?, ?, ?)",
            vec![
                batch.number.into(),
                i64::from(batch.tries).into(),
                due_at_ms.into(),
                self.store.put(&batch.deliveries)?,
            ],
        )?;
        Ok(())
    }

    /// Stores the rest of a batch, or deletes it, and stores its dead letters.
    pub fn end(
        &self,
        batch: &InboxBatch,
        due_at_ms: i64,
        dead: &[DeadLetter],
    ) -> Result<(), Fault> {
        self.store.atomically(|| {
            self.bury(dead)?;
            self.put_batch(batch, due_at_ms)
        })
    }

    /// Due batches: their numbers and lengths in bytes.
    pub fn due_batches(&self, now_ms: i64) -> Result<Vec<(i64, u64)>, Fault> {
        let sql = "SELECT number, length(body) FROM batches WHERE due_at <= ? ORDER BY number";
        let rows = self.store.run(sql, vec![now_ms.into()])?;
        Ok(rows.iter().filter_map(numbers).collect())
    }

    /// The next batch after a number.
    pub fn next_batch(&self, number: i64) -> Result<Option<InboxBatch>, Fault> {
        let sql = "SELECT MIN(number) FROM batches WHERE number > ?";
        let rows = self.store.run(sql, vec![number.into()])?;
        match rows.first().and_then(|row| row.first()).and_then(integer) {
            Some(next) => self.batch(next),
            None => Ok(None),
        }
    }

    /// When the oldest waiting event was acknowledged, unix milliseconds: in the first batch, or else in the log's
    /// first row.
    pub fn oldest_ms(&self) -> Result<Option<i64>, Fault> {
        if let Some(batch) = self.next_batch(0)? {
            let seconds = batch
                .deliveries
                .iter()
                .flat_map(|delivery| &delivery.write.past);
            let oldest = seconds.map(|(second, _)| second.saturating_mul(1_000));
            return Ok(oldest.min());
        }
        let sql = "SELECT substr(body, 1, ?) FROM log ORDER BY seq LIMIT 1";
        let rows = self.store.run(sql, vec![HEAD_BYTES.into()])?;
        let head = rows.first().and_then(|row| row.first()).and_then(blob);
        let head = head.map(stored::beginning);
        let head = head.and_then(|head| decode::<LogRowHead>(head).ok());
        Ok(head.map(|head| head.at_ms))
    }

    /// Makes one batch due now.
    pub fn hurry_one(&self, number: i64, now_ms: i64) -> Result<(), Fault> {
        let sql = "UPDATE batches SET due_at = ? WHERE number = ?";
        self.store.run(sql, vec![now_ms.into(), number.into()])?;
        Ok(())
    }

    /// Whether a batch up to a number holds events of a counter. One batch is in memory at a time.
    pub fn holds(&self, upto: i64, counter: &CounterId) -> Result<bool, Fault> {
        // Bytes that equal the encoded id are mostly that id; the batch is decoded to be sure.
        let sql = "SELECT number FROM batches WHERE number <= ? AND instr(body, ?) > 0";
        let id = encode(counter)?;
        let rows = self.store.run(sql, vec![upto.into(), id.into()])?;
        for number in rows.iter().filter_map(|row| row.first().and_then(integer)) {
            let batch = self.batch(number)?;
            if !DrainWait::is_done(batch.as_slice(), counter) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// A batch, if it is not completed.
    pub fn batch(&self, number: i64) -> Result<Option<InboxBatch>, Fault> {
        let sql = "SELECT tries, body FROM batches WHERE number = ?";
        let rows = self.store.run(sql, vec![number.into()])?;
        let Some([tries, body]) = rows.first().map(Vec::as_slice) else {
            return Ok(None);
        };
        let deliveries = decode(self.store.body(body)?);
        Ok(Some(InboxBatch {
            number,
            tries: integer(tries)
                .and_then(|tries| u32::try_from(tries).ok())
                .unwrap_or(0),
            is_broken: deliveries.is_err(),
            deliveries: deliveries.unwrap_or_default(),
        }))
    }

    /// The number of batches that are not completed.
    pub fn count_batches(&self) -> Result<u64, Fault> {
        let count = self.number("SELECT COUNT(*) FROM batches")?;
        Ok(u64::try_from(count).unwrap_or(0))
    }

    /// The next time at which a batch is due, unix milliseconds; 0 for none.
    pub fn next_due_ms(&self) -> Result<i64, Fault> {
        self.number("SELECT MIN(due_at) FROM batches")
    }

    /// Makes all batches due now.
    pub fn hurry(&self, now_ms: i64) -> Result<(), Fault> {
        let sql = "UPDATE batches SET due_at = ? WHERE due_at > ?";
        self.store.run(sql, vec![now_ms.into(), now_ms.into()])?;
        Ok(())
    }

    fn bury(&self, dead: &[DeadLetter]) -> Result<(), Fault> {
        if dead.is_empty() {
            return Ok(());
        }
        for letter in dead {
            let sql = "INSERT INTO dead (body) VALUES (?)";
            self.store.run(sql, vec![self.store.put(letter)?])?;
        }
        let kept = u64::try_from(self.number("SELECT COUNT(*) FROM dead")?).unwrap_or(0);
        let many = kept.saturating_sub(DEAD_LETTERS_MAX);
        if many > 0 {
            let dropped = self.dropped()?.saturating_add(many);
            let many = i64::try_from(many).unwrap_or(i64::MAX);
            let sql = "DELETE FROM dead WHERE seq IN (SELECT seq FROM dead ORDER BY seq LIMIT ?)";
            self.store.run(sql, vec![many.into()])?;
            self.put_state("dropped", &dropped)?;
        }
        Ok(())
    }

    fn dropped(&self) -> Result<u64, Fault> {
        Ok(self.state("dropped")?.unwrap_or(0))
    }

    /// The newest dead letters, newest first, and how many were dropped early.
    pub fn dead(&self, limit: u32) -> Result<DeadLetters, Fault> {
        let rows = self.store.run(
            "SELECT body FROM dead ORDER BY seq DESC LIMIT ?",
            vec![i64::from(limit).into()],
        )?;
        let read = |row: &Vec<_>| Some(self.store.get(row.first()?));
        let letters: Result<_, Fault> = rows.iter().filter_map(read).collect();
        Ok(DeadLetters {
            letters: letters?,
            dropped: self.dropped()?,
        })
    }
}

/// Two columns that are whole numbers.
fn numbers(row: &Vec<SqlValue>) -> Option<(i64, u64)> {
    let [one, other] = row.as_slice() else {
        return None;
    };
    Some((integer(one)?, u64::try_from(integer(other)?).ok()?))
}
