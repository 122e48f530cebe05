//! Unique elements on their way to their shards: hashed as their counter wants it.

use super::flight::Cells;
use super::isolate::{hash_key, home_of, shards_of, unique_hash_of};
use super::lanes;
use super::visit::Visit;
use super::write::MOVES_MAX;
use crate::counter::flush::{Element, Load, Refusal};
use crate::counter::id::CounterId;
use crate::counter::settings::UniqueHash;
use crate::counter::split::shard_of_element;
use crate::platform::clock::now_ms;
use crate::protocol::messages::Fault;
use crate::protocol::names::CellAddress;
use crate::protocol::problem::{Code, Problem};
use crate::sketch::{HashId, hash, redis_hash};

/// The identity of the hash that a counter is known to have, and an element's hash by it.
///
/// # Errors
/// `unavailable` where the deployment's key cannot be read.
pub async fn hashed(visit: &Visit, id: &CounterId, unique: &str) -> Result<(HashId, u64), Problem> {
    if unique_hash_of(id) == UniqueHash::Redis {
        return Ok((HashId::REDIS, redis_hash(unique.as_bytes())));
    }
    let key = hash_key(&visit.env).await?;
    Ok((key.id(), hash(&key, unique.as_bytes())))
}

/// Sends an element alone to its shard, of this unix second.
///
/// # Errors
/// `unavailable`; it may be sent again without harm.
pub async fn send_element(
    visit: &Visit,
    id: &CounterId,
    unique: &str,
    second: i64,
) -> Result<(), Problem> {
    let mut datacenter = home_of(id).unwrap_or_else(|| visit.datacenter());
    let mut shards = shards_of(id, &datacenter);
    let begun_ms = now_ms();
    for _ in 0..MOVES_MAX {
        let (hash, hashed) = self::hashed(visit, id, unique).await?;
        let load = Load {
            past_tokens: vec![(second, Element::by(hash, hashed))],
            hash,
            ..Load::default()
        };
        let cell = CellAddress {
            counter: id.clone(),
            datacenter: datacenter.clone(),
            shard: shard_of_element(hashed, shards),
        };
        let arrival = lanes::carry::<Cells>(visit, &cell, load, begun_ms).await?;
        match arrival.outcome {
            Err(Fault::Refused(Refusal::Moved(told))) => shards = told,
            Err(Fault::Refused(Refusal::OtherHash(_))) => {}
            Err(Fault::Elsewhere(home)) => {
                shards = 1;
                datacenter = home;
            }
            outcome => return outcome.map(|_| ()).map_err(Problem::from),
        }
    }
    let detail = "the counter is busy; nothing was counted, try again";
    Err(Problem::new(Code::Unavailable, detail))
}
