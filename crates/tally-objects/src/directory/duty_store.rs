//! The rows of duties: what leads must still be told.

use crate::kit::store::{Store, integer, text};
use tally_core::cluster::root::Root;
use tally_core::counter::id::{CounterId, Datacenter};
use tally_host::object::SqlValue;
use tally_wire::messages::Fault;

pub(super) const DUTIES_SCHEMA: &str = "CREATE TABLE IF NOT EXISTS duties (id TEXT NOT NULL, datacenter TEXT NOT NULL, kind INTEGER NOT NULL, \
        generation INTEGER NOT NULL, due_at INTEGER NOT NULL, tries INTEGER NOT NULL, \
        PRIMARY KEY (id, datacenter, kind, generation)) WITHOUT ROWID";

/// The first wait before an unreachable lead is told again, and the longest: waits double in between.
const RETRY_MS: (i64, i64) = (1_000, 300_000);

/// What a lead must still be told. A stored format: never renumbered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LeadNotice {
    /// A generation has ended.
    Close,
    /// Settings have changed.
    Configure,
    /// Nothing: the root must get its totals, because an operation could not observe them.
    Reconcile,
}

impl LeadNotice {
    fn number(self) -> i32 {
        match self {
            Self::Close => 0,
            Self::Configure => 1,
            Self::Reconcile => 2,
        }
    }
}

/// Something that a lead could not be told yet.
#[derive(Clone, Debug)]
pub struct Duty {
    /// The counter.
    pub counter: CounterId,
    /// The lead's datacenter.
    pub datacenter: Datacenter,
    /// What it must be told.
    pub notice: LeadNotice,
    /// The generation that it is about.
    pub generation: u64,
    /// How often it was tried.
    pub tries: u32,
}

/// The rows of duties.
pub(super) struct DutyStore {
    store: Store,
}

impl DutyStore {
    /// The duties in an object's database.
    pub(super) fn new(store: &Store) -> Self {
        Self {
            store: store.clone(),
        }
    }

    /// Writes a duty. The caller makes the first attempt at once; the row is for its failure.
    ///
    /// # Errors
    /// `Unavailable` where SQLite refuses; as for all methods below.
    pub(super) fn put(&self, duty: &Duty, now_ms: i64) -> Result<(), Fault> {
        self.put_at(duty, now_ms + RETRY_MS.0)
    }

    fn put_at(&self, duty: &Duty, due_at_ms: i64) -> Result<(), Fault> {
        let mut values = key_of(duty)?;
        values.extend([due_at_ms.into(), i64::from(duty.tries).into()]);
        self.store.run(
            "INSERT OR REPLACE INTO duties VALUES (?, ?, ?, ?, ?, ?)",
            values,
        )?;
        Ok(())
    }

    /// Extends the wait of a duty, after another failure.
    pub(super) fn postpone(&self, duty: &Duty, now_ms: i64) -> Result<(), Fault> {
        let (first, longest) = RETRY_MS;
        let wait = first.saturating_mul(1 << duty.tries.min(20)).min(longest);
        self.put_at(
            &Duty {
                tries: duty.tries.saturating_add(1),
                ..duty.clone()
            },
            now_ms + wait,
        )
    }

    /// Deletes a completed duty.
    pub(super) fn done(&self, duty: &Duty) -> Result<(), Fault> {
        let sql =
            "DELETE FROM duties WHERE id = ? AND datacenter = ? AND kind = ? AND generation = ?";
        self.store.run(sql, key_of(duty)?)?;
        Ok(())
    }

    /// Whether a lead must still be told that this generation, or a newer one, has ended.
    pub(super) fn is_closing(&self, counter: &CounterId, generation: u64) -> Result<bool, Fault> {
        let generation = i64::try_from(generation).unwrap_or(i64::MAX);
        let kind = LeadNotice::Close.number().into();
        let values = vec![counter.as_str().into(), kind, generation.into()];
        let sql = "SELECT 1 FROM duties WHERE id = ? AND kind = ? AND generation >= ? LIMIT 1";
        Ok(!self.store.run(sql, values)?.is_empty())
    }

    /// Whether a lead must still be told a counter's settings.
    pub(super) fn is_configuring(&self, counter: &CounterId) -> Result<bool, Fault> {
        let values = vec![
            counter.as_str().into(),
            LeadNotice::Configure.number().into(),
        ];
        let sql = "SELECT 1 FROM duties WHERE id = ? AND kind = ? LIMIT 1";
        Ok(!self.store.run(sql, values)?.is_empty())
    }

    /// Due duties, at most `limit`.
    pub(super) fn due_duties(&self, now_ms: i64, limit: i32) -> Result<Vec<Duty>, Fault> {
        let rows = self.store.run(
            "SELECT id, datacenter, kind, generation, tries FROM duties WHERE due_at <= ? ORDER BY due_at LIMIT ?",
            vec![now_ms.into(), limit.into()],
        )?;
        Ok(rows.iter().filter_map(|row| duty_of(row)).collect())
    }

    /// When the next is due, unix milliseconds.
    pub(super) fn next_due_ms(&self) -> Result<Option<i64>, Fault> {
        let rows = self.store.run("SELECT MIN(due_at) FROM duties", vec![])?;
        Ok(rows.first().and_then(|row| row.first()).and_then(integer))
    }
}

/// Generations are milliseconds of a clock plus a few: far below the 2^53 that SQL numbers keep here.
fn key_of(duty: &Duty) -> Result<Vec<SqlValue>, Fault> {
    let generation = i64::try_from(duty.generation)
        .map_err(|_| Fault::Broken("a generation is too large".to_owned()))?;
    Ok(vec![
        duty.counter.as_str().into(),
        duty.datacenter.as_str().into(),
        duty.notice.number().into(),
        generation.into(),
    ])
}

fn duty_of(row: &[SqlValue]) -> Option<Duty> {
    let [id, datacenter, kind, generation, tries] = row else {
        return None;
    };
    Some(Duty {
        counter: CounterId::stored(text(id)?).ok()?,
        datacenter: Datacenter::parse(text(datacenter)?)?,
        notice: match integer(kind)? {
            0 => LeadNotice::Close,
            2 => LeadNotice::Reconcile,
            _ => LeadNotice::Configure,
        },
        generation: u64::try_from(integer(generation)?).ok()?,
        tries: u32::try_from(integer(tries)?).ok()?,
    })
}

/// The duties towards every lead of a counter.
pub(crate) fn duties(counter: &CounterId, root: &Root, notice: LeadNotice) -> Vec<Duty> {
    let duty = |datacenter: &Datacenter| Duty {
        counter: counter.clone(),
        datacenter: datacenter.clone(),
        notice,
        generation: root.generation,
        tries: 0,
    };
    root.datacenters.iter().map(duty).collect()
}
