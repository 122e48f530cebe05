//! Finds damage in objects that hold more than one counter: boards, tablets, limiters, inboxes, keys of Redis,
//! partitions.

use std::collections::BTreeSet;

use tally_api::repair::{COUNTERS_MAX, Found, ObjectReport};
use tally_core::board::placing::{Layout, ShardAt};
use tally_core::counter::id::{CounterId, Datacenter};
use tally_core::counter::queue::{INBOXES_PER_DATACENTER, InboxId};
use tally_core::order::{put_in_order, set_of};
use tally_host::Host;
use tally_shared::concurrency::all_settled;
use tally_shared::{call, partitions};
use tally_wire::messages::{
    AskBoard, BoardAnswer, BoardQuestion, Fault, ListAllBoards, RepairObject,
};
use tally_wire::names::object_at::ObjectAt;
use tally_wire::names::{
    LIMITER_COUNT, LIMITER_PARTITIONS, LimiterAddress, TABLET_COUNT, TabletAddress,
};
use tally_wire::problem::Problem;

/// How many objects are checked at once.
const OBJECTS_AT_ONCE: usize = 16;

/// The prefix of the names of boards.
const BOARDS: &str = "board/";

/// Reports the damage of objects with a prefix, after a name; boards come last.
///
/// # Errors
/// `unavailable`.
pub(super) async fn find(
    host: &Host,
    datacenters: &BTreeSet<Datacenter>,
    prefix: &str,
    after: Option<String>,
) -> Result<Found, Problem> {
    // A datacenter that has counted nothing, such as one that only checks limits, is examined if it is named.
    let mut datacenters = datacenters.clone();
    datacenters.extend(prefix.split('/').nth(1).and_then(Datacenter::parse));
    let datacenters = &datacenters;
    let after_board = after.as_deref().and_then(|name| name.strip_prefix(BOARDS));
    let objects_max = usize::try_from(COUNTERS_MAX).unwrap_or(usize::MAX);
    let mut objects = Vec::new();
    if after_board.is_none() {
        let names = fixed(host, datacenters).map(|object| (object.to_string(), object));
        // In the order of their kinds: the next page begins after the last name.
        let mut names =
            names.skip_while(|(name, _)| after.as_ref().is_some_and(|last| last != name));
        if after.is_some() {
            names.next();
        }
        let names = names.filter(|(name, _)| name.starts_with(prefix));
        objects.extend(names.take(objects_max).map(|(_, object)| object));
    }
    let mut cursor = objects.last().map(ObjectAt::to_string);
    cursor = cursor.filter(|_| objects.len() == objects_max);
    let boards = match prefix.strip_prefix(BOARDS) {
        Some(begin) => Some(begin),
        None => BOARDS.starts_with(prefix).then_some(""),
    };
    if let (Some(begin), None) = (boards, &cursor) {
        let left = objects_max - objects.len();
        let list = ListAllBoards {
            prefix: begin.to_owned(),
            after: after_board.map(str::to_owned),
            limit: u32::try_from(left).unwrap_or(COUNTERS_MAX),
        };
        let names = call(host, &list).await?.boards;
        let has_more = names.len() == left;
        let last = names.last().filter(|_| has_more);
        cursor = last.map(|board| ObjectAt::Board(board.clone(), ShardAt::default()).to_string());
        let names = names.into_iter().map(|board| with_shards(host, board));
        let boards = all_settled(names, OBJECTS_AT_ONCE).await;
        objects.extend(boards.into_iter().flatten());
    }
    let checked = objects.len();
    let look = |object: ObjectAt| async move {
        let answer = ask(host, object.clone(), false).await;
        (object, answer)
    };
    let mut found = Found {
        checked,
        cursor,
        ..Found::default()
    };
    let mut reports = Vec::new();
    for (object, answer) in all_settled(objects.into_iter().map(look), OBJECTS_AT_ONCE).await {
        match answer {
            Ok(report) => reports.extend(report),
            Err(fault) => found.failed.push(format!("{object}: {fault}")),
        }
    }
    put_in_order(&mut reports, |one, other| {
        one.object.to_string().cmp(&other.object.to_string())
    });
    put_in_order(&mut found.failed, Ord::cmp);
    found.objects = Some(reports);
    Ok(found)
}

/// A board and its shards. If the board does not answer only the board itself, which then reports why.
async fn with_shards(host: &Host, board: CounterId) -> Vec<ObjectAt> {
    let layout = match call(host, &AskBoard::new(&board, BoardQuestion::About)).await {
        Ok(BoardAnswer::Spread(layout)) => Some(layout),
        _ => None,
    };
    let shards = layout.into_iter().flat_map(Layout::all);
    let all = set_of(shards.chain([ShardAt::default()]));
    let all = all.into_iter();
    all.map(|at| ObjectAt::Board(board.clone(), at)).collect()
}

/// Reports the damage of an object, and removes it where asked to.
///
/// # Errors
/// `unavailable`.
pub(super) async fn repair(
    host: &Host,
    object: ObjectAt,
    discards: bool,
) -> Result<Found, Problem> {
    let report = ask(host, object, discards).await?;
    Ok(Found {
        checked: 1,
        objects: Some(report.into_iter().collect()),
        ..Found::default()
    })
}

async fn ask(host: &Host, object: ObjectAt, discards: bool) -> Result<Option<ObjectReport>, Fault> {
    let repair = RepairObject {
        to: object,
        discards,
    };
    let tables = call(host, &repair).await?;
    let object = repair.to;
    Ok((!tables.is_empty()).then_some(ObjectReport { object, tables }))
}

/// All objects except boards, by the present partition counts.
fn fixed<'a>(
    host: &Host,
    datacenters: &'a BTreeSet<Datacenter>,
) -> impl Iterator<Item = ObjectAt> + 'a {
    let tablets = host.number(TABLET_COUNT).unwrap_or(0);
    let limiters = host.number(LIMITER_COUNT).unwrap_or(LIMITER_PARTITIONS);
    let limiter = |datacenter: Option<&Datacenter>, partition: u32| {
        ObjectAt::Limiter(LimiterAddress {
            datacenter: datacenter.cloned(),
            partition,
        })
    };
    let of_datacenter = move |datacenter: &'a Datacenter| {
        let tablets = (0..tablets).map(move |number| {
            ObjectAt::Tablet(TabletAddress {
                datacenter: datacenter.clone(),
                number,
            })
        });
        let inboxes = (0..INBOXES_PER_DATACENTER).map(move |number| {
            ObjectAt::Inbox(InboxId {
                datacenter: datacenter.clone(),
                number,
            })
        });
        let limiters = (0..limiters).map(move |number| limiter(Some(datacenter), number));
        tablets.chain(inboxes).chain(limiters)
    };
    let global_limiters = (0..limiters).map(move |number| limiter(None, number));
    let partitions = partitions::all(host).map(ObjectAt::Partition);
    let one = [ObjectAt::Redis].into_iter();
    let deployment = partitions.chain(global_limiters).chain(one);
    deployment.chain(datacenters.iter().flat_map(of_datacenter))
}
