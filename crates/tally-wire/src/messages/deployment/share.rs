//! Messages about shares, which one partition of the directory stores.

use serde::{Deserialize, Serialize};

use crate::messages::call::Call;
use crate::names::Address;
use crate::rights::{Gift, HeldShare, Share, ShareId};

calls! {
    PutShare => SharePut, "/share-put", |_| Address::Directory(0);
    GetShare => Option<HeldShare>, "/share-get", |_| Address::Directory(0);
    DeleteShare => bool, "/share-delete", |_| Address::Directory(0);
    ListShares => Vec<(ShareId, HeldShare)>, "/share-list", |_| Address::Directory(0);
}

/// Edge → partition 0: stores a share under a new id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PutShare {
    /// The share.
    pub share: Share,
    /// Who gives it.
    pub gift: Gift,
}

/// The answer to a share that is to be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SharePut {
    /// There are too many.
    Full,
    /// It is stored under this id.
    Made(ShareId),
    /// The giver's part of the table is full.
    PartFull,
    /// The giver was revoked or has ended.
    GiverEnded,
}

/// Edge → partition 0: reads a share as it is good now, if it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetShare {
    /// Its id.
    pub id: ShareId,
}

/// Edge → partition 0: deletes a share. The answer says whether it existed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeleteShare {
    /// Its id.
    pub id: ShareId,
}

/// Edge → partition 0: all shares that have not expired.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListShares;
