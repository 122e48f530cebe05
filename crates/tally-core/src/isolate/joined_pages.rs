//! One page of the names of many partitions, in order, without a full page of each.
//!
//! Invariant: the page holds the first names of all partitions together. Each partition is asked for its share and some
//! more names. A partition that returned as many as it was asked for, with its last name before the end of the page,
//! may have more names on the page. It is asked once more, for a full page.

use std::collections::BTreeMap;

use crate::counter::id::CounterId;
use crate::order::map_of;

/// How many names a partition is asked for beyond twice its share: for small pages, chance decides how names are
/// distributed.
const MORE: u32 = 16;

/// A page that is being collected.
pub struct JoinedPages<V> {
    limit: u32,
    share: u32,
    rows: BTreeMap<CounterId, V>,
    /// Partitions that may have more, and the last name of each.
    left: Vec<(u32, CounterId)>,
}

impl<V> JoinedPages<V> {
    /// An empty page of up to so many names from so many partitions.
    pub fn new(limit: u32, partitions: u32) -> Self {
        let share = limit.saturating_mul(2) / partitions.max(1);
        Self {
            limit,
            share: share.saturating_add(MORE).min(limit),
            rows: BTreeMap::new(),
            left: Vec::new(),
        }
    }

    /// How many names each partition is asked for at first.
    pub fn share(&self) -> u32 {
        self.share
    }

    /// Adds the answer of a partition that was asked for so many names.
    pub fn add(&mut self, partition: u32, requested: u32, rows: Vec<(CounterId, V)>) {
        let is_full = rows.len() >= usize::try_from(requested).unwrap_or(usize::MAX);
        if let Some((last, _)) = rows.last().filter(|_| is_full && requested < self.limit) {
            self.left.push((partition, last.clone()));
        }
        self.rows.extend(rows);
    }

    /// The partitions that must be asked once more, each for a full page after a name.
    pub fn take_left(&mut self) -> BTreeMap<u32, CounterId> {
        let rows_max = usize::try_from(self.limit).unwrap_or(usize::MAX);
        let end = self.rows.keys().nth(rows_max.saturating_sub(1));
        let left = std::mem::take(&mut self.left).into_iter();
        map_of(left.filter(|(_, last)| end.is_none_or(|end| last < end)))
    }

    /// The page.
    pub fn into_rows(self) -> Vec<(CounterId, V)> {
        let rows_max = usize::try_from(self.limit).unwrap_or(usize::MAX);
        self.rows.into_iter().take(rows_max).collect()
    }
}
