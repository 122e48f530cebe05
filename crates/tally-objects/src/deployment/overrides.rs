//! The overrides of policies, at the partition that has the policies.
//!
//! Invariants: the count and the version of a policy's overrides change in the commit that changes a row. A version
//! never returns, also if a policy is deleted and made again. What is kept in memory ([`Recent`]) is lost with the
//! object: then isolates get a new filter, and forget what they know of keys.
//!
//! An override that has ended is in no answer. The next put of its policy deletes it.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use crate::kit::store::{Store, integer, text};
use tally_api::limits::{OVERRIDES_MAX, OVERRIDES_OF_ALL_MAX, OVERRIDES_TOGETHER_MAX};
use tally_core::counter::bounded_map::BoundedMap;
use tally_core::limit::policy::overrides::{Override, PatternFilter, longest_prefix};
use tally_host::Host;
use tally_host::object::SqlValue;
use tally_wire::messages::{
    DeleteOverride, Fault, FindOverride, KnownOverrides, ListAllOverrides, ListFrom, OverrideFound,
    OverrideNews, OverridePut, PutOverride,
};
use tally_wire::names::override_pattern::OverridePattern;
use tally_wire::names::policy::PolicyName;
use tally_wire::rights::{Filled, Gift, Room};
use tally_wire::stored::Damage;

/// Created with the first override.
const SCHEMA: [&str; 3] = [
    "CREATE TABLE IF NOT EXISTS overrides (policy TEXT NOT NULL, prefix INTEGER NOT NULL, pattern TEXT NOT NULL, \
     ends_ms INTEGER NOT NULL, body BLOB NOT NULL, PRIMARY KEY (policy, prefix, pattern)) WITHOUT ROWID",
    "CREATE INDEX IF NOT EXISTS overrides_by_end ON overrides (policy, ends_ms) WHERE ends_ms < 9007199254740991",
    "CREATE TABLE IF NOT EXISTS override_sets (policy TEXT PRIMARY KEY, version INTEGER NOT NULL, \
     count INTEGER NOT NULL, account TEXT NOT NULL) WITHOUT ROWID",
];

/// The column of an override without an end: 2^53 - 1, the largest number that every platform reads.
const NO_END_MS: i64 = 9_007_199_254_740_991;

/// The ended overrides that a put deletes.
const ENDED_MAX: i64 = 1_000;

/// The policies of which changes and filters are kept in memory, and the changes of each: at most 64 · 256 · 512 bytes
/// of patterns, 8 MB, and 1.25 MB of filters, because there are at most a million overrides.
const RECENT_MAX: usize = 64;
const CHANGES_MAX: usize = 256;

/// The patterns that are read at once for a filter.
const FILTERED_MAX: i64 = 10_000;

/// What isolates are told of a policy with many overrides.
struct Recent {
    filter: PatternFilter,
    /// How many more patterns it has room for.
    room: u64,
    /// All changes after this version.
    since: u64,
    changes: VecDeque<(u64, OverridePattern)>,
}

/// How many overrides a policy has, and their version.
#[derive(Clone, Default)]
struct SetState {
    version: u64,
    count: u64,
    /// The account of the narrow caller who made the last new one; empty otherwise. All of them fill its part.
    account: String,
}

/// The overrides of all policies.
pub(super) struct OverrideStore {
    host: Host,
    store: Store,
    has_tables: Cell<bool>,
    recent: RefCell<BoundedMap<PolicyName, Recent, RECENT_MAX>>,
}

fn number(number: u64) -> SqlValue {
    i64::try_from(number).unwrap_or(i64::MAX).into()
}

impl OverrideStore {
    /// The overrides in an object's database.
    pub(super) fn new(host: &Host, store: &Store) -> Self {
        Self {
            host: host.clone(),
            store: store.clone(),
            has_tables: Cell::new(false),
            recent: RefCell::default(),
        }
    }

    /// What an edge does not know of the overrides of a policy.
    ///
    /// # Errors
    /// `Unavailable` where SQLite refuses, `Unreadable` where one cannot be read.
    pub(super) fn news(
        &self,
        policy: &PolicyName,
        known: Option<KnownOverrides>,
    ) -> Result<OverrideNews, Fault> {
        let Some(set) = self.state(policy)?.filter(|set| set.count > 0) else {
            return Ok(OverrideNews::None);
        };
        let SetState { version, count, .. } = set;
        if known.is_some_and(|known| known.version == version) {
            return Ok(OverrideNews::Unchanged);
        }
        if count <= OVERRIDES_TOGETHER_MAX {
            let limit = u32::try_from(OVERRIDES_TOGETHER_MAX).unwrap_or(u32::MAX);
            let all = self.list(policy, &ListFrom::Start, limit)?;
            return Ok(OverrideNews::All(version, all));
        }
        if let Some(known) = known.filter(|known| known.has_filter)
            && let Some(changed) = self.changes(policy, known.version)
        {
            return Ok(OverrideNews::Changed(version, changed));
        }
        let mut recent = self.recent.borrow_mut();
        if let Some(recent) = recent.get(policy) {
            return Ok(OverrideNews::Many(version, recent.filter.clone()));
        }
        let built = self.build(policy, &set)?;
        let filter = built.filter.clone();
        recent.insert(policy.clone(), built);
        Ok(OverrideNews::Many(version, filter))
    }

    /// The patterns that have changed since a version; `None` where that is not known.
    fn changes(&self, policy: &PolicyName, version: u64) -> Option<Vec<OverridePattern>> {
        let mut recent = self.recent.borrow_mut();
        let recent = recent.get(policy).filter(|it| it.since <= version)?;
        let changes = recent.changes.iter();
        let after = changes.filter(|(changed, _)| *changed > version);
        Some(after.map(|(_, pattern)| pattern.clone()).collect())
    }

    /// A filter of all patterns of a policy.
    fn build(&self, policy: &PolicyName, set: &SetState) -> Result<Recent, Fault> {
        let room = set.count.saturating_add(set.count / 4);
        let mut filter = PatternFilter::with_room(usize::try_from(room).unwrap_or(usize::MAX));
        let mut after: (SqlValue, SqlValue) = (0.into(), "".into());
        loop {
            let rows = self.store.run(
                "SELECT prefix, pattern FROM overrides WHERE policy = ? AND (prefix, pattern) > (?, ?) \
                 ORDER BY prefix, pattern LIMIT ?",
                vec![policy.as_str().into(), after.0, after.1, FILTERED_MAX.into()],
            )?;
            for row in &rows {
                let prefix = row.first().and_then(integer);
                let pattern = row.get(1).and_then(text);
                let (Some(prefix), Some(pattern)) = (prefix, pattern) else {
                    return Err(self.store.damaged(Damage::Changed));
                };
                filter.insert(pattern, prefix == 1);
            }
            let is_full = i64::try_from(rows.len()).is_ok_and(|count| count >= FILTERED_MAX);
            match rows.into_iter().next_back().map(Vec::into_iter) {
                Some(mut last) if is_full => {
                    let [prefix, pattern] = [last.next(), last.next()];
                    after = (
                        prefix.unwrap_or(SqlValue::Null),
                        pattern.unwrap_or(SqlValue::Null),
                    );
                }
                _ => break,
            }
        }
        Ok(Recent {
            filter,
            room: room.saturating_sub(set.count),
            since: set.version,
            changes: VecDeque::new(),
        })
    }

    /// The override of a key.
    ///
    /// # Errors
    /// As [`Self::news`].
    pub(super) fn find(&self, find: &FindOverride) -> Result<OverrideFound, Fault> {
        let (policy, key) = (find.policy.as_str(), find.key.as_str());
        let Some(SetState { version, .. }) = self.state(&find.policy)? else {
            return Ok(OverrideFound {
                version: 0,
                found: None,
            });
        };
        let now_ms = self.host.now_ms();
        let exact = self.store.run(
            "SELECT pattern, body FROM overrides WHERE policy = ? AND prefix = 0 AND pattern = ?",
            vec![policy.into(), key.into()],
        )?;
        let exact = self.read_first(&exact)?;
        let exact = exact.filter(|(_, over)| over.is_valid(now_ms));
        let (found, is_prefix) = match exact {
            Some(exact) => (Some(exact), false),
            None => {
                let greatest = |bound: &str| {
                    let rows = self.store.run(
                        "SELECT pattern, body FROM overrides WHERE policy = ? AND prefix = 1 AND pattern <= ? \
                         ORDER BY pattern DESC LIMIT 1",
                        vec![policy.into(), bound.into()],
                    )?;
                    self.read_first(&rows)
                };
                (
                    longest_prefix(key, greatest, |over| over.is_valid(now_ms))?,
                    true,
                )
            }
        };
        let found =
            found.map(|(text, over)| Ok::<_, Fault>((self.pattern(&text, is_prefix)?, over)));
        Ok(OverrideFound {
            version,
            found: found.transpose()?,
        })
    }

    fn read_first(&self, rows: &[Vec<SqlValue>]) -> Result<Option<(String, Override)>, Fault> {
        let Some(row) = rows.first() else {
            return Ok(None);
        };
        let damaged = || self.store.damaged(Damage::Changed);
        let pattern = row.first().and_then(text).ok_or_else(damaged)?;
        let over = self.store.get(row.get(1).ok_or_else(damaged)?)?;
        Ok(Some((pattern.to_owned(), over)))
    }

    fn pattern(&self, text: &str, is_prefix: bool) -> Result<OverridePattern, Fault> {
        OverridePattern::of(text, is_prefix).map_err(|_| self.store.damaged(Damage::Changed))
    }

    /// Stores an override of a policy that exists.
    ///
    /// # Errors
    /// As [`Self::news`].
    pub(super) fn put(&self, put: &PutOverride) -> Result<OverridePut, Fault> {
        self.make_tables()?;
        self.delete_ended(&put.policy)?;
        let set = self.state(&put.policy)?.unwrap_or_default();
        let (pattern, is_prefix) = put.pattern.parts();
        let place = || -> [SqlValue; 3] {
            let policy = put.policy.as_str();
            [policy.into(), i64::from(is_prefix).into(), pattern.into()]
        };
        let there = "SELECT 1 FROM overrides WHERE policy = ? AND prefix = ? AND pattern = ?";
        let is_there = !self.store.run(there, place().to_vec())?.is_empty();
        if !is_there && set.count >= OVERRIDES_MAX {
            return Ok(OverridePut::Full);
        }
        if !is_there {
            match put.gift.room(self.filled(&put.gift)?, OVERRIDES_OF_ALL_MAX) {
                Room::Full => return Ok(OverridePut::AllFull),
                Room::PartFull => return Ok(OverridePut::PartFull),
                Room::Free => {}
            }
        }
        let account = match put.gift.is_narrow {
            true => put.gift.account.clone(),
            false => String::new(),
        };
        let changed = SetState {
            version: self.next_version(&set),
            count: set.count.saturating_add(u64::from(!is_there)),
            account: if is_there { set.account } else { account },
        };
        self.store.atomically(|| {
            let mut values = place().to_vec();
            values.push(put.over.ends_ms.unwrap_or(NO_END_MS).into());
            values.push(self.store.put(&put.over)?);
            self.store.run(
                "INSERT INTO overrides VALUES (?, ?, ?, ?, ?) ON CONFLICT (policy, prefix, pattern) \
                 DO UPDATE SET ends_ms = excluded.ends_ms, body = excluded.body",
                values,
            )?;
            self.write_state(&put.policy, &changed)
        })?;
        self.remember(&put.policy, &put.pattern, changed.version, !is_there);
        Ok(if is_there {
            OverridePut::Replaced
        } else {
            OverridePut::Created
        })
    }

    /// Deletes an override. Returns whether there was one.
    ///
    /// # Errors
    /// As [`Self::news`].
    pub(super) fn delete(&self, delete: &DeleteOverride) -> Result<bool, Fault> {
        let Some(set) = self.state(&delete.policy)? else {
            return Ok(false);
        };
        let now_ms = self.host.now_ms();
        let (pattern, is_prefix) = delete.pattern.parts();
        let (mut is_there, mut was_valid) = (false, false);
        let version = self.next_version(&set);
        self.store.atomically(|| {
            let deleted = self.store.run(
                "DELETE FROM overrides WHERE policy = ? AND prefix = ? AND pattern = ? RETURNING ends_ms",
                vec![delete.policy.as_str().into(), i64::from(is_prefix).into(), pattern.into()],
            )?;
            let ends_ms = deleted.first().and_then(|row| row.first()).and_then(integer);
            is_there = !deleted.is_empty();
            was_valid = ends_ms.is_some_and(|ends_ms| now_ms < ends_ms);
            if !is_there {
                return Ok(());
            }
            let changed = SetState {
                version,
                count: set.count.saturating_sub(1),
                account: set.account.clone(),
            };
            self.write_state(&delete.policy, &changed)
        })?;
        if is_there {
            self.remember(&delete.policy, &delete.pattern, version, false);
        }
        Ok(was_valid)
    }

    /// Overrides of a policy, in order.
    ///
    /// # Errors
    /// As [`Self::news`].
    pub(super) fn list(
        &self,
        policy: &PolicyName,
        from: &ListFrom,
        limit: u32,
    ) -> Result<Vec<(OverridePattern, Override)>, Fault> {
        if !self.has_tables()? {
            return Ok(Vec::new());
        }
        let (sign, pattern) = match from {
            ListFrom::Start => (">=", ("", false)),
            ListFrom::After(pattern) => (">", pattern.parts()),
            ListFrom::Only(pattern) => ("=", pattern.parts()),
        };
        let query = [
            "SELECT prefix, pattern, body FROM overrides WHERE policy = ? AND (prefix, pattern) ",
            sign,
            " (?, ?) AND ends_ms > ? ORDER BY prefix, pattern LIMIT ?",
        ];
        let rows = self.store.run(
            &query.concat(),
            vec![
                policy.as_str().into(),
                i64::from(pattern.1).into(),
                pattern.0.into(),
                self.host.now_ms().into(),
                i64::from(limit).into(),
            ],
        )?;
        rows.iter().map(|row| self.read_row(row)).collect()
    }

    /// Overrides of all policies, in order.
    ///
    /// # Errors
    /// As [`Self::news`].
    pub(super) fn list_all(
        &self,
        list: &ListAllOverrides,
    ) -> Result<Vec<(PolicyName, OverridePattern, Override)>, Fault> {
        if !self.has_tables()? {
            return Ok(Vec::new());
        }
        let after = list.after.as_ref();
        let (policy, (pattern, is_prefix)) = after
            .map_or(("", ("", false)), |(policy, pattern)| {
                (policy.as_str(), pattern.parts())
            });
        let rows = self.store.run(
            "SELECT prefix, pattern, body, policy FROM overrides WHERE (policy, prefix, pattern) > (?, ?, ?) \
             AND ends_ms > ? ORDER BY policy, prefix, pattern LIMIT ?",
            vec![
                policy.into(),
                i64::from(is_prefix).into(),
                pattern.into(),
                self.host.now_ms().into(),
                i64::from(list.limit).into(),
            ],
        )?;
        let damaged = || self.store.damaged(Damage::Changed);
        let read = |row: &Vec<SqlValue>| {
            let name = row.get(3).and_then(text).ok_or_else(damaged)?;
            let name = PolicyName::parse(name).map_err(|_| damaged())?;
            let (pattern, over) = self.read_row(row)?;
            Ok((name, pattern, over))
        };
        rows.iter().map(read).collect()
    }

    /// Reads prefix, pattern and body of a row.
    fn read_row(&self, row: &[SqlValue]) -> Result<(OverridePattern, Override), Fault> {
        let damaged = || self.store.damaged(Damage::Changed);
        let is_prefix = row.first().and_then(integer).ok_or_else(damaged)? == 1;
        let text = row.get(1).and_then(text).ok_or_else(damaged)?;
        let over = self.store.get(row.get(2).ok_or_else(damaged)?)?;
        Ok((self.pattern(text, is_prefix)?, over))
    }

    /// Deletes all overrides of a policy.
    ///
    /// # Errors
    /// As [`Self::news`].
    pub(super) fn forget(&self, policy: &PolicyName) -> Result<(), Fault> {
        self.recent.borrow_mut().remove(policy);
        if !self.has_tables()? {
            return Ok(());
        }
        for statement in [
            "DELETE FROM overrides WHERE policy = ?",
            "DELETE FROM override_sets WHERE policy = ?",
        ] {
            self.store.run(statement, vec![policy.as_str().into()])?;
        }
        Ok(())
    }

    fn delete_ended(&self, policy: &PolicyName) -> Result<(), Fault> {
        let Some(set) = self.state(policy)? else {
            return Ok(());
        };
        self.store.atomically(|| {
            let deleted = self.store.run(
                "DELETE FROM overrides WHERE policy = ? AND (prefix, pattern) IN (SELECT prefix, pattern FROM overrides \
                 WHERE policy = ? AND ends_ms <= ? AND ends_ms < 9007199254740991 LIMIT ?) RETURNING 1",
                vec![
                    policy.as_str().into(),
                    policy.as_str().into(),
                    self.host.now_ms().into(),
                    ENDED_MAX.into(),
                ],
            )?;
            if deleted.is_empty() {
                return Ok(());
            }
            let deleted = u64::try_from(deleted.len()).unwrap_or(u64::MAX);
            // Nothing changes for any key.
            let left = SetState {
                count: set.count.saturating_sub(deleted),
                ..set.clone()
            };
            self.write_state(policy, &left)
        })
    }

    /// Remembers a change for the edges that know the former version.
    fn remember(&self, policy: &PolicyName, pattern: &OverridePattern, version: u64, is_new: bool) {
        let mut all = self.recent.borrow_mut();
        let Some(recent) = all.get_mut(policy) else {
            return;
        };
        if is_new && recent.room == 0 {
            // A filter with room for the others is built when an edge asks for it.
            all.remove(policy);
            return;
        }
        if is_new {
            recent.room -= 1;
            let (text, is_prefix) = pattern.parts();
            recent.filter.insert(text, is_prefix);
        }
        recent.changes.push_back((version, pattern.clone()));
        if recent.changes.len() > CHANGES_MAX
            && let Some((forgotten, _)) = recent.changes.pop_front()
        {
            recent.since = forgotten;
        }
    }

    /// The next version: the time, so that it is above all that the policy had before it was deleted.
    fn next_version(&self, set: &SetState) -> u64 {
        let now = u64::try_from(self.host.now_ms()).unwrap_or(0);
        now.max(set.version.saturating_add(1))
    }

    fn write_state(&self, policy: &PolicyName, set: &SetState) -> Result<(), Fault> {
        self.store.run(
            "INSERT OR REPLACE INTO override_sets VALUES (?, ?, ?, ?)",
            vec![
                policy.as_str().into(),
                number(set.version),
                number(set.count),
                set.account.as_str().into(),
            ],
        )?;
        Ok(())
    }

    fn state(&self, policy: &PolicyName) -> Result<Option<SetState>, Fault> {
        if !self.has_tables()? {
            return Ok(None);
        }
        let query = "SELECT version, count, account FROM override_sets WHERE policy = ?";
        let rows = self.store.run(query, vec![policy.as_str().into()])?;
        let Some(row) = rows.first() else {
            return Ok(None);
        };
        let read = |index: usize| u64::try_from(row.get(index).and_then(integer)?).ok();
        match (read(0), read(1), row.get(2).and_then(text)) {
            (Some(version), Some(count), Some(account)) => Ok(Some(SetState {
                version,
                count,
                account: account.to_owned(),
            })),
            _ => Err(self.store.damaged(Damage::Changed)),
        }
    }

    /// How many overrides there are, and in how many narrow callers' policies.
    fn filled(&self, gift: &Gift) -> Result<Filled, Fault> {
        let rows = self.store.run(
            "SELECT coalesce(sum(count), 0), coalesce(sum(count) FILTER (WHERE account <> ''), 0), \
             coalesce(sum(count) FILTER (WHERE account = ?), 0) FROM override_sets",
            vec![gift.account.as_str().into()],
        )?;
        let read = |index: usize| {
            let count = rows
                .first()
                .and_then(|row| row.get(index))
                .and_then(integer);
            count
                .and_then(|count| u64::try_from(count).ok())
                .unwrap_or(u64::MAX)
        };
        Ok(Filled {
            rows: read(0),
            narrow: read(1),
            own: read(2),
        })
    }

    fn has_tables(&self) -> Result<bool, Fault> {
        if !self.has_tables.get() {
            let query =
                "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'override_sets'";
            self.has_tables
                .set(!self.store.run(query, vec![])?.is_empty());
        }
        Ok(self.has_tables.get())
    }

    fn make_tables(&self) -> Result<(), Fault> {
        if !self.has_tables()? {
            for statement in SCHEMA {
                self.store.run(statement, vec![])?;
            }
            self.has_tables.set(true);
        }
        Ok(())
    }
}
