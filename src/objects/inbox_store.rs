//! An inbox's rows.

use std::cell::Cell;

use super::store::{Store, blob, integer};
use crate::counter::id::CounterId;
use crate::counter::inbox::{Batch, Head};
use crate::counter::nonces::Nonces;
use crate::counter::queue::{DEAD_LETTERS_MAX, DeadLetter, InboxId, Logged};
use crate::protocol::messages::{DeadLetters, Fault, decode, encode};

const SCHEMA_VERSION: i64 = 1;

const SCHEMA: &[&str] = &[
    "CREATE TABLE IF NOT EXISTS log (seq INTEGER PRIMARY KEY, body BLOB NOT NULL)",
    "CREATE TABLE IF NOT EXISTS batches (number INTEGER PRIMARY KEY, tries INTEGER NOT NULL, \
        due_at INTEGER NOT NULL, body BLOB NOT NULL)",
    "CREATE TABLE IF NOT EXISTS known (id TEXT PRIMARY KEY, generation INTEGER NOT NULL) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS dead (seq INTEGER PRIMARY KEY AUTOINCREMENT, body BLOB NOT NULL)",
    "CREATE TABLE IF NOT EXISTS state (name TEXT PRIMARY KEY, body BLOB NOT NULL) WITHOUT ROWID",
];

/// The most counters whose generation is remembered, about 60 bytes each. Forgetting costs a call to the root.
const KNOWN_MAX: i64 = 100_000;

/// The rows of an inbox.
pub struct InboxStore {
    store: Store,
    /// How many counters are known, at most.
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

    /// Makes the tables where there are none, and reads what is kept in memory. Cost: O(rows of the log).
    ///
    /// # Errors
    /// `Broken` for a schema from the future, `Unavailable` where SQLite refuses; so all below.
    pub fn load(&self) -> Result<Head, Fault> {
        if self.store.schema_version(SCHEMA_VERSION)? != Some(SCHEMA_VERSION) {
            self.store.create_schema(SCHEMA_VERSION, SCHEMA)?;
        }
        let nonces: Nonces = match self.state("nonces")? {
            Some(body) => decode(&body)?,
            None => Nonces::default(),
        };
        let me = self.state("me")?.map(|body| decode(&body)).transpose()?;
        let rows = self
            .store
            .run("SELECT seq, body FROM log ORDER BY seq", vec![])?;
        let read = |row: &Vec<_>| -> Option<(i64, Option<Logged>)> {
            let body = row.get(1).and_then(blob).map(decode::<Logged>);
            Some((row.first().and_then(integer)?, body.and_then(Result::ok)))
        };
        let log: Vec<_> = rows.iter().filter_map(read).collect();
        let batch = self.number("SELECT MAX(number) FROM batches")?;
        let log = log.iter().map(|(seq, row)| (*seq, row.as_ref()));
        Ok(Head::restore(me, nonces, batch, log))
    }

    fn number(&self, sql: &str) -> Result<i64, Fault> {
        let rows = self.store.run(sql, vec![])?;
        let number = rows.first().and_then(|row| row.first()).and_then(integer);
        Ok(number.unwrap_or(0))
    }

    fn state(&self, name: &str) -> Result<Option<Vec<u8>>, Fault> {
        let rows = self
            .store
            .run("SELECT body FROM state WHERE name = ?", vec![name.into()])?;
        let body = rows.first().and_then(|row| row.first()).and_then(blob);
        Ok(body.map(<[u8]>::to_vec))
    }

    fn put_state(&self, name: &str, body: Vec<u8>) -> Result<(), Fault> {
        self.store.run(
            "INSERT OR REPLACE INTO state VALUES (?, ?)",
            vec![name.into(), body.into()],
        )?;
        Ok(())
    }

    /// Writes which inbox this is.
    pub fn put_me(&self, me: &InboxId) -> Result<(), Fault> {
        self.put_state("me", encode(me)?)
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

    /// Remembers a generation.
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

    /// Forgets a counter's generation.
    pub fn forget(&self, counter: &CounterId) -> Result<(), Fault> {
        let sql = "DELETE FROM known WHERE id = ?";
        self.store.run(sql, vec![counter.as_str().into()])?;
        Ok(())
    }

    /// Writes a row of the log.
    pub fn log(&self, seq: i64, row: &Logged) -> Result<(), Fault> {
        self.store.run(
            "INSERT INTO log VALUES (?, ?)",
            vec![seq.into(), encode(row)?.into()],
        )?;
        Ok(())
    }

    /// The first rows of the log; `None` for one that cannot be read.
    pub fn first_rows(&self, limit: u32) -> Result<Vec<(i64, Option<Logged>)>, Fault> {
        let rows = self.store.run(
            "SELECT seq, body FROM log ORDER BY seq LIMIT ?",
            vec![i64::from(limit).into()],
        )?;
        let read = |row: &Vec<_>| match row.as_slice() {
            [seq, body] => Some((integer(seq)?, decode(blob(body)?).ok())),
            _ => None,
        };
        Ok(rows.iter().filter_map(read).collect())
    }

    /// Turns rows of the log into a batch, all or nothing.
    pub fn begin(
        &self,
        batch: &Batch,
        upto_seq: i64,
        nonces: &Nonces,
        dead: &[DeadLetter],
        now_ms: i64,
    ) -> Result<(), Fault> {
        self.store.atomically(|| {
            self.put_state("nonces", encode(nonces)?)?;
            self.store
                .run("DELETE FROM log WHERE seq <= ?", vec![upto_seq.into()])?;
            self.bury(dead)?;
            self.put_batch(batch, now_ms)
        })
    }

    fn put_batch(&self, batch: &Batch, due_at_ms: i64) -> Result<(), Fault> {
        if batch.dues.is_empty() {
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
                encode(&batch.dues)?.into(),
            ],
        )?;
        Ok(())
    }

    /// Keeps what is left of a batch, or nothing of it, and what was given up.
    pub fn end(&self, batch: &Batch, due_at_ms: i64, dead: &[DeadLetter]) -> Result<(), Fault> {
        self.store.atomically(|| {
            self.bury(dead)?;
            self.put_batch(batch, due_at_ms)
        })
    }

    /// Batches that are due.
    pub fn due(&self, now_ms: i64) -> Result<Vec<Batch>, Fault> {
        self.batches(
            "SELECT number, tries, body FROM batches WHERE due_at <= ? ORDER BY number",
            now_ms,
        )
    }

    /// Batches up to a number.
    pub fn upto(&self, number: i64) -> Result<Vec<Batch>, Fault> {
        self.batches(
            "SELECT number, tries, body FROM batches WHERE number <= ? ORDER BY number",
            number,
        )
    }

    fn batches(&self, sql: &str, most: i64) -> Result<Vec<Batch>, Fault> {
        let rows = self.store.run(sql, vec![most.into()])?;
        let mut batches = Vec::with_capacity(rows.len());
        for row in &rows {
            if let [number, tries, body] = row.as_slice() {
                let dues = decode(blob(body).unwrap_or_default());
                batches.push(Batch {
                    number: integer(number).unwrap_or(0),
                    tries: integer(tries)
                        .and_then(|tries| u32::try_from(tries).ok())
                        .unwrap_or(0),
                    is_broken: dues.is_err(),
                    dues: dues.unwrap_or_default(),
                });
            }
        }
        Ok(batches)
    }

    /// How many batches are not done.
    pub fn count_batches(&self) -> Result<u64, Fault> {
        let count = self.number("SELECT COUNT(*) FROM batches")?;
        Ok(u64::try_from(count).unwrap_or(0))
    }

    /// When a batch is next due, unix milliseconds; 0 for none.
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
            self.store.run(sql, vec![encode(letter)?.into()])?;
        }
        let kept = u64::try_from(self.number("SELECT COUNT(*) FROM dead")?).unwrap_or(0);
        let many = kept.saturating_sub(DEAD_LETTERS_MAX);
        if many > 0 {
            let dropped = self.dropped()?.saturating_add(many);
            let many = i64::try_from(many).unwrap_or(i64::MAX);
            let sql = "DELETE FROM dead WHERE seq IN (SELECT seq FROM dead ORDER BY seq LIMIT ?)";
            self.store.run(sql, vec![many.into()])?;
            self.put_state("dropped", encode(&dropped)?)?;
        }
        Ok(())
    }

    fn dropped(&self) -> Result<u64, Fault> {
        let body = self.state("dropped")?;
        body.map_or(Ok(0), |body| decode(&body))
    }

    /// The newest dead letters, newest first, and how many went before their time.
    pub fn dead(&self, limit: u32) -> Result<DeadLetters, Fault> {
        let rows = self.store.run(
            "SELECT body FROM dead ORDER BY seq DESC LIMIT ?",
            vec![i64::from(limit).into()],
        )?;
        let read = |row: &Vec<_>| decode(row.first().and_then(blob)?).ok();
        Ok(DeadLetters {
            letters: rows.iter().filter_map(read).collect(),
            dropped: self.dropped()?,
        })
    }
}
