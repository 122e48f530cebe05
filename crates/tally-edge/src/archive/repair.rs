//! `POST /repair`: repairs of damaged data, from other objects and from the last snapshot.
//!
//! Life of a repair: first the root, by its leads; then each cell, by the root's view. Cells that no object remembers
//! are repaired by the last snapshot. Undamaged data is not changed. Damaged data that belongs to no counter is
//! reported, and removed if the request names it.

use std::collections::BTreeSet;

use super::import::Import;
use super::repair_objects;
use crate::deployment::audit;
use crate::kit::body;
use crate::kit::request_context::RequestContext;
use crate::kit::respond::Answer;
use crate::write::administration;
use tally_api::export::ImportMode;
use tally_api::query::PagedList;
use tally_api::repair::{
    COUNTERS_MAX, CellReport, CounterReport, Extent, Found, RepairRequest, parse_repair,
};
use tally_core::cluster::root::Root;
use tally_core::cluster::view::View;
use tally_core::counter::contents::Contents;
use tally_core::counter::id::{CounterId, Datacenter};
use tally_core::counter::merge::{CellFacts, CellTotals};
use tally_core::counter::settings::SHARDS_MAX;
use tally_core::counter::total::Sum;
use tally_core::order::put_in_order;
use tally_host::Host;
use tally_shared::concurrency::all_settled;
use tally_shared::partitions::{ask_all, ask_ever};
use tally_shared::{call, call_within};
use tally_wire::messages::{
    CellPart, CellRepaired, Fault, ListAllPastStates, ListDatacenters, ListNames, ListPastStates,
    Operate, Operation, RememberedCell, RepairCell, RepairRoot, RootPart, RootRepaired, TotalsFrom,
};
use tally_wire::names::CellAddress;
use tally_wire::problem::Problem;
use tally_wire::shell_limits::OPERATE_MS_MAX;
use tally_wire::snapshot::{LastSnapshot, date_of};

/// How many counters, and cells of each, are checked at once.
const COUNTERS_AT_ONCE: usize = 16;
const CELLS_AT_ONCE: usize = 16;

/// `POST /repair`
///
/// # Errors
/// `invalid-json`, `unknown-field`, `invalid-body`, `invalid-id`, `unavailable`.
pub async fn repair(context: &RequestContext) -> Result<Answer, Problem> {
    let request = parse_repair(&body::read_small(context).await?)?;
    audit::act(context, request.target().as_deref()).await;
    let RepairRequest { extent, is_dry } = request;
    let host = &context.host;
    let known = ask_all(host, |partition| ListDatacenters { partition }).await;
    let mut datacenters: BTreeSet<Datacenter> = [context.datacenter()].into();
    datacenters.extend(known.answers.into_iter().flat_map(|(_, known)| known));
    let (names, failed, cursor) = match extent {
        Extent::Counter(counter) => (vec![counter], Vec::new(), None),
        Extent::Prefix(prefix, after) => names(host, &prefix, after).await,
        Extent::Objects(prefix, after) => {
            let found = repair_objects::find(host, &datacenters, &prefix, after).await?;
            return Ok(Answer::json(found.to_json(is_dry)));
        }
        Extent::Object(object) => {
            let found = repair_objects::repair(host, object, !is_dry).await?;
            return Ok(Answer::json(found.to_json(is_dry)));
        }
    };
    let repair = Repair {
        context,
        host,
        datacenters,
        is_dry,
    };
    let looked = all_settled(
        names.iter().map(|counter| repair.counter(counter)),
        COUNTERS_AT_ONCE,
    );
    let mut counters = looked.await;
    counters.retain(|counter| !counter.is_whole());
    put_in_order(&mut counters, |one, other| one.id.cmp(&other.id));
    let found = Found {
        checked: names.len(),
        counters,
        objects: None,
        failed,
        cursor,
    };
    Ok(Answer::json(found.to_json(is_dry)))
}

/// The next counters of a prefix, the partitions that did not answer, and the name after which there are more.
async fn names(
    host: &Host,
    prefix: &str,
    after: Option<String>,
) -> (Vec<CounterId>, Vec<String>, Option<String>) {
    let answers = ask_all(host, |partition| ListNames {
        partition,
        prefix: prefix.to_owned(),
        after: after.clone(),
        limit: COUNTERS_MAX,
    });
    let answers = answers.await;
    let failed = answers.missing.iter();
    let failed = failed.map(|partition| format!("partition {partition} did not answer"));
    let mut names: Vec<String> = answers
        .answers
        .into_iter()
        .flat_map(|(_, names)| names)
        .collect();
    put_in_order(&mut names, Ord::cmp);
    let counters_max = usize::try_from(COUNTERS_MAX).unwrap_or(usize::MAX);
    let has_more = names.len() >= counters_max;
    names.truncate(counters_max);
    let last = names.last().filter(|_| has_more);
    let cursor = last.map(|last| PagedList::Repair.cursor(last));
    let counters = names.iter().filter_map(|name| CounterId::stored(name).ok());
    (counters.collect(), failed.collect(), cursor)
}

struct Repair<'a> {
    context: &'a RequestContext,
    host: &'a Host,
    /// The datacenters that may count any counter.
    datacenters: BTreeSet<Datacenter>,
    is_dry: bool,
}

/// The question to a cell, and its answer.
type CellCheck = (RepairCell, Result<CellRepaired, Fault>);

/// A counter whose cells are being checked.
struct CheckedCounter<'a> {
    root: &'a Root,
    view: Option<&'a View>,
    /// Its last snapshot, if it was needed.
    last: Option<LastSnapshot>,
}

impl Repair<'_> {
    async fn counter(&self, counter: &CounterId) -> CounterReport {
        let mut report = CounterReport {
            id: counter.as_str().to_owned(),
            ..CounterReport::default()
        };
        let (root, last) = match self.root(counter).await {
            Ok(root) => root,
            Err(fault) => {
                report.failed.push(format!("root: {fault}"));
                return report;
            }
        };
        let RootRepaired {
            damaged,
            sources: told_by,
            found,
            silent,
            is_from_snapshot,
            knows_base,
        } = root;
        report.root = damaged;
        let names = told_by.iter();
        report.sources = names.map(|name| name.as_str().to_owned()).collect();
        let Some((root, view)) = found else {
            let silent = silent.iter();
            let said = silent.map(|lead| format!("the lead in {lead} does not answer"));
            report.failed.extend(said);
            return report;
        };
        report.has_root = true;
        report.is_from_snapshot = is_from_snapshot;
        let last = last.filter(|last| is_from_snapshot || last.is_of(&root));
        // If several datacenters count, none of them knows the last set value.
        let is_set = !knows_base && last.as_ref().is_some_and(|last| last.kept.base.is_some());
        if is_from_snapshot || is_set {
            report.snapshot = last.as_ref().map(|last| date_of(last.run.day));
        }
        let view = view.map(View::from_rest);
        let mut looked = CheckedCounter {
            root: &root,
            view: view.as_ref(),
            last,
        };
        self.cells(counter, &mut looked, &mut report).await;
        let Some(last) = looked.last.filter(|_| !self.is_dry) else {
            return report;
        };
        if is_set && let Err(problem) = self.set(counter, &last).await {
            let detail = problem.detail();
            report
                .failed
                .push(format!("value of the snapshot: {detail}"));
        }
        let lost_uniques = |cell: &CellReport| cell.damaged.contains(&CellPart::Uniques);
        if (is_from_snapshot || report.cells.iter().any(lost_uniques))
            && let Err(problem) = self.join_uniques(counter, &root, last).await
        {
            let detail = problem.detail();
            report.failed.push(format!("unique elements: {detail}"));
        }
        report
    }

    /// Checks the root, and repairs it. Returns the result, and the last snapshot if the root was damaged.
    async fn root(
        &self,
        counter: &CounterId,
    ) -> Result<(RootRepaired, Option<LastSnapshot>), Fault> {
        let mut repair = RepairRoot {
            counter: counter.clone(),
            datacenters: self.datacenters.clone(),
            is_dry: true,
            kept: None,
        };
        let found = call(self.host, &repair).await?;
        if found.damaged.is_empty() {
            return Ok((found, None));
        }
        let mut last = None;
        if found.damaged.contains(&RootPart::Root) {
            match self.last(counter).await {
                Ok(known) => last = known,
                // Other sources that remember it take precedence.
                Err(_) if found.found.is_some() => {}
                Err(fault) => return Err(fault),
            }
            let kept = last.as_ref().map(|last| last.kept.clone());
            repair.kept = kept.map(Box::new);
        }
        repair.is_dry = self.is_dry;
        Ok((call(self.host, &repair).await?, last))
    }

    /// The last snapshot of a counter.
    async fn last(&self, counter: &CounterId) -> Result<Option<LastSnapshot>, Fault> {
        let request = ListAllPastStates {
            day: i64::MAX,
            prefix: counter.as_str().to_owned(),
            after: None,
            limit: 1,
            uniques: true,
        };
        let ask = |partition: u32| ListPastStates {
            partition,
            query: request.clone(),
        };
        let answers = ask_ever(self.host, ask, |page| page.ever).await;
        let found = answers.answers.into_iter().filter_map(|(_, page)| {
            let row = page.rows.into_iter().next()?;
            let run = page.run.filter(|_| row.counter == *counter)?;
            Some(LastSnapshot {
                run,
                kept: row.kept,
            })
        });
        match (found.max_by_key(|last| last.kept.as_of_ms), answers.fault) {
            (None, Some(fault)) => Err(fault),
            (found, _) => Ok(found),
        }
    }

    /// Checks the cells of a counter, and repairs them.
    async fn cells(
        &self,
        counter: &CounterId,
        looked: &mut CheckedCounter<'_>,
        report: &mut CounterReport,
    ) {
        let cells = cells_of(counter, looked.root, looked.view);
        let mut checked = self.look(cells).await;
        let needs_snapshot = |(_, answer): &CellCheck| {
            answer.as_ref().is_ok_and(|cell| {
                let has = |part| cell.damaged.contains(&part);
                has(CellPart::Totals) && cell.totals_from == TotalsFrom::Nothing
                    || has(CellPart::Uniques)
            })
        };
        if looked.last.is_none() && checked.iter().any(needs_snapshot) {
            match self.last(counter).await {
                Ok(last) => looked.last = last.filter(|last| last.is_of(looked.root)),
                // An unreadable snapshot is not treated as an empty one.
                Err(fault) => {
                    checked.retain(|cell| !needs_snapshot(cell));
                    report.failed.push(format!("snapshot: {fault}"));
                }
            }
        }
        if let Some(last) = &looked.last {
            self.remember(looked.root, last, &mut checked).await;
        }
        let is_damaged = |answer: &Result<CellRepaired, Fault>| {
            answer.as_ref().is_ok_and(|cell| !cell.damaged.is_empty())
        };
        let put_back = checked.into_iter().map(|(mut repair, answer)| async move {
            if self.is_dry || !is_damaged(&answer) {
                return (repair, answer);
            }
            repair.is_dry = false;
            let answer = call(self.host, &repair).await;
            (repair, answer)
        });
        for (repair, answer) in all_settled(put_back, CELLS_AT_ONCE).await {
            record_cell(report, looked, answer, repair);
        }
        put_in_order(&mut report.cells, |one, other| {
            (&one.datacenter, one.shard).cmp(&(&other.datacenter, other.shard))
        });
    }

    /// The damage of cells. Nothing is changed.
    async fn look(&self, cells: Vec<(CellAddress, RememberedCell)>) -> Vec<CellCheck> {
        let look = |(to, remembered): (CellAddress, RememberedCell)| async move {
            let repair = RepairCell {
                to,
                remembered,
                is_dry: true,
            };
            let answer = call(self.host, &repair).await;
            (repair, answer)
        };
        all_settled(cells.into_iter().map(look), CELLS_AT_ONCE).await
    }

    /// Gives cells that no object remembers the sums of their datacenters in the last snapshot, the lead before its
    /// shards.
    async fn remember(&self, root: &Root, last: &LastSnapshot, checked: &mut [CellCheck]) {
        checked.sort_unstable_by(|(one, _), (other, _)| one.to.cmp(&other.to));
        for index in 0..checked.len() {
            let Some((repair, Ok(cell))) = checked.get(index) else {
                continue;
            };
            let is_lost = cell.damaged.contains(&CellPart::Totals);
            if !is_lost || cell.totals_from != TotalsFrom::Nothing {
                continue;
            }
            let to = repair.to.clone();
            let mut others: Vec<(u8, CellTotals)> = Vec::new();
            let mut checked_shards: BTreeSet<u8> = BTreeSet::new();
            for (other, answer) in &*checked {
                if other.to.datacenter != to.datacenter {
                    continue;
                }
                checked_shards.insert(other.to.shard);
                let counted = answer.as_ref().ok().and_then(|cell| cell.counted);
                let totals = counted.or(other.remembered.totals);
                others.extend(totals.map(|totals| (other.to.shard, totals)));
            }
            let shards = root.settings.shards.unwrap_or(SHARDS_MAX).max(1);
            let unknown = (0..shards).filter(|shard| !checked_shards.contains(shard));
            let unknown = unknown.map(|shard| {
                let remembered = repair.remembered.clone();
                (to.sibling(shard), remembered)
            });
            // The counts of an unknown shard would be counted twice.
            for (other, answer) in self.look(unknown.collect()).await {
                let counted = answer.ok().and_then(|cell| cell.counted);
                others.extend(counted.map(|totals| (other.to.shard, totals)));
            }
            let totals = last.totals(root, (&to.datacenter, to.shard), &others);
            if let Some((repair, Ok(cell))) = checked.get_mut(index) {
                repair.remembered.totals = Some(totals);
                cell.totals_from = TotalsFrom::Remembered;
            }
        }
    }

    /// Sets the value to that of the snapshot; counts that arrive meanwhile are kept.
    async fn set(&self, counter: &CounterId, last: &LastSnapshot) -> Result<(), Problem> {
        let set = Operate {
            counter: counter.clone(),
            datacenter: self.context.datacenter(),
            operation: Operation::Set(last.kept.value()),
            key: None,
            condition: None,
        };
        let operated = call_within(self.host, &set, OPERATE_MS_MAX).await?;
        let done = administration::done_of(counter, operated)?;
        done.map(drop).map_err(|_| Problem::from(Fault::NotLocated))
    }

    /// Joins the unique elements of the snapshot into the present ones: joining a set twice changes nothing.
    async fn join_uniques(
        &self,
        counter: &CounterId,
        root: &Root,
        last: LastSnapshot,
    ) -> Result<(), Problem> {
        let kept = last.kept;
        if kept.uniques.is_empty() {
            return Ok(());
        }
        let importer = Import::of_snapshot(self.context, ImportMode::Replace, None);
        let first = kept.datacenters.first().map(|part| part.datacenter.clone());
        let datacenter = root.home.clone().or(first);
        let datacenter = datacenter.unwrap_or_else(|| self.context.datacenter());
        let contents = Contents {
            uniques: kept.uniques,
            ..Contents::default()
        };
        let key = importer.step_key(counter.as_str(), "uniques", &[]);
        let to = (counter, root.generation);
        let installed = importer.install(to, datacenter, contents, key).await;
        installed.map(|_| ())
    }
}

fn record_cell(
    report: &mut CounterReport,
    looked: &CheckedCounter<'_>,
    answer: Result<CellRepaired, Fault>,
    RepairCell { to, remembered, .. }: RepairCell,
) {
    let CellRepaired {
        damaged,
        totals_from,
        ..
    } = match answer {
        Ok(cell) if cell.damaged.is_empty() => return,
        Ok(cell) => cell,
        Err(fault) => {
            let (datacenter, shard) = (&to.datacenter, to.shard);
            report.failed.push(format!("{datacenter}/{shard}: {fault}"));
            return;
        }
    };
    let text = |total| Sum::from(total).to_string();
    let totals = remembered.totals;
    let freshness = looked.view.and_then(|view| view.report_of(&to.datacenter));
    let known = looked
        .view
        .map(|view| view.cells().cells_of(&to.datacenter));
    let in_view = known.is_some_and(|cells| cells.iter().any(|(shard, _)| *shard == to.shard));
    let last = looked
        .last
        .as_ref()
        .filter(|_| !in_view || damaged.contains(&CellPart::Uniques));
    report.cells.push(CellReport {
        datacenter: to.datacenter.as_str().to_owned(),
        shard: to.shard,
        damaged,
        totals_from,
        snapshot: last.map(|last| date_of(last.run.day)),
        remembered: totals.map(|totals| (text(totals.added), text(totals.removed))),
        as_of_ms: match last.filter(|_| !in_view) {
            Some(last) => Some(last.kept.as_of_ms),
            None => freshness.map(|freshness| freshness.as_of_ms),
        },
    });
}

/// The known cells of a counter, with what is remembered of each.
fn cells_of(
    counter: &CounterId,
    root: &Root,
    view: Option<&View>,
) -> Vec<(CellAddress, RememberedCell)> {
    let mut cells = Vec::new();
    for datacenter in &root.datacenters {
        let mut known: Vec<(u8, Option<CellTotals>)> = Vec::new();
        if let Some(view) = view {
            let pushed = view.cells().cells_of(datacenter).into_iter();
            known.extend(pushed.map(|(shard, totals)| (shard, Some(totals))));
        }
        if !known.iter().any(|(shard, _)| *shard == 0) {
            known.insert(0, (0, None));
        }
        let freshness = view.and_then(|view| view.report_of(datacenter));
        let shards = known.iter().map(|(shard, _)| shard.saturating_add(1)).max();
        for (shard, totals) in known {
            let to = CellAddress {
                counter: counter.clone(),
                datacenter: datacenter.clone(),
                shard,
            };
            let remembered = RememberedCell {
                grant: root.grant(datacenter),
                totals,
                facts: freshness.map_or(CellFacts::written(root.created_at_ms), |freshness| {
                    freshness.facts
                }),
                shards: shards.unwrap_or(1),
            };
            cells.push((to, remembered));
        }
    }
    cells
}
