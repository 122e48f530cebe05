//! The rows of one partition of the directory.

use super::claim_store::CLAIMS_SCHEMA;
use super::operation_store::{OPERATIONS_SCHEMA, Operation};
use super::policies::POLICIES_SCHEMA;
use super::store::{Store, blob, integer, text};
use crate::core::cluster::delta::Marks;
use crate::core::cluster::root::{Entry, prefix_end};
use crate::core::cluster::view::{View, ViewAtRest};
use crate::core::counter::id::{CounterId, Datacenter};
use crate::host::object::Value;
use crate::protocol::messages::{Fault, decode, encode};

/// 2 added claims, 3 operations and views, 4 policies and how often claims have moved; since 5 sketches name their hash, and settings the hash of a counter.
const SCHEMA_VERSION: i64 = 5;

const SCHEMA: &[&str] = &[
    "CREATE TABLE IF NOT EXISTS roots (id TEXT PRIMARY KEY, live INTEGER NOT NULL, due_at INTEGER, \
        body BLOB NOT NULL) WITHOUT ROWID",
    "CREATE INDEX IF NOT EXISTS roots_due ON roots (due_at) WHERE due_at IS NOT NULL",
    "CREATE TABLE IF NOT EXISTS duties (id TEXT NOT NULL, datacenter TEXT NOT NULL, kind INTEGER NOT NULL, \
        generation INTEGER NOT NULL, due_at INTEGER NOT NULL, tries INTEGER NOT NULL, \
        PRIMARY KEY (id, datacenter, kind, generation)) WITHOUT ROWID",
    CLAIMS_SCHEMA,
    OPERATIONS_SCHEMA,
    POLICIES_SCHEMA,
    "CREATE TABLE IF NOT EXISTS views (id TEXT PRIMARY KEY, body BLOB NOT NULL) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS deployment (name TEXT PRIMARY KEY, body BLOB NOT NULL) WITHOUT ROWID",
];

/// First wait before an unreachable lead is told again, and the longest: waits double in between.
const RETRY_MS: (i64, i64) = (1_000, 300_000);

/// What a lead must still be told. A stored format: never renumbered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Telling {
    /// A generation has ended.
    Close,
    /// Settings have changed.
    Configure,
    /// Nothing: it must be heard of, since an operation could not observe it.
    Settle,
}

impl Telling {
    fn number(self) -> i32 {
        match self {
            Self::Close => 0,
            Self::Configure => 1,
            Self::Settle => 2,
        }
    }
}

/// A lead that could not be told something yet.
#[derive(Clone, Debug)]
pub struct Duty {
    /// The counter.
    pub counter: CounterId,
    /// The lead's datacenter.
    pub datacenter: Datacenter,
    /// What it must be told.
    pub telling: Telling,
    /// Of which generation.
    pub generation: u64,
    /// How often it was tried.
    pub tries: u32,
}

/// The rows of a partition.
pub struct DirectoryStore {
    store: Store,
    /// How long claims are kept, milliseconds.
    pub(super) claims_kept_ms: i64,
}

impl DirectoryStore {
    /// The database.
    pub(super) fn store(&self) -> &Store {
        &self.store
    }

    /// Opens the rows, making the tables where there are none.
    ///
    /// # Errors
    /// `Broken` for a schema from the future, `Unavailable` where SQLite refuses.
    pub fn open(store: Store, claims_kept_ms: i64) -> (Self, Result<(), Fault>) {
        let rows = Self {
            store,
            claims_kept_ms,
        };
        let opened = rows.prepare();
        (rows, opened)
    }

    /// Makes the tables where there are none.
    ///
    /// # Errors
    /// As [`DirectoryStore::open`].
    pub fn prepare(&self) -> Result<(), Fault> {
        match self.store.schema_version(SCHEMA_VERSION)? {
            Some(SCHEMA_VERSION) => Ok(()),
            Some(version @ ..SCHEMA_VERSION) => Err(Fault::Broken(format!(
                "the stored schema has version {version}, whose settings do not name a hash; this build reads from {SCHEMA_VERSION} on: delete the data, or go back to the build that wrote it"
            ))),
            _ => self.store.create_schema(SCHEMA_VERSION, SCHEMA),
        }
    }

    /// What is known of a counter.
    ///
    /// # Errors
    /// `Unavailable` where SQLite refuses; so all below.
    pub fn entry(&self, counter: &CounterId) -> Result<Option<Entry>, Fault> {
        let rows = self.store.run(
            "SELECT body FROM roots WHERE id = ?",
            vec![counter.as_str().into()],
        )?;
        rows.first()
            .and_then(|row| row.first())
            .and_then(blob)
            .map(decode)
            .transpose()
    }

    /// Writes what is known of a counter, with the duties that arise from it and the operation that it is the
    /// outcome of, all or nothing.
    pub fn put(
        &self,
        counter: &CounterId,
        entry: &Entry,
        duties: &[Duty],
        operation: Option<&Operation>,
        now_ms: i64,
    ) -> Result<(), Fault> {
        self.store.atomically(|| {
            if let Some(operation) = operation {
                self.put_operation(counter, operation, entry.generation(), now_ms)?;
            }
            if let Entry::Ended { .. } = entry {
                let id = vec![counter.as_str().into()];
                self.store.run("DELETE FROM views WHERE id = ?", id)?;
            }
            self.store.run(
                "INSERT INTO roots VALUES (?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET \
                    live = excluded.live, due_at = excluded.due_at, body = excluded.body",
                vec![
                    counter.as_str().into(),
                    i32::from(matches!(entry, Entry::Live(_))).into(),
                    entry.due_at_ms().into(),
                    encode(entry)?.into(),
                ],
            )?;
            // The first attempt is made at once by the caller; this is for when it fails.
            duties
                .iter()
                .try_for_each(|duty| self.put_duty(duty, now_ms + RETRY_MS.0))
        })
    }

    fn put_duty(&self, duty: &Duty, due_at_ms: i64) -> Result<(), Fault> {
        let mut values = key_of(duty)?;
        values.extend([due_at_ms.into(), i64::from(duty.tries).into()]);
        self.store.run(
            "INSERT OR REPLACE INTO duties VALUES (?, ?, ?, ?, ?, ?)",
            values,
        )?;
        Ok(())
    }

    /// Lets a duty wait longer, after another failure.
    pub fn postpone(&self, duty: &Duty, now_ms: i64) -> Result<(), Fault> {
        let (first, longest) = RETRY_MS;
        let wait = first.saturating_mul(1 << duty.tries.min(20)).min(longest);
        self.put_duty(
            &Duty {
                tries: duty.tries.saturating_add(1),
                ..duty.clone()
            },
            now_ms + wait,
        )
    }

    /// Strikes a duty off.
    pub fn done(&self, duty: &Duty) -> Result<(), Fault> {
        let sql =
            "DELETE FROM duties WHERE id = ? AND datacenter = ? AND kind = ? AND generation = ?";
        self.store.run(sql, key_of(duty)?)?;
        Ok(())
    }

    /// Whether some lead must still be told that this generation, or a newer one, has ended.
    pub fn is_closing(&self, counter: &CounterId, generation: u64) -> Result<bool, Fault> {
        let generation = i64::try_from(generation).unwrap_or(i64::MAX);
        let kind = Telling::Close.number().into();
        let values = vec![counter.as_str().into(), kind, generation.into()];
        let sql = "SELECT 1 FROM duties WHERE id = ? AND kind = ? AND generation >= ? LIMIT 1";
        Ok(!self.store.run(sql, values)?.is_empty())
    }

    /// What was heard of a counter's datacenters.
    pub(super) fn view(&self, counter: &CounterId) -> Result<Option<(View, Marks)>, Fault> {
        let rows = self.store.run(
            "SELECT body FROM views WHERE id = ?",
            vec![counter.as_str().into()],
        )?;
        let body = rows.first().and_then(|row| row.first()).and_then(blob);
        let stored: Option<(ViewAtRest, Marks)> = body.map(decode).transpose()?;
        Ok(stored.map(|(view, marks)| (View::from_rest(view), marks)))
    }

    /// Writes what was heard of a counter's datacenters.
    pub(super) fn put_view(
        &self,
        counter: &CounterId,
        view: &ViewAtRest,
        marks: &Marks,
    ) -> Result<(), Fault> {
        self.store.run(
            "INSERT INTO views VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET body = excluded.body",
            vec![counter.as_str().into(), encode(&(view, marks))?.into()],
        )?;
        Ok(())
    }

    /// Whether some lead does not know a counter's settings yet.
    pub fn is_configuring(&self, counter: &CounterId) -> Result<bool, Fault> {
        let values = vec![counter.as_str().into(), Telling::Configure.number().into()];
        let sql = "SELECT 1 FROM duties WHERE id = ? AND kind = ? LIMIT 1";
        Ok(!self.store.run(sql, values)?.is_empty())
    }

    /// Duties whose time has come, at most `limit`.
    pub fn due_duties(&self, now_ms: i64, limit: i32) -> Result<Vec<Duty>, Fault> {
        let rows = self.store.run(
            "SELECT id, datacenter, kind, generation, tries FROM duties WHERE due_at <= ? ORDER BY due_at LIMIT ?",
            vec![now_ms.into(), limit.into()],
        )?;
        Ok(rows.iter().filter_map(|row| duty_of(row)).collect())
    }

    /// Counters that must be looked at: expired ones and old tombstones, at most `limit`.
    pub fn due_counters(&self, now_ms: i64, limit: i32) -> Result<Vec<CounterId>, Fault> {
        let rows = self.store.run(
            "SELECT id FROM roots WHERE due_at <= ? ORDER BY due_at LIMIT ?",
            vec![now_ms.into(), limit.into()],
        )?;
        Ok(rows
            .iter()
            .filter_map(|row| CounterId::parse(text(row.first()?)?).ok())
            .collect())
    }

    /// When something is next due, unix milliseconds.
    pub fn next_due_ms(&self) -> Result<Option<i64>, Fault> {
        let sql = "SELECT MIN(due_at) FROM (SELECT MIN(due_at) AS due_at FROM roots WHERE due_at IS NOT NULL \
            UNION ALL SELECT MIN(due_at) AS due_at FROM duties)";
        let rows = self.store.run(sql, vec![])?;
        let due_ms = rows.first().and_then(|row| row.first()).and_then(integer);
        let others_ms = [self.claims_due_ms()?, self.salts_due_ms()?];
        Ok(due_ms
            .into_iter()
            .chain(others_ms.into_iter().flatten())
            .min())
    }

    /// Forgets a counter's last trace.
    pub fn forget(&self, counter: &CounterId) -> Result<(), Fault> {
        self.store.run(
            "DELETE FROM roots WHERE id = ?",
            vec![counter.as_str().into()],
        )?;
        Ok(())
    }

    /// Living counters whose names begin with `prefix` and come after `after`, in order.
    pub fn list(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<(CounterId, Entry)>, Fault> {
        let (bound, end) = match prefix_end(prefix) {
            Some(end) => ("AND id < ?", Some(end)),
            None => ("", None),
        };
        let sql = format!(
            "SELECT id, body FROM roots WHERE live = 1 AND id >= ? AND id > ? {bound} ORDER BY id LIMIT ?"
        );
        let mut values: Vec<Value> = vec![prefix.into(), after.unwrap_or_default().into()];
        values.extend(end.map(Value::from));
        values.push(i64::from(limit).into());
        let rows = self.store.run(&sql, values)?;
        let read = |row: &Vec<Value>| match row.as_slice() {
            [id, body] => Some((CounterId::parse(text(id)?).ok()?, decode(blob(body)?).ok()?)),
            _ => None,
        };
        Ok(rows.iter().filter_map(read).collect())
    }

    /// A value of the whole deployment, made by `make` the first time it is asked for.
    pub fn deployment_value(
        &self,
        name: &str,
        make: impl FnOnce() -> Vec<u8>,
    ) -> Result<Vec<u8>, Fault> {
        if let Some(body) = self.deployment_body(name)? {
            return Ok(body);
        }
        let made = make();
        self.store.run(
            "INSERT INTO deployment VALUES (?, ?)",
            vec![name.into(), made.clone().into()],
        )?;
        Ok(made)
    }

    /// A value of the whole deployment, if there is one.
    pub(super) fn deployment_body(&self, name: &str) -> Result<Option<Vec<u8>>, Fault> {
        let rows = self.store.run(
            "SELECT body FROM deployment WHERE name = ?",
            vec![name.into()],
        )?;
        let body = rows.first().and_then(|row| row.first()).and_then(blob);
        Ok(body.map(<[u8]>::to_vec))
    }

    /// Sets the alarm for what is due next, if anything is, and not before `earliest_ms`.
    pub async fn arm(&self, earliest_ms: i64) -> Result<(), Fault> {
        match self.next_due_ms()? {
            Some(due_ms) => self.store.set_alarm(due_ms.max(earliest_ms)).await,
            None => Ok(()),
        }
    }
}

/// Generations are milliseconds of a clock plus a few: far below the 2^53 that SQL numbers keep here.
fn key_of(duty: &Duty) -> Result<Vec<Value>, Fault> {
    let generation = i64::try_from(duty.generation)
        .map_err(|_| Fault::Broken("a generation is too large".to_owned()))?;
    Ok(vec![
        duty.counter.as_str().into(),
        duty.datacenter.as_str().into(),
        duty.telling.number().into(),
        generation.into(),
    ])
}

fn duty_of(row: &[Value]) -> Option<Duty> {
    let [id, datacenter, kind, generation, tries] = row else {
        return None;
    };
    Some(Duty {
        counter: CounterId::parse(text(id)?).ok()?,
        datacenter: Datacenter::parse(text(datacenter)?)?,
        telling: match integer(kind)? {
            0 => Telling::Close,
            2 => Telling::Settle,
            _ => Telling::Configure,
        },
        generation: u64::try_from(integer(generation)?).ok()?,
        tries: u32::try_from(integer(tries)?).ok()?,
    })
}
