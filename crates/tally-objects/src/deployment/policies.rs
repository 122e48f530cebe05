//! The policies of the deployment, all at one partition of the directory: few, small, and read through a cache.
//!
//! Invariant: a policy that is stored has passed [`Policy::check`]. Overrides are deleted with their policy.

use std::collections::HashMap;

use super::gifts::{GiftKind, GiftStore};
use super::overrides::OverrideStore;
use crate::archive::import_steps::ImportSteps;
use crate::directory::partition::features::FeatureStore;
use crate::kit::store::{Store, integer, text};
use tally_api::limits::POLICIES_MAX;
use tally_core::limit::policy::overrides::Override;
use tally_core::limit::policy::{Algorithm, Policy};
use tally_host::Host;
use tally_host::dispatch;
use tally_host::object::{IncomingCall, Reply, SqlValue};
use tally_wire::messages::{
    DeleteOverride, DeletePolicy, Fault, FindOverride, GetPolicy, ListAllOverrides, ListOverrides,
    ListPolicies, OverridePut, OverridesListed, PolicyPut, PutOverride, PutPolicy, StoredPolicy,
};
use tally_wire::names::override_pattern::OverridePattern;
use tally_wire::names::policy::PolicyName;
use tally_wire::rights::Room;
use tally_wire::stored::Damage;

const POLICY: GiftKind = GiftKind("policy/", "policy0");

pub(crate) const POLICIES_SCHEMA: &str = "CREATE TABLE IF NOT EXISTS policies (name TEXT PRIMARY KEY, \
    body BLOB NOT NULL) WITHOUT ROWID";

/// An override with its policy.
type OverrideOfAll = (PolicyName, Algorithm, OverridePattern, Override);

/// The policies of the deployment.
pub(crate) struct PolicyStore {
    store: Store,
    gifts: GiftStore,
    steps: ImportSteps,
    overrides: OverrideStore,
}

impl FeatureStore for PolicyStore {
    fn answer(&self, arrived: &IncomingCall) -> Reply {
        dispatch!(arrived, message, {
            GetPolicy => message.and_then(|message| self.read(&message)),
            PutPolicy => message.and_then(|message| self.put(&message)),
            DeletePolicy => message.and_then(|message| self.delete(&message.name)),
            ListPolicies => message.and_then(|message| self.list(&message)),
            PutOverride => message.and_then(|message| self.put_override(&message)),
            FindOverride => message.and_then(|message| self.overrides.find(&message)),
            DeleteOverride => message.and_then(|message| self.overrides.delete(&message)),
            ListOverrides => message.and_then(|message| self.list_overrides(&message)),
            ListAllOverrides => message.and_then(|message| self.list_all_overrides(&message)),
        })
    }
}

impl PolicyStore {
    /// The policies in an object's database.
    pub(crate) fn new(host: &Host, store: &Store) -> Self {
        Self {
            store: store.clone(),
            gifts: GiftStore::new(store),
            steps: ImportSteps::new(host, store),
            overrides: OverrideStore::new(host, store),
        }
    }

    /// A policy, with what its reader does not know of its overrides.
    ///
    /// # Errors
    /// `Unavailable` where SQLite refuses, `Unreadable` where one cannot be read.
    fn read(&self, get: &GetPolicy) -> Result<Option<StoredPolicy>, Fault> {
        let Some(policy) = self.get(&get.name)? else {
            return Ok(None);
        };
        let overrides = self.overrides.news(&get.name, get.known)?;
        Ok(Some(StoredPolicy { policy, overrides }))
    }

    /// Stores an override.
    ///
    /// # Errors
    /// As [`Self::read`].
    fn put_override(&self, put: &PutOverride) -> Result<OverridePut, Fault> {
        match self.get(&put.policy)? {
            Some(_) => self.overrides.put(put),
            None => Ok(OverridePut::NoPolicy),
        }
    }

    /// The overrides of a policy; `None` where there is no such policy.
    ///
    /// # Errors
    /// As [`Self::read`].
    fn list_overrides(&self, list: &ListOverrides) -> Result<Option<OverridesListed>, Fault> {
        let Some(policy) = self.get(&list.policy)? else {
            return Ok(None);
        };
        let overrides = self.overrides.list(&list.policy, &list.from, list.limit)?;
        Ok(Some(OverridesListed { policy, overrides }))
    }

    /// Stores a policy, unless the same step of an import has stored it before.
    ///
    /// # Errors
    /// `Broken` for an invalid one, `Unavailable` where SQLite refuses.
    fn put(&self, put: &PutPolicy) -> Result<PolicyPut, Fault> {
        let PutPolicy {
            name,
            policy,
            once,
            gift,
        } = put;
        if policy.check().is_err() {
            return Err(Fault::Broken("a policy that is not valid".to_owned()));
        }
        if self.steps.is_done(*once)? {
            return Ok(PolicyPut::Replaced);
        }
        let is_there = self.get(name)?.is_some();
        if !is_there {
            let filled = self.gifts.filled(POLICY, gift, self.count()?)?;
            match gift.room(filled, POLICIES_MAX) {
                Room::Full => return Ok(PolicyPut::Full),
                Room::PartFull => return Ok(PolicyPut::PartFull),
                Room::Free => {}
            }
        }
        self.store.atomically(|| {
            self.store.run(
                "INSERT INTO policies VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET body = excluded.body",
                vec![name.as_str().into(), self.store.put(policy)?],
            )?;
            if !is_there {
                self.gifts.put(POLICY, name.as_str(), gift)?;
            }
            self.steps.record(*once)
        })?;
        Ok(if is_there {
            PolicyPut::Replaced
        } else {
            PolicyPut::Created
        })
    }

    /// A policy, if there is one of that name.
    ///
    /// # Errors
    /// `Unavailable` where SQLite refuses.
    fn get(&self, name: &PolicyName) -> Result<Option<Policy>, Fault> {
        let rows = self.store.run(
            "SELECT body FROM policies WHERE name = ?",
            vec![name.as_str().into()],
        )?;
        let body = rows.first().and_then(|row| row.first());
        body.map(|body| self.store.get(body)).transpose()
    }

    /// Deletes a policy. Returns whether there was one.
    ///
    /// # Errors
    /// `Unavailable` where SQLite refuses.
    fn delete(&self, name: &PolicyName) -> Result<bool, Fault> {
        let is_there = self.get(name)?.is_some();
        if is_there {
            self.store.atomically(|| {
                let values = vec![name.as_str().into()];
                self.store
                    .run("DELETE FROM policies WHERE name = ?", values)?;
                self.gifts.remove(POLICY, name.as_str())?;
                self.overrides.forget(name)
            })?;
        }
        Ok(is_there)
    }

    /// The policies whose names come after one, in order.
    ///
    /// # Errors
    /// `Unavailable` where SQLite refuses, `Unreadable` where one cannot be read.
    fn list(&self, list: &ListPolicies) -> Result<Vec<(PolicyName, Policy)>, Fault> {
        let after = list.after.as_ref().map_or("", PolicyName::as_str);
        let rows = self.store.run(
            "SELECT name, body FROM policies WHERE name > ? ORDER BY name LIMIT ?",
            vec![after.into(), i64::from(list.limit).into()],
        )?;
        let damaged = || self.store.damaged(Damage::Changed);
        let read = |row: &Vec<SqlValue>| {
            let name = row.first().and_then(text).ok_or_else(damaged)?;
            let body = row.get(1).ok_or_else(damaged)?;
            let name = PolicyName::parse(name).map_err(|_| damaged())?;
            Ok((name, self.store.get(body)?))
        };
        rows.iter().map(read).collect()
    }

    /// The overrides of all policies.
    ///
    /// # Errors
    /// As [`Self::read`].
    fn list_all_overrides(&self, list: &ListAllOverrides) -> Result<Vec<OverrideOfAll>, Fault> {
        let mut policies = HashMap::new();
        let mut all = Vec::new();
        for (name, pattern, over) in self.overrides.list_all(list)? {
            let algorithm = match policies.get(&name) {
                Some(known) => Some(*known),
                None => self.get(&name)?.map(|policy| policy.algorithm),
            };
            if let Some(algorithm) = algorithm {
                policies.insert(name.clone(), algorithm);
                all.push((name, algorithm, pattern, over));
            }
        }
        Ok(all)
    }

    fn count(&self) -> Result<u64, Fault> {
        let rows = self.store.run("SELECT count(*) FROM policies", vec![])?;
        let count = rows.first().and_then(|row| row.first()).and_then(integer);
        let count = count.and_then(|count| u64::try_from(count).ok());
        count.ok_or_else(|| Fault::Broken("policies cannot be counted".to_owned()))
    }
}
