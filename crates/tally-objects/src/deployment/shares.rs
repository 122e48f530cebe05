//! The rows of shares. Whether a share is good depends on who gave it: [`KeyStore`](super::api_keys::KeyStore) decides.

use crate::directory::values::DeploymentValues;
use crate::kit::store::Store;
use tally_host::Host;
use tally_wire::messages::{Fault, decode, encode};
use tally_wire::rights::{Share, ShareId};

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

    /// Stores a share under a new id.
    ///
    /// # Errors
    /// `Unavailable` where SQLite refuses, `Broken` where one cannot be read; as for all methods below.
    pub(crate) fn put(&self, share: &Share) -> Result<ShareId, Fault> {
        let id = ShareId(u64::from_le_bytes(self.host.secret()?));
        self.values.put(&name_of(id), encode(share)?)?;
        Ok(id)
    }

    /// Reads a share, if it exists.
    pub(crate) fn get(&self, id: ShareId) -> Result<Option<Share>, Fault> {
        let body = self.values.get(&name_of(id))?;
        body.as_deref().map(decode).transpose()
    }

    /// Deletes a share. Returns whether it existed.
    pub(crate) fn delete(&self, id: ShareId) -> Result<bool, Fault> {
        let name = name_of(id);
        let is_there = self.values.get(&name)?.is_some();
        if is_there {
            self.values.remove(&name)?;
        }
        Ok(is_there)
    }

    /// How many there are.
    pub(crate) fn count(&self) -> Result<u64, Fault> {
        self.values.count_between(SHARE_PREFIX, SHARE_END)
    }

    /// All shares.
    pub(crate) fn list(&self) -> Result<Vec<(ShareId, Share)>, Fault> {
        let mut shares = Vec::new();
        for (name, body) in self.values.between(SHARE_PREFIX, SHARE_END)? {
            let id = name.strip_prefix(SHARE_PREFIX).and_then(ShareId::parse);
            match id {
                Some(id) => shares.push((id, decode(&body)?)),
                None => self.values.remove(&name)?,
            }
        }
        Ok(shares)
    }
}
