//! The parameters of a restore, and its effect on a counter.
//!
//! Invariant: a dry run reports what the restore would do, by the same decision.

use serde::{Deserialize, Serialize};

use crate::export::{CounterLine, ImportMode, import_mode};
use crate::fields::Total;
use crate::json::{WholeNumber, read_object};
use crate::number::Exact;
use crate::query::{PagedList, WRONG_CURSOR};
use tally_core::counter::contents::Contents;
use tally_core::counter::id::{COUNTER_ID_BYTES_MAX, CounterId};
use tally_core::counter::merge::Part;
use tally_core::counter::settings::Settings;
use tally_core::counter::total::Value;
use tally_wire::messages::{GlobalSum, Put};
use tally_wire::problem::{Code, Problem};
use tally_wire::snapshot::SnapshotDatacenter;
use tally_wire::snapshot::{SnapshotCounter, date_of};

/// The default and the largest number of counters of one call.
pub const RESTORE_LIMIT: u64 = 1_000;

/// The most changes that an answer lists.
pub const CHANGES_TOLD_MAX: usize = 100;

/// The parameters of `POST /snapshots/{date}/restore`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restore {
    /// The prefix of names.
    pub prefix: String,
    /// What it does with existing counters.
    pub mode: ImportMode,
    /// Whether nothing may be changed.
    pub is_dry: bool,
    /// Only counters after this one.
    pub after: Option<String>,
    /// The most counters.
    pub limit: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wire {
    #[serde(default)]
    prefix: String,
    #[serde(default)]
    mode: Option<String>,
    #[serde(default)]
    dry_run: bool,
    #[serde(default)]
    cursor: Option<String>,
    #[serde(default)]
    limit: Option<WholeNumber>,
}

impl Restore {
    /// Reads `{"prefix"?, "mode"?: "create", "replace" or "add", "dry_run"?, "cursor"?, "limit"?}`; an empty body means
    /// all defaults.
    ///
    /// # Errors
    /// `invalid-json`, `unknown-field`, `invalid-body`.
    pub fn parse(body: &[u8]) -> Result<Self, Problem> {
        let body = if body.trim_ascii().is_empty() {
            b"{}"
        } else {
            body
        };
        let wire: Wire = read_object(body)?;
        let refuse = |detail: String| Problem::new(Code::InvalidBody, detail);
        let mode = import_mode(wire.mode.as_deref());
        let limit = wire.limit.map_or(RESTORE_LIMIT, |WholeNumber(limit)| limit);
        if !(1..=RESTORE_LIMIT).contains(&limit) {
            return Err(refuse(format!("limit must be from 1 to {RESTORE_LIMIT}")));
        }
        let is_begin =
            |text: &str| text.len() <= COUNTER_ID_BYTES_MAX && !text.chars().any(char::is_control);
        if !is_begin(&wire.prefix) {
            return Err(refuse(format!(
                "prefix begins counter ids: at most {COUNTER_ID_BYTES_MAX} bytes without control characters"
            )));
        }
        let after = wire.cursor.map(|cursor| {
            let after = PagedList::Restore.after_in(&cursor, &wire.prefix);
            after.ok_or_else(|| refuse(WRONG_CURSOR.to_owned()))
        });
        Ok(Self {
            prefix: wire.prefix,
            mode: mode.map_err(|problem| refuse(problem.detail().to_owned()))?,
            is_dry: wire.dry_run,
            after: after.transpose()?,
            limit,
        })
    }
}

/// What a restore does to a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RestoreAction {
    /// The counter does not exist: it is created with its former state.
    Create,
    /// Its value and settings are set to the former ones; counts that arrive meanwhile are kept.
    Set,
    /// Its former value is added.
    Add,
    /// Nothing: it already has its former state.
    Same,
    /// Nothing: the counter exists, and stays as it is.
    Keep,
}

/// Decides what is done to a counter whose state was `then`, and is `now`.
pub fn action_of(
    mode: ImportMode,
    then: &SnapshotCounter,
    now: Option<&GlobalSum>,
) -> RestoreAction {
    let Some(now) = now else {
        return RestoreAction::Create;
    };
    match mode {
        ImportMode::Create => RestoreAction::Keep,
        ImportMode::Add => RestoreAction::Add,
        ImportMode::Replace if is_same(then, now) => RestoreAction::Same,
        ImportMode::Replace => RestoreAction::Set,
    }
}

/// Why a restore refuses this action on a counter; `None` where it allows it.
pub fn refusal_of(
    action: RestoreAction,
    then: &SnapshotCounter,
    now: Option<&GlobalSum>,
    now_ms: i64,
) -> Option<Problem> {
    if matches!(action, RestoreAction::Same | RestoreAction::Keep) {
        return None;
    }
    let ttl = then.settings.ttl;
    if ttl.is_some_and(|ttl| ttl.expires_at_ms(now_ms) <= now_ms) {
        return Some(Problem::new(Code::InvalidLine, "its time to live is over"));
    }
    let other_hash = now.filter(|now| now.root.settings.unique_hash != then.settings.unique_hash);
    if action == RestoreAction::Set && other_hash.is_some_and(|now| !now.uniques.is_empty()) {
        let detail = "its unique elements go through another `unique_hash` now; delete it to bring it back as it was";
        return Some(Problem::new(Code::HashMismatch, detail));
    }
    None
}

fn is_same(then: &SnapshotCounter, now: &GlobalSum) -> bool {
    let mut uniques = now.uniques.clone();
    let adds_uniques = uniques.merge(&then.uniques);
    !adds_uniques && has_value(then, now) && has_settings(then, now)
}

/// Whether a counter has its former value. This is not known where a datacenter does not answer, and then false.
pub fn has_value(then: &SnapshotCounter, now: &GlobalSum) -> bool {
    let mut parts = now.datacenters.iter();
    let is_whole = parts.all(|(_, part)| part.as_ref().is_some_and(Part::is_current));
    is_whole && !now.value().is_below(then.value()) && !then.value().is_below(now.value())
}

/// Whether a counter has its former settings.
pub fn has_settings(then: &SnapshotCounter, now: &GlobalSum) -> bool {
    let settings = Settings {
        number: 0,
        ..now.root.settings
    };
    settings == then.settings && now.root.home == then.home
}

/// The result of a restore, or of a dry run.
#[derive(Debug, Default)]
pub struct RestoreResult {
    /// How many counters of the snapshot it has compared.
    pub counters: u64,
    /// How many of each action: created, set, added, same, kept.
    pub actions: [u64; 5],
    /// The first counters that change: of each its action, its value now, and its value then.
    pub changes: Vec<(CounterId, RestoreAction, Option<Value>, Value)>,
    /// Counters that were refused, and why.
    pub refused: Vec<(CounterId, Problem)>,
    /// Partitions that have no snapshot of the day: their counters are compared with the last one before it.
    pub missing_partitions: Vec<u32>,
    /// The counter after which the next call continues.
    pub last: Option<String>,
    /// Whether all that had to be done was done before under the key; `None` where nothing had to be done.
    pub is_replay: Option<bool>,
}

#[derive(Serialize)]
struct ChangeView<'a> {
    id: &'a CounterId,
    action: RestoreAction,
    now: Option<Exact>,
    then: Total,
}

#[derive(Serialize)]
struct RefusedView<'a> {
    id: &'a CounterId,
    code: &'static str,
    detail: &'a str,
}

#[derive(Serialize)]
struct View<'a> {
    date: &'a str,
    prefix: &'a str,
    mode: &'static str,
    dry_run: bool,
    /// Counters of the snapshot that it has looked at.
    counters: u64,
    created: u64,
    set: u64,
    added: u64,
    /// They are as they were then.
    unchanged: u64,
    /// They are there, and `create` leaves them.
    left: u64,
    rejected: usize,
    refused: Vec<RefusedView<'a>>,
    /// The first of those that change.
    changes: Vec<ChangeView<'a>>,
    /// Partitions of the directory that have no snapshot of that day: their counters are restored from the last
    /// one before it. The field is left out where all have one.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    missing_partitions: &'a [u32],
    /// Where the next call continues; `null` at the end.
    cursor: Option<&'a str>,
}

impl RestoreResult {
    /// Records the action on a counter, and whether it was done before under the key of the call: nothing is changed
    /// then. `None` where nothing had to be done.
    pub fn record(
        &mut self,
        id: &CounterId,
        (action, was_done): (RestoreAction, Option<bool>),
        now: Option<Value>,
        then: Value,
    ) {
        if let Some(was_done) = was_done {
            self.is_replay = Some(self.is_replay.unwrap_or(true) && was_done);
        }
        let action = match action {
            RestoreAction::Same => action,
            _ if was_done == Some(true) => RestoreAction::Keep,
            _ => action,
        };
        let index = match action {
            RestoreAction::Create => 0,
            RestoreAction::Set => 1,
            RestoreAction::Add => 2,
            RestoreAction::Same => 3,
            RestoreAction::Keep => 4,
        };
        self.actions[index] += 1;
        let changes = !matches!(action, RestoreAction::Same | RestoreAction::Keep);
        if changes && self.changes.len() < CHANGES_TOLD_MAX {
            self.changes.push((id.clone(), action, now, then));
        }
    }

    /// The JSON of the answer.
    pub fn to_json(&self, day: i64, restore: &Restore, strings: bool) -> String {
        let exact = |value: Value| Exact::new(value, strings);
        let changes = self
            .changes
            .iter()
            .map(|(id, action, now, then)| ChangeView {
                id,
                action: *action,
                now: now.map(exact),
                then: exact(*then),
            });
        let refused = self.refused.iter().take(CHANGES_TOLD_MAX);
        let refused = refused.map(|(id, why)| RefusedView {
            id,
            code: why.code().as_str(),
            detail: why.detail(),
        });
        let cursor = self.last.as_deref();
        let cursor = cursor.map(|last| PagedList::Restore.cursor(last));
        let [created, set, added, unchanged, left] = self.actions;
        serde_json::to_string(&View {
            date: &date_of(day),
            prefix: &restore.prefix,
            mode: restore.mode.name(),
            dry_run: restore.is_dry,
            counters: self.counters,
            created,
            set,
            added,
            unchanged,
            left,
            rejected: self.refused.len(),
            refused: refused.collect(),
            changes: changes.collect(),
            missing_partitions: &self.missing_partitions,
            cursor: cursor.as_deref(),
        })
        .unwrap_or_default()
    }
}

/// A counter of a snapshot as a line of an import.
pub fn line_of(kept: &SnapshotCounter, id: CounterId) -> CounterLine {
    let contents = |part: &SnapshotDatacenter| {
        let contents = Contents {
            added: part.added,
            removed: part.removed,
            last_write_ms: part.last_write_ms,
            ..Contents::default()
        };
        (part.datacenter.clone(), contents)
    };
    CounterLine {
        id,
        settings: Put::of_snapshot(kept),
        ttl_set_at_ms: kept.settings.ttl.map(|ttl| ttl.set_at_ms),
        created_at_ms: Some(kept.created_at_ms),
        base: kept.base,
        datacenters: kept.datacenters.iter().map(contents).collect(),
        uniques: kept.uniques.clone(),
    }
}
