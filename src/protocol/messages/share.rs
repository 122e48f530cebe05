//! Messages about shares, which one partition of the directory keeps.

use serde::{Deserialize, Serialize};

use super::Call;
use crate::protocol::names::Address;
use crate::protocol::share::{Share, ShareId};

calls! {
    PutShare => Option<ShareId>, "/share-put", |_| Address::Directory(0);
    GetShare => Option<Share>, "/share-get", |_| Address::Directory(0);
    DeleteShare => bool, "/share-delete", |_| Address::Directory(0);
    ListShares => Vec<(ShareId, Share)>, "/share-list", |_| Address::Directory(0);
}

/// Edge → partition 0: keep a share under an id that you make; `None` where there are too many.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PutShare {
    /// The share.
    pub share: Share,
}

/// Edge → partition 0: a share, if it is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetShare {
    /// Its id.
    pub id: ShareId,
}

/// Edge → partition 0: forget a share. Tells whether it was there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeleteShare {
    /// Its id.
    pub id: ShareId,
}

/// Edge → partition 0: all shares that have not expired.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListShares;
