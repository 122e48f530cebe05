//! The rows of operations that were done under a key, with the first answer to each.
//!
//! Invariant: the row is written in the commit of the operation. Its claim, among those of keyed writes, stops
//! the same key from naming a write.

use super::claim_store::ClaimStore;
use crate::kit::store::{Store, blob, integer};
use tally_core::counter::id::CounterId;
use tally_core::counter::ledger::{KeySource, WriteKey};
use tally_host::Host;
use tally_host::object::SqlValue;
use tally_wire::messages::{
    Done, Fault, OperationKey, OperationOutcome, StoreAnswer, StoredAnswer,
};
use tally_wire::shell_limits::ANSWER_BYTES_MAX;

/// By slot first, as for claims.
pub(super) const OPERATIONS_SCHEMA: &str = "CREATE TABLE IF NOT EXISTS operations (slot INTEGER NOT NULL, \
    id TEXT NOT NULL, key BLOB NOT NULL, fingerprint BLOB NOT NULL, done BLOB NOT NULL, answer BLOB, \
    PRIMARY KEY (slot, id, key)) WITHOUT ROWID";

/// An operation that is done under a key.
pub(super) struct Operation {
    /// The key.
    pub(super) key: OperationKey,
    /// What was done.
    pub(super) done: Done,
}

/// The rows of such operations.
pub(super) struct OperationStore {
    store: Store,
    claims: ClaimStore,
}

impl OperationStore {
    /// The operations in an object's database.
    pub(super) fn new(host: &Host, store: &Store) -> Self {
        Self {
            store: store.clone(),
            claims: ClaimStore::new(host, store),
        }
    }

    /// What is known of an operation's key: the effect or the answer, that it names something else, or that there is no
    /// room for it; `None` where it is new.
    ///
    /// # Errors
    /// `Unavailable` where SQLite refuses; as for all methods below.
    pub(super) fn operated(
        &self,
        counter: &CounterId,
        key: OperationKey,
    ) -> Result<Option<OperationOutcome>, Fault> {
        let claims = self.claims.claims()?;
        if self.claims.claim_of(counter, &claims, key.key)?.is_none() {
            return self.claims.refusal(&claims, key.account);
        }
        let Some((_, fingerprint, done, answer)) = self.operation(counter, key.key)? else {
            return Ok(Some(OperationOutcome::Reused));
        };
        if fingerprint != key.fingerprint.to_le_bytes() {
            return Ok(Some(OperationOutcome::Reused));
        }
        Ok(Some(match answer {
            Some(answer) => OperationOutcome::Answered(self.store.get(&answer)?),
            None => OperationOutcome::Done(Done {
                is_repeat: true,
                ..self.store.get(&done)?
            }),
        }))
    }

    /// Stores the first answer to an operation. Returns the stored one.
    pub(super) fn keep_answer(&self, keep: &StoreAnswer) -> Result<StoredAnswer, Fault> {
        let Some((slot, _, _, kept)) = self.operation(&keep.counter, keep.key)? else {
            // It was done so long ago that a repeat is not expected any more.
            return Ok(keep.answer.clone());
        };
        if let Some(kept) = kept {
            return self.store.get(&kept);
        }
        if keep.answer.body.len() <= ANSWER_BYTES_MAX {
            self.store.run(
                "UPDATE operations SET answer = ? WHERE slot = ? AND id = ? AND key = ?",
                vec![
                    self.store.put(&keep.answer)?,
                    slot.into(),
                    keep.counter.as_str().into(),
                    keep.key.0.to_vec().into(),
                ],
            )?;
        }
        Ok(keep.answer.clone())
    }

    /// Writes an operation's row. The caller makes it one commit with the operation.
    pub(super) fn put(
        &self,
        counter: &CounterId,
        operation: &Operation,
        generation: u64,
        now_ms: i64,
    ) -> Result<(), Fault> {
        let key = operation.key;
        let slot = (self.claims).claim_for_operation(counter, key, generation, now_ms)?;
        self.store.run(
            "INSERT INTO operations VALUES (?, ?, ?, ?, ?, NULL)",
            vec![
                slot.into(),
                counter.as_str().into(),
                key.key.0.to_vec().into(),
                key.fingerprint.to_le_bytes().to_vec().into(),
                self.store.put(&operation.done)?,
            ],
        )?;
        Ok(())
    }

    /// Deletes old operations with their claims, and all other old claims.
    pub(super) fn delete_old(&self, now_ms: i64) -> Result<(), Fault> {
        self.claims.delete_old(now_ms, |newest| {
            let sql = "DELETE FROM operations WHERE slot <= ?";
            self.store.run(sql, vec![newest.into()]).map(|_| ())
        })
    }

    #[expect(
        clippy::type_complexity,
        reason = "a row, taken apart where it is read"
    )]
    fn operation(
        &self,
        counter: &CounterId,
        key: WriteKey,
    ) -> Result<Option<(i64, Vec<u8>, SqlValue, Option<SqlValue>)>, Fault> {
        for slot in self.claims.claims()?.slots(KeySource::Clients) {
            let rows = self.store.run(
                "SELECT slot, fingerprint, done, answer FROM operations WHERE slot = ? AND id = ? AND key = ?",
                vec![slot.into(), counter.as_str().into(), key.0.to_vec().into()],
            )?;
            if let Some([slot, fingerprint, done, answer]) = rows.first().map(Vec::as_slice) {
                let bytes = |value| blob(value).map(<[u8]>::to_vec).unwrap_or_default();
                let answer = (*answer != SqlValue::Null).then(|| answer.clone());
                let slot = integer(slot).unwrap_or(0);
                return Ok(Some((slot, bytes(fingerprint), done.clone(), answer)));
            }
        }
        Ok(None)
    }
}
