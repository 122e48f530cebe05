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

use crate::directory::root_places::RootPlaces;
use crate::directory::values::DeploymentValues;
use crate::kit::store::Store;
use tally_core::counter::id::BEFORE_CALLERS;
use tally_host::{Files, Host};
use tally_shared::concurrency::all_settled;
use tally_shared::flag_guard::FlagGuard;
use tally_shared::unreadable;
use tally_wire::messages::{Fault, ListRuns, PartitionRuns, RunInProgress, decode, encode};
use tally_wire::names::SNAPSHOTS;
use tally_wire::snapshot::{
    CHAIN_MAX, DAY_MS, Manifest, PartOf, PartWriter, RunOf, SNAPSHOTS_OFF, SnapshotPlan, chain_of,
    day_of_ms,
};
use tally_wire::stored;
use tally_wire::stored::StoredBody;

/// The files that are read at once: each is at most 0.5 MB before decompression, and about 2 MB after.
pub(super) const FILES_AT_ONCE: usize = 8;

/// The counters of one step: the object does nothing else meanwhile.
pub(super) const PAGE: i64 = 256;

/// The pause of the alarm between two steps, milliseconds. If one process runs all partitions, and all of them write,
/// half of the time stays free.
const REST_MS: i64 = 200;

/// The pause of a run that could not write, milliseconds.
const AGAIN_MS: i64 = 30_000;

/// How late an object may start after its first run was due and still make the run, milliseconds. If it starts later it
/// waits for the next day, so that an object that was only read writes nothing.
const LATE_MS: i64 = 600_000;

/// The files that one step deletes.
pub(super) const DELETED_AT_ONCE: usize = 16;

/// The folder of the partitions' folders, which are named by their numbers.
const FOLDER: &str = "s1/";

/// The number of values of a mark.
pub(super) const MARK_VALUES: usize = 3;

/// The names of rows with state.
const STATE: &str = "snapshot/state";
const RUNS: [&str; 2] = ["snapshot/run/", "snapshot/run0"];

const MARKS_SCHEMA: &str = "CREATE TABLE IF NOT EXISTS snapshot_marks (id TEXT PRIMARY KEY, digest INTEGER NOT NULL, run INTEGER NOT NULL) WITHOUT ROWID";

/// The digest of a counter whose state in the known runs is unknown. Other digests are not negative.
const UNKNOWN: i64 = -1;

/// A run that is under way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Progress {
    pub(super) run: u64,
    pub(super) before: Option<u64>,
    pub(super) begun_ms: i64,
    /// The name up to which counters are in its parts.
    pub(super) after: String,
    /// Living counters up to there.
    pub(super) counters: u64,
    pub(super) parts: Vec<PartOf>,
    /// When it had read the last counter, unix milliseconds.
    pub(super) ended_ms: Option<i64>,
    /// Files that may or may not have been written.
    pub(super) tried: Vec<String>,
}

/// The state of a partition's snapshots besides the known runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SnapshotState {
    /// When the last run began, unix milliseconds.
    since_ms: i64,
    last_run: u64,
    /// Whether the marks differ from the known runs.
    pub(super) needs_full: bool,
    pub(super) progress: Option<Progress>,
    /// Files to delete.
    pub(super) gone: Vec<String>,
}

/// A part that is being filled.
pub(super) struct OpenPart {
    /// The position at which it began: the run, and the name before it.
    pub(super) begun: (u64, String),
    pub(super) after: String,
    pub(super) counters: u64,
    pub(super) part: PartWriter,
    /// Marks to write with it; `None` for a counter that has ended.
    pub(super) marks: Vec<(String, Option<i64>)>,
    pub(super) is_last: bool,
}

/// The snapshots of a partition.
pub(crate) struct Snapshots {
    pub(super) host: Host,
    pub(super) store: Store,
    pub(super) values: DeploymentValues,
    pub(super) places: Rc<RootPlaces>,
    files: Option<Rc<dyn Files>>,
    pub(super) plan: Option<SnapshotPlan>,
    started_ms: i64,
    /// Whether the folders of all partitions were looked at.
    knows_folders: Cell<bool>,
    pub(super) writing: RefCell<Option<OpenPart>>,
    pub(super) known: RefCell<Option<Rc<BTreeMap<u64, RunOf>>>>,
    is_busy: Cell<bool>,
    again_ms: Cell<i64>,
    /// Why it is stopped.
    why: RefCell<Option<String>>,
}

pub(super) fn unavailable(what: &str, why: &str) -> Fault {
    Fault::Unavailable(format!(
        "the snapshots' files do not answer ({what}): {why}"
    ))
}

pub(super) fn run_name(run: u64) -> String {
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

    pub(super) fn folder(&self, kind: &str) -> Result<String, Fault> {
        let partition = self.places.number();
        let partition = partition.ok_or(Fault::Broken("this is no partition".to_owned()))?;
        Ok(format!("{FOLDER}{partition}/{kind}/"))
    }

    pub(super) fn manifest_file(&self, run: u64) -> Result<String, Fault> {
        Ok(format!("{}{run:08}", self.folder("runs")?))
    }

    pub(super) fn state(&self) -> Result<Option<SnapshotState>, Fault> {
        let body = self.values.get(STATE)?;
        body.map(|body| self.store.value(&body)).transpose()
    }

    pub(super) fn put_state(&self, state: &SnapshotState) -> Result<(), Fault> {
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
        let is_under_way =
            |state: &SnapshotState| state.progress.is_some() || !state.gone.is_empty();
        if state.as_ref().is_some_and(is_under_way) {
            let rest_ms = self.host.now_ms().saturating_add(REST_MS);
            return Ok(Some(rest_ms.max(self.again_ms.get())));
        }
        Ok(self.due_ms(state.as_ref()))
    }

    /// When a run is due, unix milliseconds.
    fn due_ms(&self, state: Option<&SnapshotState>) -> Option<i64> {
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
        let state = SnapshotState {
            since_ms: runs.clone().map(|run| run.begun_ms).max().unwrap_or(0),
            last_run: runs.map(|run| run.run).max().unwrap_or(0),
            needs_full: true,
            ..SnapshotState::default()
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

    fn begin_run(
        &self,
        mut state: SnapshotState,
        runs: &BTreeMap<u64, RunOf>,
    ) -> Result<(), Fault> {
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
    fn give_up(&self, state: &mut SnapshotState) -> Result<(), Fault> {
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
}
