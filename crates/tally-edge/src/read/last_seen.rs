//! The last known sums of counters whose root does not answer, and the names of counters that do not exist.
//!
//! Invariant: an answer from this cache is never exact, and its `as_of` is that of the read which saw it, or the
//! counter's creation. The absence of a counter is cached for a second, unless this isolate has counted for it since
//! the read that found none began.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use super::cache::FetchedSum;
use crate::kit::request_context::RequestContext;
use tally_api::public::Freshness;
use tally_core::cluster::root::Root;
use tally_core::counter::bounded_map::{BoundedMap, Weighed, WeighedMap};
use tally_core::counter::id::{CounterId, Datacenter};
use tally_core::counter::merge::Part;
use tally_core::isolate::open_slots::ObjectUser;
use tally_core::sketch::Uniques;
use tally_host::{Host, State};
use tally_shared::{known_cells, open_objects};
use tally_wire::messages::{Fault, GlobalSum, Read, SumDatacenter};
use tally_wire::names::CellAddress;

/// How long the absence of a counter is cached, milliseconds.
const ABSENT_MS: i64 = 1_000;

/// The most cached absent counters, about 100 bytes each.
const ABSENT_MAX: usize = 4_096;

/// The slots for the times of counted writes, by the hashes of their counters. If two counters share a slot, the
/// absence of one may not be cached, which costs a read. 16 bytes each.
const COUNTED_MAX: u64 = 4_096;

/// The most counters whose last sum is cached.
const SUMS_MAX: usize = 1_000;

/// The most memory of the last sums together: 8 of the isolate's 128 MB.
const SUMS_BYTES_MAX: usize = 8 * 1024 * 1024;

/// How long a reader waits for the lead of its own datacenter, milliseconds.
const LEAD_MS_MAX: u64 = 1_500;

/// A sum with its `as_of`: it includes every write acknowledged before that, unix milliseconds.
struct Last {
    sum: Rc<GlobalSum>,
    as_of_ms: i64,
}

impl Weighed for Last {
    fn bytes(&self) -> usize {
        self.sum.bytes()
    }
}

#[derive(Default)]
struct Memory {
    absent_ms: BoundedMap<CounterId, i64, ABSENT_MAX>,
    /// When a counter was last counted or changed here, by its [`slot_of`].
    counted_ms: HashMap<u64, i64>,
    sums: WeighedMap<CounterId, Last, SUMS_MAX, SUMS_BYTES_MAX>,
}

/// The cache of this isolate.
struct LastSeen(RefCell<Memory>);

impl State for LastSeen {
    fn begin(_host: &Host) -> Self {
        Self(RefCell::default())
    }
}

fn with<T>(host: &Host, work: impl FnOnce(&mut Memory) -> T) -> T {
    work(&mut host.state::<LastSeen>().0.borrow_mut())
}

/// Whether a question is about the whole counter, now.
fn is_plain(question: &Read) -> bool {
    let wanted = question.wanted;
    question.datacenter.is_none() && !wanted.is_about_times() && wanted.uniques.is_none()
}

/// The cached absence of a counter.
pub fn absence(host: &Host, question: &Read) -> Option<FetchedSum> {
    let now_ms = host.now_ms();
    let as_of_ms = with(host, |memory| {
        memory.absent_ms.get(&question.counter).copied()
    })?;
    let freshness = Freshness {
        as_of_ms,
        now_ms,
        fresh: false,
    };
    let is_known = now_ms.abs_diff(as_of_ms) <= ABSENT_MS.unsigned_abs();
    is_known.then_some(FetchedSum {
        sum: None,
        freshness,
    })
}

/// The slot of a counter's last counted write.
fn slot_of(counter: &CounterId) -> u64 {
    open_objects::name_of(counter) % COUNTED_MAX
}

/// Caches that a read found no such counter, unless it was counted or changed here since the read began.
pub fn cache_absence(host: &Host, question: &Read, as_of_ms: i64) {
    with(host, |memory| {
        let counted_ms = memory.counted_ms.get(&slot_of(&question.counter));
        if counted_ms.is_some_and(|counted_ms| *counted_ms >= as_of_ms) {
            return;
        }
        memory.sums.remove(&question.counter);
        memory.absent_ms.insert(question.counter.clone(), as_of_ms);
    });
}

/// Caches a fetched sum.
pub fn remember(host: &Host, question: &Read, sum: &Rc<GlobalSum>, as_of_ms: i64) {
    if !is_plain(question) {
        return;
    }
    with(host, |memory| {
        if let Some(known) = memory.sums.peek(&question.counter) {
            if known.as_of_ms >= as_of_ms {
                return;
            }
            known_cells::record_lost(host, &question.counter, &known.sum, sum);
        }
        let last = Last {
            sum: sum.clone(),
            as_of_ms,
        };
        memory.sums.insert(question.counter.clone(), last);
    });
}

/// The last sum of the whole counter that was fetched here, with its `as_of`, unix milliseconds.
pub fn sum(host: &Host, counter: &CounterId) -> Option<(Rc<GlobalSum>, i64)> {
    with(host, |memory| {
        let last = memory.sums.get(counter)?;
        Some((last.sum.clone(), last.as_of_ms))
    })
}

/// Records that a counter was counted here, so it exists.
pub fn record_counted(host: &Host, counter: &CounterId) {
    let now_ms = host.now_ms();
    with(host, |memory| {
        memory.counted_ms.insert(slot_of(counter), now_ms);
        if !memory.absent_ms.is_empty() {
            memory.absent_ms.remove(counter);
        }
    });
}

/// Drops a counter, after it was changed here.
pub fn forget(host: &Host, counter: &CounterId) {
    record_counted(host, counter);
    with(host, |memory| {
        if let Some(last) = memory.sums.peek(counter) {
            // The next sum may lack a datacenter that answers late.
            known_cells::record_all(host, counter, &last.sum);
        }
        memory.sums.remove(counter);
    });
}

/// The last sum that this isolate has seen, for a question that is about the whole counter, now.
pub fn seen(host: &Host, question: &Read) -> Option<FetchedSum> {
    let (sum, as_of_ms) = sum(host, &question.counter).filter(|_| is_plain(question))?;
    Some(stale(host, sum, as_of_ms))
}

/// The count of this datacenter's lead, for a counter whose root does not answer; `None` if the lead does not know it.
pub async fn of_lead(context: &RequestContext, question: &Read) -> Option<FetchedSum> {
    if !is_plain(question) {
        return None;
    }
    let host = &context.host;
    let requested_ms = host.now_ms();
    let (generation, sum) = ask_lead(context, question).await?;
    let sum = local(generation, context.datacenter(), sum);
    Some(stale(host, Rc::new(sum), requested_ms))
}

fn stale(host: &Host, sum: Rc<GlobalSum>, as_of_ms: i64) -> FetchedSum {
    let freshness = Freshness {
        as_of_ms,
        now_ms: host.now_ms(),
        fresh: false,
    };
    FetchedSum {
        sum: Some(sum),
        freshness,
    }
}

/// The count of this datacenter's lead, and its generation: a lead that is asked for an earlier generation names the
/// current one.
async fn ask_lead(context: &RequestContext, question: &Read) -> Option<(u64, Part)> {
    let ask = |generation: u64| {
        let to = CellAddress::lead(&question.counter, &context.datacenter());
        SumDatacenter::new(to, question.wanted.of(generation))
    };
    let host = &context.host;
    let answer = open_objects::call_admitted(host, &ask(0), ObjectUser::Single, LEAD_MS_MAX).await;
    let Err(Fault::Superseded(generation)) = answer else {
        return None;
    };
    let sum =
        open_objects::call_admitted(host, &ask(generation), ObjectUser::Single, LEAD_MS_MAX).await;
    Some((generation, sum.ok()?))
}

/// A counter as one datacenter knows it: others may have counted, and the effect of sets is unknown.
fn local(generation: u64, datacenter: Datacenter, part: Part) -> GlobalSum {
    // The first part of a generation is the clock in milliseconds.
    let created_at_ms = i64::try_from(generation).unwrap_or(0);
    let mut root = Root {
        generation,
        may_lack: true,
        ..Root::create(None, created_at_ms)
    };
    root.datacenters.insert(datacenter.clone());
    let mut sum = GlobalSum {
        root,
        datacenters: vec![(datacenter, Some(part))],
        is_whole: false,
        uniques: Uniques::new(),
        window_uniques: Uniques::new(),
        is_drained: false,
    };
    sum.join_uniques();
    sum
}
