//! Claims of idempotency keys: the first datacenter that asks gets the key, so that a retry finds it from any
//! datacenter.
//!
//! Invariant: a claim is durable before it is in any answer. It is kept an hour longer than the promised time of a
//! record that is counted under it. Both are deleted by slots, up to a quarter later: by default claims after 25 h to
//! 31 h 15 min, records after 24 h to 30 h. So a record may outlive its claim, after its promised time. Each answer
//! renews the claim, because the following count may be the first that succeeds, however old the claim is.

use std::rc::Rc;

use super::alarm::Alarm;
use super::claim_store::ClaimStore;
use super::roots::Roots;
use crate::kit::store::Store;
use tally_core::cluster::claim::ClaimHolder;
use tally_core::counter::ledger::WriteKey;
use tally_host::Host;
use tally_wire::messages::{Claim, ClaimAnswer, Fault, FindClaims};

/// The most idempotency keys that one call claims: 16 bytes each, and an answer of about as much.
pub const CLAIMS_AT_ONCE_MAX: usize = 50_000;

/// The claims of a partition's counters.
pub(super) struct Claims {
    host: Host,
    roots: Rc<Roots>,
    rows: ClaimStore,
    alarm: Rc<Alarm>,
}

impl Claims {
    /// The claims of these roots.
    pub(super) fn new(host: &Host, store: &Store, roots: Rc<Roots>, alarm: Rc<Alarm>) -> Self {
        Self {
            host: host.clone(),
            roots,
            rows: ClaimStore::new(host, store),
            alarm,
        }
    }

    /// Claims keys for a datacenter, and returns their owners.
    ///
    /// # Errors
    /// `TooMany` keys; `Unavailable` where SQLite refuses, or a lead that is needed does not answer.
    pub(super) async fn claim(&self, claim: Claim) -> Result<ClaimAnswer, Fault> {
        check_number(&claim.keys)?;
        let lock = self.roots.lock_of(&claim.counter);
        let _alone = lock.lock().await;
        self.roots.is_here(&claim.counter)?;
        // A retry creates no datacenter, and no counter that was deleted.
        let living = self
            .roots
            .living_or_lost(&claim.counter, &claim.datacenter)
            .await?;
        let generation = living.as_ref().map_or(0, |root| root.generation);
        let known = match claim.struck_at {
            None => self
                .rows
                .claims_of(&claim, generation, self.host.now_ms())?,
            Some(_) => None,
        };
        let (generation, (owners, is_slot_new)) = match known {
            Some(known) => (generation, known),
            None => {
                let root = match living {
                    // All writes go to the home, so no other datacenter need register.
                    Ok(root) if root.home.is_some() => root,
                    _ => {
                        let Claim {
                            counter,
                            datacenter,
                            ttl_if_new,
                            ..
                        } = &claim;
                        self.roots.admit(counter, datacenter, *ttl_if_new).await?
                    }
                };
                let generation = root.generation;
                let Claim {
                    struck_at,
                    datacenter,
                    ..
                } = &claim;
                let next = ClaimHolder::after(struck_at.as_ref(), root.home.as_ref(), datacenter);
                let claimed = (self.rows).claim_all(&claim, &next, generation, self.host.now_ms());
                (generation, claimed?)
            }
        };
        if is_slot_new {
            self.alarm.arm(self.host.now_ms()).await?;
        }
        Ok(ClaimAnswer { generation, owners })
    }

    /// Returns the owners of keys; a counter that nobody counts has none.
    ///
    /// # Errors
    /// As [`Claims::claim`].
    pub(super) async fn find(&self, find: FindClaims) -> Result<ClaimAnswer, Fault> {
        let FindClaims { counter, keys } = find;
        check_number(&keys)?;
        let lock = self.roots.lock_of(&counter);
        let _alone = lock.lock().await;
        self.roots.is_here(&counter)?;
        let living = self.roots.living(&counter, true).await?;
        let generation = living.as_ref().map_or(0, |root| root.generation);
        let owners = self.rows.find_claims(&counter, &keys, generation)?;
        Ok(ClaimAnswer { generation, owners })
    }
}

fn check_number(keys: &[WriteKey]) -> Result<(), Fault> {
    if keys.len() > CLAIMS_AT_ONCE_MAX {
        let limit = u32::try_from(CLAIMS_AT_ONCE_MAX).unwrap_or(u32::MAX);
        return Err(Fault::TooMany(limit));
    }
    Ok(())
}
