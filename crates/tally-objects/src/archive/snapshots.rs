//! A partition of the directory writes snapshots of its counters, a few counters at each alarm.
//!
//! Invariants: a file is written under a new name. A run is known once its manifest exists, and listed by this object
//! once its row exists. The row of a mark has the state of a counter in the newest known run, or nothing. The state at
//! the root is written: no lead is asked. One part at a time is in memory.
//!
//! Life: a run begins when it is due, or on request. Each step reads [`PAGE`] counters and compares them with their
//! marks. A full part, or the last one, is written as a file, and then added to the run in one commit. After the last
//! one the manifest is written. A crash loses the progress since the last part. A run that is not complete when the
//! next is due is cancelled.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use serde::{Deserialize, Serialize};

use super::snapshot_reads::FILES_AT_ONCE;
use crate::directory::root_places::RootPlaces;
use crate::directory::roots::is_listed;
use crate::directory::values::DeploymentValues;
use crate::kit::store::{Insert, Store, integer, text};
use tally_core::cluster::delta::Marks;
use tally_core::cluster::root::{Root, RootEntry};
use tally_core::cluster::view::{View, ViewAtRest};
use tally_core::counter::id::{BEFORE_CALLERS, CounterId};
use tally_host::object::SqlValue;
use tally_host::{Files, Host};
use tally_protocol::messages::{Fault, ListRuns, PartitionRuns, RunInProgress, decode, encode};
use tally_protocol::names::SNAPSHOTS;
use tally_protocol::snapshot::{
    CHAIN_MAX, DAY_MS, Manifest, PartOf, PartWriter, RunOf, SNAPSHOTS_OFF, SnapshotCounter,
    SnapshotPlan, chain_of, day_of_ms, digest_of, thinned,
};
use tally_protocol::stored::{self, StoredBody};
use tally_shared::concurrency::all_settled;
use tally_shared::flag_guard::FlagGuard;
use tally_shared::unreadable;

/// The counters of one step: the object does nothing else meanwhile.
const PAGE: i64 = 256;

/// The pause of the alarm between two steps, milliseconds. If one process runs all partitions, and all of them write,
/// half of the time stays free.
const REST_MS: i64 = 200;

/// The pause of a run that could not write, milliseconds.
const AGAIN_MS: i64 = 30_000;

/// How late an object may start after its first run was due and still make the run, milliseconds. If it starts later it
/// waits for the next day, so that an object that was only read writes nothing.
const LATE_MS: i64 = 600_000;

/// The files that one step deletes.
const DELETED_AT_ONCE: usize = 16;

/// The folder of the partitions' folders, which are named by their numbers.
const FOLDER: &str = "s1/";

/// The number of values of a mark.
const MARK_VALUES: usize = 3;

/// The names of rows with state.
const STATE: &str = "snapshot/state";
const RUNS: [&str; 2] = ["snapshot/run/", "snapshot/run0"];

const MARKS_SCHEMA: &str = "CREATE TABLE IF NOT EXISTS snapshot_marks (id TEXT PRIMARY KEY, digest INTEGER NOT NULL, run INTEGER NOT NULL) WITHOUT ROWID";

/// The digest of a counter whose state in the known runs is unknown. Other digests are not negative.
const UNKNOWN: i64 = -1;

/// A run that is under way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Progress {
    run: u64,
    before: Option<u64>,
    begun_ms: i64,
    /// The name up to which counters are in its parts.
    after: String,
    /// Living counters up to there.
    counters: u64,
    parts: Vec<PartOf>,
    /// When it had read the last counter, unix milliseconds.
    ended_ms: Option<i64>,
    /// Files that may or may not have been written.
    tried: Vec<String>,
}

/// The state of a partition's snapshots besides the known runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct State {
    /// When the last run began, unix milliseconds.
    since_ms: i64,
    last_run: u64,
    /// Whether the marks differ from the known runs.
    needs_full: bool,
    progress: Option<Progress>,
    /// Files to delete.
    gone: Vec<String>,
}

/// A part that is being filled.
struct OpenPart {
    /// The position at which it began: the run, and the name before it.
    begun: (u64, String),
    after: String,
    counters: u64,
    part: PartWriter,
    /// Marks to write with it; `None` for a counter that has ended.
    marks: Vec<(String, Option<i64>)>,
    is_last: bool,
}

/// The snapshots of a partition.
pub(crate) struct Snapshots {
    pub(super) host: Host,
    pub(super) store: Store,
    pub(super) values: DeploymentValues,
    pub(super) places: Rc<RootPlaces>,
    files: Option<Rc<dyn Files>>,
    plan: Option<SnapshotPlan>,
    started_ms: i64,
    /// Whether the folders of all partitions were looked at.
    knows_folders: Cell<bool>,
    writing: RefCell<Option<OpenPart>>,
    known: RefCell<Option<Rc<BTreeMap<u64, RunOf>>>>,
    is_busy: Cell<bool>,
    again_ms: Cell<i64>,
    /// Why it is stopped.
    why: RefCell<Option<String>>,
}

fn unavailable(what: &str, why: &str) -> Fault {
    Fault::Unavailable(format!(
        "the snapshots' files do not answer ({what}): {why}"
    ))
}

fn run_name(run: u64) -> String {
    format!("{}{run:012}", RUNS[0])
}

impl Snapshots {
    /// The snapshots of a partition.
    pub(crate) fn new(host: &Host, store: &Store, places: Rc<RootPlaces>) -> Self {
        let plan = match host.setting(SNAPSHOTS) {
            Some(text) if text == SNAPSHOTS_OFF => None,
            Some(text) => Some(SnapshotPlan::parse(&text).unwrap_or_default()),
            None => Some(SnapshotPlan::default()),
        };
        Self {
            host: host.clone(),
            store: store.clone(),
            values: DeploymentValues::new(store),
            places,
            files: host.platform().files(),
            plan,
            started_ms: host.now_ms(),
            knows_folders: Cell::new(false),
            writing: RefCell::default(),
            known: RefCell::default(),
            is_busy: Cell::new(false),
            again_ms: Cell::new(i64::MIN),
            why: RefCell::default(),
        }
    }

    /// Whether storage for files is configured.
    pub(super) fn has_files(&self) -> bool {
        self.files.is_some()
    }

    /// The storage for files.
    ///
    /// # Errors
    /// `Unavailable` where there is none.
    pub(super) fn files(&self) -> Result<&Rc<dyn Files>, Fault> {
        self.files.as_ref().ok_or_else(|| {
            Fault::Unavailable("this deployment has no place for snapshots".to_owned())
        })
    }

    fn folder(&self, kind: &str) -> Result<String, Fault> {
        let partition = self.places.number();
        let partition = partition.ok_or(Fault::Broken("this is no partition".to_owned()))?;
        Ok(format!("{FOLDER}{partition}/{kind}/"))
    }

    fn manifest_file(&self, run: u64) -> Result<String, Fault> {
        Ok(format!("{}{run:08}", self.folder("runs")?))
    }

    fn state(&self) -> Result<Option<State>, Fault> {
        let body = self.values.get(STATE)?;
        body.map(|body| self.store.value(&body)).transpose()
    }

    fn put_state(&self, state: &State) -> Result<(), Fault> {
        self.values.put(STATE, encode(state)?)
    }

    /// The time of the next step, unix milliseconds.
    ///
    /// # Errors
    /// `Unavailable` where SQLite refuses; as for all methods below.
    pub(crate) fn next_due_ms(&self) -> Result<Option<i64>, Fault> {
        if !self.has_files() {
            return Ok(None);
        }
        let state = self.state()?;
        let is_under_way = |state: &State| state.progress.is_some() || !state.gone.is_empty();
        if state.as_ref().is_some_and(is_under_way) {
            let rest_ms = self.host.now_ms().saturating_add(REST_MS);
            return Ok(Some(rest_ms.max(self.again_ms.get())));
        }
        Ok(self.due_ms(state.as_ref()))
    }

    /// When a run is due, unix milliseconds.
    fn due_ms(&self, state: Option<&State>) -> Option<i64> {
        let since_ms = match state {
            Some(state) => state.since_ms,
            None => self.started_ms - LATE_MS,
        };
        Some(self.plan?.next_ms(self.places.number()?, since_ms))
    }

    /// The known runs. Runs in storage that another object has filled are adopted.
    pub(super) async fn runs(&self) -> Result<Rc<BTreeMap<u64, RunOf>>, Fault> {
        if let Some(known) = self.known.borrow().clone() {
            return Ok(known);
        }
        if self.has_files() && self.state()?.is_none() {
            self.adopt().await?;
        }
        let mut runs = BTreeMap::new();
        for (_, body) in self.values.between(RUNS[0], RUNS[1])? {
            let manifest: Manifest = self.store.value(&body)?;
            runs.insert(manifest.run.run, manifest.run);
        }
        let runs = Rc::new(runs);
        self.known.replace(Some(runs.clone()));
        Ok(runs)
    }

    /// Adopts the runs in storage, if none is known.
    async fn adopt(&self) -> Result<(), Fault> {
        let files = self.files()?;
        let list = |folder: String| async move {
            let listed = files.list(&folder).await;
            listed.map_err(|why| unavailable("list", &why))
        };
        // The files may be of a deployment with more partitions. No database here knows how many.
        if !self.knows_folders.get() {
            let folders = list(FOLDER.to_owned()).await?;
            let number = |name: &String| name.strip_prefix(FOLDER)?.parse().ok();
            let numbers = folders.iter().filter_map(number);
            self.places.record_folders(numbers)?;
            self.knows_folders.set(true);
        }
        let listed = list(self.folder("runs")?).await?;
        let read = |name: String| async move {
            let file = files.get(&name).await;
            let file = file.map_err(|why| unavailable(&name, &why))?;
            file.map(|bytes| self.manifest_of(&name, &bytes))
                .transpose()
        };
        let read = all_settled(listed.into_iter().map(read), FILES_AT_ONCE).await;
        let manifests: Result<Vec<Option<Manifest>>, Fault> = read.into_iter().collect();
        let manifests: Vec<Manifest> = manifests?.into_iter().flatten().collect();
        // Another call may have been quicker.
        if manifests.is_empty() || self.state()?.is_some() {
            return Ok(());
        }
        let runs = manifests.iter().map(|manifest| manifest.run);
        let state = State {
            since_ms: runs.clone().map(|run| run.begun_ms).max().unwrap_or(0),
            last_run: runs.map(|run| run.run).max().unwrap_or(0),
            needs_full: true,
            ..State::default()
        };
        self.store.atomically(|| {
            for manifest in &manifests {
                let name = run_name(manifest.run.run);
                self.values.put(&name, encode(manifest)?)?;
            }
            self.put_state(&state)
        })
    }

    fn manifest_of(&self, name: &str, bytes: &[u8]) -> Result<Manifest, Fault> {
        let damaged = |why: &str| {
            Fault::Unreadable(format!(
                "the file {name} of the snapshots is damaged ({why}): put it back from a copy"
            ))
        };
        let body = StoredBody::read(bytes, stored::FIRST);
        let body = body.map_err(|damage| damaged(&damage.to_string()))?;
        decode(body.bytes).map_err(|fault| damaged(&fault.to_string()))
    }

    /// The files of a run.
    pub(crate) fn manifest(&self, run: u64) -> Result<Option<Manifest>, Fault> {
        let body = self.values.get(&run_name(run))?;
        body.map(|body| self.store.value(&body)).transpose()
    }

    /// Lists the runs.
    pub(crate) async fn list(&self, _: ListRuns) -> Result<PartitionRuns, Fault> {
        let runs = self.runs().await?;
        let progress = self.state()?.and_then(|state| state.progress);
        let under_way = progress.map(|progress| RunInProgress {
            begun_ms: progress.begun_ms,
            entries: progress.parts.iter().map(|part| part.entries).sum(),
            why: self.why.borrow().clone(),
        });
        Ok(PartitionRuns {
            runs: runs.values().copied().collect(),
            in_progress: under_way,
            has_files: self.has_files(),
            has_counters: self.has_counters()?,
            ever: self.places.ever()?,
        })
    }

    /// Whether this partition has roots of callers' counters.
    fn has_counters(&self) -> Result<bool, Fault> {
        let any = "SELECT 1 FROM roots WHERE live = 1 AND id > ? LIMIT 1";
        let rows = self.store.run(any, vec![BEFORE_CALLERS.into()])?;
        Ok(!rows.is_empty())
    }

    /// Begins a run, unless one is under way.
    pub(crate) async fn begin(&self) -> Result<(), Fault> {
        self.files()?;
        if self.is_busy.replace(true) {
            return Ok(());
        }
        let _busy = FlagGuard(&self.is_busy);
        self.again_ms.set(i64::MIN);
        let runs = self.runs().await?;
        let state = self.state()?.unwrap_or_default();
        match state.progress {
            Some(_) => Ok(()),
            None => self.begin_run(state, &runs),
        }
    }

    fn begin_run(&self, mut state: State, runs: &BTreeMap<u64, RunOf>) -> Result<(), Fault> {
        let now_ms = self.host.now_ms();
        let last = runs.keys().next_back().copied();
        let chain = last.and_then(|last| chain_of(runs, last));
        let plan = self.plan.unwrap_or_default();
        let is_young = |chain: &Vec<u64>| {
            let full = chain.first().and_then(|run| runs.get(run));
            let is_of_late =
                full.is_some_and(|full| day_of_ms(now_ms) < full.day + plan.full_every_days);
            is_of_late && chain.len() < CHAIN_MAX
        };
        let before = last.filter(|_| !state.needs_full && chain.as_ref().is_some_and(is_young));
        state.last_run += 1;
        state.since_ms = now_ms;
        state.progress = Some(Progress {
            run: state.last_run,
            before,
            begun_ms: now_ms,
            after: BEFORE_CALLERS.to_owned(),
            counters: 0,
            parts: Vec::new(),
            ended_ms: None,
            tried: Vec::new(),
        });
        self.store.run(MARKS_SCHEMA, vec![])?;
        self.put_state(&state)
    }

    /// Cancels a run: its files are deleted.
    fn give_up(&self, state: &mut State) -> Result<(), Fault> {
        let Some(progress) = state.progress.take() else {
            return Ok(());
        };
        self.writing.take();
        state.gone.extend(progress.tried);
        let parts = progress.parts.into_iter().map(|part| part.file);
        state.gone.extend(parts);
        state.gone.push(self.manifest_file(progress.run)?);
        self.store.atomically(|| {
            let run = i64::try_from(progress.run).unwrap_or(i64::MAX);
            let sql = "UPDATE snapshot_marks SET digest = ? WHERE run = ?";
            self.store.run(sql, vec![UNKNOWN.into(), run.into()])?;
            self.put_state(state)
        })
    }

    /// Does one step of what is due.
    pub(crate) async fn step(&self) -> Result<(), Fault> {
        if !self.has_files() || self.is_busy.replace(true) {
            return Ok(());
        }
        let _busy = FlagGuard(&self.is_busy);
        if self.host.now_ms() < self.again_ms.get() {
            return Ok(());
        }
        let done = self.go_on().await;
        match &done {
            Ok(()) => {
                self.again_ms.set(i64::MIN);
                self.why.replace(None);
            }
            Err(fault) => {
                unreadable::record(&self.host, "a snapshot", fault);
                self.again_ms.set(self.host.now_ms() + AGAIN_MS);
                self.why.replace(Some(fault.to_string()));
            }
        }
        done
    }

    async fn go_on(&self) -> Result<(), Fault> {
        let now_ms = self.host.now_ms();
        let state = self.state()?;
        let is_due = self
            .due_ms(state.as_ref())
            .is_some_and(|due_ms| due_ms <= now_ms);
        let progress = state.as_ref().and_then(|state| state.progress.as_ref());
        if let Some(progress) = progress
            && !(is_due && now_ms - progress.begun_ms >= DAY_MS)
        {
            return self.write_some().await;
        }
        if is_due {
            let runs = self.runs().await?;
            let mut state = self.state()?.unwrap_or_default();
            let is_of_today = |(_, run): (&u64, &RunOf)| run.day == day_of_ms(now_ms);
            let would_hide = state.needs_full && runs.last_key_value().is_some_and(is_of_today);
            if would_hide && !self.has_counters()? {
                // Nothing was restored yet: an empty run would replace the adopted one of this day.
                state.since_ms = now_ms;
                return self.put_state(&state);
            }
            self.give_up(&mut state)?;
            return self.begin_run(state, &runs);
        }
        match state {
            Some(state) if !state.gone.is_empty() => self.delete_some(state).await,
            _ => Ok(()),
        }
    }

    async fn delete_some(&self, mut state: State) -> Result<(), Fault> {
        let files = self.files()?;
        let count = state.gone.len().min(DELETED_AT_ONCE);
        let some: Vec<String> = state.gone.drain(..count).collect();
        for name in some {
            let deleted = files.delete(&name).await;
            deleted.map_err(|why| unavailable(&name, &why))?;
        }
        self.put_state(&state)
    }

    /// Reads some counters, and writes a part when it is full.
    async fn write_some(&self) -> Result<(), Fault> {
        let missing = || Fault::Broken("no run is under way".to_owned());
        let mut state = self.state()?.ok_or_else(missing)?;
        let progress = state.progress.as_mut().ok_or_else(missing)?;
        if progress.ended_ms.is_some() {
            return self.make_known(state).await;
        }
        let begun = (progress.run, progress.after.clone());
        let writing = self.writing.take();
        let mut writing = writing
            .filter(|writing| writing.begun == begun)
            .unwrap_or_else(|| OpenPart {
                after: begun.1.clone(),
                begun,
                counters: 0,
                part: PartWriter::default(),
                marks: Vec::new(),
                is_last: false,
            });
        self.look(progress, &mut writing)?;
        if !writing.is_last && !writing.part.is_full() {
            self.writing.replace(Some(writing));
            return Ok(());
        }
        let is_last = writing.is_last;
        self.write_part(&mut state, writing).await?;
        match is_last {
            true => self.make_known(state).await,
            false => Ok(()),
        }
    }

    /// Reads the next counters.
    fn look(&self, progress: &Progress, writing: &mut OpenPart) -> Result<(), Fault> {
        let page = self.page(&writing.after)?;
        let is_full = progress.before.is_none();
        let now_ms = self.host.now_ms();
        for (id, row) in page.rows {
            if writing.part.is_full() {
                return Ok(());
            }
            let counter = CounterId::stored(id.as_str()).map_err(|error| {
                Fault::Broken(format!("a counter's name cannot be read: {error}"))
            })?;
            let kept = row
                .root
                .filter(|(root, _)| is_listed(root, now_ms))
                .map(|(root, view)| SnapshotCounter::of(&root, &view));
            let digest = kept.as_ref().map(digest_of);
            let is_same = digest == row.mark;
            // An ended counter is written only in the run after its end.
            let is_written = if is_full { kept.is_some() } else { !is_same };
            if is_written {
                writing.part.push(&counter, kept.as_ref());
            }
            if !is_same {
                writing.marks.push((id.clone(), digest));
            }
            writing.counters += u64::from(kept.is_some());
            writing.after = id;
        }
        writing.is_last = page.is_last;
        Ok(())
    }

    fn page(&self, after: &str) -> Result<Page, Fault> {
        let select = |sql: &str, values: Vec<SqlValue>| self.store.run(sql, values);
        let sql = "SELECT id, body FROM roots WHERE live = 1 AND id > ? ORDER BY id LIMIT ?";
        let roots = select(sql, vec![after.into(), PAGE.into()])?;
        let sql = "SELECT id, digest FROM snapshot_marks WHERE id > ? ORDER BY id LIMIT ?";
        let marks = select(sql, vec![after.into(), PAGE.into()])?;
        let page_size = usize::try_from(PAGE).unwrap_or(usize::MAX);
        let last = |rows: &[Vec<SqlValue>]| -> Option<String> {
            let last = rows.last().filter(|_| rows.len() >= page_size)?;
            last.first().and_then(text).map(str::to_owned)
        };
        // Up to this name both are complete.
        let to = last(&roots).into_iter().chain(last(&marks)).min();
        let is_in_page = |id: &str| to.as_deref().is_none_or(|to| id <= to);
        let mut rows: BTreeMap<String, Row> = BTreeMap::new();
        for row in &marks {
            if let [id, digest] = row.as_slice()
                && let Some(id) = text(id).filter(|id| is_in_page(id))
            {
                let row = Row {
                    root: None,
                    mark: integer(digest),
                };
                rows.insert(id.to_owned(), row);
            }
        }
        let mut views = self.views(after, to.as_deref(), &roots)?;
        for row in &roots {
            if let [id, body] = row.as_slice()
                && let Some(id) = text(id).filter(|id| is_in_page(id))
                && let RootEntry::Live(root) = self.store.get(body)?
            {
                let view = views.remove(id);
                let view = view.unwrap_or_else(|| View::new(root.generation));
                rows.entry(id.to_owned()).or_default().root = Some((root, view));
            }
        }
        Ok(Page {
            rows,
            is_last: to.is_none(),
        })
    }

    /// The views of the counters of a page.
    fn views(
        &self,
        after: &str,
        to: Option<&str>,
        roots: &[Vec<SqlValue>],
    ) -> Result<BTreeMap<String, View>, Fault> {
        let last = roots.last().and_then(|row| text(row.first()?));
        let Some(to) = to.or(last) else {
            return Ok(BTreeMap::new());
        };
        let sql = "SELECT id, body FROM views WHERE id > ? AND id <= ?";
        let mut views = BTreeMap::new();
        for row in self.store.run(sql, vec![after.into(), to.into()])? {
            if let [id, body] = row.as_slice()
                && let Some(id) = text(id)
            {
                let (view, _): (ViewAtRest, Marks) = self.store.get(body)?;
                views.insert(id.to_owned(), View::from_rest(view));
            }
        }
        Ok(views)
    }

    /// Writes a part as a file, and then adds it to the run.
    async fn write_part(&self, state: &mut State, writing: OpenPart) -> Result<(), Fault> {
        let missing = || Fault::Broken("no run is under way".to_owned());
        let names = writing.part.names();
        let names = names.map(|(first, last)| (first.to_owned(), last.to_owned()));
        let entries = u64::try_from(writing.part.entries()).unwrap_or(u64::MAX);
        let run = state.progress.as_ref().ok_or_else(missing)?.run;
        let mut part = None;
        if let Some((first, last)) = names {
            let folder = self.folder("parts")?;
            let file = format!("{folder}{run:08}-{:016x}", self.host.random());
            let progress = state.progress.as_mut().ok_or_else(missing)?;
            progress.tried.push(file.clone());
            self.put_state(state)?;
            let bytes = writing.part.finish();
            let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
            let put = self.files()?.put(&file, bytes).await;
            put.map_err(|why| unavailable(&file, &why))?;
            part = Some(PartOf {
                file,
                first,
                last,
                entries,
                bytes: length,
            });
        }
        let progress = state.progress.as_mut().ok_or_else(missing)?;
        if let Some(part) = part {
            progress.tried.retain(|name| *name != part.file);
            progress.parts.push(part);
        }
        progress.after = writing.after;
        progress.counters += writing.counters;
        if writing.is_last {
            progress.ended_ms = Some(self.host.now_ms());
        }
        self.store.atomically(|| {
            self.put_marks(run, &writing.marks)?;
            self.put_state(state)
        })
    }

    fn put_marks(&self, run: u64, marks: &[(String, Option<i64>)]) -> Result<(), Fault> {
        let run = i64::try_from(run).unwrap_or(i64::MAX);
        let living = marks
            .iter()
            .filter_map(|(id, digest)| Some((id, (*digest)?)));
        let values = living
            .flat_map(|(id, digest)| [id.as_str().into(), SqlValue::from(digest), run.into()]);
        let insert = Insert {
            into: "INSERT INTO snapshot_marks VALUES",
            places: "(?, ?, ?)",
            conflict: "ON CONFLICT (id) DO UPDATE SET digest = excluded.digest, run = excluded.run",
        };
        self.store
            .insert_all(&insert, MARK_VALUES, values.collect())?;
        for (id, _) in marks.iter().filter(|(_, digest)| digest.is_none()) {
            let sql = "DELETE FROM snapshot_marks WHERE id = ?";
            self.store.run(sql, vec![id.as_str().into()])?;
        }
        Ok(())
    }

    /// Writes the manifest of a run that has all its parts, and deletes runs that are not kept any longer.
    async fn make_known(&self, mut state: State) -> Result<(), Fault> {
        let Some(progress) = state.progress.take() else {
            return Ok(());
        };
        let sum = |of: fn(&PartOf) -> u64| progress.parts.iter().map(of).sum();
        let run = RunOf {
            run: progress.run,
            before: progress.before,
            day: day_of_ms(progress.begun_ms),
            begun_ms: progress.begun_ms,
            ended_ms: progress.ended_ms.unwrap_or(progress.begun_ms),
            counters: progress.counters,
            entries: sum(|part| part.entries),
            bytes: sum(|part| part.bytes),
        };
        let manifest = Manifest {
            run,
            parts: progress.parts.clone(),
        };
        let mut runs = BTreeMap::clone(&*self.runs().await?);
        let body = encode(&manifest)?;
        let file = self.manifest_file(run.run)?;
        let put = self
            .files()?
            .put(&file, stored::framed(&body, stored::FIRST));
        put.await.map_err(|why| unavailable(&file, &why))?;
        runs.insert(run.run, run);
        state.gone.extend(progress.tried);
        state.needs_full &= run.before.is_some();
        let keep_days = self.plan.unwrap_or_default().keep_days;
        let old = thinned(&runs, day_of_ms(self.host.now_ms()), keep_days);
        for run in &old {
            // The manifest is deleted first: without it the parts are not searched.
            state.gone.push(self.manifest_file(*run)?);
            let parts = self.manifest(*run)?.map(|manifest| manifest.parts);
            let parts = parts.into_iter().flatten().map(|part| part.file);
            state.gone.extend(parts);
        }
        self.store.atomically(|| {
            self.values.put(&run_name(run.run), body.clone())?;
            for run in &old {
                self.values.remove(&run_name(*run))?;
            }
            self.put_state(&state)
        })?;
        self.known.replace(None);
        Ok(())
    }
}

/// The known state of a counter.
#[derive(Default)]
struct Row {
    root: Option<(Root, View)>,
    mark: Option<i64>,
}

/// Some counters, in order of their names.
struct Page {
    rows: BTreeMap<String, Row>,
    is_last: bool,
}
