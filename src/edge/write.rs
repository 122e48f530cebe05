//! Increments and decrements.

use super::isolate::{hash_key, own_shard, shards_of};
use super::respond::Answer;
use super::visit::Visit;
use super::{body, keyed, lanes, read};
use crate::counter::flush::{Load, Refusal};
use crate::counter::id::CounterId;
use crate::counter::ledger::Keyed;
use crate::counter::split::shard_of_element;
use crate::counter::total::Value;
use crate::platform::clock::now_ms;
use crate::platform::measure;
use crate::protocol::batch::event::{IncrementBody, parse_increment};
use crate::protocol::batch::gather::CLOCK_SKEW_MS;
use crate::protocol::keys::{Kind, fingerprint, parse_key, write_key};
use crate::protocol::messages::Fault;
use crate::protocol::metrics::Metric;
use crate::protocol::names::CellAddress;
use crate::protocol::problem::{Code, Problem};
use crate::protocol::public::write_json;
use crate::protocol::query::Query;
use crate::sketch::{Token, hash};

/// How often a write is sent on because the shard it was sent to has been sealed.
const MOVES_MAX: usize = 4;

/// How long a write is sent on: a flight of 4.5 s more must not take it past 5 s but by a little.
const MOVES_MS_MAX: i64 = 500;

/// `POST /counters/{id}/increment`.
///
/// # Errors
/// Any refusal; then nothing was counted, except `unavailable`, which says so.
pub async fn increment(visit: &Visit, id: CounterId) -> Result<Answer, Problem> {
    write(visit, id, true).await
}

/// `POST /counters/{id}/decrement`.
///
/// # Errors
/// As [`increment`].
pub async fn decrement(visit: &Visit, id: CounterId) -> Result<Answer, Problem> {
    write(visit, id, false).await
}

async fn write(visit: &Visit, id: CounterId, adds: bool) -> Result<Answer, Problem> {
    let strings = Query::parse(visit.query(), &["numbers"])?.numbers_as_strings()?;
    let bytes = body::read_small(&visit.request).await?;
    let wanted = parse_increment(&bytes)?;
    let at_ms = stamp_ms(wanted.at_ms)?;
    let datacenter = visit.datacenter();
    let shards = shards_of(&id, &datacenter);
    let second = at_ms.div_euclid(1_000);
    if let Some(header) = visit.header("idempotency-key") {
        return write_keyed(
            visit,
            id,
            &wanted,
            parse_key(&header)?,
            adds,
            second,
            strings,
        )
        .await;
    }

    let mut load = Load::default();
    let mut shard = own_shard(shards);
    if adds {
        load.added = wanted.delta;
        load.live = vec![(second, wanted.delta)];
    } else {
        load.removed = wanted.delta;
    }
    let mut element = None;
    if let Some(unique) = &wanted.unique {
        let hashed = hash(&*hash_key(&visit.env).await?, unique.as_bytes());
        element = Some(hashed);
        shard = shard_of_element(hashed, shards);
        load.tokens = vec![(second, Token::from_hash(hashed))];
    }

    let mut cell = CellAddress {
        counter: id,
        datacenter,
        shard,
    };
    let begun_ms = now_ms();
    let waiting = visit.waiting();
    let mut arrival = lanes::count(visit, &cell, load.clone()).await?;
    for _ in 0..MOVES_MAX {
        if now_ms() - begun_ms > MOVES_MS_MAX {
            break;
        }
        let Err(Fault::Refused(Refusal::Moved(shards))) = &arrival.outcome else {
            break;
        };
        // The shard has been sealed and has counted nothing: the write goes where it is told.
        cell.shard = match element {
            Some(hashed) => shard_of_element(hashed, *shards),
            None => own_shard(*shards),
        };
        arrival = lanes::count(visit, &cell, load.clone()).await?;
    }
    let flushed = arrival.outcome.map_err(Problem::from)?;
    let own = Value::new(flushed.outcome.added, flushed.outcome.removed);
    let own = own.without(arrival.later.0, arrival.later.1);
    // One cell is the whole counter: its total right after this write, with what shards left that
    // have been sealed since, is the exact value. Of several, a view at most half a second old is
    // told, but never less than this cell holds by itself.
    let (value, exact) = match flushed.elsewhere {
        Some((added, removed)) => (own.plus(Value::new(added, removed)), true),
        None => {
            let view = read::value_now(visit, &cell.counter, flushed.generation).await;
            (view.unwrap_or(own).or_more(own), false)
        }
    };
    drop(waiting);
    measure::count(acknowledged(adds));
    Ok(Answer::json(write_json(
        &cell,
        wanted.delta,
        value,
        exact,
        &flushed,
        strings,
    )))
}

/// What a write is counted as that is answered as done.
const fn acknowledged(adds: bool) -> Metric {
    if adds {
        Metric::AcknowledgedIncrement
    } else {
        Metric::AcknowledgedDecrement
    }
}

/// A write that counts once however often it comes.
async fn write_keyed(
    visit: &Visit,
    id: CounterId,
    wanted: &IncrementBody,
    key: &str,
    adds: bool,
    second: i64,
    strings: bool,
) -> Result<Answer, Problem> {
    let secret = hash_key(&visit.env).await?;
    let operation: &[u8] = if adds { b"increment" } else { b"decrement" };
    let unique = wanted.unique.as_deref().map(str::as_bytes);
    let at_ms = wanted.at_ms.map(i64::to_le_bytes);
    let parts: [&[u8]; 4] = [
        operation,
        &wanted.delta.to_le_bytes(),
        unique.unwrap_or_default(),
        at_ms.as_ref().map_or(&[], |bytes| bytes),
    ];
    let hashed = |bytes: &[u8]| hash(&secret, bytes);
    let fingerprint = fingerprint(&hashed, &parts);
    let (added, removed) = if adds {
        (wanted.delta, 0)
    } else {
        (0, wanted.delta)
    };
    let keyed = Keyed {
        key: write_key(&hashed, Kind::Write, key),
        fingerprint,
        generation: 0,
        added,
        removed,
        live: if adds {
            vec![(second, added)]
        } else {
            Vec::new()
        },
        past: Vec::new(),
        seen: None,
    };
    let waiting = visit.waiting();
    let answer = keyed::count_one(visit, &id, keyed, strings).await?;
    if let Some(unique) = unique {
        // Only now, since a key that was used for another write must change nothing; and with each retry,
        // since an element may be sent again without harm. Its shard is chosen by its hash.
        let hashed = hash(&secret, unique);
        let tokens = Load {
            tokens: vec![(second, Token::from_hash(hashed))],
            ..Load::default()
        };
        send_element(visit, &id, hashed, tokens).await?;
    }
    drop(waiting);
    measure::count(if answer.is_replay() {
        Metric::Replayed
    } else {
        acknowledged(adds)
    });
    Ok(answer)
}

/// Sends an element alone to its shard.
async fn send_element(
    visit: &Visit,
    id: &CounterId,
    hashed: u64,
    load: Load,
) -> Result<(), Problem> {
    let datacenter = visit.datacenter();
    let mut shards = shards_of(id, &datacenter);
    for _ in 0..MOVES_MAX {
        let cell = CellAddress {
            counter: id.clone(),
            datacenter: datacenter.clone(),
            shard: shard_of_element(hashed, shards),
        };
        let arrival = lanes::count(visit, &cell, load.clone()).await?;
        match arrival.outcome {
            Err(Fault::Refused(Refusal::Moved(told))) => shards = told,
            outcome => return outcome.map(|_| ()).map_err(Problem::from),
        }
    }
    let detail = "the counter is busy; nothing was counted, try again";
    Err(Problem::new(Code::Unavailable, detail))
}

/// The time of a write: the client's own where it is near enough to ours.
fn stamp_ms(given_ms: Option<i64>) -> Result<i64, Problem> {
    let now_ms = now_ms();
    match given_ms {
        Some(at_ms) if at_ms.abs_diff(now_ms) > CLOCK_SKEW_MS.unsigned_abs() => Err(Problem::new(
            Code::ClockSkew,
            format!(
                "`at` is unix milliseconds within {} s of our clock ({now_ms}); the past goes through /ingest",
                CLOCK_SKEW_MS / 1_000
            ),
        )),
        given_ms => Ok(given_ms.unwrap_or(now_ms)),
    }
}
