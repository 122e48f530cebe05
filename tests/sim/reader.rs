//! Reads: the sum of all cells as `aggregator` makes it, the view that readers of an isolate share, and
//! readers who send back the version that they have seen, as `edge::read`.
//!
//! Invariant: a reader who sends back its version is never shown less of any cell.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use tally::core::counter::id::Datacenter;
use tally::core::counter::merge::Question;
use tally::core::counter::queue::InboxId;
use tally::core::sketch::Uniques;
use tally::protocol::messages::{Fault, GlobalSum};
use tally::protocol::version::Version;

use super::edge::{Edge, View};
use super::network::{Answer, Message, all, unavailable};
use super::{Air, Boxed};

const READ_TRIES: usize = 3;

/// How long readers share a view, milliseconds.
const VIEW_MS_MAX: u64 = 500;

/// Sums that a reader waits for, at most.
const SUMS_MAX: usize = 4;

/// How far back a read's window reaches: as far as seconds are kept.
const WINDOW_SECONDS: i64 = 899;

/// Sums the counter over the world, as `aggregator::read`.
pub async fn sum_world(air: &Rc<Air>, about_times: bool) -> Result<Option<GlobalSum>, Fault> {
    let mut asks = Message::LookUp;
    for _ in 0..READ_TRIES {
        let Answer::Root(root) = air.call(air.root(), asks.clone()).await? else {
            unreachable!("an answer to something else");
        };
        let Some(root) = root else { return Ok(None) };
        asks = Message::LookUp;
        let now = air.now_ms.get().div_euclid(1_000);
        let question = Question {
            window: about_times.then_some((now - WINDOW_SECONDS, now)),
            ..Question::plain(root.generation)
        };
        let ask = |datacenter: &Datacenter| {
            let sum = Message::Sum(question);
            air.call(air.lead_of(datacenter), sum).boxed()
        };
        let answers = all(root.datacenters.iter().map(ask).collect()).await;
        let is_superseded = |answer: &Result<_, _>| matches!(answer, Err(Fault::Superseded(_)));
        if answers.iter().any(is_superseded) {
            continue;
        }
        let sums = answers.into_iter().map(|answer| match answer {
            Ok(Answer::Sum(sum)) => Some(sum),
            _ => None,
        });
        let datacenters = root.datacenters.iter().cloned().zip(sums).collect();
        let mut sum = GlobalSum {
            root,
            datacenters,
            is_whole: true,
            uniques: Uniques::new(),
            window_uniques: Uniques::new(),
            is_drained: true,
        };
        sum.join_uniques();
        if sum.tells_unsettled() {
            asks = Message::Settle;
            continue;
        }
        return Ok((!sum.has_lapsed(air.now_ms.get())).then_some(sum));
    }
    Err(unavailable())
}

/// One strong read; `last` where everything is at rest.
pub async fn read(air: Rc<Air>, about_times: bool, last: bool) {
    let begun = air.oracle.borrow().moment();
    let answer = sum_world(&air, about_times).await;
    let oracle = air.oracle.borrow();
    match answer {
        Ok(Some(sum)) if last => oracle.check_rest(&sum),
        Ok(Some(sum)) => oracle.check_read(begun, &sum, about_times),
        Ok(None) if !last => oracle.check_absent(begun, air.latest_ms()),
        other => assert!(!last, "the last read got {other:?}"),
    }
}

/// One strong read, which waits until inboxes have counted what they had acknowledged, as
/// `aggregator::read_drained`.
pub async fn read_drained(air: Rc<Air>) {
    let acknowledged = air.oracle.borrow().acknowledged();
    let Ok(Answer::Root(root)) = air.call(air.root(), Message::LookUp).await else {
        return;
    };
    let Some(root) = root else { return };
    let drain = |inbox: &InboxId| air.call_inbox(inbox, Message::Drain(air.name())).boxed();
    let drained = all(root.inboxes.iter().map(drain).collect()).await;
    if drained.iter().all(Result::is_ok) {
        let oracle = air.oracle.borrow();
        oracle.check_drained(root.generation, &acknowledged);
    }
    // The root does so by itself, when somebody reads.
    let _ = air.call(air.root(), Message::LetInboxesGo).await;
    // All that was drained is counted, so it is in the sum that is made now.
    read(air, false, false).await;
}

/// Reads through the view of the isolate, if its fetch began after that moment.
async fn see(edge: &Edge, after_ms: i64) -> Result<View, Fault> {
    let now_ms = edge.now_ms();
    let view = edge.view.borrow().clone();
    let is_in_use = |view: &View| {
        let is_young = now_ms.abs_diff(view.begun_ms) < VIEW_MS_MAX;
        is_young && view.begun_ms > after_ms
    };
    if let Some(view) = view.filter(is_in_use) {
        return Ok(view);
    }
    let begun = edge.air.oracle.borrow().moment();
    let sum = sum_world(&edge.air, false).await?;
    let oracle = edge.air.oracle.borrow();
    match &sum {
        Some(sum) => oracle.check_read(begun, sum, false),
        None => oracle.check_absent(begun, edge.air.latest_ms()),
    }
    let view = View {
        begun_ms: now_ms,
        sum: sum.map(Rc::new),
    };
    *edge.view.borrow_mut() = Some(view.clone());
    Ok(view)
}

/// What a reader has seen.
#[derive(Default)]
pub struct Reader {
    held: RefCell<Option<Version>>,
}

impl Reader {
    /// The version that it was shown last.
    pub fn held(&self) -> Option<Version> {
        self.held.borrow().clone()
    }
}

/// Reads at an isolate for a reader, who sends back the version it holds, or that of a write.
pub async fn read_as(edge: Rc<Edge>, reader: Rc<Reader>, written: Option<Version>) {
    let held = reader.held.borrow().clone();
    let named = || held.iter().chain(&written);
    let newest = |version: &&Version| version.cells().iter().map(|cell| cell.generation).max();
    let generation = named().map(|version| newest(&version)).max().flatten();
    let current = named().filter(|version| newest(version) == generation);
    let operations = current.map(Version::operations).max().unwrap_or(0);
    let cells = named().flat_map(|version| version.cells().iter().cloned());
    let asked = Version::of(cells).with_operations(operations);
    let asked = Version::decode(&asked.encode()).expect("our own");
    let mut after_ms = i64::MIN;
    for _ in 0..SUMS_MAX {
        let Ok(View { begun_ms, sum }) = see(&edge, after_ms).await else {
            continue;
        };
        after_ms = begun_ms;
        let Some(sum) = sum else { continue };
        let seen = Version::of_sum(&sum);
        if seen.lacks(sum.root.generation, &asked).is_none() {
            check_onward(&asked, &sum);
            edge.air.oracle.borrow_mut().tells(&seen);
            *reader.held.borrow_mut() = Some(seen);
            return;
        }
    }
}

/// What is shown has no less of any cell than what was asked for.
fn check_onward(asked: &Version, sum: &GlobalSum) {
    let mut shown = BTreeMap::new();
    for (datacenter, part) in &sum.datacenters {
        for (shard, totals) in part.iter().flat_map(|part| &part.cells) {
            shown.insert((datacenter, *shard), (totals.generation, totals.sequence));
        }
    }
    let living = sum.root.generation;
    let newest = asked.cells().iter().map(|cell| cell.generation).max();
    let is_undone = newest == Some(living) && sum.root.operations.number() < asked.operations();
    assert!(!is_undone, "an operation is undone for its reader");
    for cell in asked.cells() {
        assert!(
            cell.generation <= living,
            "an older generation is shown: {cell:?}"
        );
        let known = shown.get(&(&cell.datacenter, cell.shard)).copied();
        let has_gone = cell.generation < living || cell.sequence == 0;
        let is_onward = known.is_some_and(|known| known >= (cell.generation, cell.sequence));
        assert!(has_gone || is_onward, "{cell:?} is shown as {known:?}");
    }
}
