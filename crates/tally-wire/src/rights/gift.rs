//! What a caller gives away, and who gave it: keys, shares, alerts and policies.
//!
//! Invariants: a gift is good only while its giver is, and for no more than its giver may do: [`held`] narrows a key by
//! each key above it. A gift draws on the budget of each key above it. A narrow caller fills at most its part of a
//! table, and what its keys give counts as its own, so making keys makes no room.
//!
//! An *account* is whose part a gift fills: the outermost narrow key above it, or else the configured key.

use serde::{Deserialize, Serialize};

use tally_core::callers::account::account_max;

use super::api_key::{ApiKey, KeyId};
use super::budget::KeyBudget;
use super::scope::{Scope, is_within};
use super::share::Share;

/// The most keys of which each was made by the one before.
pub const KEY_DEPTH_MAX: usize = 8;

/// Who gives.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Giver {
    /// Nobody with a key: the deployment is open, or an earlier build did not say.
    #[default]
    Nobody,
    /// A key of the configuration, with its end and its budget at that time.
    Configured(Option<i64>, Option<KeyBudget>),
    /// A key that a call made.
    Key(KeyId),
}

/// What is stored beside a key, a share, an alert or a policy. A stored format and a part of messages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename = "Gift+")]
pub struct Gift {
    /// Who gives it.
    pub giver: Giver,
    /// Whose part of the table it fills.
    pub account: String,
    /// Whether the giver does not administer everything in that table.
    pub is_narrow: bool,
}

/// How many rows of a table there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Filled {
    /// All.
    pub rows: u64,
    /// Those of narrow callers.
    pub narrow: u64,
    /// Those of the giver's account.
    pub own: u64,
}

/// Whether a table has room for one more row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// It has.
    Free,
    /// The table is full.
    Full,
    /// The part of the account, or that of all narrow callers, is full.
    PartFull,
}

impl Gift {
    /// Returns whether one more gift fits into a table of this size. All narrow callers together fill nine parts: the
    /// tenth is left for callers that administer everything, who can revoke.
    pub const fn room(&self, filled: Filled, rows_max: u64) -> Room {
        if filled.rows >= rows_max {
            return Room::Full;
        }
        let narrow_max = rows_max - account_max(rows_max);
        if self.is_narrow && (filled.own >= account_max(rows_max) || filled.narrow >= narrow_max) {
            return Room::PartFull;
        }
        Room::Free
    }

    /// Returns whether its giver, if that is a key of the configuration, has ended.
    pub fn has_ended(&self, now_ms: i64) -> bool {
        matches!(&self.giver, Giver::Configured(Some(end_ms), _) if *end_ms <= now_ms)
    }
}

/// What a key or a share inherits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename = "Inheritance+")]
pub struct Inheritance {
    /// Whose part of a table its own gifts fill.
    pub account: String,
    /// The account of the configured key at the beginning.
    pub root: String,
    /// The keys above it, the nearest first.
    pub above: Vec<KeyId>,
    /// The budgets of those keys.
    pub budgets: Vec<KeyBudget>,
    /// Whether a key above it takes scopes or prefixes from it.
    #[serde(default)]
    pub is_narrowed: bool,
}

/// A key as it is good now, and what it inherits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldKey {
    /// The key, with the end and the rights that the keys above it leave.
    pub key: ApiKey,
    /// What it inherits.
    pub inheritance: Inheritance,
}

/// A share as it is good now, and what it inherits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldShare {
    /// The share, with the end that the keys above it leave.
    pub share: Share,
    /// What it inherits.
    pub inheritance: Inheritance,
}

/// The answer to a key that is to be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum KeyMade {
    /// There are too many keys.
    Full,
    /// It is stored.
    Made,
    /// The giver's part of the table is full.
    PartFull,
    /// There are too many keys above it.
    TooDeep,
    /// The giver was revoked or has ended.
    GiverEnded,
}

fn is_wide(key: &ApiKey) -> bool {
    key.scopes.contains(&Scope::Admin) && key.prefixes.iter().any(String::is_empty)
}

fn earlier(one: Option<i64>, other: Option<i64>) -> Option<i64> {
    [one, other].into_iter().flatten().min()
}

/// Narrows a key by the one that gave it: what the giver may not give any more, the key may not do.
fn narrow(key: &mut ApiKey, giver: &ApiKey) {
    key.expires_ms = earlier(key.expires_ms, giver.expires_ms);
    if !giver.scopes.contains(&Scope::Admin) {
        key.scopes.clear();
    }
    let both = |own: &String, given: &String| match (is_within(own, given), is_within(given, own)) {
        (true, _) => Some(own.clone()),
        (_, true) => Some(given.clone()),
        _ => None,
    };
    let mut prefixes: Vec<String> = Vec::new();
    for prefix in key.prefixes.iter().flat_map(|own| {
        giver
            .prefixes
            .iter()
            .filter_map(move |given| both(own, given))
    }) {
        if !prefixes.contains(&prefix) {
            prefixes.push(prefix);
        }
    }
    key.prefixes = prefixes;
}

/// Returns the key as it is good now: narrowed by each key above it. `above` are those, the nearest first, and `root`
/// is the gift that made the outermost.
pub fn held(id: KeyId, mut key: ApiKey, above: &[(KeyId, ApiKey)], root: &Gift) -> HeldKey {
    let mut inheritance = Inheritance {
        root: root.account.clone(),
        ..Inheritance::default()
    };
    let outermost_first = || {
        above
            .iter()
            .rev()
            .map(|(id, key)| (*id, key))
            .chain([(id, &key)])
    };
    let outermost = outermost_first().find(|(_, key)| !is_wide(key));
    inheritance.account = match outermost {
        Some((narrow, _)) if !root.is_narrow => narrow.to_string(),
        _ => root.account.clone(),
    };
    let given = (key.scopes.clone(), key.prefixes.clone());
    for (id, giver) in above {
        narrow(&mut key, giver);
        inheritance.above.push(*id);
        inheritance.budgets.extend(giver.budget(*id));
    }
    if let Giver::Configured(expires_ms, budget) = &root.giver {
        key.expires_ms = earlier(key.expires_ms, *expires_ms);
        inheritance.budgets.extend(budget.clone());
    }
    inheritance.is_narrowed = given != (key.scopes.clone(), key.prefixes.clone());
    HeldKey { key, inheritance }
}

impl HeldShare {
    /// Returns a share as it is good now; `None` where its giver, a key as that is good now, has ended or may not give
    /// it any more.
    pub fn of(
        mut share: Share,
        gift: &Gift,
        giver: Option<(KeyId, &HeldKey)>,
        now_ms: i64,
    ) -> Option<Self> {
        let mut inheritance = Inheritance {
            account: gift.account.clone(),
            ..Inheritance::default()
        };
        match (&gift.giver, giver) {
            (Giver::Nobody, _) => {}
            (Giver::Configured(expires_ms, budget), _) => {
                share.expires_ms = earlier(share.expires_ms, *expires_ms);
                inheritance.budgets.extend(budget.clone());
            }
            (Giver::Key(_), Some((id, held))) => {
                if !held.key.administers(&share.prefix) {
                    return None;
                }
                share.expires_ms = earlier(share.expires_ms, held.key.expires_ms);
                inheritance = held.inheritance.clone();
                inheritance.above.insert(0, id);
                inheritance.budgets.extend(held.key.budget(id));
            }
            (Giver::Key(_), None) => return None,
        }
        (!share.has_expired(now_ms)).then_some(Self { share, inheritance })
    }
}
