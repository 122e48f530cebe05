//! The registry of boards: a row for each at the partition of the directory that its name belongs to.
//!
//! Invariant: a board with any rows is registered. A registered board may have ended, or may never have begun because
//! its object was unreachable.

use crate::directory::partition::features::FeatureStore;
use crate::kit::store::{Store, text};
use tally_core::cluster::root::prefix_end;
use tally_core::counter::id::CounterId;
use tally_host::dispatch;
use tally_host::object::{IncomingCall, Reply, SqlValue};
use tally_wire::messages::{Fault, ForgetBoard, ListBoards, RegisterBoard};

pub(crate) const BOARDS_SCHEMA: &str = "CREATE TABLE IF NOT EXISTS boards (name TEXT PRIMARY KEY, \
    generation INTEGER NOT NULL) WITHOUT ROWID";

/// The boards of a partition.
pub(crate) struct BoardRegistry {
    store: Store,
}

fn generation_of(generation: u64) -> i64 {
    i64::try_from(generation).unwrap_or(i64::MAX)
}

impl FeatureStore for BoardRegistry {
    fn answer(&self, arrived: &IncomingCall) -> Reply {
        dispatch!(arrived, message, {
            RegisterBoard => message.and_then(|message| self.register(&message)),
            ForgetBoard => message.and_then(|message| self.forget(&message)),
            ListBoards => message.and_then(|message| self.list(&message)),
        })
    }

    fn has_board(&self, name: &CounterId) -> Result<bool, Fault> {
        let query = "SELECT 1 FROM boards WHERE name = ?";
        let rows = self.store.run(query, vec![name.as_str().into()])?;
        Ok(!rows.is_empty())
    }
}

impl BoardRegistry {
    /// The boards in an object's database.
    pub(crate) fn new(store: &Store) -> Self {
        Self {
            store: store.clone(),
        }
    }

    /// Registers a board.
    ///
    /// # Errors
    /// `Unavailable` where SQLite refuses; as for all methods below.
    fn register(&self, message: &RegisterBoard) -> Result<(), Fault> {
        let statement = "INSERT INTO boards VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET \
            generation = MAX(generation, excluded.generation)";
        let generation = generation_of(message.generation);
        let values = vec![message.board.as_str().into(), generation.into()];
        self.store.run(statement, values).map(drop)
    }

    /// Removes a board, unless it has begun anew since.
    fn forget(&self, message: &ForgetBoard) -> Result<(), Fault> {
        let statement = "DELETE FROM boards WHERE name = ? AND generation <= ?";
        let generation = generation_of(message.generation);
        let values = vec![message.board.as_str().into(), generation.into()];
        self.store.run(statement, values).map(drop)
    }

    /// Boards in order of their names.
    fn list(&self, message: &ListBoards) -> Result<Vec<CounterId>, Fault> {
        let after = message.after.clone().unwrap_or_default();
        let end = prefix_end(&message.prefix).map_or(SqlValue::Null, SqlValue::Text);
        let rows = self.store.run(
            "SELECT name FROM boards WHERE name > ?1 AND name >= ?2 AND (?3 IS NULL OR name < ?3) ORDER BY name LIMIT ?4",
            vec![
                after.into(),
                message.prefix.as_str().into(),
                end,
                i64::from(message.limit).into(),
            ],
        )?;
        let name = |row: &Vec<SqlValue>| CounterId::parse(row.first().and_then(text)?).ok();
        Ok(rows.iter().filter_map(name).collect())
    }
}
