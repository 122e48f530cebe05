//! A cell's stored forms, and the restoration of a cell from them.

use std::collections::BTreeMap;

use super::{CellState, FlushRow};
use crate::counter::history::{History, Resolution};
use crate::counter::merge::Part;
use crate::sketch::Uniques;

/// A bucket in memory: a number of 64 bits and one of 128, in a node of a map that is three quarters full.
const BUCKET_BYTES: usize = 48;

/// A lane in memory: its nonce, its time, and the sequence and two totals of its outcome.
const LANE_BYTES: usize = 96;

impl CellState {
    /// The stored form of the unique elements of all time, without the open minute.
    pub fn all_time_row(&self) -> Vec<u8> {
        self.all_time.to_bytes()
    }

    /// The approximate memory of the cell, bytes: twice the size of sketches at rest, and buckets and lanes.
    pub fn memory_bytes(&self) -> u64 {
        let sealed = self.sealed.values().flatten();
        let sketches = self.all_time.rest_bytes()
            + self
                .open_uniques
                .as_ref()
                .map_or(0, |(_, open)| open.rest_bytes())
            + sealed.map(|part| part.uniques.rest_bytes()).sum::<usize>();
        let lanes = self.nonces.lanes() + self.ended_nonces.lanes();
        let keys = self.lately.bytes() + self.ended_keys.bytes();
        let bytes =
            2 * sketches + BUCKET_BYTES * self.history.buckets() + LANE_BYTES * lanes + keys;
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }

    /// The unix second from which the days of its history are complete; `i64::MIN` if none were removed.
    pub fn days_kept_from(&self) -> i64 {
        self.history.kept_from(Resolution::Day)
    }

    /// The stored form of a page of buckets.
    pub fn page_row(&self, step: Resolution, page: i64) -> Vec<(i64, u128)> {
        self.history.page(step, page)
    }

    /// The stored form of the hot row.
    pub fn hot_row(&self) -> FlushRow {
        FlushRow {
            grant: self.grant,
            sequence: self.sequence,
            added: self.added,
            removed: self.removed,
            facts: self.facts,
            shards_ever: self.shards_ever,
            spread: self.spread,
            is_sealed: self.is_sealed,
            nonces: self.nonces.clone(),
            history: self.history.to_hot(),
            open_uniques: self.open_uniques.as_ref().map(|(minute, _)| *minute),
            open_hour: self.open_hour,
            seconds_from: self.history.rows_from(),
        }
    }

    /// Restores a cell from its rows; `open` are the unique elements of [`FlushRow::open_minute`].
    pub fn restore(
        hot: FlushRow,
        pages: impl IntoIterator<Item = (Resolution, i64, Vec<(i64, u128)>)>,
        all_time: Uniques,
        open: Uniques,
        sealed: BTreeMap<u8, Option<Part>>,
    ) -> Self {
        Self {
            grant: hot.grant,
            sequence: hot.sequence,
            added: hot.added,
            removed: hot.removed,
            facts: hot.facts,
            shards_ever: hot.shards_ever,
            spread: hot.spread,
            is_sealed: hot.is_sealed,
            sealed,
            seals: 0,
            admissions: BTreeMap::new(),
            nonces: hot.nonces,
            ended_nonces: Default::default(),
            lately: Default::default(),
            ended_keys: Default::default(),
            has_numbers: false,
            ledgers: Default::default(),
            history: History::restore(hot.history, pages).with_rows_from(hot.seconds_from),
            all_time,
            open_uniques: hot.open_uniques.map(|start| (start, open)),
            open_hour: hot.open_hour,
            closed_through: 0,
            seconds_default: 0,
            granted_ms: None,
        }
    }
}
