//! The shares of the deployment, all at one partition of the directory: few, small, and read through a cache.

use super::deployment_values::DeploymentValues;
use super::store::Store;
use tally_host::Host;
use tally_protocol::messages::{
    DeleteShare, Fault, GetShare, ListShares, PutShare, decode, encode,
};
use tally_protocol::share::{SHARES_MAX, Share, ShareId};

/// The prefix of the names of shares. The id follows.
const SHARE_PREFIX: &str = "share/";

/// The first text after all with the prefix [`SHARE_PREFIX`].
const SHARE_END: &str = "share0";

fn name_of(id: ShareId) -> String {
    format!("{SHARE_PREFIX}{id}")
}

/// The shares of the deployment.
pub(super) struct ShareStore {
    host: Host,
    values: DeploymentValues,
}

impl ShareStore {
    /// The shares in an object's database.
    pub(super) fn new(host: &Host, store: &Store) -> Self {
        Self {
            host: host.clone(),
            values: DeploymentValues::new(store),
        }
    }

    /// Stores a share under a new id; `None` where there are too many.
    ///
    /// # Errors
    /// `Unavailable` where SQLite refuses, `Broken` where one cannot be read; as for all methods below.
    pub(super) fn put(&self, put: &PutShare) -> Result<Option<ShareId>, Fault> {
        if self.list(&ListShares)?.len() >= SHARES_MAX {
            return Ok(None);
        }
        let id = ShareId(u64::from_le_bytes(self.host.secret()?));
        self.values.put(&name_of(id), encode(&put.share)?)?;
        Ok(Some(id))
    }

    /// Reads a share, if it exists.
    pub(super) fn get(&self, get: &GetShare) -> Result<Option<Share>, Fault> {
        let body = self.values.get(&name_of(get.id))?;
        body.as_deref().map(decode).transpose()
    }

    /// Deletes a share. Returns whether it existed.
    pub(super) fn delete(&self, delete: &DeleteShare) -> Result<bool, Fault> {
        let name = name_of(delete.id);
        let is_there = self.values.get(&name)?.is_some();
        if is_there {
            self.values.remove(&name)?;
        }
        Ok(is_there)
    }

    /// All that have not expired; expired ones are deleted.
    pub(super) fn list(&self, _: &ListShares) -> Result<Vec<(ShareId, Share)>, Fault> {
        let mut shares = Vec::new();
        for (name, body) in self.values.between(SHARE_PREFIX, SHARE_END)? {
            let share: Share = decode(&body)?;
            let id = name.strip_prefix(SHARE_PREFIX).and_then(ShareId::parse);
            match id {
                Some(id) if !share.has_expired(self.host.now_ms()) => shares.push((id, share)),
                _ => self.values.remove(&name)?,
            }
        }
        Ok(shares)
    }
}
