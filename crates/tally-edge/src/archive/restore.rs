//! `POST /snapshots/{date}/restore`: restores counters from a snapshot.
//!
//! Invariants: the current state of a counter is read from all its cells, and decides what is done. Each change is an
//! operation of the counter's root, so writes that arrive during the restore are kept. Under an `Idempotency-Key` each
//! counter is changed once for any number of repeats.

use super::import::{Import, StepKeys};
use super::import_counters::forget;
use super::snapshots;
use crate::deployment::audit;
use crate::kit::body;
use crate::kit::request_context::RequestContext;
use crate::kit::request_key::RequestKey;
use crate::kit::respond::Answer;
use tally_api::access::Caller;
use tally_api::export::ImportMode;
use tally_api::query::Query;
use tally_api::snapshot::{
    Restore, RestoreAction, RestoreResult, action_of, has_settings, has_value, lacking, line_of,
    parse_date, refusal_of,
};
use tally_core::counter::contents::Contents;
use tally_core::counter::id::CounterId;
use tally_core::order::in_order;
use tally_shared::concurrency::all_settled;
use tally_shared::{call, call_within};
use tally_wire::messages::{
    ClaimRestore, Done, GlobalSum, IfExists, ListAllPastStates, PastStateRow, Put, Read, ReadEach,
    ReadParts, RestoreSource, encode,
};
use tally_wire::problem::{Code, Problem};
use tally_wire::rights::Scope;
use tally_wire::snapshot::{SnapshotCounter, date_of};

/// Counters that are asked for, read and changed at once: with sketches of 12 KB from each of 16 partitions 12 MB at
/// the most.
const AT_ONCE: u32 = 64;

/// How long reads of counters may take.
const READ_MS_MAX: u64 = 40_000;

/// The approximate time of one call; the rest is for the next call.
const ANSWER_MS: u64 = 20_000;

/// `POST /snapshots/{date}/restore`.
///
/// # Errors
/// `invalid-query`, `invalid-json`, `unknown-field`, `invalid-body`, `invalid-idempotency-key`,
/// `idempotency-key-reused`, `forbidden`, `snapshot-not-found`, `unavailable`.
pub async fn restore(
    context: &RequestContext,
    caller: &Caller,
    date: &str,
) -> Result<Answer, Problem> {
    let strings = Query::parse(context.query(), &["numbers"])?.numbers_as_strings()?;
    let day = parse_date(date)?;
    let restore = Restore::parse(&body::read_small(context).await?)?;
    caller.may(Scope::Admin, &restore.prefix)?;
    let (mode, prefix) = (restore.mode.name(), &restore.prefix);
    let target = format!("{} {mode} {prefix}", date_of(day));
    audit::act(context, (!restore.is_dry).then_some(&target)).await;
    let key = RequestKey::of(context, caller).await?;
    let work = Work {
        context,
        restore: &restore,
        keys: key.map(|key| StepKeys {
            key,
            within: format!("restore/{}/", date_of(day)),
        }),
    };
    let _waiting = context.waiting();
    let begun_ms = context.host.now_ms();
    let mut restored = RestoreResult {
        missing_partitions: lacking(&snapshots::runs(&context.host, false).await?, day),
        ..RestoreResult::default()
    };
    let mut after = restore.after.clone();
    let mut is_claimed = restore.is_dry;
    loop {
        let left = restore.limit - restored.counters;
        let request = ListAllPastStates {
            day,
            prefix: restore.prefix.clone(),
            after: after.take(),
            limit: u32::try_from(left).unwrap_or(AT_ONCE).min(AT_ONCE),
            uniques: true,
        };
        let page = snapshots::page(context, &request).await?;
        // A restore of a day without a snapshot leaves its key free.
        if !is_claimed && let Some(keys) = &work.keys {
            claim(context, &keys.key, (day, &restore)).await?;
            is_claimed = true;
        }
        let last = page.rows.last().map(|row| row.counter.as_str().to_owned());
        work.bring_back(page.rows, &mut restored).await?;
        after = last.filter(|_| page.has_more);
        let is_over = context.host.now_ms().abs_diff(begun_ms) >= ANSWER_MS;
        if after.is_none() || is_over || restored.counters >= restore.limit {
            break;
        }
    }
    restored.last = after;
    let answer = Answer::json(restored.to_json(day, &restore, strings));
    Ok(match restored.is_replay {
        Some(true) => answer.replayed(),
        _ => answer,
    })
}

/// Binds a key to this restore. Its pages have the same key, and other cursors.
///
/// # Errors
/// `idempotency-key-reused` for a key of another restore, `unavailable`.
async fn claim(
    context: &RequestContext,
    key: &RequestKey,
    (day, restore): (i64, &Restore),
) -> Result<(), Problem> {
    let (date, mode) = (date_of(day), restore.mode.name());
    let parts: [&[u8]; 3] = [b"restore", date.as_bytes(), mode.as_bytes()];
    let hash = key.request_hash(&parts, restore.prefix.as_bytes());
    let claim = ClaimRestore {
        key: key.step_name("restore-of/", ""),
        restore: key.step_name(&format!("restore-of-{hash:016x}/"), ""),
    };
    if call(&context.host, &claim).await? {
        return Ok(());
    }
    let detail = "this key was sent with another date, mode or prefix; nothing was restored, use a new key for another restore";
    Err(Problem::new(Code::IdempotencyKeyReused, detail))
}

struct Work<'a> {
    context: &'a RequestContext,
    restore: &'a Restore,
    keys: Option<StepKeys>,
}

impl Work<'_> {
    /// Restores some counters, or reports what would be done.
    async fn bring_back(
        &self,
        rows: Vec<PastStateRow>,
        into: &mut RestoreResult,
    ) -> Result<(), Problem> {
        let now = self.read(&rows).await?;
        let work = |(row, now): (PastStateRow, Option<GlobalSum>)| async move {
            let action = action_of(self.restore.mode, &row.kept, now.as_ref());
            let now_ms = self.context.host.now_ms();
            let done = match refusal_of(action, &row.kept, now.as_ref(), now_ms) {
                Some(problem) => Err(problem),
                None if self.restore.is_dry => Ok((action, None)),
                None => self.carry_out(action, &row, now.as_ref()).await,
            };
            let now = now.map(|now| now.value());
            (row.counter, done, now, row.kept.value())
        };
        let at_once = usize::try_from(AT_ONCE).unwrap_or(usize::MAX);
        let worked = all_settled(rows.into_iter().zip(now).map(work), at_once).await;
        for (id, done, now, then) in in_order(worked, |one, other| one.0.cmp(&other.0)) {
            into.counters += 1;
            match done {
                Ok((action, was_done)) => into.record(&id, (action, was_done), now, then),
                Err(problem) => into.refused.push((id, problem)),
            }
        }
        Ok(())
    }

    /// The present state of counters, from all their cells.
    async fn read(&self, rows: &[PastStateRow]) -> Result<Vec<Option<GlobalSum>>, Problem> {
        let read = |row: &PastStateRow| Read {
            counter: row.counter.clone(),
            datacenter: None,
            wanted: ReadParts {
                totals_only: row.kept.uniques.is_empty(),
                reads_all: true,
                is_passing: true,
                ..ReadParts::default()
            },
        };
        let request = ReadEach {
            reads: rows.iter().map(read).collect(),
            is_strong: true,
        };
        let read = call_within(&self.context.host, &request, READ_MS_MAX).await;
        let read = read.map_err(crate::read::counter::unread)?;
        let read = read
            .into_iter()
            .map(|sum| sum.map_err(crate::read::counter::unread));
        read.collect()
    }

    /// Restores one counter. Returns what is done, and whether that was done before under the key; `None` where nothing
    /// had to be done.
    async fn carry_out(
        &self,
        action: RestoreAction,
        row: &PastStateRow,
        now: Option<&GlobalSum>,
    ) -> Result<(RestoreAction, Option<bool>), Problem> {
        let PastStateRow { counter, kept, .. } = row;
        // Under a key it counts as done, whatever happens to the counter before the call is repeated.
        if action == RestoreAction::Same && self.keys.is_none() {
            return Ok((action, None));
        }
        // Also if it is created: a repeat under the key finds the counter, and must do the same.
        if self.restore.mode == ImportMode::Add {
            let was_done = self.import(ImportMode::Add, counter, kept).await?;
            return Ok((action, Some(was_done)));
        }
        // A counter that this call has begun under its key must be finished. So creation is tried before an existing
        // counter is set.
        if action == RestoreAction::Create || self.keys.is_some() {
            match self.import(ImportMode::Create, counter, kept).await {
                Ok(was_done) => return Ok((RestoreAction::Create, Some(was_done))),
                Err(problem) if problem.code() != Code::AlreadyExists => return Err(problem),
                Err(_) => {}
            }
        }
        if self.restore.mode != ImportMode::Replace {
            return Ok((RestoreAction::Keep, None));
        }
        let was_done = self.set(counter, kept, now).await?;
        let action = match action {
            RestoreAction::Same => action,
            _ => RestoreAction::Set,
        };
        Ok((action, Some(was_done)))
    }

    fn importer(&self, mode: ImportMode) -> Import<'_> {
        Import::of_snapshot(self.context, mode, self.keys.clone())
    }

    async fn import(
        &self,
        mode: ImportMode,
        id: &CounterId,
        kept: &SnapshotCounter,
    ) -> Result<bool, Problem> {
        let line = line_of(kept, id.clone());
        self.importer(mode).counter(0, &encode(kept)?, line).await
    }

    /// Sets an existing counter to its former settings and value; unique elements are joined. Returns whether all of it
    /// was done before under the key.
    async fn set(
        &self,
        id: &CounterId,
        kept: &SnapshotCounter,
        now: Option<&GlobalSum>,
    ) -> Result<bool, Problem> {
        let importer = self.importer(ImportMode::Replace);
        let line = encode(kept)?;
        let key = |step: &str| importer.step_key(id.as_str(), step, &line);
        let back = |if_there: IfExists, settings: Put| RestoreSource {
            if_there,
            settings,
            ttl_set_at_ms: kept.settings.ttl.map(|ttl| ttl.set_at_ms),
            created_at_ms: None,
            base: Some(kept.value()),
        };
        // A step that is not needed is recorded under its key: a repeated call does not do it either.
        let step = |name: &'static str, is_needed: bool, back: RestoreSource| {
            let (importer, key) = (&importer, key(name));
            let if_there = match is_needed {
                true => back.if_there,
                false => IfExists::Keep,
            };
            let is_done = is_needed || self.keys.is_some();
            let back = RestoreSource { if_there, ..back };
            async move {
                match is_done {
                    true => importer.operate(id, back, key).await.map(Some),
                    false => Ok(None),
                }
            }
        };
        let changes_settings = now.is_none_or(|now| !has_settings(kept, now));
        let changes_value = now.is_none_or(|now| !has_value(kept, now));
        // The value may be below the former floor, and below the present one.
        let unbound = Put {
            floor: None,
            ..Put::of_snapshot(kept)
        };
        let put = back(IfExists::PutSettings, unbound);
        let is_repeat = |done: &Option<Done>| done.as_ref().is_none_or(|done| done.is_repeat);
        let mut was_done = is_repeat(&step("settings", changes_settings, put).await?);
        let set = back(IfExists::Set, Put::of_snapshot(kept));
        let done = step("value", changes_value, set).await?;
        was_done &= is_repeat(&done);
        if kept.settings.floor.is_some() {
            let put = back(IfExists::PutSettings, Put::of_snapshot(kept));
            was_done &= is_repeat(&step("floor", changes_settings, put).await?);
        }
        let generation = done.map(|done| done.generation);
        let generation = generation
            .or(now.map(|now| now.root.generation))
            .unwrap_or(0);
        if !kept.uniques.is_empty() {
            let first = kept.datacenters.first().map(|part| part.datacenter.clone());
            let datacenter = kept.home.clone().or(first);
            let datacenter = datacenter.unwrap_or_else(|| self.context.datacenter());
            let contents = Contents {
                uniques: kept.uniques.clone(),
                ..Contents::default()
            };
            let key = key("uniques");
            let to = (id, generation);
            was_done &= importer.install(to, datacenter, contents, key).await?;
        }
        forget(&self.context.host, id);
        Ok(was_done)
    }
}
