//! Damage of an object that belongs to no counter, and its removal where the operator asks for it by name.
//!
//! Invariant: only rows that do not match their checksums are removed, and rows that have no meaning without them. Rows
//! of a newer build are not damaged, and stay. Rows of counters are not checked here: those are repaired
//! (`cell_repair`, `roots::root_repair`).

use crate::cell::damage::damaged_in;
use crate::kit::store::{Store, text};
use tally_host::object::{IncomingCall, Object, Reply, SqlValue, reply};
use tally_wire::messages::{DamagedTable, Fault, RepairObject, decode};

/// The most names of damaged rows in an answer.
const NAMES_LISTED_MAX: usize = 20;

/// Where the table `board` holds the role of the object; the head is at 0.
pub(crate) const BOARD_ROLE: i64 = 1;

/// A table whose bodies are checked.
struct Table {
    /// The name in metrics of the objects that have it.
    kind: &'static str,
    name: &'static str,
    /// The columns of its key.
    key: &'static str,
    /// Whether the object has no meaning without any one of its rows.
    is_all: bool,
    loss: &'static str,
}

const fn rows(
    kind: &'static str,
    name: &'static str,
    key: &'static str,
    loss: &'static str,
) -> Table {
    Table {
        kind,
        name,
        key,
        is_all: false,
        loss,
    }
}

const fn all(
    kind: &'static str,
    name: &'static str,
    key: &'static str,
    loss: &'static str,
) -> Table {
    Table {
        is_all: true,
        ..rows(kind, name, key, loss)
    }
}

const TABLES: [Table; 20] = [
    rows(
        "tablet",
        "log",
        "number",
        "what its counters counted since the log was folded, a minute at most: repair counters next, which restores what their roots remember",
    ),
    all(
        "board",
        "board",
        "id",
        "the board with all its members; where it has several objects, those in this one",
    ),
    rows("board", "periods", "epoch", "an ended period"),
    rows(
        "board",
        "records",
        "slot, key",
        "which keys it has counted: who repeats one counts again",
    ),
    all(
        "limiter",
        "limits",
        "place",
        "what keys have used of their limits",
    ),
    rows(
        "keyspace",
        "keys",
        "key",
        "what the keys hold, or when they end",
    ),
    rows("inbox", "log", "seq", "queued events"),
    rows(
        "inbox",
        "batches",
        "number",
        "queued events, which may be counted or not",
    ),
    rows("inbox", "dead", "seq", "dead letters"),
    rows(
        "inbox",
        "state",
        "name",
        "which events it has taken: who repeats some counts them again",
    ),
    rows("directory", "policies", "name", "policies"),
    rows(
        "directory",
        "overrides",
        "policy, prefix, pattern",
        "overrides of policies",
    ),
    rows("directory", "alerts", "name", "alerts"),
    rows(
        "directory",
        "alert_deliveries",
        "number",
        "deliveries of alerts",
    ),
    rows("directory", "acts", "place", "what admins did"),
    rows("directory", "api_keys", "id", "keys that calls have made"),
    rows(
        "directory",
        "gifts",
        "name",
        "which key made a key, a share, an alert or a policy: each of them stays, without the key that made it",
    ),
    rows(
        "directory",
        "deployment",
        "name",
        "values of the deployment: secrets that it made, what is known of snapshots, links that read",
    ),
    rows(
        "directory",
        "senders",
        "id, lane",
        "whether events in a queue are counted",
    ),
    rows("directory", "fleet", "incarnation", "numbers of metrics"),
];

/// Answers a [`RepairObject`]; the flag says whether storage has changed.
pub(crate) fn answer(kind: &str, object: &Object, arrived: &IncomingCall) -> (Reply, bool) {
    let request = decode::<RepairObject>(&arrived.message);
    let discards = request.as_ref().is_ok_and(|request| request.discards);
    let answer = request.and_then(|_| repair(kind, &Store::new(object.clone()), discards));
    let has_changed = discards && answer.as_ref().is_ok_and(|found| !found.is_empty());
    (reply::<RepairObject>(&answer), has_changed)
}

/// The keys of the damaged rows of a table.
type Keys = Vec<Vec<SqlValue>>;

fn repair(kind: &str, store: &Store, discards: bool) -> Result<Vec<DamagedTable>, Fault> {
    if !store.has_schema()? {
        return Ok(Vec::new());
    }
    let mut damaged = Vec::new();
    for table in TABLES.iter().filter(|table| table.kind == kind) {
        let keys = damaged_keys(store, table)?;
        if !keys.is_empty() {
            damaged.push((table, keys));
        }
    }
    if discards {
        store.atomically(|| {
            damaged
                .iter()
                .try_for_each(|(table, keys)| discard(store, table, keys))
        })?;
    }
    let report = |(table, keys): (&Table, Keys)| DamagedTable {
        table: table.name.to_owned(),
        rows: u64::try_from(keys.len()).unwrap_or(u64::MAX),
        names: keys
            .iter()
            .filter_map(|key| text(key.first()?))
            .take(NAMES_LISTED_MAX)
            .map(str::to_owned)
            .collect(),
        loss: table.loss.to_owned(),
    };
    Ok(damaged.into_iter().map(report).collect())
}

fn damaged_keys(store: &Store, table: &Table) -> Result<Keys, Fault> {
    let there = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?";
    if store.run(there, vec![table.name.into()])?.is_empty() {
        return Ok(Vec::new());
    }
    let Table { name, key, .. } = table;
    damaged_in(store, Vec::new(), |after: &Vec<SqlValue>, limit| {
        let placeholders = vec!["?"; after.len()].join(", ");
        let only = match after.is_empty() {
            true => String::new(),
            false => format!("WHERE ({key}) > ({placeholders})"),
        };
        let sql = format!("SELECT {key}, body FROM {name} {only} ORDER BY {key} LIMIT ?");
        let mut values = after.clone();
        values.push(limit.into());
        let rows = store.run(&sql, values)?;
        let key_and_body = |mut row: Vec<SqlValue>| row.pop().map(|body| (row, body));
        Ok(rows.into_iter().filter_map(key_and_body).collect())
    })
}

fn discard(store: &Store, table: &Table, keys: &Keys) -> Result<(), Fault> {
    if table.is_all {
        // What a spread board's owner knows of its shards outlives its head, as long as it is whole.
        let is_role_whole = !keys.contains(&vec![BOARD_ROLE.into()]);
        let sql = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%' AND name NOT LIKE '_cf%' AND name <> 'tally_schema'";
        for row in store.run(sql, vec![])? {
            match row.first().and_then(text) {
                Some("board") if is_role_whole => {
                    store.run("DELETE FROM board WHERE id <> ?", vec![BOARD_ROLE.into()])?;
                }
                Some(name) => drop(store.run(&format!("DELETE FROM {name}"), vec![])?),
                None => {}
            }
        }
        return Ok(());
    }
    let Table { name, key, .. } = table;
    for values in keys {
        let placeholders = vec!["?"; values.len()].join(", ");
        let sql = format!("DELETE FROM {name} WHERE ({key}) = ({placeholders})");
        store.run(&sql, values.clone())?;
    }
    if table.name == "alerts" {
        // What waits of them has no receiver any more, and another alert of the name is not to send it.
        let orphans = "DELETE FROM alert_deliveries WHERE alert NOT IN (SELECT name FROM alerts)";
        store.run(orphans, vec![])?;
    }
    Ok(())
}
