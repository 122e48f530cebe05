//! Counting of a bulk body that has been read: together with other bodies, part by part, each line completely or not at
//! all.
//!
//! Invariant: a line is among the rejected ones unless it is known to be counted.

use std::cell::Cell;
use std::rc::Rc;

use futures_channel::oneshot;

use super::reports::BulkReports;
use super::sender;
use crate::boards::lines::{self, BoardLines, LinesOf};
use crate::kit::isolate::{BulkStage, known_of, own_shard, with_waves};
use crate::kit::request_context::RequestContext;
use crate::write::keyed_writes::problem_of;
use tally_api::batch::budget::CallBudget;
use tally_api::batch::gathered::{CountingMode, GatheredCounter};
use tally_api::batch::keyed_writes::{BodyKey, KeyedElements, KeyedWrites};
use tally_api::batch::plan::{
    CallsNeeded, HOSTED_PART_COUNTERS_MAX, PART_COUNTERS_MAX, Plan, part_calls_max,
};
use tally_api::batch::report::BatchReport;
use tally_api::keyed_routes::{KeyRoom, LeadOutcome};
use tally_core::counter::id::{CounterId, Datacenter};
use tally_core::counter::ledger::KeyedOutcome;
use tally_core::isolate::open_slots::ObjectUser;
use tally_core::isolate::wave::{LOOK_EVERY_MS, Stage};
use tally_host::Host;
use tally_shared::call::has_tablets;
use tally_shared::call_batcher::Batcher;
use tally_shared::concurrency::all_settled;
use tally_shared::keyed_calls::{KeyedRequest, count_budgeted};
use tally_shared::{open_objects, partitions};
use tally_wire::messages::Fault;
use tally_wire::names::{CellAddress, TABLET_COUNT};
use tally_wire::problem::{Code, Problem};

/// The counters of one body whose keyed writes are counted at once: each needs two calls.
const KEYED_AT_ONCE: usize = 48;

/// The same, if tablets host their leads: these calls travel together.
const HOSTED_KEYED_AT_ONCE: usize = 4_096;

/// The interval at which a body checks whether more objects may be opened for it, milliseconds.
const ROOM_EVERY_MS: u64 = 100;

/// How long a body may be counted before no further part is begun, milliseconds. 30,000 new counters at 100 a second
/// take 300 s; proxies in front of the deployment must wait as long.
const BODY_MS_MAX: i64 = 600_000;

/// How a body is counted.
pub struct Counting {
    /// The datacenter where it entered.
    pub datacenter: Datacenter,
    /// How its sums are counted.
    pub manner: CountingMode,
    /// Whose room the keys of the body and its lines take.
    pub room: KeyRoom,
    /// The remaining calls.
    pub calls: CallBudget,
    /// When the counting began, unix milliseconds; 0 before.
    pub begun_ms: Cell<i64>,
    /// The leads that report at the end of the body.
    pub reports: BulkReports,
}

/// A section of a body.
pub struct Section {
    /// The sums of its records.
    pub sums: Vec<(CounterId, GatheredCounter)>,
    /// Its writes to boards.
    pub boards: BoardLines,
    /// The number of its records.
    pub records: u64,
    /// Its key, if the body has one.
    pub key: Option<BodyKey>,
    /// The line after its last.
    pub before: u64,
    /// Whether it is all of its body.
    pub is_whole: bool,
}

/// Counts a section that has been read; if it is the whole body, together with other bodies. Returns the results of the
/// body's lines, and whether everything counted had been counted before.
///
/// # Errors
/// `unavailable` where the platform ended the request.
pub async fn count_section(
    context: &RequestContext,
    counting: Rc<Counting>,
    section: Section,
    report: BatchReport,
) -> Result<(BatchReport, bool), Problem> {
    let gathers = section.is_whole && !section.sums.is_empty();
    let has_others = gathers && gather_with_others(&context.host, section.sums.len()).await;
    let sending = BulkStage::enter(&context.host, Stage::Sending);
    let host = context.host.clone();
    let (done, doing) = oneshot::channel();
    // Other bodies may share the flushes of this one, so it continues if the client hangs up.
    context.wait_until(async move {
        let counted = count_all(&host, &counting, has_others, section, report).await;
        drop(sending);
        let _ = done.send(counted);
    });
    let _waiting = context.waiting();
    doing.await.map_err(|_| {
        let detail = "the request was ended; its lines may or may not have been counted";
        Problem::new(Code::Unavailable, detail)
    })
}

/// Waits for other bodies to share flushes with. Returns whether there were any.
async fn gather_with_others(host: &Host, counters: usize) -> bool {
    let counters = u64::try_from(counters).unwrap_or(u64::MAX);
    let Some(position) = with_waves(host, |waves| waves.wait_position(counters, host.now_ms()))
    else {
        return false;
    };
    let _gathering = BulkStage::enter(host, Stage::Gathering);
    while !with_waves(host, |waves| waves.may_go(position, host.now_ms())) {
        host.sleep_ms(LOOK_EVERY_MS).await;
    }
    true
}

/// Counts every sum, part by part, and moves the lines of failed ones to the rejected lines. Returns whether everything
/// counted had been counted before.
async fn count_all(
    host: &Host,
    counting: &Counting,
    has_others: bool,
    section: Section,
    mut report: BatchReport,
) -> (BatchReport, bool) {
    let now_ms = host.now_ms();
    if counting.begun_ms.get() == 0 {
        counting.begun_ms.set(now_ms);
    }
    let begun_ms = counting.begun_ms.get();
    let Section {
        sums, key, boards, ..
    } = section;
    let mut is_replay = !sums.is_empty() || !boards.is_empty();
    if !boards.is_empty() {
        is_replay &= {
            let body = LinesOf {
                datacenter: &counting.datacenter,
                calls: &counting.calls,
                keys: counting.room.source,
            };
            lines::write(host, &body, key, boards, &mut report).await
        };
    }
    let has_room = |(counter, _): &(CounterId, GatheredCounter)| {
        let cell = CellAddress::lead(counter, &counting.datacenter);
        open_objects::admit(host, &cell, ObjectUser::Bulk).is_ok()
    };
    let part_max = match has_tablets(host) {
        true => HOSTED_PART_COUNTERS_MAX,
        false => PART_COUNTERS_MAX,
    };
    let mut sums = sums.into_iter().peekable();
    while sums.peek().is_some() {
        if host.now_ms() - begun_ms > BODY_MS_MAX {
            for (_, gathered) in sums {
                gathered.fail(&too_late(), &mut report);
            }
            break;
        }
        let next = std::iter::from_fn(|| sums.next_if(has_room));
        let part: Vec<_> = next.take(part_max).collect();
        if part.is_empty() {
            host.sleep_ms(ROOM_EVERY_MS).await;
            continue;
        }
        let Some(part) = affordable(host, counting, key.is_some(), part, &mut report) else {
            is_replay = false;
            continue;
        };
        is_replay &= count_part(host, counting, key, has_others, part, &mut report).await;
    }
    (report, is_replay)
}

/// The sums of a part for which calls are left; the lines of the others are rejected. `None` if no calls are left.
fn affordable(
    host: &Host,
    counting: &Counting,
    has_key: bool,
    mut part: Vec<(CounterId, GatheredCounter)>,
    report: &mut BatchReport,
) -> Option<Vec<(CounterId, GatheredCounter)>> {
    let Counting {
        datacenter, calls, ..
    } = counting;
    let tablets = host.number(TABLET_COUNT).unwrap_or(0);
    let shared = part_calls_max(tablets, partitions::count(host), part.len());
    if !calls.take_many(shared) {
        part.iter()
            .for_each(|(_, gathered)| gathered.fail(&CallBudget::spent(), report));
        return None;
    }
    // Keyed calls are deducted when they are made.
    let mut keyed = 0;
    part.retain(|(counter, gathered)| {
        let known = known_of(host, counter);
        let shards = known.shards_in(datacenter);
        let own = known.own_shard(shards);
        let needed = CallsNeeded::of(gathered, shards, own, has_key, tablets > 0);
        let is_left = calls.take_many(needed.all());
        match is_left {
            true => keyed += needed.keyed,
            false => gathered.fail(&CallBudget::spent(), report),
        }
        is_left
    });
    calls.give_back(keyed);
    (!part.is_empty()).then_some(part)
}

/// Counts a part of a body. Returns whether everything counted had been counted before.
async fn count_part(
    host: &Host,
    counting: &Counting,
    key: Option<BodyKey>,
    has_others: bool,
    part: Vec<(CounterId, GatheredCounter)>,
    report: &mut BatchReport,
) -> bool {
    let Counting {
        datacenter, manner, ..
    } = counting;
    let reports = Some(&counting.reports);
    let shards = |counter: &CounterId| known_of(host, counter).shards_in(datacenter);
    let own = |shards| own_shard(host, shards);
    let mut plan = Plan::new(part, *manner, datacenter, shards, own, key);
    // Elements of plain lines first: they may be sent twice without harm. So if one of their cells fails, its lines
    // fail with nothing counted, and a repeat counts nothing twice.
    for (number, problem) in sender::count_many(host, plan.elements(), reports, has_others).await {
        plan.fail_elements(number, &problem, report);
    }
    let keyed = plan.keyed();
    let plain = plan.amounts();
    let mut is_replay = plain.is_empty() && !keyed.is_empty();
    for (number, problem) in sender::count_many(host, plain, reports, has_others).await {
        plan.fail_amounts(number, &problem, report);
    }
    let mut elements = KeyedElements::default();
    for (some, outcomes) in count_keyed(host, counting, keyed).await {
        let mut counted = vec![None; outcomes.len()];
        for (number, ((lead, outcome), counted)) in
            outcomes.into_iter().zip(&mut counted).enumerate()
        {
            counting.reports.add(&some.counter, &lead);
            is_replay &= matches!(outcome, Ok(KeyedOutcome::Replayed(_)));
            match outcome {
                Ok(KeyedOutcome::Replayed(record) | KeyedOutcome::Counted(record)) => {
                    *counted = Some(record.at_ms.div_euclid(1_000));
                }
                Ok(other) => some.fail(number, &problem_of(other), report),
                Err(Fault::TooMany(_)) => some.fail(number, &too_many_leads(), report),
                Err(fault) => some.fail(number, &fault.into(), report),
            }
        }
        elements.add(some, datacenter, &counted);
    }
    for (number, problem) in sender::count_many(host, elements.loads(), reports, false).await {
        elements.fail(number, &problem, report);
    }
    counting.reports.make_room(host, &counting.calls).await;
    is_replay
}

/// Counts keyed writes. Returns the outcome of each.
async fn count_keyed(
    host: &Host,
    counting: &Counting,
    keyed: Vec<KeyedWrites>,
) -> Vec<(KeyedWrites, Vec<LeadOutcome>)> {
    let Counting {
        datacenter,
        room,
        calls,
        ..
    } = counting;
    let batcher = Batcher::new(host);
    let is_hosted = has_tablets(host);
    let unbounded = CallBudget::unbounded();
    let many = KeyedRequest {
        batcher: &batcher,
        calls: if is_hosted { &unbounded } else { calls },
        here: datacenter,
    };
    let many = &many;
    let count = |some: KeyedWrites| async move {
        let (counter, writes) = (&some.counter, &some.writes);
        let whose = (!some.is_recall).then_some(*room);
        let outcomes = count_budgeted(host, counter, many, writes, whose).await;
        (some, outcomes)
    };
    let at_once = if is_hosted {
        HOSTED_KEYED_AT_ONCE
    } else {
        KEYED_AT_ONCE
    };
    let all = all_settled(keyed.into_iter().map(count), at_once);
    batcher.run(all).await
}

fn too_late() -> Problem {
    Problem::new(
        Code::Overloaded,
        "the body's other counters took too long; nothing of this line was counted, send it again",
    )
}

fn too_many_leads() -> Problem {
    Problem::new(
        Code::TooManyCounters,
        "the keys of the body were used in too many datacenters for one request; send this line in another",
    )
}
