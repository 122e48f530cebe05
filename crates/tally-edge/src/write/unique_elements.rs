//! The unique element of a write: one that its client sends, or the visitor of today. Also sends elements without a
//! write to a shard.
//!
//! Invariant: a visitor's address is in memory only during its request, and leaves it only hashed under the salt of a
//! day.

use std::borrow::Cow;

use super::flush_sender::CellLane;
use super::flush_sender::MOVES_MAX;
use crate::kit::hash_keys::{Hashing, hashing, salt};
use crate::kit::isolate::{known_of, own_shard};
use crate::kit::lanes;
use crate::kit::request_context::RequestContext;
use tally_api::batch::event::IncrementBody;
use tally_api::public::not_of_redis;
use tally_core::counter::autoscale::shard_of_element;
use tally_core::counter::flush::{Element, Load, Refusal};
use tally_core::counter::id::CounterId;
use tally_core::counter::settings::UniqueHash;
use tally_core::sketch::{HashId, Hll, Uniques, hash, redis_hash};
use tally_host::Host;
use tally_wire::messages::Fault;
use tally_wire::names::CellAddress;
use tally_wire::problem::{Code, Problem};
use tally_wire::visitor::{ClientAddress, day_of, visitor};

/// How long the element of a counted write waits for room in a lane, and the interval of its attempts, milliseconds.
const ROOM_MS_MAX: i64 = 2_000;
const ROOM_EVERY_MS: u64 = 50;

/// An element before it is hashed.
pub enum Unique {
    /// Given by the client.
    Given(String),
    /// The visitor; an element only with the salt of a day.
    Visitor(ClientAddress, String),
}

/// The element of a write, if it has one. Nothing is counted yet if this fails.
///
/// # Errors
/// `no-client-address`.
pub fn unique_of(
    context: &RequestContext,
    body: &IncrementBody,
) -> Result<Option<Unique>, Problem> {
    if !body.by.is_auto {
        return Ok(body.unique.clone().map(Unique::Given));
    }
    let (address, user_agent) = match (body.by.address, &body.by.user_agent) {
        (Some(address), Some(user_agent)) => (address, user_agent.to_string()),
        _ => (
            context.address()?,
            context.header("user-agent").unwrap_or_default(),
        ),
    };
    Ok(Some(Unique::Visitor(address, user_agent)))
}

impl Unique {
    /// The element of a write in the current unix second.
    ///
    /// # Errors
    /// `unavailable` where there is no salt.
    pub async fn bytes(&self, host: &Host, second: i64) -> Result<Cow<'_, [u8]>, Problem> {
        let bytes = self.bytes_of_past(host, second).await?;
        bytes.ok_or_else(|| {
            let detail = "there is no salt of this day: a clock is off by more than a day; nothing was counted";
            Problem::new(Code::Unavailable, detail)
        })
    }

    /// The element of a write that was counted in this unix second; `None` where the salt of its day is deleted.
    ///
    /// # Errors
    /// `unavailable` where the directory does not answer.
    pub async fn bytes_of_past(
        &self,
        host: &Host,
        second: i64,
    ) -> Result<Option<Cow<'_, [u8]>>, Problem> {
        match self {
            Self::Given(unique) => Ok(Some(Cow::Borrowed(unique.as_bytes()))),
            Self::Visitor(address, user_agent) => {
                let salt = salt(host, day_of(second.saturating_mul(1_000))).await?;
                Ok(salt.map(|salt| Cow::Owned(visitor(salt, *address, user_agent).to_vec())))
            }
        }
    }
}

/// An element's hash, by the hash function of its counter. An element that stands for a visitor is kept secret by its
/// salt, so Redis's hash, which is public, reveals nothing of it either.
pub async fn hashed(
    context: &RequestContext,
    unique_hash: UniqueHash,
    unique: &[u8],
) -> Result<(HashId, u64), Problem> {
    if unique_hash == UniqueHash::Redis {
        return Ok((HashId::REDIS, redis_hash(unique)));
    }
    let Hashing { key, id } = hashing(context).await?;
    Ok((id, hash(&key, unique)))
}

/// Sends the element of a write that was counted in this unix second to its shard. A visitor whose salt is deleted was
/// counted before that, or never will be. Without room the element waits, up to [`ROOM_MS_MAX`].
///
/// # Errors
/// Any refusal, and `unavailable`.
pub async fn send(
    context: &RequestContext,
    id: &CounterId,
    unique: &Unique,
    second: i64,
) -> Result<(), Problem> {
    let Some(unique) = unique.bytes_of_past(&context.host, second).await? else {
        return Ok(());
    };
    let begun_ms = context.host.now_ms();
    loop {
        let is_late = context.host.now_ms().saturating_sub(begun_ms) > ROOM_MS_MAX;
        match send_bytes(context, id, &unique, second).await {
            Err(problem) if problem.code() == Code::Overloaded && !is_late => {
                context.host.sleep_ms(ROOM_EVERY_MS).await;
            }
            outcome => return outcome,
        }
    }
}

async fn send_bytes(
    context: &RequestContext,
    id: &CounterId,
    unique: &[u8],
    second: i64,
) -> Result<(), Problem> {
    let known = known_of(&context.host, id);
    let aim = async |shards, other: Option<UniqueHash>| {
        let unique_hash = other.unwrap_or(known.unique_hash);
        let (hash, hashed) = hashed(context, unique_hash, unique).await?;
        let load = Load {
            past_tokens: vec![(second, Element::by(hash, hashed))],
            hash,
            ..Load::default()
        };
        Ok((shard_of_element(hashed, shards), load))
    };
    carry(context, id, aim, "the counter is busy").await
}

/// Sends registers to a cell of the counter, which merges them durably. It may be any cell, because reads join all
/// cells.
///
/// # Errors
/// Any refusal, `hash-mismatch` and `unavailable`.
#[cfg_attr(
    not(feature = "redis"),
    expect(dead_code, reason = "sketches of Redis are merged")
)]
pub async fn merge(context: &RequestContext, id: &CounterId, hll: &Hll) -> Result<(), Problem> {
    let load = Load {
        hash: HashId::REDIS,
        imported: Uniques::from_hll(hll),
        ..Load::default()
    };
    let aim = async |shards, other| match other {
        // The counter was deleted since then, and created again with another hash function.
        Some(UniqueHash::Keyed) => Err(not_of_redis(id)),
        Some(UniqueHash::Redis) | None => Ok((own_shard(&context.host, shards), load.clone())),
    };
    let detail = "the counter is busy; nothing was changed, try again";
    carry(context, id, aim, detail).await
}

/// Sends unique elements to the counter; they may be sent again without harm. `aim` gives the shard and the content:
/// its arguments are the number of shards, and the hash function that a cell has asked for in a refusal, if one did.
async fn carry(
    context: &RequestContext,
    id: &CounterId,
    aim: impl AsyncFn(u8, Option<UniqueHash>) -> Result<(u8, Load), Problem>,
    busy: &str,
) -> Result<(), Problem> {
    let known = known_of(&context.host, id);
    let home = known.home.clone();
    let mut datacenter = home.unwrap_or_else(|| context.datacenter());
    let mut shards = known.shards_in(&datacenter);
    let mut other = None;
    let begun_ms = context.host.now_ms();
    for _ in 0..MOVES_MAX {
        let (shard, load) = aim(shards, other).await?;
        let cell = CellAddress {
            counter: id.clone(),
            datacenter: datacenter.clone(),
            shard,
        };
        let arrival = lanes::carry::<CellLane>(context, &cell, load, begun_ms).await?;
        match arrival.outcome {
            Err(Fault::Refused(Refusal::Moved(moved_to))) => shards = moved_to,
            Err(Fault::Refused(Refusal::OtherHash(own))) => other = Some(own),
            Err(Fault::Elsewhere(home)) => {
                shards = 1;
                datacenter = home;
            }
            outcome => return outcome.map(|_| ()).map_err(Problem::from),
        }
    }
    Err(Problem::new(Code::Unavailable, busy))
}
