//! Clients of keyed writes, each request as `edge::keyed` and `platform::keyed`: claimed at the root, then
//! counted by the lead that has the key.

use std::collections::BTreeMap;
use std::rc::Rc;

use tally::counter::id::Datacenter;
use tally::counter::ledger::{Keyed, KeyedOutcome, SeenValue, WriteKey};
use tally::counter::total::Value;
use tally::protocol::messages::{Fault, Owner};

use super::edge::Edge;
use super::network::{Answer, Message, Reply, unavailable};
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
    let mut landed = count_keyed(&air, &here, std::slice::from_ref(&write)).await;
    if let (_, Ok(KeyedOutcome::NeedsView)) = landed[0] {
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
        landed = count_keyed(&air, &here, std::slice::from_ref(&write)).await;
    }
    let (lead, outcome) = landed.pop().expect("an outcome");
    let mut oracle = air.oracle.borrow_mut();
    oracle.answers(wish.key, wish.fingerprint, &lead, &outcome)
}

/// What became of a keyed write, and at which lead.
pub type Landed = (Datacenter, Result<KeyedOutcome, Fault>);

/// Counts keyed writes of one counter, as `platform::keyed::count_keyed`.
pub async fn count_keyed(air: &Rc<Air>, here: &Datacenter, writes: &[Keyed]) -> Vec<Landed> {
    let keys = writes.iter().map(|write| write.key).collect();
    let claim = Message::Claim(here.clone(), keys);
    let claimed = match twice(air, air.root(), claim).await {
        Ok(Answer::Claimed(claimed)) => claimed,
        Ok(other) => unreachable!("{other:?} answers no claim"),
        Err(fault) => return vec![(here.clone(), Err(fault)); writes.len()],
    };
    let mut landed: Vec<Landed> = Vec::with_capacity(writes.len());
    let mut by_lead: BTreeMap<Datacenter, Vec<usize>> = BTreeMap::new();
    for (place, owner) in claimed.owners.into_iter().enumerate() {
        landed.push(match owner {
            Owner::Lead(lead) => {
                by_lead.entry(lead.clone()).or_default().push(place);
                (lead, Err(unavailable()))
            }
            Owner::Ended => (here.clone(), Ok(KeyedOutcome::Ended)),
            Owner::Operation => (here.clone(), Ok(KeyedOutcome::Reused)),
            Owner::Full => (here.clone(), Ok(KeyedOutcome::Full)),
            Owner::Nobody => unreachable!("a claim is made, not looked for"),
        });
    }
    for (lead, places) in by_lead {
        let chosen = places.iter().map(|place| writes[*place].clone());
        let chosen = chosen.map(|write| Keyed {
            generation: if write.generation == 0 {
                claimed.generation
            } else {
                write.generation
            },
            ..write
        });
        let counted = count_at(air, &lead, chosen.collect()).await;
        for (number, place) in places.into_iter().enumerate() {
            landed[place].1 = counted.clone().map(|outcomes| outcomes[number]);
        }
    }
    landed
}

/// Counts keyed writes at a lead, without a claim.
pub async fn count_at(
    air: &Rc<Air>,
    lead: &Datacenter,
    writes: Vec<Keyed>,
) -> Result<Vec<KeyedOutcome>, Fault> {
    match twice(air, air.lead_of(lead), Message::Count(writes)).await? {
        Answer::Counted(counted) => Ok(counted.outcomes),
        other => unreachable!("{other:?} answers no write"),
    }
}

/// Calls, and once more where the outcome is unknown.
async fn twice(air: &Air, to: usize, message: Message) -> Reply {
    match air.call(to, message.clone()).await {
        Err(Fault::Unavailable(_)) => air.call(to, message).await,
        outcome => outcome,
    }
}
