//! `POST /repair`: what is damaged of counters, and put back from what others remember.
//!
//! Life of a repair: the root first, by what its leads hold; then each cell, by what the root remembers. What is not damaged is not touched.

use std::collections::BTreeSet;

use super::body;
use super::request_context::RequestContext;
use super::respond::Answer;
use crate::core::cluster::root::Root;
use crate::core::cluster::view::View;
use crate::core::counter::id::{CounterId, Datacenter};
use crate::core::counter::merge::CellTotals;
use crate::core::counter::total::Sum;
use crate::host::Host;
use crate::node::shared::call;
use crate::node::shared::concurrency::all_settled;
use crate::node::shared::partitions::ask_all;
use crate::protocol::messages::{
    CellRepaired, Fault, ListDatacenters, ListNames, RememberedCell, RepairCell, RepairRoot,
};
use crate::protocol::names::CellAddress;
use crate::protocol::problem::Problem;
use crate::protocol::repair::{
    COUNTERS_MAX, CellReport, CounterReport, Extent, parse_repair, repair_json,
};

/// Counters, and cells of each, that are looked at once.
const COUNTERS_AT_ONCE: usize = 16;
const CELLS_AT_ONCE: usize = 16;

/// `POST /repair`
///
/// # Errors
/// `invalid-json`, `unknown-field`, `invalid-body`, `invalid-id`, `unavailable`.
pub async fn repair(context: &RequestContext) -> Result<Answer, Problem> {
    let asked = parse_repair(&body::read_small(context).await?)?;
    let host = &context.host;
    let known = ask_all(host, |partition| ListDatacenters { partition }).await;
    let mut datacenters: BTreeSet<Datacenter> = [context.datacenter()].into();
    datacenters.extend(known.told.into_iter().flat_map(|(_, known)| known));
    let repair = Repair {
        host,
        datacenters,
        is_dry: asked.is_dry,
    };
    let (names, failed, cursor) = match asked.extent {
        Extent::Counter(counter) => (vec![counter], Vec::new(), None),
        Extent::Prefix(prefix, after) => names(host, &prefix, after).await,
    };
    let checked = names.len();
    let looked = all_settled(
        names.iter().map(|counter| repair.counter(counter)),
        COUNTERS_AT_ONCE,
    );
    let mut damaged = looked.await;
    damaged.retain(|counter| !counter.is_whole());
    damaged.sort_unstable_by(|one, other| one.id.cmp(&other.id));
    let json = repair_json(asked.is_dry, checked, &damaged, &failed, cursor.as_deref());
    Ok(Answer::json(json))
}

/// The next counters of a prefix, what could not be asked, and after which name there are more.
async fn names(
    host: &Host,
    prefix: &str,
    after: Option<String>,
) -> (Vec<CounterId>, Vec<String>, Option<String>) {
    let told = ask_all(host, |partition| ListNames {
        partition,
        prefix: prefix.to_owned(),
        after: after.clone(),
        limit: COUNTERS_MAX,
    });
    let told = told.await;
    let failed = told.missing.iter();
    let failed = failed.map(|partition| format!("partition {partition} did not answer"));
    let mut names: Vec<String> = told.told.into_iter().flat_map(|(_, names)| names).collect();
    names.sort_unstable();
    let most = usize::try_from(COUNTERS_MAX).unwrap_or(usize::MAX);
    let has_more = names.len() >= most;
    names.truncate(most);
    let cursor = names.last().filter(|_| has_more).cloned();
    let counters = names.iter().filter_map(|name| CounterId::stored(name).ok());
    (counters.collect(), failed.collect(), cursor)
}

struct Repair<'a> {
    host: &'a Host,
    /// Those that may count any counter.
    datacenters: BTreeSet<Datacenter>,
    is_dry: bool,
}

impl Repair<'_> {
    async fn counter(&self, counter: &CounterId) -> CounterReport {
        let mut report = CounterReport {
            id: counter.as_str().to_owned(),
            ..CounterReport::default()
        };
        let repair = RepairRoot {
            counter: counter.clone(),
            datacenters: self.datacenters.clone(),
            is_dry: self.is_dry,
        };
        let root = match call(self.host, &repair).await {
            Ok(root) => root,
            Err(fault) => {
                report.failed.push(format!("root: {fault}"));
                return report;
            }
        };
        report.root = root.damaged;
        let names = root.told_by.iter();
        report.told_by = names.map(|told| told.as_str().to_owned()).collect();
        let Some((root, view)) = root.found else {
            return report;
        };
        report.has_root = true;
        let view = view.map(View::from_rest);
        let cells = cells_of(counter, &root, view.as_ref());
        let looked = all_settled(
            cells.into_iter().map(|(to, remembered)| {
                let repair = RepairCell {
                    to,
                    remembered,
                    is_dry: self.is_dry,
                };
                async move { (call(self.host, &repair).await, repair) }
            }),
            CELLS_AT_ONCE,
        );
        for (answer, repair) in looked.await {
            note(&mut report, view.as_ref(), answer, repair);
        }
        report.cells.sort_unstable_by(|one, other| {
            (&one.datacenter, one.shard).cmp(&(&other.datacenter, other.shard))
        });
        report
    }
}

fn note(
    report: &mut CounterReport,
    view: Option<&View>,
    answer: Result<CellRepaired, Fault>,
    RepairCell { to, remembered, .. }: RepairCell,
) {
    match answer {
        Ok(CellRepaired { damaged, .. }) if damaged.is_empty() => {}
        Ok(CellRepaired {
            damaged,
            totals_from,
        }) => {
            let text = |total| Sum::from(total).to_string();
            let totals = remembered.totals;
            let heard = view.and_then(|view| view.heard_of(&to.datacenter));
            report.cells.push(CellReport {
                datacenter: to.datacenter.as_str().to_owned(),
                shard: to.shard,
                damaged,
                totals_from,
                remembered: totals.map(|totals| (text(totals.added), text(totals.removed))),
                as_of_ms: heard.map(|heard| heard.as_of_ms),
            });
        }
        Err(fault) => {
            let (datacenter, shard) = (&to.datacenter, to.shard);
            report.failed.push(format!("{datacenter}/{shard}: {fault}"));
        }
    }
}

/// The cells of a counter that are known of, with what is remembered of each.
fn cells_of(
    counter: &CounterId,
    root: &Root,
    view: Option<&View>,
) -> Vec<(CellAddress, RememberedCell)> {
    let mut cells = Vec::new();
    for datacenter in &root.datacenters {
        let mut known: Vec<(u8, Option<CellTotals>)> = Vec::new();
        if let Some(view) = view {
            let told = view.cells().cells_of(datacenter).into_iter();
            known.extend(told.map(|(shard, totals)| (shard, Some(totals))));
        }
        if !known.iter().any(|(shard, _)| *shard == 0) {
            known.insert(0, (0, None));
        }
        let heard = view.and_then(|view| view.heard_of(datacenter));
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
                last_write_ms: heard.map_or(root.created_at_ms, |heard| heard.last_write_ms),
                shards: shards.unwrap_or(1),
            };
            cells.push((to, remembered));
        }
    }
    cells
}
