//! The rows of a partition's claims.

use super::values::DeploymentValues;
use crate::cell::ledger::kept_ms;
use crate::kit::store::{Store, integer, text};
use tally_core::callers::account::{AccountId, fits};
use tally_core::cluster::claim::ClaimHolder;
use tally_core::counter::id::{CounterId, Datacenter};
use tally_core::counter::ledger::{KeySource, Ledger, WriteKey};
use tally_core::counter::ledgers::{LedgerLimits, Ledgers};
use tally_host::Host;
use tally_wire::messages::{
    Claim, Fault, KeyOwner, OperationKey, OperationOutcome, decode, encode,
};
use tally_wire::shell_limits::{CLAIMS_MAX, PUBLIC_CLAIMS_MAX};

/// How much longer a claim is kept than a record: a claim made or renewed just before its record was counted must not
/// be deleted first, for any difference of the two clocks.
const LONGER_MS: i64 = 3_600_000;

/// How long claims are kept, milliseconds.
fn claims_kept_ms(host: &Host) -> i64 {
    kept_ms(host).saturating_add(LONGER_MS)
}

/// By slot first, as in a cell's ledger.
pub(super) const CLAIMS_SCHEMA: &str = "CREATE TABLE IF NOT EXISTS claims (slot INTEGER NOT NULL, \
    id TEXT NOT NULL, key BLOB NOT NULL, datacenter TEXT NOT NULL, generation INTEGER NOT NULL, \
    moves INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (slot, id, key)) WITHOUT ROWID";

/// Names of the rows that count the claims of each slot, by source. Stored names.
const COUNTS: [(&str, KeySource); 2] = [
    ("claims", KeySource::Clients),
    ("public_claims", KeySource::Public),
];

/// The first and the end of the names of the rows that count the claims of an account. Stored names.
const PARTS: (&str, &str) = ("claims/", "claims0");

fn part_name(account: AccountId) -> String {
    format!("{}{account}", PARTS.0)
}

/// The claims of one account. Claims that came from another partition are in no part.
struct AccountPart {
    account: AccountId,
    claims: Ledger,
    has_changed: bool,
}

impl AccountPart {
    /// Whether the account may have another claim.
    fn has_room(&self, all: &Ledgers) -> bool {
        let all = all.of(KeySource::Clients).records();
        !self.account.is_some() || fits(self.claims.records() + 1, all + 1, CLAIMS_MAX)
    }

    fn take(&mut self, slot: i64) {
        if self.account.is_some() {
            self.claims.take(slot);
            self.has_changed = true;
        }
    }

    fn move_record(&mut self, from: i64, to: i64) {
        if from != to && self.claims.remove(from) {
            self.take(to);
        }
    }
}

/// A stored claim.
pub(super) struct StoredClaim {
    slot: i64,
    /// `None` for an operation.
    holder: Option<ClaimHolder>,
    generation: u64,
}

impl StoredClaim {
    /// Its owner while this generation is current.
    fn owner(&self, living: u64) -> KeyOwner {
        match &self.holder {
            Some(holder) if self.generation == living => KeyOwner::Lead(holder.clone()),
            Some(_) => KeyOwner::Ended,
            None => KeyOwner::Operation,
        }
    }

    /// Extends the claim as if it were made now. Returns its slot. A claim of an ended generation has no record any
    /// more, and a claim of an operation was made together with its record.
    fn renew(&self, claims: &mut Ledgers, limits: LedgerLimits, living: u64, now_ms: i64) -> i64 {
        if self.generation != living || self.holder.is_none() {
            return self.slot;
        }
        claims.renew(self.slot, limits, now_ms)
    }

    /// Whether the lead that holds the claim has struck it out.
    fn is_struck(&self, claim: &Claim, living: u64) -> bool {
        let struck_at = claim.struck_at.as_ref();
        let holder = self.holder.as_ref();
        self.generation == living && holder.is_some_and(|holder| holder.has_struck(struck_at))
    }
}

/// The result of a call: the owner of each key, and whether a new slot was begun.
type Owners = (Vec<KeyOwner>, bool);

/// The rows of claims.
pub(super) struct ClaimStore {
    store: Store,
    /// The number of claims in each slot.
    counts: DeploymentValues,
    kept_ms: i64,
}

impl ClaimStore {
    /// The claims in an object's database.
    pub(super) fn new(host: &Host, store: &Store) -> Self {
        Self {
            store: store.clone(),
            counts: DeploymentValues::new(store),
            kept_ms: claims_kept_ms(host),
        }
    }

    /// The owner of each key. Keys without an owner, and struck-out ones, are claimed for `next`; the others are
    /// renewed. The flag says whether a new slot was begun.
    ///
    /// # Errors
    /// `Unavailable` where SQLite refuses; then nothing was claimed.
    pub(super) fn claim_all(
        &self,
        claim: &Claim,
        next: &ClaimHolder,
        generation: u64,
        now_ms: i64,
    ) -> Result<Owners, Fault> {
        let before = self.claims()?;
        let mut claims = before.clone();
        let limits = self.limits_of(claim.source);
        let account = match claim.source {
            KeySource::Public => AccountId::default(),
            _ => claim.account,
        };
        let mut part = self.part_of(account)?;
        let mut owners = Vec::with_capacity(claim.keys.len());
        self.store.atomically(|| {
            for key in &claim.keys {
                // One by one, because a key may be there twice.
                owners.push(match self.claim_of(&claim.counter, &claims, *key)? {
                    // A struck-out claim is never counted with, so it may move on.
                    Some(found) if found.is_struck(claim, generation) => {
                        self.give_claim(claim, *key, found.slot, next)?;
                        KeyOwner::Lead(next.clone())
                    }
                    Some(found) => {
                        let slot = found.renew(&mut claims, limits, generation, now_ms);
                        self.move_claim(claim, *key, found.slot, slot)?;
                        part.move_record(found.slot, slot);
                        found.owner(generation)
                    }
                    None if !part.has_room(&claims) => KeyOwner::PartFull(account),
                    None => match claims.admit(limits, now_ms) {
                        Some(slot) => {
                            let (counter, holder) = (&claim.counter, Some(next));
                            self.put_claim(counter, slot, *key, holder, generation)?;
                            part.take(slot);
                            KeyOwner::Lead(next.clone())
                        }
                        None => KeyOwner::Full,
                    },
                });
            }
            self.put_part(&part)?;
            self.put_claims(&claims, &before)
        })?;
        let newest = |claims: &Ledgers| COUNTS.map(|(_, keys)| claims.of(keys).slots().last());
        Ok((owners, newest(&claims) != newest(&before)))
    }

    /// The owner of each key, if all of them are claimed; as [`ClaimStore::claim_all`] where one of the claims must be
    /// renewed. Writes nothing otherwise.
    ///
    /// # Errors
    /// `Unavailable` where SQLite refuses.
    pub(super) fn claims_of(
        &self,
        claim: &Claim,
        generation: u64,
        now_ms: i64,
    ) -> Result<Option<Owners>, Fault> {
        let claims = self.claims()?;
        let limits = self.limits_of(claim.source);
        let mut owners = Vec::with_capacity(claim.keys.len());
        let mut is_old = false;
        for key in &claim.keys {
            let Some(found) = self.claim_of(&claim.counter, &claims, *key)? else {
                return Ok(None);
            };
            let renewed = found.renew(&mut claims.clone(), limits, generation, now_ms);
            is_old |= renewed != found.slot;
            owners.push(found.owner(generation));
        }
        if is_old {
            // By this, a key without an owner gets none.
            let nobody = ClaimHolder::first(&claim.datacenter);
            let renewed = self.claim_all(claim, &nobody, generation, now_ms);
            return renewed.map(Some);
        }
        Ok(Some((owners, false)))
    }

    /// The owner of each key. Claims nothing.
    ///
    /// # Errors
    /// `Unavailable` where SQLite refuses.
    pub(super) fn find_claims(
        &self,
        counter: &CounterId,
        keys: &[WriteKey],
        generation: u64,
    ) -> Result<Vec<KeyOwner>, Fault> {
        let claims = self.claims()?;
        let owner_of = |key: &WriteKey| {
            let found = self.claim_of(counter, &claims, *key)?;
            Ok(found.map_or(KeyOwner::Nobody, |found| found.owner(generation)))
        };
        keys.iter().map(owner_of).collect()
    }

    /// The limits of the claims of these keys.
    fn limits_of(&self, keys: KeySource) -> LedgerLimits {
        match keys {
            KeySource::Public => LedgerLimits::public(self.kept_ms, LONGER_MS, PUBLIC_CLAIMS_MAX),
            _ => LedgerLimits {
                keys: KeySource::Clients,
                kept_ms: self.kept_ms,
                records_max: CLAIMS_MAX,
            },
        }
    }

    /// Claims a key for an operation of the root, so that no lead counts it. Returns its slot. The caller does it in
    /// one commit with the operation.
    ///
    /// # Errors
    /// `Unavailable` where SQLite refuses, and where there is no room: the caller checks that before.
    pub(super) fn claim_for_operation(
        &self,
        counter: &CounterId,
        key: OperationKey,
        generation: u64,
        now_ms: i64,
    ) -> Result<i64, Fault> {
        let before = self.claims()?;
        let mut part = self.part_of(key.account)?;
        let mut claims = before.clone();
        let full = || Fault::Unavailable("too many keys are remembered".to_owned());
        let slot = claims.admit(self.limits_of(KeySource::Clients), now_ms);
        let slot = slot.ok_or_else(full)?;
        self.put_claim(counter, slot, key.key, None, generation)?;
        part.take(slot);
        self.put_part(&part)?;
        self.put_claims(&claims, &before)?;
        Ok(slot)
    }

    /// The refusal of an operation under a new key, if there is no room for the key.
    ///
    /// # Errors
    /// `Unavailable` where SQLite refuses.
    pub(super) fn refusal(
        &self,
        claims: &Ledgers,
        account: AccountId,
    ) -> Result<Option<OperationOutcome>, Fault> {
        if !self.part_of(account)?.has_room(claims) {
            return Ok(Some(OperationOutcome::PartFull(account)));
        }
        let is_full = claims.of(KeySource::Clients).records() >= CLAIMS_MAX;
        Ok(is_full.then_some(OperationOutcome::Full))
    }

    /// The part of an account.
    fn part_of(&self, account: AccountId) -> Result<AccountPart, Fault> {
        let body = match account.is_some() {
            true => self.counts.get(&part_name(account))?,
            false => None,
        };
        let claims = body.map_or_else(|| Ok(Ledger::default()), |body| decode(&body))?;
        Ok(AccountPart {
            account,
            claims,
            has_changed: false,
        })
    }

    fn put_part(&self, part: &AccountPart) -> Result<(), Fault> {
        if !part.has_changed {
            return Ok(());
        }
        self.counts
            .put(&part_name(part.account), encode(&part.claims)?)
    }

    /// Gives a claim to the next holder.
    fn give_claim(
        &self,
        claim: &Claim,
        key: WriteKey,
        slot: i64,
        next: &ClaimHolder,
    ) -> Result<(), Fault> {
        self.store.run(
            "UPDATE claims SET datacenter = ?, moves = ? WHERE slot = ? AND id = ? AND key = ?",
            vec![
                next.datacenter.as_str().into(),
                i64::from(next.moves).into(),
                slot.into(),
                claim.counter.as_str().into(),
                key.0.to_vec().into(),
            ],
        )?;
        Ok(())
    }

    /// The claim of a key, if any; it has no holder if it belongs to an operation.
    pub(super) fn claim_of(
        &self,
        counter: &CounterId,
        claims: &Ledgers,
        key: WriteKey,
    ) -> Result<Option<StoredClaim>, Fault> {
        for slot in claims.slots(KeySource::Clients) {
            let rows = self.store.run(
                "SELECT datacenter, generation, moves FROM claims WHERE slot = ? AND id = ? AND key = ?",
                vec![slot.into(), counter.as_str().into(), key.0.to_vec().into()],
            )?;
            if let Some([datacenter, generation, moves]) = rows.first().map(Vec::as_slice) {
                let generation = integer(generation).and_then(|number| u64::try_from(number).ok());
                let moves = integer(moves).and_then(|number| u32::try_from(number).ok());
                let datacenter = text(datacenter).and_then(Datacenter::parse);
                return Ok(Some(StoredClaim {
                    slot,
                    holder: datacenter.map(|datacenter| ClaimHolder {
                        datacenter,
                        moves: moves.unwrap_or(0),
                    }),
                    generation: generation.unwrap_or(0),
                }));
            }
        }
        Ok(None)
    }

    fn move_claim(&self, claim: &Claim, key: WriteKey, from: i64, to: i64) -> Result<(), Fault> {
        if from == to {
            return Ok(());
        }
        self.store.run(
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
        counter: &CounterId,
        slot: i64,
        key: WriteKey,
        holder: Option<&ClaimHolder>,
        generation: u64,
    ) -> Result<(), Fault> {
        let generation = i64::try_from(generation)
            .map_err(|_| Fault::Broken("a generation is too large".to_owned()))?;
        self.store.run(
            "INSERT INTO claims VALUES (?, ?, ?, ?, ?, ?)",
            vec![
                slot.into(),
                counter.as_str().into(),
                key.0.to_vec().into(),
                holder
                    .map_or("", |holder| holder.datacenter.as_str())
                    .into(),
                generation.into(),
                holder.map_or(0, |holder| i64::from(holder.moves)).into(),
            ],
        )?;
        Ok(())
    }

    /// Deletes old claims, in one commit with the rows that `delete_extra` deletes: those of the given slot and earlier
    /// ones.
    ///
    /// # Errors
    /// `Unavailable` where SQLite refuses.
    pub(super) fn delete_old(
        &self,
        now_ms: i64,
        delete_extra: impl Fn(i64) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let before = self.claims()?;
        let mut claims = before.clone();
        let Some(newest) = claims.expire(now_ms) else {
            return Ok(());
        };
        self.store.atomically(|| {
            self.store
                .run("DELETE FROM claims WHERE slot <= ?", vec![newest.into()])?;
            delete_extra(newest)?;
            for (name, body) in self.counts.between(PARTS.0, PARTS.1)? {
                let mut part: Ledger = decode(&body)?;
                match (part.expire(now_ms), part.records()) {
                    (None, _) => {}
                    (Some(_), 0) => self.counts.remove(&name)?,
                    (Some(_), _) => self.counts.put(&name, encode(&part)?)?,
                }
            }
            self.put_claims(&claims, &before)
        })
    }

    /// When claims are next due for deletion, unix milliseconds.
    ///
    /// # Errors
    /// `Unavailable` where SQLite refuses.
    pub(super) fn next_due_ms(&self) -> Result<Option<i64>, Fault> {
        Ok(self.claims()?.due_at_ms())
    }

    pub(super) fn claims(&self) -> Result<Ledgers, Fault> {
        let mut claims = Ledgers::default();
        for (name, keys) in COUNTS {
            if let Some(body) = self.counts.get(name)? {
                *claims.of_mut(keys) = decode(&body)?;
            }
        }
        Ok(claims)
    }

    /// Writes the changed counts.
    pub(super) fn put_claims(&self, claims: &Ledgers, before: &Ledgers) -> Result<(), Fault> {
        for (name, keys) in COUNTS {
            if claims.of(keys) != before.of(keys) {
                self.counts.put(name, encode(claims.of(keys))?)?;
            }
        }
        Ok(())
    }
}
