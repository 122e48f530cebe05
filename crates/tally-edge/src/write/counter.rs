//! Increments and decrements.

use std::borrow::Cow;

use super::administration;
use super::flush_sender::{CellLane, FlushOutcome, MOVES_MAX};
use super::increment::Write;
use super::keyed_writes;
use super::keyed_writes::KeyedRoute;
use super::unique_elements;
use crate::kit::isolate::{CachedCounter, forget_home, known_of};
use crate::kit::lanes;
use crate::kit::request_context::RequestContext;
use crate::kit::respond::Answer;
use crate::read::counter as read;
use tally_api::access::Caller;
use tally_api::batch::gathered::{Times, element_second};
use tally_api::idempotency_keys::KeyKind;
use tally_api::metrics::Metric;
use tally_api::public::{ignored_json, write_json};
use tally_api::query::Query;
use tally_core::counter::autoscale::{shard_of_element, shard_with_room};
use tally_core::counter::dimensions::Dimensions;
use tally_core::counter::flush::{Element, Load, Refusal};
use tally_core::counter::id::{CounterId, Datacenter};
use tally_core::counter::lane::Arrival;
use tally_core::counter::ledger::{HomeCondition, KeyedWrite};
use tally_core::counter::settings::UniqueHash;
use tally_core::counter::total::Value;
use tally_shared::{call, known_cells, metrics};
use tally_wire::isolate::known_cells::AcknowledgedWrite;
use tally_wire::messages::{Fault, LookUp, OperationCondition};
use tally_wire::names::CellAddress;
use tally_wire::problem::{Code, Problem};

/// How long a write follows moves, milliseconds. It waits 4.8 s in all, so 1.8 s are left for the last batch. On a busy
/// machine a first batch took 0.5 s, and its answer came too late to follow the move.
const MOVES_MS_MAX: i64 = 3_000;

/// `POST /counters/{id}/increment`.
///
/// # Errors
/// Any refusal; then nothing was counted, except `unavailable`, which says so.
pub async fn increment(
    context: &RequestContext,
    caller: &Caller,
    id: CounterId,
) -> Result<Answer, Problem> {
    write(context, caller, id, true).await
}

/// `POST /counters/{id}/decrement`.
///
/// # Errors
/// As [`increment`].
pub async fn decrement(
    context: &RequestContext,
    caller: &Caller,
    id: CounterId,
) -> Result<Answer, Problem> {
    write(context, caller, id, false).await
}

async fn write(
    context: &RequestContext,
    caller: &Caller,
    id: CounterId,
    adds: bool,
) -> Result<Answer, Problem> {
    let strings = Query::parse(context.query(), &["numbers"])?.numbers_as_strings()?;
    match Write::read(context, caller, &id, (adds, strings)).await? {
        Some(write) => deliver(context, id, &write, strings).await,
        None => Ok(Answer::json(ignored_json(&id))),
    }
}

/// Counts one, with this element and these dimensions. Answers as [`increment`]; `numbers` says whether numbers are
/// texts. Without `numbers` it is for an image: a visitor whose address is not known counts without an element.
///
/// # Errors
/// As [`increment`].
#[cfg_attr(
    not(feature = "pages"),
    expect(dead_code, reason = "the pixel counts one")
)]
pub async fn one(
    context: &RequestContext,
    id: CounterId,
    unique: Option<String>,
    dimensions: Dimensions,
    numbers: Option<bool>,
) -> Result<Answer, Problem> {
    match Write::one(context, unique, dimensions, numbers.is_none())? {
        Some(write) => deliver(context, id, &write, numbers.unwrap_or(false)).await,
        None => Ok(Answer::json(ignored_json(&id))),
    }
}

type FlushOutcomes = Arrival<FlushOutcome, lanes::PositionOf<CellLane>>;

/// A write on its way to its cell.
struct Delivery<'a> {
    context: &'a RequestContext,
    write: &'a Write,
    known: &'a CachedCounter,
    cell: CellAddress,
    load: Load,
    unique: Option<Cow<'a, [u8]>>,
    /// The hash of its element.
    element: Option<u64>,
}

impl<'a> Delivery<'a> {
    async fn new(
        context: &'a RequestContext,
        id: CounterId,
        write: &'a Write,
        known: &'a CachedCounter,
    ) -> Result<Self, Problem> {
        let host = &context.host;
        let datacenter = context.datacenter();
        let shards = known.shards_in(&datacenter);
        let mut load = Load {
            samples: write.samples(),
            dimensions: write.dimensions(),
            ttl_if_new: write.body.ttl_if_new,
            ..Load::default()
        };
        if write.adds {
            load.added = write.body.delta;
            load.live = vec![(write.second, write.body.delta)];
        } else {
            load.removed = write.body.delta;
        }
        let unique = match &write.unique {
            Some(unique) => Some(unique.bytes(host, write.second).await?),
            None => None,
        };
        let mut delivery = Self {
            context,
            write,
            known,
            cell: CellAddress {
                counter: id,
                datacenter,
                shard: 0,
            },
            load,
            unique,
            element: None,
        };
        if delivery.unique.is_some() {
            delivery.hash(known.unique_hash).await?;
        }
        match &known.home {
            Some(home) => delivery.go_home(home),
            None => delivery.spread_over(shards),
        }
        Ok(delivery)
    }

    /// Hashes its element by the counter's function.
    async fn hash(&mut self, unique_hash: UniqueHash) -> Result<(), Problem> {
        if let Some(unique) = &self.unique {
            let (by, hashed) = unique_elements::hashed(self.context, unique_hash, unique).await?;
            self.element = Some(hashed);
            self.load.hash = by;
            self.load.tokens = vec![(self.write.second, Element::by(by, hashed))];
        }
        Ok(())
    }

    fn go_home(&mut self, home: &Datacenter) {
        self.cell = CellAddress::lead(&self.cell.counter, home);
    }

    fn spread_over(&mut self, shards: u8) {
        self.cell.shard = match self.element {
            Some(hashed) => shard_of_element(hashed, shards),
            None => shard_with_room(self.known.own_shard(shards), shards, |shard| {
                let cell = self.cell.sibling(shard);
                lanes::waiting_items::<CellLane>(&self.context.host, &cell)
            }),
        };
    }

    async fn carry(&self, begun_ms: i64) -> Result<FlushOutcomes, Problem> {
        lanes::carry::<CellLane>(self.context, &self.cell, self.load.clone(), begun_ms).await
    }

    /// Follows a redirection by a cell that has counted nothing. Returns whether to send the write again.
    async fn redirect(&mut self, fault: &Fault) -> Result<bool, Problem> {
        match fault {
            Fault::Refused(Refusal::Moved(shards)) => self.spread_over(*shards),
            Fault::Elsewhere(home) => self.go_home(home),
            // A decrement was in the same batch; this write is now sent alone.
            Fault::Refused(Refusal::HasFloor) => {}
            // The other hash is of its own element, or of another write's in the same batch.
            Fault::Refused(Refusal::OtherHash(own)) => self.hash(*own).await?,
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// Sends a write to its cell. What few writes need is in boxes: each write moves a future as large as all of it.
async fn deliver(
    context: &RequestContext,
    id: CounterId,
    write: &Write,
    strings: bool,
) -> Result<Answer, Problem> {
    let (adds, delta) = (write.adds, write.body.delta);
    context.visitor().admit(id.as_str())?;
    let known = known_of(&context.host, &id);
    if write.key.is_some() || write.condition.is_some() || (!adds && known.has_floor) {
        return Box::pin(write_alone(context, id, write, strings)).await;
    }

    let mut delivery = Delivery::new(context, id, write, &known).await?;
    let begun_ms = context.host.now_ms();
    let waiting = context.waiting();
    let mut arrival = delivery.carry(begun_ms).await?;
    for _ in 0..MOVES_MAX {
        let Err(fault) = &arrival.outcome else { break };
        if context.host.now_ms() - begun_ms > MOVES_MS_MAX {
            break;
        }
        if !adds && *fault == Fault::Refused(Refusal::HasFloor) {
            drop(waiting);
            let alone = write_alone(context, delivery.cell.counter, write, strings);
            return Box::pin(alone).await;
        }
        if !delivery.redirect(fault).await? {
            break;
        }
        arrival = delivery.carry(begun_ms).await?;
    }
    let Delivery { cell, load, .. } = delivery;
    let flushed = arrival.outcome.map_err(Problem::from)?;
    let own = Value::new(flushed.outcome.added, flushed.outcome.removed);
    let own = own.without(arrival.later.0, arrival.later.1);
    let has_counted_before = own != Value::new(load.added, load.removed);
    context
        .visitor()
        .refund_new(flushed.generation, has_counted_before);
    // With a single cell, its total right after this write, with the parts of sealed shards, is the exact value. With
    // several, the value is of a view at most half a second old, and of what this isolate has had acknowledged since.
    let (value, exact) = match flushed.elsewhere {
        Some((added, removed)) => (own.plus(Value::new(added, removed)), true),
        None => {
            let acknowledged = AcknowledgedWrite {
                cell: &cell,
                flushed: &flushed,
                later: arrival.later,
                own: Value::new(load.added, load.removed),
            };
            let sum = Box::pin(read::sum_for_answer(context, &cell.counter)).await;
            let value = known_cells::answer_to(&context.host, &acknowledged, sum.as_deref());
            (value, false)
        }
    };
    drop(waiting);
    metrics::count(&context.host, acknowledged(adds));
    Ok(Answer::json(write_json(
        &cell, delta, value, exact, &flushed, strings,
    )))
}

/// The metric of an acknowledged write.
const fn acknowledged(adds: bool) -> Metric {
    if adds {
        Metric::AcknowledgedIncrement
    } else {
        Metric::AcknowledgedDecrement
    }
}

/// Makes a write that is decided alone, because it has a key or depends on the value.
async fn write_alone(
    context: &RequestContext,
    id: CounterId,
    write: &Write,
    strings: bool,
) -> Result<Answer, Problem> {
    let waiting = context.waiting();
    let (how, condition, refused) = match &write.skewed {
        Some(_) => (KeyedRoute::Recalled, None, None),
        None => match decided_by(context, &id, write).await {
            Ok((how, condition)) => (how, condition, None),
            // A write that cannot be decided now may have been counted before.
            Err(problem) if write.key.is_some() && problem.retry_after_seconds().is_none() => {
                (KeyedRoute::Recalled, None, Some(problem))
            }
            Err(problem) => return Err(problem),
        },
    };
    let keyed = keyed_of(context, write, condition);
    let (answer, counted) = match keyed_writes::count_one(context, &id, keyed, &how, strings).await
    {
        // The home may have moved since it was cached: the next write asks.
        Err(problem) if problem.code() == Code::PreconditionFailed => {
            forget_home(&context.host, &id);
            return Err(problem);
        }
        Err(problem) if problem.code() == Code::ClockSkew => return Err(refused.unwrap_or(problem)),
        outcome => outcome?,
    };
    if let (Some(unique), Some(counted)) = (&write.unique, counted) {
        // The element is sent after the write, because a refused write must change nothing. It is sent with each retry,
        // because a repeated element is harmless. Its shard is chosen by its hash.
        let second = element_second(Times::Live, write.second, counted);
        let stored = unique_elements::send(context, &id, unique, second).await;
        stored.map_err(without_element)?;
    }
    drop(waiting);
    metrics::count(
        &context.host,
        if answer.is_replay() {
            Metric::Replayed
        } else {
            acknowledged(write.adds)
        },
    );
    Ok(answer)
}

/// The problem of a write that was counted, but whose element may not be stored. The failure is that of the element,
/// not of the write.
fn without_element(problem: Problem) -> Problem {
    match problem.code() {
        Code::Overloaded | Code::Unavailable => Problem::new(
            Code::Unavailable,
            "the write was counted, but its unique element may not be stored; repeat the write only under its Idempotency-Key",
        ),
        _ => problem,
    }
}

/// The form of a write that is decided alone, under its client's key or one that is drawn here.
fn keyed_of(
    context: &RequestContext,
    write: &Write,
    condition: Option<HomeCondition>,
) -> KeyedWrite {
    let delta = write.body.delta;
    let (key, fingerprint) = match &write.key {
        Some((key, request)) => (key.name(KeyKind::Write), *request),
        // No other caller can send a write under a key that was drawn here.
        None => (context.host.random_key(), 0),
    };
    let (added, removed) = if write.adds { (delta, 0) } else { (0, delta) };
    KeyedWrite {
        added,
        removed,
        live: if write.adds {
            vec![(write.second, added)]
        } else {
            Vec::new()
        },
        condition,
        samples: write.samples(),
        dimensions: write.dimensions(),
        ttl_if_new: write.body.ttl_if_new,
        ..KeyedWrite::new(key, fingerprint)
    }
}

/// The lead that decides a write, and the condition there. A write without a client's key goes straight to the home.
async fn decided_by(
    context: &RequestContext,
    id: &CounterId,
    write: &Write,
) -> Result<(KeyedRoute, Option<HomeCondition>), Problem> {
    let claimed = KeyedRoute::Claimed(context.key_room());
    if write.key.is_some() && write.condition.is_none() {
        return Ok((claimed, None));
    }
    if let Some(OperationCondition::Exists) = &write.condition {
        let counter = id.clone();
        if call(&context.host, &LookUp { counter }).await?.is_none() {
            let detail = "there is no such counter; nothing was counted";
            return Err(Problem::new(Code::PreconditionFailed, detail));
        }
        let here = || {
            let home = known_of(&context.host, id).home.clone();
            KeyedRoute::Unclaimed(home.unwrap_or_else(|| context.datacenter()))
        };
        return Ok((write.key.as_ref().map_or_else(here, |_| claimed), None));
    }
    let Some(OperationCondition::Unchanged(version)) = &write.condition else {
        // The floor may have been removed since it was cached, and with it the home.
        let home = administration::home_now(context, id).await?;
        let home = home.unwrap_or_else(|| context.datacenter());
        return Ok((KeyedRoute::Unclaimed(home), None));
    };
    if version.is_short() {
        let detail =
            "the read with this version lacked a datacenter; read again until nothing is missing";
        return Err(Problem::new(Code::PreconditionFailed, detail));
    }
    let home = administration::home_for_good(context, id).await?;
    let condition = Some(version.at_home(&home));
    let how = match write.key {
        Some(_) => claimed,
        None => KeyedRoute::Unclaimed(home),
    };
    Ok((how, condition))
}
