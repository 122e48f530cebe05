//! Clients of keyed writes, each request as `edge::keyed` and `platform::keyed`: claimed at the root, then
//! counted by the lead that has the key.

use std::rc::Rc;

use tally::counter::ledger::{Keyed, KeyedOutcome, SeenValue, WriteKey};
use tally::counter::total::Value;
use tally::protocol::messages::{Fault, Owner};

use super::edge::Edge;
use super::network::{Answer, Message, Reply};
use super::oracle::Totals;
use super::reader::sum_world;
use super::{Air, datacenter};

/// A keyed write as its client names it; `delta` must belong to the fingerprint.
#[derive(Clone, Copy, Debug)]
pub struct Wish {
    pub key: WriteKey,
    pub fingerprint: u64,
    pub delta: Totals,
}

/// Sends a keyed write once through an isolate. True if the client has its last answer.
pub async fn send(edge: Rc<Edge>, wish: Wish) -> bool {
    let air = edge.air.clone();
    let here = datacenter(edge.datacenter);
    let second = edge.now_ms().div_euclid(1_000);
    let mut write = Keyed {
        key: wish.key,
        fingerprint: wish.fingerprint,
        generation: 0,
        added: wish.delta.0,
        removed: wish.delta.1,
        live: vec![(second, wish.delta.0)],
        past: Vec::new(),
        seen: None,
        condition: None,
    };
    air.oracle
        .borrow_mut()
        .keys
        .wants(wish.key, wish.fingerprint, wish.delta);
    let mut landed = count(&edge, &write).await;
    if let (_, Ok(KeyedOutcome::NeedsView)) = landed {
        let seen = sum_world(&air, false).await.ok().flatten();
        let parts = seen.iter().flat_map(|sum| &sum.datacenters);
        let parts = parts.filter_map(|(_, part)| part.as_ref());
        let value = parts.fold(Value::default(), |value, part| {
            value.plus(part.summary.value())
        });
        write.seen = Some(SeenValue {
            value,
            is_set: false,
        });
        landed = count(&edge, &write).await;
    }
    let (lead, outcome) = landed;
    let lead = lead.unwrap_or(here);
    let mut oracle = air.oracle.borrow_mut();
    let oracle = &mut *oracle;
    let ended = oracle.ended_generations();
    let has_ended =
        |generation: Option<u64>| generation.map_or(!ended.is_empty(), |one| ended.contains(&one));
    oracle
        .keys
        .answered(wish.key, wish.fingerprint, &lead, &outcome, has_ended)
}

type Landed = (
    Option<tally::counter::id::Datacenter>,
    Result<KeyedOutcome, Fault>,
);

async fn count(edge: &Edge, write: &Keyed) -> Landed {
    let air = &edge.air;
    let claim = Message::Claim(datacenter(edge.datacenter), vec![write.key]);
    let claimed = match twice(air, air.root(), claim).await {
        Ok(Answer::Claimed(claimed)) => claimed,
        Ok(other) => unreachable!("{other:?} answers no claim"),
        Err(fault) => return (None, Err(fault)),
    };
    let lead = match &claimed.owners[0] {
        Owner::Lead(lead) => lead.clone(),
        Owner::Ended => return (None, Ok(KeyedOutcome::Ended)),
        Owner::Operation => return (None, Ok(KeyedOutcome::Reused)),
        Owner::Full => return (None, Ok(KeyedOutcome::Full)),
    };
    let write = Keyed {
        generation: claimed.generation,
        ..write.clone()
    };
    let counted = twice(air, air.lead_of(&lead), Message::Count(vec![write])).await;
    let outcome = counted.map(|answer| match answer {
        Answer::Counted(counted) => counted.outcomes[0],
        other => unreachable!("{other:?} answers no write"),
    });
    (Some(lead), outcome)
}

/// Calls, and once more where the outcome is unknown.
async fn twice(air: &Air, to: usize, message: Message) -> Reply {
    match air.call(to, message.clone()).await {
        Err(Fault::Unavailable(_)) => air.call(to, message).await,
        outcome => outcome,
    }
}
