//! The reports of isolates to a partition of the directory, a row for each incarnation.
//!
//! Invariant: a report is added to one row, once. The row of an incarnation that is silent for [`FORGET_MS`] is added
//! to the common row, in one commit.

use std::cell::Cell;

use crate::kit::store::{Store, integer};
use tally_host::Host;
use tally_wire::fleet::{FORGET_MS, FleetPart, ISOLATES_MAX, IncarnationCounts, ReportOutcome};
use tally_wire::messages::{CountsTaken, Fault, ReportCounts};

/// Created with the first report: most partitions of most deployments begin without one.
const FLEET_SCHEMA: &str = "CREATE TABLE IF NOT EXISTS fleet (incarnation INTEGER PRIMARY KEY, heard_ms INTEGER NOT NULL, \
     body BLOB NOT NULL)";

/// The common row of folded incarnations. An isolate draws this number once in 2^52 times, and is then refused.
const FORGOTTEN: i64 = 0;

/// The row that says when the first report of all came; it counts nothing. Only a table has it that had none of others
/// before.
const BEGUN: i64 = -1;

/// How many rows are folded when a new incarnation reports: so there are not many more rows than incarnations of one
/// hour.
const FOLDED_MAX: i64 = 16;

/// The rows of a partition.
pub(crate) struct FleetStore {
    host: Host,
    store: Store,
    has_table: Cell<bool>,
}

impl FleetStore {
    /// The rows in an object's database.
    pub(crate) fn new(host: &Host, store: &Store) -> Self {
        Self {
            host: host.clone(),
            store: store.clone(),
            has_table: Cell::default(),
        }
    }

    fn counts_of(&self, incarnation: i64) -> Result<Option<IncarnationCounts>, Fault> {
        let sql = "SELECT body FROM fleet WHERE incarnation = ?";
        let rows = self.store.run(sql, vec![incarnation.into()])?;
        let body = rows.first().and_then(|row| row.first());
        body.map(|body| self.store.get(body)).transpose()
    }

    fn put(
        &self,
        incarnation: i64,
        reported_ms: i64,
        counts: &IncarnationCounts,
    ) -> Result<(), Fault> {
        self.store.run(
            "INSERT INTO fleet VALUES (?, ?, ?) ON CONFLICT (incarnation) DO UPDATE SET heard_ms = excluded.heard_ms, body = excluded.body",
            vec![incarnation.into(), reported_ms.into(), self.store.put(counts)?],
        )?;
        Ok(())
    }

    /// Adds a report: one row.
    ///
    /// # Errors
    /// `Unavailable` where SQLite refuses; as for all methods below.
    pub(crate) fn take(&self, report: ReportCounts) -> Result<CountsTaken, Fault> {
        let now_ms = self.host.now_ms();
        let answer = |taken| Ok(CountsTaken { taken, now_ms });
        let incarnation = i64::try_from(report.counts.incarnation).unwrap_or(FORGOTTEN);
        if incarnation == FORGOTTEN {
            return answer(ReportOutcome::Forgotten);
        }
        if !self.has_table.get() {
            self.store.run(FLEET_SCHEMA, vec![])?;
            let begun = self.store.put(&IncarnationCounts::default())?;
            self.store.run(
                "INSERT INTO fleet SELECT ?, ?, ? WHERE NOT EXISTS (SELECT 1 FROM fleet)",
                vec![BEGUN.into(), now_ms.into(), begun],
            )?;
            self.has_table.set(true);
        }
        let known = self.counts_of(incarnation)?;
        if known.is_none() {
            let (mut isolates, has_silent) = self.isolates(now_ms - FORGET_MS)?;
            if has_silent {
                self.fold(now_ms)?;
                (isolates, _) = self.isolates(now_ms - FORGET_MS)?;
            }
            if isolates >= i64::from(ISOLATES_MAX) {
                return answer(ReportOutcome::Full);
            }
        }
        let mut counts = known.unwrap_or_default();
        let (taken, has_changed) = counts.take(report.counts);
        if has_changed {
            self.put(incarnation, now_ms, &counts)?;
        }
        answer(taken)
    }

    /// The number of rows, and whether any is of an incarnation that was silent for long.
    fn isolates(&self, silent_ms: i64) -> Result<(i64, bool), Fault> {
        let sql = "SELECT COUNT(*), SUM(incarnation > ? AND heard_ms < ?) FROM fleet";
        let bounds = vec![FORGOTTEN.into(), silent_ms.into()];
        let rows = self.store.run(sql, bounds)?;
        let number = |column: usize| {
            let value = rows.first().and_then(|row| row.get(column));
            value.and_then(integer).unwrap_or(0)
        };
        Ok((number(0), number(1) > 0))
    }

    /// Adds rows of silent incarnations to the common row.
    fn fold(&self, now_ms: i64) -> Result<(), Fault> {
        let sql =
            "SELECT incarnation, body FROM fleet WHERE incarnation > ? AND heard_ms < ? LIMIT ?";
        let bounds = vec![
            FORGOTTEN.into(),
            (now_ms - FORGET_MS).into(),
            FOLDED_MAX.into(),
        ];
        let silent = self.store.run(sql, bounds)?;
        let mut all = self.counts_of(FORGOTTEN)?.unwrap_or_default();
        let mut gone = Vec::new();
        for row in &silent {
            let [incarnation, body] = row.as_slice() else {
                continue;
            };
            let counts: IncarnationCounts = self.store.get(body)?;
            all.add(&counts.sums);
            gone.extend(integer(incarnation));
        }
        self.store.atomically(|| {
            self.put(FORGOTTEN, now_ms, &all)?;
            let placeholders = vec!["?"; gone.len()].join(", ");
            let sql = [
                "DELETE FROM fleet WHERE incarnation IN (",
                &placeholders,
                ")",
            ]
            .concat();
            let gone = gone.iter().map(|incarnation| (*incarnation).into());
            self.store.run(&sql, gone.collect()).map(|_| ())
        })
    }

    /// Adds the reports of isolates to the partition's data.
    pub(crate) fn add_to(&self, part: &mut FleetPart) -> Result<(), Fault> {
        if !self.has_table.get() {
            let sql = "SELECT 1 FROM sqlite_master WHERE name = 'fleet'";
            self.has_table.set(!self.store.run(sql, vec![])?.is_empty());
        }
        if !self.has_table.get() {
            return Ok(());
        }
        let sql = "SELECT incarnation, heard_ms, body FROM fleet";
        for row in &self.store.run(sql, vec![])? {
            let [incarnation, reported_ms, body] = row.as_slice() else {
                continue;
            };
            let reported_ms = integer(reported_ms).unwrap_or(0);
            match integer(incarnation) {
                Some(BEGUN) => part.begun_ms = Some(reported_ms),
                _ => part.add(reported_ms, self.store.get(body)?),
            }
        }
        part.finish();
        Ok(())
    }
}
