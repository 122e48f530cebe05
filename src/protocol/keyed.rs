//! Keyed writes on their way: who is asked what next, whoever carries the messages.
//!
//! Invariant: a key is counted by nobody but the lead that its claim names, so that a retry finds it from any
//! datacenter, after any split. A claim moves only away from a lead that has struck the key out.

use std::collections::BTreeMap;

use super::batch::keyed::{Calls, KEYED_AT_ONCE_MAX};
use super::messages::{Claimed, Counted, Fault, Owner};
use crate::counter::id::Datacenter;
use crate::counter::ledger::{Keyed, KeyedOutcome, WriteKey};

/// How often writes are sent on because the lead that had them has struck them out: a counter's home moved.
pub const MOVES_MAX: usize = 3;

/// What became of a keyed write, and at which lead.
pub type Landed = (Datacenter, Result<KeyedOutcome, Fault>);

/// Carries messages about keyed writes of one counter. Each may be repeated without harm.
pub trait Carrier {
    /// Asks the root whose these keys are; `struck_at` is the lead that has struck all of them out.
    fn claim(
        &self,
        here: &Datacenter,
        keys: Vec<WriteKey>,
        struck_at: Option<Datacenter>,
    ) -> impl Future<Output = Result<Claimed, Fault>>;

    /// Has a lead count them.
    fn count(
        &self,
        lead: &Datacenter,
        writes: Vec<Keyed>,
    ) -> impl Future<Output = Result<Counted, Fault>>;
}

/// A carrier that makes no more calls than it may; the others fail with [`Fault::TooMany`], and nothing is done.
pub struct Bounded<'a, C> {
    /// Who carries the messages.
    pub carrier: C,
    /// The calls that are left, shared with others.
    pub calls: &'a Calls,
}

impl<C> Bounded<'_, C> {
    fn take(&self) -> Result<(), Fault> {
        self.calls.take().then_some(()).ok_or(Fault::TooMany(0))
    }
}

impl<C: Carrier> Carrier for Bounded<'_, C> {
    async fn claim(
        &self,
        here: &Datacenter,
        keys: Vec<WriteKey>,
        struck_at: Option<Datacenter>,
    ) -> Result<Claimed, Fault> {
        self.take()?;
        self.carrier.claim(here, keys, struck_at).await
    }

    async fn count(&self, lead: &Datacenter, writes: Vec<Keyed>) -> Result<Counted, Fault> {
        self.take()?;
        self.carrier.count(lead, writes).await
    }
}

/// Counts keyed writes of one counter, each claimed first. Returns what became of each, in their order. Cost: one
/// call to the root, and one to the lead for each [`KEYED_AT_ONCE_MAX`] writes.
pub async fn count_claimed(
    carrier: &impl Carrier,
    here: &Datacenter,
    writes: &[Keyed],
) -> Vec<Landed> {
    let mut landed = Vec::with_capacity(writes.len());
    for some in writes.chunks(KEYED_AT_ONCE_MAX) {
        landed.extend(count_some(carrier, here, some).await);
    }
    landed
}

async fn count_some(carrier: &impl Carrier, here: &Datacenter, writes: &[Keyed]) -> Vec<Landed> {
    let unknown = || Fault::Unavailable("nothing was answered".to_owned());
    let mut landed: Vec<Landed> = vec![(here.clone(), Err(unknown())); writes.len()];
    let mut left: Vec<usize> = (0..writes.len()).collect();
    let mut struck_at = None;
    for _ in 0..MOVES_MAX {
        let keys = left.iter().filter_map(|place| writes.get(*place));
        let keys = keys.map(|write| write.key).collect();
        let claimed = carrier.claim(here, keys, struck_at.take()).await;
        let by_lead = match claimed {
            Ok(claimed) => sort_out(&claimed, here, &left, &mut landed),
            Err(fault) => {
                put_all(&mut landed, &left, here, &Err(fault));
                return landed;
            }
        };
        left.clear();
        for ((lead, generation), places) in by_lead {
            let chosen = places.iter().filter_map(|place| writes.get(*place));
            let chosen = chosen.map(|write| Keyed {
                generation: if write.generation == 0 {
                    generation
                } else {
                    write.generation
                },
                ..write.clone()
            });
            let counted = carrier.count(&lead, chosen.collect()).await;
            let struck = put_counted(&mut landed, &places, &lead, counted);
            // Of one lead at a time, which is what a claim names; others are settled by a retry.
            if !struck.is_empty() && left.is_empty() {
                left = struck;
                struck_at = Some(lead);
            }
        }
        if left.is_empty() {
            break;
        }
    }
    landed
}

/// Counts writes whose keys only their sender knows: at a lead, and where that has struck them out, because all
/// writes go elsewhere, at whichever the root names. Returns what became of each, in their order.
pub async fn count_unclaimed(
    carrier: &impl Carrier,
    lead: &Datacenter,
    writes: &[Keyed],
) -> Vec<Landed> {
    let mut landed: Vec<Landed> = Vec::with_capacity(writes.len());
    for some in writes.chunks(KEYED_AT_ONCE_MAX) {
        let mut of_some = vec![(lead.clone(), Ok(KeyedOutcome::NotWhole)); some.len()];
        let mut left: Vec<usize> = (0..some.len()).collect();
        let mut at = lead.clone();
        for _ in 0..MOVES_MAX {
            let chosen = left.iter().filter_map(|place| some.get(*place)).cloned();
            let chosen: Vec<Keyed> = chosen.collect();
            let counted = carrier.count(&at, chosen).await;
            left = put_counted(&mut of_some, &left, &at, counted);
            if left.is_empty() {
                break;
            }
            // What was not struck out is counted there, or will be when it is sent again: only the rest moves.
            let struck = left.iter().filter_map(|place| some.get(*place));
            let keys: Vec<WriteKey> = struck.map(|write| write.key).collect();
            let claimed = carrier.claim(lead, keys, Some(at.clone())).await;
            // All of them were struck out at once, so one datacenter has them all.
            match claimed.map(|claimed| claimed.owners.into_iter().next()) {
                Ok(Some(Owner::Lead(owner))) => at = owner,
                _ => break,
            }
        }
        landed.extend(of_some);
    }
    landed
}

/// Notes what is decided by the claims, and returns what is to be counted by which lead.
fn sort_out(
    claimed: &Claimed,
    here: &Datacenter,
    places: &[usize],
    landed: &mut [Landed],
) -> BTreeMap<(Datacenter, u64), Vec<usize>> {
    let mut by_lead: BTreeMap<(Datacenter, u64), Vec<usize>> = BTreeMap::new();
    for (owner, place) in claimed.owners.iter().zip(places) {
        let outcome = match owner {
            Owner::Lead(lead) => {
                let group = (lead.clone(), claimed.generation);
                by_lead.entry(group).or_default().push(*place);
                continue;
            }
            Owner::Ended => KeyedOutcome::Ended,
            Owner::Full => KeyedOutcome::Full,
            Owner::Operation => KeyedOutcome::Reused,
            Owner::Nobody => KeyedOutcome::Unknown,
        };
        put_all(landed, &[*place], here, &Ok(outcome));
    }
    by_lead
}

fn put_all(
    landed: &mut [Landed],
    places: &[usize],
    lead: &Datacenter,
    outcome: &Result<KeyedOutcome, Fault>,
) {
    for place in places {
        if let Some(known) = landed.get_mut(*place) {
            *known = (lead.clone(), outcome.clone());
        }
    }
}

/// Notes what a lead answered. Returns the places of what it has struck out.
fn put_counted(
    landed: &mut [Landed],
    places: &[usize],
    lead: &Datacenter,
    counted: Result<Counted, Fault>,
) -> Vec<usize> {
    let mut struck = Vec::new();
    let counted = match counted {
        Ok(counted) => counted,
        Err(fault) => {
            put_all(landed, places, lead, &Err(fault));
            return struck;
        }
    };
    for (number, place) in places.iter().enumerate() {
        let missing = || Fault::Broken("a write was not answered".to_owned());
        let outcome = counted.outcomes.get(number).copied().ok_or_else(missing);
        if outcome == Ok(KeyedOutcome::Struck) {
            struck.push(*place);
        }
        put_all(landed, &[*place], lead, &outcome);
    }
    struck
}
