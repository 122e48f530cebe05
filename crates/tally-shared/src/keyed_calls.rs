//! Sends messages about keyed writes; [`tally_api::keyed_routes`] decides which.
//!
//! Invariant: every call here may be repeated without harm.

use futures_util::future::LocalBoxFuture;

use super::call_batcher::Batcher;
use super::call_within;
use super::known_cells;
use super::leads_apart;
use super::open_objects;
use tally_api::batch::budget::CallBudget;
use tally_api::keyed_routes;
use tally_api::keyed_routes::{BudgetedCarrier, Carrier, KeyRoom, LeadOutcome};
use tally_core::cluster::claim::ClaimHolder;
use tally_core::counter::flush::Refusal;
use tally_core::counter::id::{CounterId, Datacenter};
use tally_core::counter::ledger::{KeySource, KeyedWrite, WriteKey};
use tally_core::counter::settings::TtlTerms;
use tally_host::Host;
use tally_wire::messages::{
    Call, Claim, ClaimAnswer, CountKeyed, Counted, Fault, FindClaims, KeyOwner, Recall, ttl_if_new,
};
use tally_wire::names::{CellAddress, IDEMPOTENCY, IDEMPOTENCY_DATACENTER};

/// Time for the first attempt of a call, and for its retry.
const ATTEMPTS_MS: [u64; 2] = [1_500, 1_000];

/// How much newer than an attempt its generation may be, milliseconds, if only the sender knows the key: the write
/// itself may create the counter, by the root's clock. It is less than the time after which the first attempt is given
/// up. So if the counter is deleted after the second attempt was acknowledged, the first is too old for the next
/// generation.
const DRAWN_AHEAD_MS: i64 = 1_000;

/// The newest generation in which such a write of now may count, if the living one is at least `known`.
fn newest_from(host: &Host, known: u64) -> u64 {
    let ahead = DRAWN_AHEAD_MS.cast_unsigned();
    let now_ms = u64::try_from(host.now_ms()).unwrap_or(0);
    now_ms.max(known).saturating_add(ahead)
}

/// Calls the objects of one counter: to count, or to ask what was counted, which changes nothing.
struct Caller<'a> {
    host: &'a Host,
    counter: &'a CounterId,
    is_recall: bool,
    room: KeyRoom,
    /// The time to live of the counter, if the writes create it.
    ttl_if_new: Option<TtlTerms>,
    /// Joins its calls with others of the same request, if set.
    batcher: Option<&'a Batcher>,
}

impl<'a> Caller<'a> {
    fn new(host: &'a Host, counter: &'a CounterId, room: KeyRoom) -> Self {
        Self {
            host,
            counter,
            is_recall: false,
            room,
            ttl_if_new: None,
            batcher: None,
        }
    }

    /// A caller that only looks up outcomes, and changes nothing.
    fn for_recall(host: &'a Host, counter: &'a CounterId) -> Self {
        Self {
            is_recall: true,
            ..Self::new(host, counter, KeyRoom::default())
        }
    }

    async fn call<C: Call>(&self, message: &C, milliseconds: u64) -> Result<C::Answer, Fault> {
        match self.batcher {
            Some(batcher) => batcher.call(message, milliseconds).await,
            None => call_within(self.host, message, milliseconds).await,
        }
    }
}

impl Carrier for Caller<'_> {
    /// If the deployment says that clients always return to the same datacenter, the keys are there, and the root is
    /// not asked.
    async fn claim(
        &self,
        here: &Datacenter,
        keys: Vec<WriteKey>,
        struck_at: Option<ClaimHolder>,
    ) -> Result<ClaimAnswer, Fault> {
        let counter = self.counter;
        if (struck_at.is_none() || self.is_recall) && is_local(self.host) {
            return Ok(ClaimAnswer {
                generation: 0,
                owners: vec![KeyOwner::Lead(ClaimHolder::first(here)); keys.len()],
            });
        }
        if self.is_recall {
            let find = FindClaims {
                counter: counter.clone(),
                keys,
            };
            return twice(|milliseconds| self.call(&find, milliseconds)).await;
        }
        let claim = Claim {
            counter: counter.clone(),
            datacenter: here.clone(),
            keys,
            struck_at,
            source: self.room.source,
            account: self.room.account,
            ttl_if_new: self.ttl_if_new,
        };
        twice(|milliseconds| self.call(&claim, milliseconds)).await
    }

    async fn count(
        &self,
        lead: &Datacenter,
        moves: Option<u32>,
        writes: Vec<KeyedWrite>,
    ) -> Result<Counted, Fault> {
        let to = CellAddress::lead(self.counter, lead);
        // A body with many counters needs a turn. Its claims travel in batches, which have separate turns: a body that
        // held this turn during them would wait for itself.
        let _turn = match self.batcher {
            Some(_) => Some(open_objects::turn(self.host, &to).await),
            None => None,
        };
        if self.is_recall {
            let recall = Recall { to, writes };
            return twice(|milliseconds| self.call(&recall, milliseconds)).await;
        }
        let mut count = CountKeyed::new(to, writes, moves, self.room.source);
        let newest = |known| match self.room.source {
            KeySource::Drawn => newest_from(self.host, known),
            _ => 0,
        };
        let [first, second] = ATTEMPTS_MS;
        count.newest = newest(0);
        let counted = match self.call(&count, first).await {
            Err(Fault::Unavailable(_)) => {
                count.newest = newest(0);
                keyed_routes::after_unknown(moves, self.call(&count, second).await)
            }
            // Nothing was counted, and the writes were made now.
            Err(Fault::Refused(Refusal::Newer(lives))) => {
                count.newest = newest(lives);
                self.call(&count, second).await
            }
            // Nothing was counted, because the lead moves.
            Err(Fault::NotLocated) => self.call(&count, second).await,
            outcome => outcome,
        }?;
        leads_apart::cache(self.host, &count.to, counted.is_apart);
        if let Some(totals) = counted.totals {
            let cell = (lead.clone(), count.to.shard);
            known_cells::record(self.host, self.counter, cell, totals);
        }
        Ok(counted)
    }
}

/// Counts keyed writes of one counter. Returns their outcomes, in their order. Cost: as
/// [`keyed_routes::count_claimed`].
pub fn count_keyed<'a>(
    host: &'a Host,
    counter: &'a CounterId,
    here: &'a Datacenter,
    writes: &'a [KeyedWrite],
    room: KeyRoom,
) -> LocalBoxFuture<'a, Vec<LeadOutcome>> {
    Box::pin(async move {
        let mut caller = Caller::new(host, counter, room);
        caller.ttl_if_new = ttl_if_new(writes);
        keyed_routes::count_claimed(&caller, here, writes).await
    })
}

/// What the keyed writes of one request share.
pub struct KeyedRequest<'a> {
    /// Joins their calls.
    pub batcher: &'a Batcher,
    /// The calls that they may still make.
    pub calls: &'a CallBudget,
    /// Where the request entered.
    pub here: &'a Datacenter,
}

/// Like [`count_keyed`], or like [`recall_keyed`] if `room` is `None`, together with the writes of other counters and
/// within the call budget. Writes beyond the budget fail with [`Fault::TooMany`].
pub fn count_budgeted<'a>(
    host: &'a Host,
    counter: &'a CounterId,
    many: &'a KeyedRequest<'a>,
    writes: &'a [KeyedWrite],
    room: Option<KeyRoom>,
) -> LocalBoxFuture<'a, Vec<LeadOutcome>> {
    Box::pin(async move {
        let mut carrier = room.map_or_else(
            || Caller::for_recall(host, counter),
            |room| Caller::new(host, counter, room),
        );
        carrier.batcher = Some(many.batcher);
        carrier.ttl_if_new = ttl_if_new(writes);
        let calls = many.calls;
        keyed_routes::count_claimed(&BudgetedCarrier { carrier, calls }, many.here, writes).await
    })
}

/// Looks up the outcomes of keyed writes of one counter that may not be counted now, because their times are out of
/// range. Returns the outcomes in their order: [`tally_core::counter::ledger::KeyedOutcome::Unknown`] for a write that
/// was not counted. Nothing is claimed, and no counter is created. Cost: as [`keyed_routes::count_claimed`].
pub fn recall_keyed<'a>(
    host: &'a Host,
    counter: &'a CounterId,
    here: &'a Datacenter,
    writes: &'a [KeyedWrite],
) -> LocalBoxFuture<'a, Vec<LeadOutcome>> {
    Box::pin(async move {
        let caller = Caller::for_recall(host, counter);
        keyed_routes::count_claimed(&caller, here, writes).await
    })
}

/// Counts writes whose keys only their sender knows. Returns their outcomes, in their order. Cost: as
/// [`keyed_routes::count_unclaimed`].
pub fn count_unclaimed<'a>(
    host: &'a Host,
    counter: &'a CounterId,
    lead: &'a Datacenter,
    writes: &'a [KeyedWrite],
    keys: KeySource,
) -> LocalBoxFuture<'a, Vec<LeadOutcome>> {
    Box::pin(async move {
        let caller = Caller::new(host, counter, keys.into());
        keyed_routes::count_unclaimed(&caller, lead, writes).await
    })
}

fn is_local(host: &Host) -> bool {
    host.setting(IDEMPOTENCY).as_deref() == Some(IDEMPOTENCY_DATACENTER)
}

/// Calls, and retries once if the outcome is unknown, or if the lead moves.
async fn twice<T, F: Future<Output = Result<T, Fault>>>(
    attempt: impl Fn(u64) -> F,
) -> Result<T, Fault> {
    let [first, second] = ATTEMPTS_MS;
    match attempt(first).await {
        Err(fault) if fault.is_passing() => attempt(second).await,
        outcome => outcome,
    }
}
