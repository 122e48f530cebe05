//! The policies of the deployment, all at one partition of the directory: few, small, and read through a cache.
//!
//! Invariant: a policy that is stored has passed [`Policy::check`].

use super::directory::Directory;
use super::directory_store::DirectoryStore;
use super::store::{blob, integer, text};
use crate::core::limit::policy::Policy;
use crate::host::object::Value;
use crate::protocol::limits::PolicyName;
use crate::protocol::messages::{
    DeletePolicy, Fault, GetPolicy, ListPolicies, PolicyPut, PutPolicy, decode, encode,
};

/// The most policies of a deployment: at most 100 bytes each, so 1 MB in the partition.
const POLICIES_MAX: i64 = 10_000;

pub(super) const POLICIES_SCHEMA: &str = "CREATE TABLE IF NOT EXISTS policies (name TEXT PRIMARY KEY, \
    body BLOB NOT NULL) WITHOUT ROWID";

impl Directory {
    pub(super) fn on_put_policy(&self, put: Result<PutPolicy, Fault>) -> Result<PolicyPut, Fault> {
        let PutPolicy { name, policy } = put?;
        self.readable()?;
        if policy.check().is_err() {
            return Err(Fault::Broken("a policy that is not valid".to_owned()));
        }
        let before = self.rows.policy(&name)?;
        if before.is_none() && self.rows.policies()? >= POLICIES_MAX {
            return Ok(PolicyPut::Full);
        }
        self.rows.put_policy(&name, &policy)?;
        Ok(match before {
            Some(_) => PolicyPut::Replaced,
            None => PolicyPut::Created,
        })
    }

    pub(super) fn on_get_policy(
        &self,
        get: Result<GetPolicy, Fault>,
    ) -> Result<Option<Policy>, Fault> {
        let GetPolicy { name } = get?;
        self.readable()?;
        self.rows.policy(&name)
    }

    pub(super) fn on_delete_policy(
        &self,
        delete: Result<DeletePolicy, Fault>,
    ) -> Result<bool, Fault> {
        let DeletePolicy { name } = delete?;
        self.readable()?;
        let is_there = self.rows.policy(&name)?.is_some();
        if is_there {
            self.rows.delete_policy(&name)?;
        }
        Ok(is_there)
    }

    pub(super) fn on_list_policies(
        &self,
        list: Result<ListPolicies, Fault>,
    ) -> Result<Vec<(PolicyName, Policy)>, Fault> {
        let ListPolicies { after, limit } = list?;
        self.readable()?;
        let after = after.as_ref().map_or("", PolicyName::as_str);
        self.rows.list_policies(after, limit)
    }
}

impl DirectoryStore {
    fn policy(&self, name: &PolicyName) -> Result<Option<Policy>, Fault> {
        let rows = self.store().run(
            "SELECT body FROM policies WHERE name = ?",
            vec![name.as_str().into()],
        )?;
        let body = rows.first().and_then(|row| row.first()).and_then(blob);
        body.map(decode).transpose()
    }

    fn policies(&self) -> Result<i64, Fault> {
        let rows = self.store().run("SELECT count(*) FROM policies", vec![])?;
        let count = rows.first().and_then(|row| row.first()).and_then(integer);
        count.ok_or_else(|| Fault::Broken("policies cannot be counted".to_owned()))
    }

    fn put_policy(&self, name: &PolicyName, policy: &Policy) -> Result<(), Fault> {
        self.store().run(
            "INSERT INTO policies VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET body = excluded.body",
            vec![name.as_str().into(), encode(policy)?.into()],
        )?;
        Ok(())
    }

    fn delete_policy(&self, name: &PolicyName) -> Result<(), Fault> {
        let values = vec![name.as_str().into()];
        self.store()
            .run("DELETE FROM policies WHERE name = ?", values)?;
        Ok(())
    }

    fn list_policies(&self, after: &str, limit: u32) -> Result<Vec<(PolicyName, Policy)>, Fault> {
        let rows = self.store().run(
            "SELECT name, body FROM policies WHERE name > ? ORDER BY name LIMIT ?",
            vec![after.into(), i64::from(limit).into()],
        )?;
        let broken = || Fault::Broken("a stored policy cannot be read".to_owned());
        let read = |row: &Vec<Value>| {
            let name = row.first().and_then(text).ok_or_else(broken)?;
            let body = row.get(1).and_then(blob).ok_or_else(broken)?;
            let name = PolicyName::parse(name).map_err(|_| broken())?;
            Ok((name, decode(body)?))
        };
        rows.iter().map(read).collect()
    }
}
