//! Keys made by calls, and the shares that they give, all at one partition of the directory: few, small, and read
//! through a cache.
//!
//! Invariants: what is read of a key or a share is what is good now, with all keys above it. Nothing is stored for a
//! giver that was revoked, also where the giver's isolate does not know that yet.

use std::cell::Cell;
use std::rc::Rc;

use super::gifts::{GiftKind, GiftStore};
use super::shares::ShareStore;
use crate::kit::store::{Store, integer, text};
use tally_host::Host;
use tally_host::object::SqlValue;
use tally_wire::messages::{
    EffectiveKeys, Fault, FindApiKey, FindHeldKey, GetShare, ListKeys, MakeKey, PutShare,
    ReplaceKey, RevokeKey, Revoked, SharePut, UseKey,
};
use tally_wire::rights::{
    ApiKey, Gift, Giver, HeldKey, HeldShare, KEY_DEPTH_MAX, KEYS_MAX, KeyId, KeyMade, Room,
    SHARES_MAX, Share, ShareId, held,
};
use tally_wire::stored::Damage;

const KEY: GiftKind = GiftKind("key/", "key0");
const SHARE: GiftKind = GiftKind("share/", "share0");

/// Created with the first key: other partitions have no such table.
const KEYS_SCHEMA: &str =
    "CREATE TABLE IF NOT EXISTS api_keys (id TEXT PRIMARY KEY, body BLOB NOT NULL) WITHOUT ROWID";

/// The keys of the deployment.
pub(crate) struct KeyStore {
    host: Host,
    store: Store,
    gifts: GiftStore,
    shares: ShareStore,
    has_table: Rc<Cell<bool>>,
}

impl KeyStore {
    /// The keys in an object's database.
    pub(crate) fn new(host: &Host, store: &Store) -> Self {
        Self {
            host: host.clone(),
            store: store.clone(),
            gifts: GiftStore::new(store),
            shares: ShareStore::new(host, store),
            has_table: Rc::default(),
        }
    }

    fn run(&self, sql: &str, values: Vec<SqlValue>) -> Result<Vec<Vec<SqlValue>>, Fault> {
        if !self.has_table.get() {
            self.store.run(KEYS_SCHEMA, vec![])?;
            self.has_table.set(true);
        }
        self.store.run(sql, values)
    }

    /// Stores a key, if its giver is good and there is room.
    ///
    /// # Errors
    /// `Unavailable` where SQLite refuses, `Unreadable` where a row cannot be read; as for all methods below.
    pub(crate) fn make(&self, make: &MakeKey) -> Result<KeyMade, Fault> {
        if self.get(make.id)?.is_some() {
            return Ok(KeyMade::Made);
        }
        match self.good_giver(&make.gift)? {
            None => return Ok(KeyMade::GiverEnded),
            Some(Some((_, giver))) if giver.inheritance.above.len() + 1 >= KEY_DEPTH_MAX => {
                return Ok(KeyMade::TooDeep);
            }
            Some(_) => {}
        }
        let rows = self.run("SELECT count(*) FROM api_keys", vec![])?;
        let count = rows.first().and_then(|row| row.first()).and_then(integer);
        let count = count.and_then(|count| u64::try_from(count).ok());
        let filled = count.unwrap_or(KEYS_MAX);
        let filled = self.gifts.filled(KEY, &make.gift, filled)?;
        match make.gift.room(filled, KEYS_MAX) {
            Room::Full => return Ok(KeyMade::Full),
            Room::PartFull => return Ok(KeyMade::PartFull),
            Room::Free => {}
        }
        self.put(make.id, &make.key)?;
        let id = make.id.to_string();
        self.gifts.put(KEY, &id, &make.gift)?;
        Ok(KeyMade::Made)
    }

    /// The key that gives, as it is good now, if a key does; `None` where that has ended.
    fn good_giver(&self, gift: &Gift) -> Result<Option<Option<(KeyId, HeldKey)>>, Fault> {
        Ok(match gift.giver {
            Giver::Key(id) => self.held(id)?.map(|held| Some((id, held))),
            Giver::Nobody | Giver::Configured(..) => Some(None),
        })
    }

    /// Reads a key as it is good now; `None` where it, or one above it, was revoked or has ended.
    fn held(&self, id: KeyId) -> Result<Option<HeldKey>, Fault> {
        let now_ms = self.host.now_ms();
        let is_good = |held: &HeldKey| !held.key.has_expired(now_ms);
        Ok(self.inherited(id)?.filter(is_good))
    }

    /// As [`Self::held`], of a key that may have ended.
    fn inherited(&self, id: KeyId) -> Result<Option<HeldKey>, Fault> {
        let Some(key) = self.get(id)? else {
            return Ok(None);
        };
        let mut above = Vec::new();
        let mut root = self.gifts.get(KEY, &id.to_string())?;
        while let Giver::Key(giver) = root.giver {
            let Some(key) = self.get(giver)?.filter(|_| above.len() < KEY_DEPTH_MAX) else {
                return Ok(None);
            };
            root = self.gifts.get(KEY, &giver.to_string())?;
            above.push((giver, key));
        }
        Ok(Some(held(id, key, &above, &root)))
    }

    /// Reads a key as it is good now.
    pub(crate) fn find_held(&self, find: &FindHeldKey) -> Result<Option<HeldKey>, Fault> {
        self.held(find.id)
    }

    /// Stores a share, if its giver is good and there is room.
    pub(crate) fn put_share(&self, put: &PutShare) -> Result<SharePut, Fault> {
        let Some(_) = self.good_giver(&put.gift)? else {
            return Ok(SharePut::GiverEnded);
        };
        let mut room = self.room_for_share(&put.gift)?;
        if room != Room::Free {
            // Those that have ended make room.
            self.list_shares()?;
            room = self.room_for_share(&put.gift)?;
        }
        match room {
            Room::Full => return Ok(SharePut::Full),
            Room::PartFull => return Ok(SharePut::PartFull),
            Room::Free => {}
        }
        let id = self.shares.put(&put.share)?;
        self.gifts.put(SHARE, &id.to_string(), &put.gift)?;
        Ok(SharePut::Made(id))
    }

    fn room_for_share(&self, gift: &Gift) -> Result<Room, Fault> {
        let filled = self.gifts.filled(SHARE, gift, self.shares.count()?)?;
        Ok(gift.room(filled, SHARES_MAX))
    }

    /// A share as it is good now, if it is.
    fn good_share(&self, id: ShareId, share: Share) -> Result<Option<HeldShare>, Fault> {
        let gift = self.gifts.get(SHARE, &id.to_string())?;
        let giver = self.good_giver(&gift)?.flatten();
        let giver = giver.as_ref().map(|(id, held)| (*id, held));
        Ok(HeldShare::of(share, &gift, giver, self.host.now_ms()))
    }

    /// Reads a share as it is good now, if it is.
    pub(crate) fn get_share(&self, get: &GetShare) -> Result<Option<HeldShare>, Fault> {
        let share = self.shares.get(get.id)?;
        share.map_or(Ok(None), |share| self.good_share(get.id, share))
    }

    /// Deletes a share. Returns whether it existed.
    pub(crate) fn delete_share(&self, id: ShareId) -> Result<bool, Fault> {
        self.gifts.remove(SHARE, &id.to_string())?;
        self.shares.delete(id)
    }

    /// All shares that are good; the others are deleted.
    pub(crate) fn list_shares(&self) -> Result<Vec<(ShareId, HeldShare)>, Fault> {
        let mut good = Vec::new();
        for (id, share) in self.shares.list()? {
            match self.good_share(id, share)? {
                Some(held) => good.push((id, held)),
                None => drop(self.delete_share(id)?),
            }
        }
        Ok(good)
    }

    /// Reads a key as it is good now, if it exists, and records its use.
    pub(crate) fn used(&self, used: &UseKey) -> Result<Option<HeldKey>, Fault> {
        let Some(mut key) = self.get(used.id)? else {
            return Ok(None);
        };
        let now_ms = self.host.now_ms();
        let is_good = !key.has_expired(now_ms) && key.knows(&used.secret, now_ms);
        if is_good && key.record_use(now_ms) {
            self.put(used.id, &key)?;
        }
        self.held(used.id)
    }

    /// Reads a key as it was made or changed, if it exists, and what it inherits. One whose giver is gone is gone.
    pub(crate) fn find(&self, find: &FindApiKey) -> Result<Option<HeldKey>, Fault> {
        let Some(HeldKey { inheritance, .. }) = self.inherited(find.id)? else {
            return Ok(None);
        };
        let key = self.get(find.id)?;
        Ok(key.map(|key| HeldKey { key, inheritance }))
    }

    /// Reads keys with the end and the rights that the keys above them leave.
    pub(crate) fn effective(&self, keys: &EffectiveKeys) -> Result<Vec<(KeyId, ApiKey)>, Fault> {
        let mut effective = Vec::with_capacity(keys.ids.len());
        for id in &keys.ids {
            effective.extend(self.inherited(*id)?.map(|held| (*id, held.key)));
        }
        Ok(effective)
    }

    /// Replaces a key, unless it has changed since it was read. Returns whether it was replaced.
    pub(crate) fn replace(&self, replace: &ReplaceKey) -> Result<bool, Fault> {
        let known = self.get(replace.id)?;
        let Some(known) = known.filter(|known| known.revision == replace.key.revision) else {
            return Ok(false);
        };
        let key = ApiKey {
            revision: known.revision.wrapping_add(1),
            used_ms: known.used_ms,
            ..replace.key.clone()
        };
        self.put(replace.id, &key)?;
        Ok(true)
    }

    /// Deletes a key, the keys below it, and their shares. Returns what fell with it.
    pub(crate) fn revoke(&self, revoke: &RevokeKey) -> Result<Revoked, Fault> {
        let mut revoked = Revoked::default();
        let mut falling = vec![revoke.id];
        let mut rows = Vec::new();
        // A key is below one other, so each comes once. There are at most as many as there are keys.
        while let Some(id) = falling.pop() {
            let giver = id.to_string();
            let known = self.get(id)?;
            if id == revoke.id {
                revoked.was_there = known.is_some();
            } else if let Some(key) = known {
                let mut prefixes = key.prefixes.iter();
                match prefixes.all(|prefix| revoke.of.cover_prefix(prefix)) {
                    true => revoked.keys.push((id, key.name)),
                    false => revoked.others.push(id),
                }
            }
            rows.push(giver.clone());
            let given = self.gifts.given_by(KEY, &giver)?;
            falling.extend(given.iter().filter_map(|id| KeyId::parse(id)));
            for id in self.gifts.given_by(SHARE, &giver)? {
                let Some(id) = ShareId::parse(&id) else {
                    continue;
                };
                let share = self.shares.get(id)?;
                revoked.shares.extend(share.map(|share| (id, share.prefix)));
            }
        }
        self.gifts.prepare()?;
        self.store.atomically(|| {
            for (id, _) in &revoked.shares {
                self.delete_share(*id)?;
            }
            for id in &rows {
                self.run(
                    "DELETE FROM api_keys WHERE id = ?",
                    vec![id.as_str().into()],
                )?;
                self.gifts.remove(KEY, id)?;
            }
            Ok(())
        })?;
        Ok(revoked)
    }

    /// Keys in the order of their ids.
    pub(crate) fn list(&self, list: &ListKeys) -> Result<Vec<(KeyId, ApiKey)>, Fault> {
        let after = list.after.map(|id| id.to_string()).unwrap_or_default();
        let rows = self.run(
            "SELECT id, body FROM api_keys WHERE id > ? ORDER BY id LIMIT ?",
            vec![after.into(), i64::from(list.limit).into()],
        )?;
        let damaged = || self.store.damaged(Damage::Changed);
        let read = |row: &Vec<SqlValue>| {
            let id = row.first().and_then(text).and_then(KeyId::parse);
            let body = row.get(1).ok_or_else(damaged)?;
            Ok((id.ok_or_else(damaged)?, self.store.get(body)?))
        };
        rows.iter().map(read).collect()
    }

    fn get(&self, id: KeyId) -> Result<Option<ApiKey>, Fault> {
        let id = vec![id.to_string().into()];
        let rows = self.run("SELECT body FROM api_keys WHERE id = ?", id)?;
        let body = rows.first().and_then(|row| row.first());
        body.map(|body| self.store.get(body)).transpose()
    }

    fn put(&self, id: KeyId, key: &ApiKey) -> Result<(), Fault> {
        self.run(
            "INSERT INTO api_keys VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET body = excluded.body",
            vec![id.to_string().into(), self.store.put(key)?],
        )?;
        Ok(())
    }
}
