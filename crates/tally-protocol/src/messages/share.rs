//! Messages about shares, which one partition of the directory stores.

use serde::{Deserialize, Serialize};

use super::Call;
use crate::names::Address;
use crate::share::{Share, ShareId};

calls! {
    PutShare => Option<ShareId>, "/share-put", |_| Address::Directory(0);
    GetShare => Option<Share>, "/share-get", |_| Address::Directory(0);
    DeleteShare => bool, "/share-delete", |_| Address::Directory(0);
    ListShares => Vec<(ShareId, Share)>, "/share-list", |_| Address::Directory(0);
}

/// Edge → partition 0: stores a share under a new id; `None` where there are too many.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PutShare {
    /// The share.
    pub share: Share,
}

/// Edge → partition 0: reads a share, if it exists.
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
