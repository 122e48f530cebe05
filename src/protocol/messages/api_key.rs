//! Messages about the keys that calls make and about what admins did, which one partition of the directory keeps.

use serde::{Deserialize, Serialize};

use super::Call;
use crate::protocol::api_key::{ApiKey, Digest, KeyId};
use crate::protocol::audit::{Act, Span};
use crate::protocol::names::Address;

calls! {
    MakeKey => bool, "/key-make", |_| Address::Directory(0);
    UseKey => Option<ApiKey>, "/key-use", |_| Address::Directory(0);
    FindApiKey => Option<ApiKey>, "/key-find", |_| Address::Directory(0);
    ReplaceKey => bool, "/key-replace", |_| Address::Directory(0);
    RevokeKey => bool, "/key-revoke", |_| Address::Directory(0);
    ListKeys => Vec<(KeyId, ApiKey)>, "/key-list", |_| Address::Directory(0);
    NoteAct => (), "/act-note", |_| Address::Directory(0);
    DoAct => Vec<u8>, "/act-do", |_| Address::Directory(0);
    ListActs => Vec<Act>, "/act-list", |_| Address::Directory(0);
}

/// Edge → partition 0: keep a key. Tells whether there was room. Repeated it does nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MakeKey {
    /// Its id.
    pub id: KeyId,
    /// The key.
    pub key: ApiKey,
}

/// Edge → partition 0: a key, if it is there; somebody uses it, if this is its secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UseKey {
    /// Its id.
    pub id: KeyId,
    /// The secret that somebody sent.
    pub secret: Digest,
}

/// Edge → partition 0: a key, if it is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FindApiKey {
    /// Its id.
    pub id: KeyId,
}

/// Edge → partition 0: put this in the place of a key, unless that has changed since its revision. Tells whether it is there now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplaceKey {
    /// Its id.
    pub id: KeyId,
    /// The key, with the revision that it had.
    pub key: ApiKey,
}

/// Edge → partition 0: forget a key. Tells whether it was there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RevokeKey {
    /// Its id.
    pub id: KeyId,
}

/// Edge → partition 0: keys in the order of their ids.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListKeys {
    /// After this one.
    pub after: Option<KeyId>,
    /// The most of them.
    pub limit: u32,
}

/// Edge → partition 0: an admin does this. Told again it replaces what was told before, but for an outcome by an unknown one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NoteAct {
    /// What.
    pub act: Act,
}

/// Edge → partition 0: an admin does this by a call to you: note it and do it in one commit. The answer is that of the call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DoAct {
    /// What, as it is where the call goes well.
    pub act: Act,
    /// The call's path.
    pub path: String,
    /// Its message.
    pub message: Vec<u8>,
}

/// Edge → partition 0: what admins did, newest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListActs {
    /// Which.
    pub span: Span,
}
