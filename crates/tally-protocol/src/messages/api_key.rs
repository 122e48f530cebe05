//! Messages about keys that calls make, and about the audit log, which one partition of the directory stores.

use serde::{Deserialize, Serialize};

use super::Call;
use crate::api_key::{ApiKey, Digest, KeyId};
use crate::audit::{AuditEntry, Span};
use crate::names::Address;

calls! {
    MakeKey => bool, "/key-make", |_| Address::Directory(0);
    UseKey => Option<ApiKey>, "/key-use", |_| Address::Directory(0);
    FindApiKey => Option<ApiKey>, "/key-find", |_| Address::Directory(0);
    ReplaceKey => bool, "/key-replace", |_| Address::Directory(0);
    RevokeKey => bool, "/key-revoke", |_| Address::Directory(0);
    ListKeys => Vec<(KeyId, ApiKey)>, "/key-list", |_| Address::Directory(0);
    AddAuditEntry => (), "/act-note", |_| Address::Directory(0);
    CallAudited => Vec<u8>, "/act-do", |_| Address::Directory(0);
    ListAuditEntries => Vec<AuditEntry>, "/act-list", |_| Address::Directory(0);
}

/// Edge → partition 0: stores a key. The answer says whether there was room. A repeat does nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MakeKey {
    /// Its id.
    pub id: KeyId,
    /// The key.
    pub key: ApiKey,
}

/// Edge → partition 0: reads a key, if it exists. Notes the use of the key if the secret is right.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UseKey {
    /// Its id.
    pub id: KeyId,
    /// The secret that a caller sent.
    pub secret: Digest,
}

/// Edge → partition 0: reads a key, if it exists.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FindApiKey {
    /// Its id.
    pub id: KeyId,
}

/// Edge → partition 0: replaces a key, unless its revision has changed. The answer says whether it was replaced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplaceKey {
    /// Its id.
    pub id: KeyId,
    /// The key, with the revision that was read.
    pub key: ApiKey,
}

/// Edge → partition 0: deletes a key. The answer says whether it existed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RevokeKey {
    /// Its id.
    pub id: KeyId,
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
}

/// Edge → partition 0: entries of the audit log, newest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListAuditEntries {
    /// Which entries.
    pub span: Span,
}
