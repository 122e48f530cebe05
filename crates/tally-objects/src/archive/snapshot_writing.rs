//! Writing of a snapshot: page by page, each part a file, and the manifest last.

use super::snapshots::{
    DELETED_AT_ONCE, MARK_VALUES, OpenPart, PAGE, Progress, SnapshotState, Snapshots, run_name,
    unavailable,
};
use crate::directory::roots::is_listed;
use crate::kit::store::{Insert, integer, text};
use std::collections::BTreeMap;
use tally_core::cluster::delta::Marks;
use tally_core::cluster::root::{Root, RootEntry};
use tally_core::cluster::view::{View, ViewAtRest};
use tally_core::counter::id::CounterId;
use tally_host::object::SqlValue;
use tally_wire::messages::{Fault, encode};
use tally_wire::snapshot::{
    Manifest, PartOf, PartWriter, RunOf, SnapshotCounter, day_of_ms, digest_of, thinned,
};
use tally_wire::stored;

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

impl Snapshots {
    pub(super) async fn delete_some(&self, mut state: SnapshotState) -> Result<(), Fault> {
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
    pub(super) async fn write_some(&self) -> Result<(), Fault> {
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
    async fn write_part(&self, state: &mut SnapshotState, writing: OpenPart) -> Result<(), Fault> {
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
    async fn make_known(&self, mut state: SnapshotState) -> Result<(), Fault> {
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
