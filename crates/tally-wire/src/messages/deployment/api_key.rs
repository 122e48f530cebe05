//! Messages about keys that calls make, and about the audit log, which one partition of the directory stores.

use serde::{Deserialize, Serialize};

use crate::audit::{AuditEntry, Span};
use crate::messages::call::Call;
use crate::names::Address;
use crate::rights::{AdminRights, ApiKey, Digest, Gift, HeldKey, KeyId, KeyMade, ShareId};

calls! {
    MakeKey => KeyMade, "/key-make", |_| Address::Directory(0);
    UseKey => Option<HeldKey>, "/key-use", |_| Address::Directory(0);
    FindApiKey => Option<HeldKey>, "/key-find", |_| Address::Directory(0);
    FindHeldKey => Option<HeldKey>, "/key-held", |_| Address::Directory(0);
    EffectiveKeys => Vec<(KeyId, ApiKey)>, "/key-effective", |_| Address::Directory(0);
    ReplaceKey => bool, "/key-replace", |_| Address::Directory(0);
    RevokeKey => Revoked, "/key-revoke", |_| Address::Directory(0);
    ListKeys => Vec<(KeyId, ApiKey)>, "/key-list", |_| Address::Directory(0);
    AddAuditEntry => (), "/act-note", |_| Address::Directory(0);
    CallAudited => Vec<u8>, "/act-do", |_| Address::Directory(0);
    ListAuditEntries => Vec<AuditEntry>, "/act-list", |_| Address::Directory(0);
}

/// Edge → partition 0: stores a key. A repeat does nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MakeKey {
    /// Its id.
    pub id: KeyId,
    /// The key.
    pub key: ApiKey,
    /// Who gives it.
    pub gift: Gift,
}

/// Edge → partition 0: reads a key as it is good now, if it exists. Notes the use of the key if the secret is right.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UseKey {
    /// Its id.
    pub id: KeyId,
    /// The secret that a caller sent.
    pub secret: Digest,
}

/// Edge → partition 0: reads a key as it was made or changed, if it exists. What it inherits is in the answer too.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FindApiKey {
    /// Its id.
    pub id: KeyId,
}

/// Partition of an alert → partition 0: reads a key as it is good now; `None` where it was revoked or has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FindHeldKey {
    /// Its id.
    pub id: KeyId,
}

/// Edge → partition 0: keys with the end and the rights that the keys above them leave, also after their end. Keys that
/// do not exist are left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EffectiveKeys {
    /// Their ids, at most as many as a list has.
    pub ids: Vec<KeyId>,
}

/// Edge → partition 0: replaces a key, unless its revision has changed. The answer says whether it was replaced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplaceKey {
    /// Its id.
    pub id: KeyId,
    /// The key, with the revision that was read.
    pub key: ApiKey,
}

/// The answer to a revocation: what fell with the key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revoked {
    /// Whether there was such a key.
    pub was_there: bool,
    /// The keys below it that the caller administers, with their names.
    pub keys: Vec<(KeyId, String)>,
    /// The other keys below it.
    pub others: Vec<KeyId>,
    /// The shares that it and those keys gave, with their prefixes.
    pub shares: Vec<(ShareId, String)>,
}

/// Edge → partition 0: deletes a key, the keys below it, and their shares.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RevokeKey {
    /// Its id.
    pub id: KeyId,
    /// What the caller administers.
    pub of: AdminRights,
}

/// Edge → partition 0: keys in the order of their ids.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListKeys {
    /// Only keys after this one.
    pub after: Option<KeyId>,
    /// The most keys.
    pub limit: u32,
}

/// Edge → partition 0: adds an entry to the audit log. A repeat replaces the entry, except that an unknown outcome
/// never replaces a known one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddAuditEntry {
    /// The entry.
    pub entry: AuditEntry,
    /// Whose part of the log it fills.
    pub account: String,
}

/// Edge → partition 0: a call to this partition that is logged and done in one commit. The answer is that of the call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallAudited {
    /// The entry, with the outcome of success.
    pub entry: AuditEntry,
    /// The call's path.
    pub path: String,
    /// Its message.
    pub message: Vec<u8>,
    /// Whose part of the log the entry fills.
    pub account: String,
}

/// Edge → partition 0: entries of the audit log, newest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListAuditEntries {
    /// Which entries.
    pub span: Span,
}
