//! How messages about keyed writes are carried: [`crate::protocol::keyed`] says which.
//!
//! Invariant: every call here may be repeated without harm.

use worker::Env;

use super::call;
use crate::counter::id::{CounterId, Datacenter};
use crate::counter::ledger::{Keyed, WriteKey};
use crate::protocol::batch::keyed::Calls;
use crate::protocol::keyed::{self, Bounded, Carrier, Landed};
use crate::protocol::messages::{
    Claim, Claimed, Count, Counted, Fault, FindClaims, Holder, Owner, Recall,
};
use crate::protocol::names::{CellAddress, IDEMPOTENCY, IDEMPOTENCY_DATACENTER};

/// Time for the first attempt of a call, and for its retry.
const ATTEMPTS_MS: [u64; 2] = [1_500, 1_000];

/// Calls the objects of one counter.
struct Caller<'a> {
    env: &'a Env,
    counter: &'a CounterId,
}

impl Carrier for Caller<'_> {
    async fn claim(
        &self,
        here: &Datacenter,
        keys: Vec<WriteKey>,
        struck_at: Option<Holder>,
    ) -> Result<Claimed, Fault> {
        claim(self.env, self.counter, here, keys, struck_at).await
    }

    async fn count(
        &self,
        lead: &Datacenter,
        moves: Option<u32>,
        writes: Vec<Keyed>,
    ) -> Result<Counted, Fault> {
        count_at(self.env, self.counter, lead, moves, writes).await
    }
}

/// Counts keyed writes of one counter. Returns what became of each, in their order. Cost: as
/// [`keyed::count_claimed`].
pub async fn count_keyed(
    env: &Env,
    counter: &CounterId,
    here: &Datacenter,
    writes: &[Keyed],
) -> Vec<Landed> {
    keyed::count_claimed(&Caller { env, counter }, here, writes).await
}

/// As [`count_keyed`], or where `is_recall` as [`recall_keyed`], with no more calls than are left: the writes of
/// others fail with [`Fault::TooMany`].
pub async fn count_bounded(
    env: &Env,
    counter: &CounterId,
    here: &Datacenter,
    writes: &[Keyed],
    calls: &Calls,
    is_recall: bool,
) -> Vec<Landed> {
    if is_recall {
        let carrier = Recaller { env, counter };
        keyed::count_claimed(&Bounded { carrier, calls }, here, writes).await
    } else {
        let carrier = Caller { env, counter };
        keyed::count_claimed(&Bounded { carrier, calls }, here, writes).await
    }
}

/// Says what became of keyed writes of one counter that may not be counted now, because their times are out of
/// range. Returns what became of each, in their order: [`crate::counter::ledger::KeyedOutcome::Unknown`] where it was not counted. Nothing is
/// claimed, and no counter appears. Cost: as [`keyed::count_claimed`].
pub async fn recall_keyed(
    env: &Env,
    counter: &CounterId,
    here: &Datacenter,
    writes: &[Keyed],
) -> Vec<Landed> {
    keyed::count_claimed(&Recaller { env, counter }, here, writes).await
}

/// Asks the objects of one counter, and changes nothing.
struct Recaller<'a> {
    env: &'a Env,
    counter: &'a CounterId,
}

impl Carrier for Recaller<'_> {
    async fn claim(
        &self,
        here: &Datacenter,
        keys: Vec<WriteKey>,
        _struck_at: Option<Holder>,
    ) -> Result<Claimed, Fault> {
        if is_local(self.env) {
            return Ok(all_at(here, keys.len()));
        }
        let find = FindClaims {
            counter: self.counter.clone(),
            keys,
        };
        twice(|milliseconds| call::root_within(self.env, self.counter, &find, milliseconds)).await
    }

    async fn count(
        &self,
        lead: &Datacenter,
        _moves: Option<u32>,
        writes: Vec<Keyed>,
    ) -> Result<Counted, Fault> {
        let to = CellAddress::lead(self.counter, lead);
        let recall = Recall {
            to: to.clone(),
            writes,
        };
        twice(|milliseconds| call::cell_within(self.env, &to, &recall, milliseconds)).await
    }
}

/// Counts writes whose keys only their sender knows. Returns what became of each, in their order. Cost: as
/// [`keyed::count_unclaimed`].
pub async fn count_unclaimed(
    env: &Env,
    counter: &CounterId,
    lead: &Datacenter,
    writes: &[Keyed],
) -> Vec<Landed> {
    keyed::count_unclaimed(&Caller { env, counter }, lead, writes).await
}

/// Who has the keys. Where the deployment says that clients always come back to the same datacenter,
/// it is that one, and the root is not asked.
async fn claim(
    env: &Env,
    counter: &CounterId,
    here: &Datacenter,
    keys: Vec<WriteKey>,
    struck_at: Option<Holder>,
) -> Result<Claimed, Fault> {
    if struck_at.is_none() && is_local(env) {
        return Ok(all_at(here, keys.len()));
    }
    let claim = Claim {
        counter: counter.clone(),
        datacenter: here.clone(),
        keys,
        struck_at,
    };
    twice(|milliseconds| call::root_within(env, counter, &claim, milliseconds)).await
}

fn is_local(env: &Env) -> bool {
    let setting = env.var(IDEMPOTENCY).ok();
    setting.is_some_and(|text| text.to_string() == IDEMPOTENCY_DATACENTER)
}

/// What the root would say: this lead has so many keys.
fn all_at(here: &Datacenter, keys: usize) -> Claimed {
    Claimed {
        generation: 0,
        owners: vec![Owner::Lead(Holder::first(here)); keys],
    }
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

/// Counts keyed writes at the lead that has their keys.
///
/// # Errors
/// As [`call::object`]; after `Unavailable` it is unknown which were counted.
async fn count_at(
    env: &Env,
    counter: &CounterId,
    lead: &Datacenter,
    moves: Option<u32>,
    writes: Vec<Keyed>,
) -> Result<Counted, Fault> {
    let to = CellAddress::lead(counter, lead);
    let count = Count {
        to: to.clone(),
        writes,
        moves,
    };
    let [first, second] = ATTEMPTS_MS;
    match call::cell_within(env, &to, &count, first).await {
        Err(Fault::Unavailable(_)) => {
            let counted = call::cell_within(env, &to, &count, second).await?;
            keyed::after_unknown(moves, counted)
        }
        outcome => outcome,
    }
}
