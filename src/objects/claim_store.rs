//! The rows of a partition's claims.

use super::directory_store::DirectoryStore;
use super::store::{integer, text};
use crate::counter::id::Datacenter;
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

/// A claim as it lies on disk.
struct Found {
    slot: i64,
    datacenter: Option<Datacenter>,
    generation: u64,
}

impl Found {
    /// Who has it while this generation lives.
    fn owner(&self, living: u64) -> Owner {
        match &self.datacenter {
            Some(datacenter) if self.generation == living => Owner::Lead(datacenter.clone()),
            _ => Owner::Ended,
        }
    }
}

/// What comes of a call: who has each key, and whether a slot was begun.
type Owners = (Vec<Owner>, bool);

impl DirectoryStore {
    /// Who has each key, claiming those that nobody has and renewing the others; and whether a slot was begun.
    ///
    /// # Errors
    /// `Unavailable` where SQLite refuses; then nothing was claimed.
    pub fn claim_all(&self, claim: &Claim, generation: u64, now_ms: i64) -> Result<Owners, Fault> {
        let mut claims = self.claims()?;
        let before = claims.slots().last();
        let mut owners = Vec::with_capacity(claim.keys.len());
        self.store().atomically(|| {
            for key in &claim.keys {
                // One by one, since a key may be there twice.
                let owner = match self.claim_of(claim, &claims, *key)? {
                    Some(found) => {
                        if let Some(slot) = self.renewal(&mut claims, &found, generation, now_ms) {
                            self.move_claim(claim, *key, found.slot, slot)?;
                        }
                        found.owner(generation)
                    }
                    None => match claims.admit(now_ms, self.claims_kept_ms, CLAIMS_MAX) {
                        Some(slot) => {
                            self.put_claim(claim, slot, *key, generation)?;
                            Owner::Lead(claim.datacenter.clone())
                        }
                        None => Owner::Full,
                    },
                };
                owners.push(owner);
            }
            self.put_deployment_value(COUNTS, encode(&claims)?)
        })?;
        Ok((owners, claims.slots().last() != before))
    }

    /// Who has each key, if all of them are claimed; as [`DirectoryStore::claim_all`] where one of the claims
    /// must be renewed. Writes nothing otherwise.
    ///
    /// # Errors
    /// `Unavailable` where SQLite refuses.
    pub fn claims_of(
        &self,
        claim: &Claim,
        generation: u64,
        now_ms: i64,
    ) -> Result<Option<Owners>, Fault> {
        let claims = self.claims()?;
        let mut owners = Vec::with_capacity(claim.keys.len());
        let mut is_old = false;
        for key in &claim.keys {
            let Some(found) = self.claim_of(claim, &claims, *key)? else {
                return Ok(None);
            };
            let renewal = self.renewal(&mut claims.clone(), &found, generation, now_ms);
            is_old |= renewal.is_some();
            owners.push(found.owner(generation));
        }
        if is_old {
            return self.claim_all(claim, generation, now_ms).map(Some);
        }
        Ok(Some((owners, false)))
    }

    /// The slot that a claim moves to, if it must. One of an ended generation leads to no record any more.
    fn renewal(
        &self,
        claims: &mut Ledger,
        found: &Found,
        generation: u64,
        now_ms: i64,
    ) -> Option<i64> {
        if found.generation != generation {
            return None;
        }
        claims.renew(found.slot, now_ms, self.claims_kept_ms)
    }

    fn claim_of(
        &self,
        claim: &Claim,
        claims: &Ledger,
        key: WriteKey,
    ) -> Result<Option<Found>, Fault> {
        for slot in claims.slots() {
            let rows = self.store().run(
                "SELECT datacenter, generation FROM claims WHERE slot = ? AND id = ? AND key = ?",
                vec![
                    slot.into(),
                    claim.counter.as_str().into(),
                    key.0.to_vec().into(),
                ],
            )?;
            if let Some([datacenter, generation]) = rows.first().map(Vec::as_slice) {
                let generation = integer(generation).and_then(|number| u64::try_from(number).ok());
                return Ok(Some(Found {
                    slot,
                    datacenter: text(datacenter).and_then(Datacenter::parse),
                    generation: generation.unwrap_or(0),
                }));
            }
        }
        Ok(None)
    }

    fn move_claim(&self, claim: &Claim, key: WriteKey, from: i64, to: i64) -> Result<(), Fault> {
        self.store().run(
            "UPDATE claims SET slot = ? WHERE slot = ? AND id = ? AND key = ?",
            vec![
                to.into(),
                from.into(),
                claim.counter.as_str().into(),
                key.0.to_vec().into(),
            ],
        )?;
        Ok(())
    }

    fn put_claim(
        &self,
        claim: &Claim,
        slot: i64,
        key: WriteKey,
        generation: u64,
    ) -> Result<(), Fault> {
        let generation = i64::try_from(generation)
            .map_err(|_| Fault::Broken("a generation is too large".to_owned()))?;
        self.store().run(
            "INSERT INTO claims VALUES (?, ?, ?, ?, ?)",
            vec![
                slot.into(),
                claim.counter.as_str().into(),
                key.0.to_vec().into(),
                claim.datacenter.as_str().into(),
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

    fn claims(&self) -> Result<Ledger, Fault> {
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
