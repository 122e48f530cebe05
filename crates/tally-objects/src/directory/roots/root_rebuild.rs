//! Roots whose row was lost: rebuilt from a lead that still counts.
//!
//! Invariant: a counter is created only where nothing is known of it here, nor at the lead of the datacenter that asks
//! for it. So a lost row does not lead to a second creation there, which would end what is counted. Other datacenters
//! are known with their next push; until then their counts are missing in the sum: such a root is marked as incomplete.

use super::Roots;
use tally_core::cluster::root::{Root, RootEntry};
use tally_core::counter::grant::Grant;
use tally_core::counter::id::{CounterId, Datacenter};
use tally_wire::messages::{AskGrant, Fault};
use tally_wire::names::CellAddress;

impl Roots {
    /// The living root; where nothing is known of the counter, the lead of this datacenter is asked first whether it
    /// counts one. Costs one call, where a counter is created. The caller holds the lock.
    ///
    /// # Errors
    /// `Unavailable` where that lead does not answer.
    pub(crate) async fn living_or_lost(
        &self,
        counter: &CounterId,
        datacenter: &Datacenter,
    ) -> Result<Result<Root, Option<RootEntry>>, Fault> {
        let living = self.living(counter, true).await?;
        if !matches!(living, Err(None)) {
            return Ok(living);
        }
        let to = CellAddress::lead(counter, datacenter);
        let held = self.outbox.call(&AskGrant { to }).await?;
        match held {
            Some(held) => {
                self.adopt(counter, datacenter, &held).await?;
                self.living(counter, true).await
            }
            None => Ok(living),
        }
    }

    /// Accepts a lead's grant if nothing is known of the counter here, or only an older generation: then the row, or
    /// its newest state, was lost.
    pub(super) async fn adopt(
        &self,
        counter: &CounterId,
        datacenter: &Datacenter,
        held: &Grant,
    ) -> Result<(), Fault> {
        let known = self.rows.entry(counter)?;
        let is_lost = known.is_none_or(|entry| entry.generation() < held.generation);
        // A lead that was not notified of an end yet still reports the ended generation.
        if !is_lost || self.duties.is_closing(counter, held.generation)? {
            return Ok(());
        }
        self.host
            .warn("a root was lost, and is made again from what its lead knows");
        let root = Root::adopt(held, datacenter, self.host.now_ms());
        self.save(counter, RootEntry::Live(root), &[]).await
    }
}
