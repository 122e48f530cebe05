//! A cell's storage: its rows, and which shards must still drop a generation.
//!
//! Invariant: what one method writes is written in one commit.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};

use super::rows::Rows;

/// What a cell has on disk.
#[derive(Default)]
pub struct Store {
    rows: Rows,
    closing: BTreeMap<u8, u64>,
}

impl Deref for Store {
    type Target = Rows;
    fn deref(&self) -> &Rows {
        &self.rows
    }
}

impl DerefMut for Store {
    fn deref_mut(&mut self) -> &mut Rows {
        &mut self.rows
    }
}

impl Store {
    /// As `CellStore::close`.
    pub fn close(&mut self, generation: u64, shards: &[u8]) {
        self.rows.clear();
        let closing = shards.iter().map(|shard| (*shard, generation));
        self.closing.extend(closing);
    }

    /// The shards that must still drop a generation.
    pub fn closing(&self) -> Vec<(u8, u64)> {
        let closing = self.closing.iter();
        closing
            .map(|(shard, generation)| (*shard, *generation))
            .collect()
    }

    pub fn closed(&mut self, shard: u8) {
        self.closing.remove(&shard);
    }

    pub fn delete_all(&mut self) {
        *self = Self::default();
    }
}
