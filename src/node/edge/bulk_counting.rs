//! How a bulk body is counted once it has been read: with the other bodies that are there, part by part, each line whole or
//! not at all.
//!
//! Invariant: a line that is not known to be counted is among the rejected ones.

use futures_channel::oneshot;

use super::bulk_sender;
use super::isolate::{BulkStage, known_of, own_shard, with_waves};
use super::keyed::problem_of;
use super::request_context::RequestContext;
use crate::core::counter::id::{CounterId, Datacenter};
use crate::core::counter::ledger::{KeyedOutcome, Keys};
use crate::host::Host;
use crate::node::shared::concurrency::all_settled;
use crate::node::shared::keyed_calls::count_bounded;
use crate::node::shared::open_objects;
use crate::protocol::batch::gather::{Gathered, Manner};
use crate::protocol::batch::keyed::{BodyKey, Calls, KeyedElements, KeyedWrites};
use crate::protocol::batch::plan::{PART_COUNTERS_MAX, Plan};
use crate::protocol::batch::report::Report;
use crate::protocol::batch::wave::{LOOK_EVERY_MS, Stage};
use crate::protocol::messages::Fault;
use crate::protocol::names::CellAddress;
use crate::protocol::openings::User;
use crate::protocol::problem::{Code, Problem};

/// Counters whose keyed writes are counted at once, of one body: each is two calls.
const KEYED_AT_ONCE: usize = 48;

/// How often a body looks whether more objects may be opened for it.
const ROOM_EVERY_MS: u64 = 100;

/// How long a body may be counted before its next part is no longer begun, milliseconds. 30,000 new counters at 100 a second
/// take 300 s; whoever waits in front of the deployment must wait as long.
const BODY_MS_MAX: i64 = 600_000;

/// How a body is counted.
pub struct Counting {
    /// Where it entered.
    pub datacenter: Datacenter,
    /// How its sums are.
    pub manner: Manner,
    /// Its key, if it has one.
    pub key: Option<BodyKey>,
    /// Whose keys those of the body and its lines are.
    pub keys: Keys,
    /// The calls that keys may make.
    pub calls: Calls,
}

/// Counts a body that has been read, with the others that are there. Returns what became of its lines, and whether all that
/// was counted had been counted before.
///
/// # Errors
/// `unavailable` where the platform ended the request.
pub async fn count_body(
    context: &RequestContext,
    counting: Counting,
    sums: Vec<(CounterId, Gathered)>,
    report: Report,
) -> Result<(Report, bool), Problem> {
    let has_company = gather_with_others(&context.host, sums.len()).await;
    let flying = BulkStage::enter(&context.host, Stage::Flying);
    let host = context.host.clone();
    let (done, doing) = oneshot::channel();
    // Other bodies may have joined what this one flies, so it goes on if the client hangs up.
    context.wait_until(async move {
        let counted = count_all(&host, &counting, has_company, sums, report).await;
        drop(flying);
        let _ = done.send(counted);
    });
    let _waiting = context.waiting();
    doing.await.map_err(|_| {
        let detail = "the request was ended; its lines may or may not have been counted";
        Problem::new(Code::Unavailable, detail)
    })
}

/// Waits for other bodies, so that they share flushes. Whether there were any.
async fn gather_with_others(host: &Host, counters: usize) -> bool {
    let counters = u64::try_from(counters).unwrap_or(u64::MAX);
    let Some(place) = with_waves(host, |waves| waves.place(counters, host.now_ms())) else {
        return false;
    };
    let _gathering = BulkStage::enter(host, Stage::Gathering);
    while !with_waves(host, |waves| waves.may_go(place, host.now_ms())) {
        host.sleep_ms(LOOK_EVERY_MS).await;
    }
    true
}

/// Counts every sum, part by part, and moves the lines of those that failed to the rejected ones. True besides if all that
/// was counted had been counted before.
async fn count_all(
    host: &Host,
    counting: &Counting,
    has_company: bool,
    sums: Vec<(CounterId, Gathered)>,
    mut report: Report,
) -> (Report, bool) {
    let begun_ms = host.now_ms();
    let mut is_replay = !sums.is_empty();
    let has_room = |(counter, _): &(CounterId, Gathered)| {
        let cell = CellAddress::lead(counter, &counting.datacenter);
        open_objects::admit(host, &cell, User::Bulk).is_ok()
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
        let part: Vec<_> = next.take(PART_COUNTERS_MAX).collect();
        if part.is_empty() {
            host.sleep_ms(ROOM_EVERY_MS).await;
            continue;
        }
        is_replay &= count_part(host, counting, has_company, part, &mut report).await;
    }
    (report, is_replay)
}

/// Counts a part of a body. Returns whether all that was counted had been counted before.
async fn count_part(
    host: &Host,
    counting: &Counting,
    has_company: bool,
    part: Vec<(CounterId, Gathered)>,
    report: &mut Report,
) -> bool {
    let Counting {
        datacenter,
        manner,
        key,
        keys,
        calls,
    } = counting;
    let shards = |counter: &CounterId| known_of(host, counter).shards_in(datacenter);
    let own = |shards| own_shard(host, shards);
    let mut plan = Plan::new(part, *manner, datacenter, shards, own, *key);
    // Elements of plain lines first: they may be sent twice without harm, so where one of their cells fails, its
    // lines fail with nothing counted, and sending them again counts nothing twice.
    for (number, problem) in bulk_sender::count_many(host, plan.elements(), has_company).await {
        plan.fail_elements(number, &problem, report);
    }
    let keyed = plan.keyed();
    let plain = plan.amounts();
    let mut is_replay = plain.is_empty() && !keyed.is_empty();
    for (number, problem) in bulk_sender::count_many(host, plain, has_company).await {
        plan.fail_amounts(number, &problem, report);
    }
    let count = |some: KeyedWrites| async move {
        let (counter, writes) = (&some.counter, &some.writes);
        let _turn = open_objects::turn(host, &CellAddress::lead(counter, datacenter)).await;
        let whose = (!some.is_recall).then_some(*keys);
        let landed = count_bounded(host, counter, datacenter, writes, calls, whose).await;
        (some, landed)
    };
    let mut elements = KeyedElements::default();
    for (some, landed) in all_settled(keyed.into_iter().map(count), KEYED_AT_ONCE).await {
        let mut counted = vec![None; landed.len()];
        for (number, ((_, outcome), counted)) in landed.into_iter().zip(&mut counted).enumerate() {
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
    for (number, problem) in bulk_sender::count_many(host, elements.loads(), false).await {
        elements.fail(number, &problem, report);
    }
    is_replay
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
