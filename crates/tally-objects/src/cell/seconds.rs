//! The rows of a cell's seconds that have left memory: one for each hour.
//!
//! Invariant: a count is in memory or in a row, never in both, because both are written in one commit. A counter that
//! keeps seconds for 15 minutes stores no such rows.

use std::collections::BTreeMap;

use super::row_kinds::Kind;
use super::store::CellStore;
use crate::kit::store::WHOLE_MAX;
use tally_core::counter::flush::Changes;
use tally_core::counter::history::Resolution;
use tally_core::counter::history::seconds::{HOUR, PackedSeconds};
use tally_wire::messages::Fault;

impl CellStore {
    /// Adds the seconds that leave memory to the rows of their hours, and deletes old rows: nearly always one row, once
    /// a minute.
    pub(super) fn put_seconds(&self, changes: &Changes) -> Result<(), Fault> {
        let hour_of = |second: i64| Resolution::Hour.start_of(second);
        for seconds in changes
            .seconds
            .chunk_by(|(a, _), (b, _)| hour_of(*a) == hour_of(*b))
        {
            let Some(hour) = seconds.first().map(|(second, _)| hour_of(*second)) else {
                continue;
            };
            let mut counts = self.hour_of_seconds(hour)?;
            for (second, count) in seconds {
                let place = usize::try_from(second - hour).unwrap_or(HOUR);
                if let Some(held) = counts.get_mut(place) {
                    *held = held.saturating_add(*count);
                }
            }
            self.put(Kind::Seconds, hour, &PackedSeconds::pack(&counts))?;
        }
        match changes.seconds_from {
            Some(from) => self.delete_before(Kind::Seconds, from.min(WHOLE_MAX)),
            None => Ok(()),
        }
    }

    fn hour_of_seconds(&self, hour: i64) -> Result<Vec<u128>, Fault> {
        let packed: Option<PackedSeconds> = self.get(Kind::Seconds, hour)?;
        Ok(packed.unwrap_or_default().unpack())
    }

    /// Adds the seconds of rows that are in a range. Cost: a row for each hour.
    ///
    /// # Errors
    /// `Unavailable`; `Broken` for rows that this build cannot read.
    pub fn add_seconds(
        &self,
        points: &mut BTreeMap<i64, u128>,
        (from, to): (i64, i64),
    ) -> Result<(), Fault> {
        let mut first = Resolution::Hour.start_of(from);
        while let Some(hour) = self
            .rows
            .first_from(Kind::Seconds, first)?
            .filter(|hour| *hour <= to)
        {
            for (second, count) in (hour..).zip(self.hour_of_seconds(hour)?) {
                if count > 0 && (from..=to).contains(&second) {
                    let held = points.entry(second).or_insert(0);
                    *held = held.saturating_add(count);
                }
            }
            first = hour.saturating_add(1);
        }
        Ok(())
    }
}
