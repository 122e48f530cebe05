//! One page of an export: the present contents of counters' cells.
//!
//! Invariants: each cell that ever existed is asked, at most [`LEADS_AT_ONCE`] objects at once; a tablet is asked for
//! many cells by one message. A counter of which a cell did not answer is included, and marked. A page ends at the last
//! name that every partition has covered.

use std::collections::BTreeMap;

use super::counters::HOSTED_AT_ONCE;
use super::read_options::{DRAIN_MS_MAX, LEAD_MS_MAX, LEADS_AT_ONCE};
use tally_core::cluster::root::Root;
use tally_core::counter::contents::{Contents, ContentsWanted};
use tally_core::counter::id::{CounterId, Datacenter};
use tally_core::isolate::open_slots::ObjectUser;
use tally_core::order::in_order;
use tally_host::Host;
use tally_shared::call;
use tally_shared::call_batcher::Batcher;
use tally_shared::concurrency::all_settled;
use tally_shared::open_objects;
use tally_shared::partitions::{self, PartitionAnswers, ask_all};
use tally_wire::messages::{
    Drain, ExportPage, ExportReply, ExportedCounter, Fault, List, LookUp, ReadContents, ReadOut,
    Reconcile,
};
use tally_wire::names::CellAddress;

/// The most reads of a counter: it may be ended and created again meanwhile, or need a reconciliation first.
const READ_TRIES: usize = 3;

/// How long one page waits for room to open objects, milliseconds.
const ROOM_MS_MAX: i64 = 20_000;

/// The fewest names that a partition is asked for at once.
const NAMES_MIN: u32 = 16;

/// The counters of a page, in order, with the name after which the next begins.
async fn names(
    host: &Host,
    page: &ExportPage,
) -> (BTreeMap<CounterId, Root>, Option<String>, Vec<u32>) {
    // Names are spread evenly: twice the share of a partition is rarely too few, and a shorter page is harmless.
    let limit = (2 * page.limit / partitions::count(host)).max(NAMES_MIN);
    let ask = |partition: u32| List {
        partition,
        prefix: page.prefix.clone(),
        after: page.after.clone(),
        limit,
    };
    let PartitionAnswers {
        answers, missing, ..
    } = ask_all(host, ask).await;
    let mut roots = BTreeMap::new();
    // The first name after which some partition has more names than it has returned.
    let mut covered_to: Option<CounterId> = None;
    for (_, listed) in answers {
        let is_full = u32::try_from(listed.len()).is_ok_and(|names| names >= limit);
        if let Some((last, _)) = listed.last().filter(|_| is_full)
            && covered_to.as_ref().is_none_or(|to| last < to)
        {
            covered_to = Some(last.clone());
        }
        roots.extend(listed);
    }
    if let Some(to) = &covered_to {
        roots.retain(|counter, _| counter <= to);
    }
    let counters_max = usize::try_from(page.limit).unwrap_or(usize::MAX);
    let mut has_more = covered_to.is_some();
    while roots.len() > counters_max {
        roots.pop_last();
        has_more = true;
    }
    let last = roots.last_key_value().filter(|_| has_more);
    let after = last.map(|(counter, _)| counter.as_str().to_owned());
    (roots, after, missing)
}

/// Reads one page.
pub(super) async fn export_page(
    host: &Host,
    page: Result<ExportPage, Fault>,
) -> Result<ExportReply, Fault> {
    let page = page?;
    let (roots, after, missing_partitions) = names(host, &page).await;
    let pages = Reader {
        host,
        batcher: Batcher::new(host),
        wanted: page.wanted,
        room_ms: host.now_ms().saturating_add(ROOM_MS_MAX),
    };
    let read = |(counter, root)| pages.read(counter, root);
    let at_once = match call::has_tablets(host) {
        true => HOSTED_AT_ONCE,
        false => LEADS_AT_ONCE,
    };
    let read = all_settled(roots.into_iter().map(read), at_once);
    let counters = pages.batcher.run(read).await;
    let counters: Vec<ExportedCounter> = counters.into_iter().flatten().collect();
    let counters = in_order(counters, |one, other| one.counter.cmp(&other.counter));
    Ok(ExportReply {
        counters,
        after,
        missing_partitions,
    })
}

struct Reader<'a> {
    host: &'a Host,
    batcher: Batcher,
    wanted: ContentsWanted,
    room_ms: i64,
}

impl Reader<'_> {
    /// A counter; `None` where it has ended meanwhile.
    async fn read(&self, counter: CounterId, root: Root) -> Option<ExportedCounter> {
        let mut known = Some(root);
        for _ in 0..READ_TRIES {
            let root = match known.take() {
                Some(root) => root,
                None => {
                    let counter = counter.clone();
                    match self.batcher.call(&LookUp { counter }, LEAD_MS_MAX).await {
                        Ok(root) => root?,
                        Err(_) => break,
                    }
                }
            };
            let is_drained = self.drain(&counter, &root).await;
            match self.read_root(&counter, root, is_drained).await {
                Ok(read) if needs_reconciliation(&read) => {
                    let counter = counter.clone();
                    match self.batcher.call(&Reconcile { counter }, LEAD_MS_MAX).await {
                        Ok(root) => known = Some(root?),
                        Err(_) => return Some(read),
                    }
                }
                Ok(read) => return Some(read),
                Err(_superseded) => {}
            }
        }
        let root = Root::create(None, self.host.now_ms());
        Some(ExportedCounter {
            counter,
            root,
            datacenters: Vec::new(),
            is_exact: false,
        })
    }

    async fn read_root(
        &self,
        counter: &CounterId,
        root: Root,
        is_drained: bool,
    ) -> Result<ExportedCounter, Fault> {
        let mut datacenters = Vec::new();
        for datacenter in &root.datacenters {
            let to = CellAddress::lead(counter, datacenter);
            let contents = match self.datacenter(to, root.generation).await {
                Ok(contents) => Some(contents),
                Err(Fault::Superseded(generation)) => return Err(Fault::Superseded(generation)),
                Err(_) => None,
            };
            datacenters.push((datacenter.clone(), contents));
        }
        let is_whole = datacenters.iter().all(|(_, contents)| contents.is_some());
        Ok(ExportedCounter {
            counter: counter.clone(),
            is_exact: is_whole
                && is_drained
                && !root.may_lack
                && root.operations.unreconciled().is_empty(),
            root,
            datacenters,
        })
    }

    /// The contents of all cells of a datacenter together.
    async fn datacenter(&self, lead: CellAddress, generation: u64) -> Result<Contents, Fault> {
        let ReadOut { contents, shards } = self.cell(lead.clone(), generation).await?;
        let mut all = contents.unwrap_or_default();
        for shard in 1..shards {
            if let Some(contents) = self.cell(lead.sibling(shard), generation).await?.contents {
                all.join(contents);
            }
        }
        Ok(all)
    }

    async fn cell(&self, to: CellAddress, generation: u64) -> Result<ReadOut, Fault> {
        open_objects::room(self.host, &to, ObjectUser::Bulk, self.room_ms).await?;
        let _turn = open_objects::turn(self.host, &to).await;
        let read = ReadContents {
            to,
            generation,
            wanted: self.wanted,
        };
        self.batcher.call(&read, LEAD_MS_MAX).await
    }

    /// Asks inboxes to count what they have acknowledged; returns whether all have.
    async fn drain(&self, counter: &CounterId, root: &Root) -> bool {
        let mut is_drained = true;
        for inbox in &root.inboxes {
            let drain = Drain {
                to: inbox.clone(),
                counter: counter.clone(),
            };
            let drained = call::call_within(self.host, &drain, DRAIN_MS_MAX).await;
            is_drained &= drained.is_ok();
        }
        is_drained
    }
}

/// Whether a datacenter has counts that the last set or reset could not observe.
fn needs_reconciliation(read: &ExportedCounter) -> bool {
    let needs_reconciliation = |(datacenter, contents): &(Datacenter, Option<Contents>)| {
        contents.is_some() && !read.root.operations.is_reconciled(datacenter)
    };
    read.datacenters.iter().any(needs_reconciliation)
}
