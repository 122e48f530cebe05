//! Keyed writes on their way: claimed at the root, then counted by the lead that has the key, each once.
//!
//! Invariant: a key is counted by nobody but the lead that its claim names, so that a retry finds it from
//! any datacenter, after any split. Every call here may be repeated without harm.

use std::collections::BTreeMap;

use worker::Env;

use super::call;
use crate::counter::id::{CounterId, Datacenter};
use crate::counter::ledger::{Keyed, KeyedOutcome};
use crate::protocol::batch::plan::KEYED_AT_ONCE_MAX;
use crate::protocol::messages::{Claim, Claimed, Count, Counted, Fault, Owner};
use crate::protocol::names::{CellAddress, IDEMPOTENCY, IDEMPOTENCY_DATACENTER};

/// Time for the first attempt of a call, and for its retry.
const ATTEMPTS_MS: [u64; 2] = [1_500, 1_000];

/// What became of a keyed write, and at which lead.
pub type Landed = (Datacenter, Result<KeyedOutcome, Fault>);

/// Counts keyed writes of one counter. Returns what became of each, in their order. Cost: one call to
/// the root, and one to the lead for each [`KEYED_AT_ONCE_MAX`] writes.
pub async fn count_keyed(
    env: &Env,
    counter: &CounterId,
    here: &Datacenter,
    writes: &[Keyed],
) -> Vec<Landed> {
    let mut landed = Vec::with_capacity(writes.len());
    for some in writes.chunks(KEYED_AT_ONCE_MAX) {
        landed.extend(count_some(env, counter, here, some).await);
    }
    landed
}

async fn count_some(
    env: &Env,
    counter: &CounterId,
    here: &Datacenter,
    writes: &[Keyed],
) -> Vec<Landed> {
    let claimed = match claim(env, counter, here, writes).await {
        Ok(claimed) => claimed,
        Err(fault) => return vec![(here.clone(), Err(fault)); writes.len()],
    };
    let mut landed: Vec<Landed> = Vec::with_capacity(writes.len());
    let mut by_lead: BTreeMap<Datacenter, Vec<usize>> = BTreeMap::new();
    for (place, owner) in claimed.owners.into_iter().enumerate() {
        landed.push(match owner {
            Owner::Lead(lead) => {
                by_lead.entry(lead.clone()).or_default().push(place);
                (
                    lead,
                    Err(Fault::Unavailable("nothing was answered".to_owned())),
                )
            }
            Owner::Ended => (here.clone(), Ok(KeyedOutcome::Ended)),
            Owner::Full => (here.clone(), Ok(KeyedOutcome::Full)),
        });
    }
    for (lead, places) in by_lead {
        let to = CellAddress::lead(counter, &lead);
        let chosen = places.iter().filter_map(|place| writes.get(*place));
        let generation = claimed.generation;
        let writes = chosen.map(|write| Keyed {
            generation: if write.generation == 0 {
                generation
            } else {
                write.generation
            },
            ..write.clone()
        });
        let counted = count_at(env, to, writes.collect()).await;
        for (number, place) in places.into_iter().enumerate() {
            let outcome = match &counted {
                Ok(counted) => counted
                    .outcomes
                    .get(number)
                    .copied()
                    .ok_or_else(|| Fault::Broken("a write was not answered".to_owned())),
                Err(fault) => Err(fault.clone()),
            };
            if let Some((_, known)) = landed.get_mut(place) {
                *known = outcome;
            }
        }
    }
    landed
}

/// Who has the keys. Where the deployment says that clients always come back to the same datacenter,
/// it is that one, and the root is not asked.
async fn claim(
    env: &Env,
    counter: &CounterId,
    here: &Datacenter,
    writes: &[Keyed],
) -> Result<Claimed, Fault> {
    let setting = env.var(IDEMPOTENCY).ok();
    if setting.is_some_and(|text| text.to_string() == IDEMPOTENCY_DATACENTER) {
        return Ok(Claimed {
            generation: 0,
            owners: vec![Owner::Lead(here.clone()); writes.len()],
        });
    }
    let claim = Claim {
        counter: counter.clone(),
        datacenter: here.clone(),
        keys: writes.iter().map(|write| write.key).collect(),
    };
    twice(|milliseconds| call::root_within(env, counter, &claim, milliseconds)).await
}

/// Calls, and once more where the outcome is unknown.
async fn twice<T, F: Future<Output = Result<T, Fault>>>(
    attempt: impl Fn(u64) -> F,
) -> Result<T, Fault> {
    let [first, second] = ATTEMPTS_MS;
    match attempt(first).await {
        Err(Fault::Unavailable(_)) => attempt(second).await,
        outcome => outcome,
    }
}

/// Counts keyed writes at a lead, without a claim: for keys that nobody else can send anywhere else.
///
/// # Errors
/// As [`call::object`]; after `Unavailable` it is unknown which were counted.
pub async fn count_at(env: &Env, to: CellAddress, writes: Vec<Keyed>) -> Result<Counted, Fault> {
    let count = Count {
        to: to.clone(),
        writes,
    };
    twice(|milliseconds| call::cell_within(env, &to, &count, milliseconds)).await
}
