//! The routing of keyed writes: which lead is asked next. It does not depend on the transport.
//!
//! Invariant: a key is counted only by the lead that its claim names, so that a retry from any datacenter finds it,
//! also after a network partition. A claim is moved only away from a lead that has struck the key out. Messages carry
//! the number of the claim's moves. So a lead that gets a key back counts it. The lead and the root recognise a late
//! copy of an earlier message by its lower number.

use std::collections::BTreeMap;

use crate::batch::budget::{CallBudget, KEYED_AT_ONCE_MAX};
use tally_core::callers::account::{AccountId, account_max};
use tally_core::cluster::claim::ClaimHolder;
use tally_core::counter::id::Datacenter;
use tally_core::counter::ledger::{KeySource, KeyedOutcome, KeyedWrite, WriteKey};
use tally_wire::messages::{ClaimAnswer, Counted, Fault, KeyOwner};
use tally_wire::shell_limits::CLAIMS_MAX;

/// Whose room for keys a keyed write takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyRoom {
    /// Who may send the write again.
    pub source: KeySource,
    /// The account whose part of the room it fills, if any.
    pub account: AccountId,
}

impl From<KeySource> for KeyRoom {
    fn from(source: KeySource) -> Self {
        Self {
            source,
            account: AccountId::default(),
        }
    }
}

/// The words of a refusal where an account has filled its part of the room for keys.
pub fn part_full(account: AccountId) -> String {
    format!(
        "account {account} has as many idempotency keys as it may have in one of the directory's partitions: at most {} \
         of {CLAIMS_MAX}, with all keys of the account, and never more than is left for others; nothing was done, \
         send it without a key, or again when keys have been forgotten",
        account_max(CLAIMS_MAX)
    )
}

/// How many leads writes are sent to, one after the other. Each may have struck the writes out because the counter's
/// home was moved.
pub const MOVES_MAX: usize = 3;

/// The result of a keyed write, and its lead.
pub type LeadOutcome = (Datacenter, Result<KeyedOutcome, Fault>);

/// Sends messages about keyed writes of one counter. Each message may be repeated without harm.
pub trait Carrier {
    /// Asks who holds these keys. The root decides; for numbered keys, the lead here. `struck_at` held all of them and
    /// has struck them out.
    fn claim(
        &self,
        here: &Datacenter,
        keys: Vec<WriteKey>,
        struck_at: Option<ClaimHolder>,
    ) -> impl Future<Output = Result<ClaimAnswer, Fault>>;

    /// Asks a lead to count them. `moves` is the number of moves of their claims; `None` for keys that only their
    /// sender knows, see [`after_unknown`].
    fn count(
        &self,
        lead: &Datacenter,
        moves: Option<u32>,
        writes: Vec<KeyedWrite>,
    ) -> impl Future<Output = Result<Counted, Fault>>;
}

/// A transport that makes at most so many calls; further ones fail with [`Fault::TooMany`], and nothing is done.
pub struct BudgetedCarrier<'a, C> {
    /// The transport.
    pub carrier: C,
    /// The calls that are left, shared with others.
    pub calls: &'a CallBudget,
}

impl<C> BudgetedCarrier<'_, C> {
    fn take(&self) -> Result<(), Fault> {
        self.calls.take().then_some(()).ok_or(Fault::TooMany(0))
    }
}

impl<C: Carrier> Carrier for BudgetedCarrier<'_, C> {
    async fn claim(
        &self,
        here: &Datacenter,
        keys: Vec<WriteKey>,
        struck_at: Option<ClaimHolder>,
    ) -> Result<ClaimAnswer, Fault> {
        self.take()?;
        self.carrier.claim(here, keys, struck_at).await
    }

    async fn count(
        &self,
        lead: &Datacenter,
        moves: Option<u32>,
        writes: Vec<KeyedWrite>,
    ) -> Result<Counted, Fault> {
        self.take()?;
        self.carrier.count(lead, moves, writes).await
    }
}

/// Counts keyed writes of one counter, each claimed first. Returns the result of each, in their order. Cost: one call
/// to the root, and one to the lead for each [`KEYED_AT_ONCE_MAX`] writes.
pub async fn count_claimed(
    carrier: &impl Carrier,
    here: &Datacenter,
    writes: &[KeyedWrite],
) -> Vec<LeadOutcome> {
    let mut outcomes = Vec::with_capacity(writes.len());
    for some in writes.chunks(KEYED_AT_ONCE_MAX) {
        let mut routing = Routing::new(carrier, here, some);
        routing.follow(MOVES_MAX).await;
        outcomes.extend(routing.outcomes);
    }
    outcomes
}

/// Counts writes whose keys only their sender knows, at a lead. If that lead has struck them out because all writes go
/// elsewhere, counts them at the lead that the root names. Returns the result of each, in their order.
pub async fn count_unclaimed(
    carrier: &impl Carrier,
    lead: &Datacenter,
    writes: &[KeyedWrite],
) -> Vec<LeadOutcome> {
    let mut outcomes: Vec<LeadOutcome> = Vec::with_capacity(writes.len());
    for some in writes.chunks(KEYED_AT_ONCE_MAX) {
        let mut routing = Routing::new(carrier, lead, some);
        let indices = std::mem::take(&mut routing.left);
        routing
            .count_at(ClaimHolder::first(lead), (None, None), indices)
            .await;
        routing.follow(MOVES_MAX - 1).await;
        outcomes.extend(routing.outcomes);
    }
    outcomes
}

/// Writes on their way to the leads that hold their keys.
struct Routing<'a, C> {
    carrier: &'a C,
    here: &'a Datacenter,
    writes: &'a [KeyedWrite],
    outcomes: Vec<LeadOutcome>,
    /// The indexes of those that have no lead yet.
    left: Vec<usize>,
    /// The lead that has struck those out.
    struck_at: Option<ClaimHolder>,
}

impl<'a, C: Carrier> Routing<'a, C> {
    fn new(carrier: &'a C, here: &'a Datacenter, writes: &'a [KeyedWrite]) -> Self {
        let unknown = Fault::Unavailable("nothing was answered".to_owned());
        Self {
            carrier,
            here,
            writes,
            outcomes: vec![(here.clone(), Err(unknown)); writes.len()],
            left: (0..writes.len()).collect(),
            struck_at: None,
        }
    }

    /// Sends the writes without a lead to the lead that the root names, at most so often.
    async fn follow(&mut self, times: usize) {
        for _ in 0..times {
            if self.left.is_empty() {
                return;
            }
            let indices = std::mem::take(&mut self.left);
            let keys = indices.iter().filter_map(|index| self.writes.get(*index));
            let keys = keys.map(|write| write.key).collect();
            let struck_at = self.struck_at.take();
            let claimed = match self.carrier.claim(self.here, keys, struck_at).await {
                Ok(claimed) => claimed,
                Err(fault) => return put_all(&mut self.outcomes, &indices, self.here, &Err(fault)),
            };
            let generation = claimed.generation;
            for (holder, indices) in sort_out(&claimed, self.here, &indices, &mut self.outcomes) {
                let claim = (Some(holder.moves), Some(generation));
                self.count_at(holder, claim, indices).await;
            }
        }
    }

    /// Asks a lead to count some writes. `moves` and generation are those of their claims, if they are claimed.
    async fn count_at(
        &mut self,
        holder: ClaimHolder,
        (moves, generation): (Option<u32>, Option<u64>),
        indices: Vec<usize>,
    ) {
        let lead = &holder.datacenter;
        let chosen = indices.iter().filter_map(|index| self.writes.get(*index));
        let chosen = chosen.map(|write| KeyedWrite {
            condition: (write.condition.as_ref()).map(|seen| seen.for_lead(lead)),
            generation: match (write.generation, generation) {
                (0, Some(claimed)) => claimed,
                (own, _) => own,
            },
            ..write.clone()
        });
        let counted = (self.carrier).count(lead, moves, chosen.collect()).await;
        let struck = put_counted(&mut self.outcomes, &indices, &holder.datacenter, counted);
        // A claim names one lead at a time; a retry resolves the others.
        if !struck.is_empty() && self.left.is_empty() {
            self.left = struck;
            self.struck_at = Some(holder);
        }
    }
}

/// The result of writes whose first attempt was not answered, from the result of the second attempt. For keys that only
/// their sender knows, a lead records these results: counted, struck out, below the floor, past 64 bits. Any other
/// result stays unknown, because the first attempt may still be on its way.
///
/// # Errors
/// `Unavailable`.
pub fn after_unknown(moves: Option<u32>, second: Result<Counted, Fault>) -> Result<Counted, Fault> {
    let detail = "an earlier attempt was not answered".to_owned();
    let counted = match second {
        Err(Fault::Refused(_)) if moves.is_none() => return Err(Fault::Unavailable(detail)),
        Err(Fault::NotLocated) => return Err(Fault::Unavailable(detail)),
        second => second?,
    };
    let is_for_good = |outcome: &KeyedOutcome| {
        let is_refused = matches!(
            outcome,
            KeyedOutcome::Struck
                | KeyedOutcome::BelowFloor
                | KeyedOutcome::BelowFloorBefore
                | KeyedOutcome::Overflow
        );
        outcome.is_counted() || is_refused
    };
    if moves.is_some() || counted.outcomes.iter().all(is_for_good) {
        return Ok(counted);
    }
    Err(Fault::Unavailable(detail))
}

/// Records what the claims decide, and returns what each lead is to count.
fn sort_out(
    claimed: &ClaimAnswer,
    here: &Datacenter,
    indices: &[usize],
    outcomes: &mut [LeadOutcome],
) -> BTreeMap<ClaimHolder, Vec<usize>> {
    let mut by_holder: BTreeMap<ClaimHolder, Vec<usize>> = BTreeMap::new();
    for (owner, index) in claimed.owners.iter().zip(indices) {
        let outcome = match owner {
            KeyOwner::Lead(holder) => {
                by_holder.entry(holder.clone()).or_default().push(*index);
                continue;
            }
            KeyOwner::Ended => KeyedOutcome::Ended,
            KeyOwner::Full => KeyedOutcome::Full,
            KeyOwner::PartFull(account) => KeyedOutcome::PartFull(*account),
            KeyOwner::Operation => KeyedOutcome::Reused,
            KeyOwner::Nobody => KeyedOutcome::Unknown,
        };
        put_all(outcomes, &[*index], here, &Ok(outcome));
    }
    by_holder
}

fn put_all(
    outcomes: &mut [LeadOutcome],
    indices: &[usize],
    lead: &Datacenter,
    outcome: &Result<KeyedOutcome, Fault>,
) {
    for index in indices {
        if let Some(known) = outcomes.get_mut(*index) {
            *known = (lead.clone(), outcome.clone());
        }
    }
}

/// Records the answer of a lead. Returns the indexes of those that it has struck out.
fn put_counted(
    outcomes: &mut [LeadOutcome],
    indices: &[usize],
    lead: &Datacenter,
    counted: Result<Counted, Fault>,
) -> Vec<usize> {
    let mut struck = Vec::new();
    let counted = match counted {
        Ok(counted) => counted,
        Err(fault) => {
            put_all(outcomes, indices, lead, &Err(fault));
            return struck;
        }
    };
    for (number, index) in indices.iter().enumerate() {
        let missing = || Fault::Broken("a write was not answered".to_owned());
        let outcome = counted.outcomes.get(number).copied().ok_or_else(missing);
        if outcome == Ok(KeyedOutcome::Struck) {
            struck.push(*index);
        }
        put_all(outcomes, &[*index], lead, &outcome);
    }
    struck
}
