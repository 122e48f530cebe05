//! The rows of ended periods, and what is due in the present one.

use super::rows::{BoardRows, broken, bytes_at, whole};
use crate::kit::store::integer;
use tally_host::object::SqlValue;
use tally_wire::messages::{Fault, PeriodOf};

impl BoardRows {
    /// The names of members that have expired by a time, and when the next one expires.
    pub(super) fn expired(
        &self,
        epoch: i64,
        by_ms: i64,
        limit: u64,
    ) -> Result<Vec<Vec<u8>>, Fault> {
        let statement = "SELECT member FROM members INDEXED BY expiries WHERE epoch = ? AND expires_ms <= ? \
            ORDER BY expires_ms LIMIT ?";
        let values = vec![epoch.into(), by_ms.into(), whole(limit)];
        let rows = self.store.run(statement, values)?;
        rows.iter().map(|row| bytes_at(row, 0)).collect()
    }

    /// When the next member expires.
    pub(super) fn next_expiry(&self, epoch: i64) -> Result<Option<i64>, Fault> {
        let statement = "SELECT expires_ms FROM members INDEXED BY expiries WHERE epoch = ? AND expires_ms IS NOT NULL \
            ORDER BY expires_ms LIMIT 1";
        let rows = self.store.run(statement, vec![epoch.into()])?;
        Ok(rows.first().and_then(|row| row.first()).and_then(integer))
    }

    /// Stores an ended period.
    pub(super) fn put_period(&self, epoch: i64, period: &PeriodOf) -> Result<(), Fault> {
        let values = vec![epoch.into(), self.store.put(period)?];
        self.store
            .run("INSERT OR REPLACE INTO periods VALUES (?, ?)", values)
            .map(drop)
    }

    /// Keeps only the last `limit` periods.
    pub(super) fn keep_periods(&self, limit: u32) -> Result<(), Fault> {
        let statement = "DELETE FROM periods WHERE epoch NOT IN (SELECT epoch FROM periods ORDER BY epoch DESC LIMIT ?)";
        self.store
            .run(statement, vec![i64::from(limit).into()])
            .map(drop)
    }

    /// The stored periods, the last first, with their numbers.
    pub(super) fn periods(&self) -> Result<Vec<(i64, PeriodOf)>, Fault> {
        let rows = self.store.run(
            "SELECT epoch, body FROM periods ORDER BY epoch DESC",
            vec![],
        )?;
        let read = |row: &Vec<SqlValue>| {
            let epoch = row.first().and_then(integer).ok_or_else(broken)?;
            Ok((epoch, self.store.get(row.get(1).ok_or_else(broken)?)?))
        };
        rows.iter().map(read).collect()
    }

    /// Deletes at most `limit` rows of unkept periods before `epoch`. Returns whether there are more.
    pub(super) fn sweep(&self, epoch: i64, limit: u64) -> Result<bool, Fault> {
        let kept = self.periods()?.into_iter().map(|(kept, _)| kept);
        let mut before = epoch;
        for kept in kept.chain([-1]) {
            let is_gap = kept + 1 < before;
            if is_gap && self.sweep_between(kept, before, limit)? {
                return Ok(true);
            }
            before = kept;
        }
        Ok(false)
    }

    fn sweep_between(&self, after: i64, before: i64, limit: u64) -> Result<bool, Fault> {
        let mut has_more = false;
        for (delete, look) in [
            (
                "DELETE FROM members WHERE (epoch, member) IN \
                 (SELECT epoch, member FROM members WHERE epoch > ? AND epoch < ? LIMIT ?)",
                "SELECT 1 FROM members WHERE epoch > ? AND epoch < ? LIMIT 1",
            ),
            (
                "DELETE FROM segments WHERE (epoch, place, member) IN \
                 (SELECT epoch, place, member FROM segments WHERE epoch > ? AND epoch < ? LIMIT ?)",
                "SELECT 1 FROM segments WHERE epoch > ? AND epoch < ? LIMIT 1",
            ),
        ] {
            let between: Vec<SqlValue> = vec![after.into(), before.into()];
            let deleted = [between.clone(), vec![whole(limit)]].concat();
            self.store.run(delete, deleted)?;
            has_more |= !self.store.run(look, between)?.is_empty();
        }
        Ok(has_more)
    }
}
