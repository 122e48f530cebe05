//! The rows of a partition's claims.

use super::directory_store::DirectoryStore;
use super::store::{integer, text};
use crate::counter::id::{CounterId, Datacenter};
use crate::counter::ledger::{Ledger, WriteKey};
use crate::protocol::messages::{Claim, Fault, Owner, decode, encode};

/// The most claims of one partition: about 150 bytes each on disk, 600 MB of the 10 GB of an object.
const CLAIMS_MAX: u64 = 4_000_000;

/// By slot first, as a cell's ledger.
pub(super) const CLAIMS_SCHEMA: &str = "CREATE TABLE IF NOT EXISTS claims (slot INTEGER NOT NULL, \
    id TEXT NOT NULL, key BLOB NOT NULL, datacenter TEXT NOT NULL, generation INTEGER NOT NULL, \
    PRIMARY KEY (slot, id, key)) WITHOUT ROWID";

/// Name of the row that counts the claims of each slot.
const COUNTS: &str = "claims";

impl DirectoryStore {
    /// Who has each key, claiming those that nobody has; and whether a slot was begun.
    ///
    /// # Errors
    /// `Unavailable` where SQLite refuses; then nothing was claimed.
    pub fn claim_all(
        &self,
        claim: &Claim,
        owner: &Datacenter,
        generation: u64,
        now_ms: i64,
    ) -> Result<(Vec<Owner>, bool), Fault> {
        let mut claims = self.claims()?;
        let before = claims.slots().last();
        let mut owners = Vec::with_capacity(claim.keys.len());
        self.store().atomically(|| {
            for key in &claim.keys {
                let found = self.claim_of(&claim.counter, &claims, *key)?;
                owners.push(match found {
                    // It is never counted where it was struck out, so it may go elsewhere.
                    Some((Some(struck), claimed))
                        if claim.struck_at.as_ref() == Some(&struck) && claimed == generation =>
                    {
                        self.move_claim(claim, &claims, *key, owner)?;
                        Owner::Lead(owner.clone())
                    }
                    Some(found) => owner_of(found, generation),
                    None => match claims.admit(now_ms, self.claims_kept_ms, CLAIMS_MAX) {
                        Some(slot) => {
                            let name = owner.as_str();
                            self.put_claim(&claim.counter, slot, *key, name, generation)?;
                            Owner::Lead(owner.clone())
                        }
                        None => Owner::Full,
                    },
                });
            }
            self.put_deployment_value(COUNTS, encode(&claims)?)
        })?;
        Ok((owners, claims.slots().last() != before))
    }

    /// Who has each key, if all of them are claimed.
    ///
    /// # Errors
    /// `Unavailable` where SQLite refuses.
    pub fn claims_of(&self, claim: &Claim, generation: u64) -> Result<Option<Vec<Owner>>, Fault> {
        let claims = self.claims()?;
        let mut owners = Vec::with_capacity(claim.keys.len());
        for key in &claim.keys {
            match self.claim_of(&claim.counter, &claims, *key)? {
                Some(found) => owners.push(owner_of(found, generation)),
                None => return Ok(None),
            }
        }
        Ok(Some(owners))
    }

    /// Claims a key for an operation of the root, which is nobody's to count. Returns its slot. The caller makes it
    /// one commit with the operation.
    ///
    /// # Errors
    /// `Unavailable` where SQLite refuses, and where there is no room: that is looked for before.
    pub(super) fn claim_for_operation(
        &self,
        counter: &CounterId,
        key: WriteKey,
        generation: u64,
        now_ms: i64,
    ) -> Result<i64, Fault> {
        let mut claims = self.claims()?;
        let full = || Fault::Unavailable("too many keys are remembered".to_owned());
        let slot = claims.admit(now_ms, self.claims_kept_ms, CLAIMS_MAX);
        let slot = slot.ok_or_else(full)?;
        self.put_claim(counter, slot, key, "", generation)?;
        self.put_deployment_value(COUNTS, encode(&claims)?)?;
        Ok(slot)
    }

    /// Whether another key can be claimed.
    pub(super) fn has_room(&self, claims: &Ledger) -> bool {
        claims.records() < CLAIMS_MAX
    }

    fn move_claim(
        &self,
        claim: &Claim,
        claims: &Ledger,
        key: WriteKey,
        owner: &Datacenter,
    ) -> Result<(), Fault> {
        for slot in claims.slots() {
            self.store().run(
                "UPDATE claims SET datacenter = ? WHERE slot = ? AND id = ? AND key = ?",
                vec![
                    owner.as_str().into(),
                    slot.into(),
                    claim.counter.as_str().into(),
                    key.0.to_vec().into(),
                ],
            )?;
        }
        Ok(())
    }

    /// Who has a key: nobody in particular, where an operation has it.
    pub(super) fn claim_of(
        &self,
        counter: &CounterId,
        claims: &Ledger,
        key: WriteKey,
    ) -> Result<Option<(Option<Datacenter>, u64)>, Fault> {
        for slot in claims.slots() {
            let rows = self.store().run(
                "SELECT datacenter, generation FROM claims WHERE slot = ? AND id = ? AND key = ?",
                vec![slot.into(), counter.as_str().into(), key.0.to_vec().into()],
            )?;
            if let Some([datacenter, generation]) = rows.first().map(Vec::as_slice) {
                let generation = integer(generation).and_then(|number| u64::try_from(number).ok());
                let datacenter = text(datacenter).and_then(Datacenter::parse);
                return Ok(Some((datacenter, generation.unwrap_or(0))));
            }
        }
        Ok(None)
    }

    fn put_claim(
        &self,
        counter: &CounterId,
        slot: i64,
        key: WriteKey,
        datacenter: &str,
        generation: u64,
    ) -> Result<(), Fault> {
        let generation = i64::try_from(generation)
            .map_err(|_| Fault::Broken("a generation is too large".to_owned()))?;
        self.store().run(
            "INSERT INTO claims VALUES (?, ?, ?, ?, ?)",
            vec![
                slot.into(),
                counter.as_str().into(),
                key.0.to_vec().into(),
                datacenter.into(),
                generation.into(),
            ],
        )?;
        Ok(())
    }

    /// Deletes claims that were kept long enough.
    ///
    /// # Errors
    /// `Unavailable` where SQLite refuses.
    pub fn delete_claims(&self, now_ms: i64) -> Result<(), Fault> {
        let mut claims = self.claims()?;
        let Some(newest) = claims.expire(now_ms) else {
            return Ok(());
        };
        self.store().atomically(|| {
            self.store()
                .run("DELETE FROM claims WHERE slot <= ?", vec![newest.into()])?;
            self.store().run(
                "DELETE FROM operations WHERE slot <= ?",
                vec![newest.into()],
            )?;
            self.put_deployment_value(COUNTS, encode(&claims)?)
        })
    }

    /// When claims may next be deleted, unix milliseconds.
    ///
    /// # Errors
    /// `Unavailable` where SQLite refuses.
    pub fn claims_due_ms(&self) -> Result<Option<i64>, Fault> {
        Ok(self.claims()?.due_at_ms())
    }

    pub(super) fn claims(&self) -> Result<Ledger, Fault> {
        let body = self.deployment_body(COUNTS)?;
        body.map_or_else(|| Ok(Ledger::default()), |body| decode(&body))
    }

    fn put_deployment_value(&self, name: &str, body: Vec<u8>) -> Result<(), Fault> {
        self.store().run(
            "INSERT INTO deployment VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET body = excluded.body",
            vec![name.into(), body.into()],
        )?;
        Ok(())
    }
}

fn owner_of((datacenter, claimed): (Option<Datacenter>, u64), generation: u64) -> Owner {
    match datacenter {
        Some(datacenter) if claimed == generation => Owner::Lead(datacenter),
        Some(_) => Owner::Ended,
        None => Owner::Operation,
    }
}
