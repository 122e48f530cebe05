//! Reads the secret `TALLY_KEYS`.
//!
//! Invariant: no refusal repeats text that could be a key. Messages of the JSON reader are cut to the part that holds
//! no value, and names are repeated only when shorter than any key.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, MapAccess, Visitor};
use subtle::ConstantTimeEq;

use super::grant::{Grant, Permission, PublicWrites};
use super::holder::Holder;
use super::key::{FixedKey, KEY_BYTES_MAX, KEY_BYTES_MIN};
use super::refusal::{check_count, named, unreadable, wrong};
use super::sender::Sender;
use crate::json::Time;
use tally_core::callers::owner;
use tally_core::counter::id::COUNTER_ID_BYTES_MAX;
use tally_core::limit::owner::Owner;
use tally_core::sha256;
use tally_wire::problem::Problem;
use tally_wire::rights::{Inheritance, KEY_PREFIXES_MAX, KeyBudget, RATE_PER_MINUTE_MAX, Scope};

/// The longest `TALLY_KEYS`, in bytes: 1,000 keys of 64 bytes with scopes and prefixes are about 150 KB.
pub const CONFIG_BYTES_MAX: usize = 256 * 1024;

/// The most entries with a key in `TALLY_KEYS`. Each costs 128 bytes of memory and 16 word comparisons per request with
/// a key: 128 KB and 16,000 comparisons in all.
pub const KEYS_COUNT_MAX: usize = 1_000;

/// The most public entries in `TALLY_KEYS`.
pub const PUBLIC_ENTRIES_COUNT_MAX: usize = 1_000;

/// The most origins of one public entry. The size of the configuration bounds their sum: at 11 bytes each
/// (`"http://a",`) there are fewer than 24,000, and one request without a key compares all of them.
pub const ORIGINS_COUNT_MAX: usize = 64;

/// The most that one write of a caller without a key adds, if its entry does not say how much.
pub const DELTA_MAX_DEFAULT: u64 = 1;

/// The longest name of an entry of `TALLY_KEYS`, in bytes.
pub const NAME_BYTES_MAX: usize = 64;

/// The longest prefix of an entry of `TALLY_KEYS`, in bytes: a longer one would match no counter.
pub const PREFIX_BYTES_MAX: usize = COUNTER_ID_BYTES_MAX;

/// The parsed secret.
#[derive(Debug)]
pub(super) struct Config {
    keys: Vec<KeyEntry>,
    /// Whether any key has a budget.
    pub(super) has_budgets: bool,
    pub(super) public: Vec<PublicEntry>,
}

/// What the holder of a key may do.
#[derive(Debug)]
struct KeyEntry {
    key: FixedKey,
    grants: Vec<Arc<Grant>>,
    holder: Holder,
    /// That of the first entry with this key.
    owner: Owner,
    /// That of the first named entry with this key, also if the entry has ended.
    sender: Sender,
}

/// The grants of a configured key.
pub(super) struct KeyGrants {
    pub(super) grants: Vec<Arc<Grant>>,
    pub(super) owner: Owner,
    pub(super) holder: Holder,
    pub(super) sender: Sender,
}

/// What callers without a key may do if they come from one of these origins.
#[derive(Debug)]
pub(super) struct PublicEntry {
    pub(super) every_origin: bool,
    origins: Vec<String>,
    pub(super) grant: Arc<Grant>,
}

impl PublicEntry {
    /// Returns whether this entry applies to requests with that `Origin`.
    pub(super) fn names(&self, origin: Option<&str>) -> bool {
        let named = |origin: &str| {
            self.origins
                .iter()
                .any(|own| own.eq_ignore_ascii_case(origin))
        };
        self.every_origin || origin.is_some_and(named)
    }
}

/// A struct that is read from an object only. A derived `Deserialize` would also accept an array, by position.
struct Object<T>(T);

trait Shape {
    const SHAPE: &str;
}

impl<'de, T: Deserialize<'de> + Shape> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de> + Shape> Visitor<'de> for Fields<T> {
            type Value = T;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str(T::SHAPE)
            }

            fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<T, A::Error> {
                T::deserialize(MapAccessDeserializer::new(fields))
            }
        }

        deserializer.deserialize_map(Fields(PhantomData)).map(Self)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawConfig {
    #[serde(default)]
    keys: Vec<Object<RawKey>>,
    #[serde(default)]
    public: Vec<Object<RawPublic>>,
}

impl Shape for RawConfig {
    const SHAPE: &str = "an object with `keys` and `public`";
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawKey {
    name: Option<String>,
    key: String,
    scopes: Vec<String>,
    prefix: Option<String>,
    prefixes: Option<Vec<String>>,
    rate_per_minute: Option<u64>,
    expires_at: Option<Time>,
}

impl Shape for RawKey {
    const SHAPE: &str = "an object with `key` and `scopes`";
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPublic {
    #[serde(default)]
    prefix: String,
    origins: Vec<String>,
    scopes: Vec<String>,
    delta_max: Option<u64>,
    #[serde(default)]
    allow: Vec<String>,
}

impl Shape for RawPublic {
    const SHAPE: &str = "an object with `prefix`, `origins` and `scopes`";
}

impl Config {
    /// Parses the configuration.
    pub(super) fn parse(text: &str) -> Result<Self, Problem> {
        if text.len() > CONFIG_BYTES_MAX {
            return Err(wrong(format!(
                "it has {} bytes, at most {CONFIG_BYTES_MAX} are read",
                text.len()
            )));
        }
        let Object::<RawConfig>(raw) =
            serde_json::from_str(text).map_err(|error| unreadable(&error))?;
        check_count("keys", raw.keys.len(), KEYS_COUNT_MAX)?;
        check_count("public", raw.public.len(), PUBLIC_ENTRIES_COUNT_MAX)?;
        let senders = senders_of(&raw.keys);
        let keys = raw.keys.into_iter().zip(senders).enumerate();
        let public = raw.public.into_iter().enumerate();
        let keys = keys.map(|(at, (Object(raw), sender))| key(at, raw, sender));
        let mut keys: Vec<KeyEntry> = keys.collect::<Result<_, _>>()?;
        let mut owners = BTreeMap::new();
        for entry in &mut keys {
            let account = entry.holder.inheritance.account.clone();
            entry.owner = *owners.entry(account).or_insert(entry.owner);
        }
        let has_budget = |entry: &KeyEntry| entry.holder.budget.is_some();
        Ok(Self {
            has_budgets: keys.iter().any(has_budget),
            keys,
            public: public
                .map(|(at, Object(raw))| public_entry(&format!("public[{at}]"), raw))
                .collect::<Result<_, _>>()?,
        })
    }

    /// Returns the owner of the key with this account.
    pub(super) fn owner_of(&self, account: &str) -> Option<Owner> {
        let mut entries = self.keys.iter();
        let entry = entries.find(|entry| entry.holder.inheritance.account == account);
        entry.map(|entry| entry.owner)
    }

    /// Returns the grants of all entries with this key that have not ended; `None` where there are none. Every entry is
    /// compared, in constant time. What follows takes a time that only the holder of a valid key can measure.
    pub(super) fn held_by(&self, presented: &FixedKey, now_ms: i64) -> Option<KeyGrants> {
        let mut held: Option<KeyGrants> = None;
        for entry in &self.keys {
            let is_equal = bool::from(entry.key.ct_eq(presented));
            let has_ended = entry
                .holder
                .expires_ms
                .is_some_and(|end_ms| end_ms <= now_ms);
            if !is_equal || has_ended {
                continue;
            }
            let grants = entry.grants.iter().cloned();
            match &mut held {
                Some(held) => {
                    held.grants.extend(grants);
                    held.holder.narrow(&entry.holder);
                }
                None => {
                    held = Some(KeyGrants {
                        grants: grants.collect(),
                        owner: entry.owner,
                        holder: entry.holder.clone(),
                        sender: entry.sender,
                    });
                }
            }
        }
        held
    }
}

/// The senders of these entries. Entries with one key are one sender: that of the first of them with a name.
fn senders_of(entries: &[Object<RawKey>]) -> Vec<Sender> {
    let mut names = BTreeMap::<&str, &str>::new();
    for Object(raw) in entries {
        if let Some(name) = &raw.name {
            names.entry(&raw.key).or_insert(name);
        }
    }
    let sender = |Object(raw): &Object<RawKey>| match names.get(raw.key.as_str()) {
        Some(name) => Sender::of_name(name),
        None => Sender::of_nameless_key(&raw.key),
    };
    entries.iter().map(sender).collect()
}

fn key(at: usize, raw: RawKey, sender: Sender) -> Result<KeyEntry, Problem> {
    let path = format!("keys[{at}]");
    let path = path.as_str();
    let name = raw.name.unwrap_or_else(|| path.to_owned());
    if name.len() > NAME_BYTES_MAX {
        return Err(wrong(format!(
            "{path}.name has more than {NAME_BYTES_MAX} bytes"
        )));
    }
    let Some(key) = FixedKey::new(&raw.key) else {
        let why = match raw.key.len() {
            ..KEY_BYTES_MIN => format!("is too short: a key has at least {KEY_BYTES_MIN} bytes"),
            KEY_BYTES_MIN..=KEY_BYTES_MAX => {
                "may hold only visible ASCII characters, no spaces".to_owned()
            }
            _ => format!("is too long: a key has at most {KEY_BYTES_MAX} bytes"),
        };
        return Err(wrong(format!("{path}.key {why}")));
    };
    let scopes = key_scopes(path, &raw.scopes)?;
    let prefixes = match (raw.prefix, raw.prefixes) {
        (Some(_), Some(_)) => {
            return Err(wrong(format!("{path} has both `prefix` and `prefixes`")));
        }
        (Some(prefix), None) => vec![prefix],
        (None, Some(prefixes)) => prefixes,
        (None, None) => vec![String::new()],
    };
    if !(1..=KEY_PREFIXES_MAX).contains(&prefixes.len()) {
        return Err(wrong(format!(
            "{path}.prefixes must have 1 to {KEY_PREFIXES_MAX} entries; leave it out for all counters"
        )));
    }
    let prefixes = prefixes.into_iter();
    let grants = prefixes.map(|prefix| grant(path, prefix, scopes.clone(), None));
    let account = subject_of(&raw.key);
    let budget = raw.rate_per_minute.map(|rate| {
        let rate = u32::try_from(rate).ok();
        rate.filter(|rate| (1..=RATE_PER_MINUTE_MAX).contains(rate))
            .map(|rate_per_minute| KeyBudget {
                rate_per_minute,
                subject: account.clone(),
            })
            .ok_or_else(|| {
                wrong(format!(
                    "{path}.rate_per_minute must be from 1 to {RATE_PER_MINUTE_MAX}"
                ))
            })
    });
    Ok(KeyEntry {
        key,
        grants: grants.collect::<Result<_, _>>()?,
        holder: Holder {
            id: None,
            name,
            expires_ms: raw.expires_at.map(|Time(at_ms)| at_ms),
            budget: budget.transpose()?,
            inheritance: Inheritance {
                account: account.clone(),
                root: account,
                ..Inheritance::default()
            },
        },
        owner: owner::of_key(at),
        sender,
    })
}

/// The name under which the budget of a configured key is accounted. It reveals nothing of the key.
fn subject_of(key: &str) -> String {
    let digest = sha256::digest(&[b"tally/configured/", key.as_bytes()].concat());
    ["configured-", &sha256::hex(&digest)[..32]].concat()
}

fn public_entry(path: &str, raw: RawPublic) -> Result<PublicEntry, Problem> {
    check_count(
        &format!("{path}.origins"),
        raw.origins.len(),
        ORIGINS_COUNT_MAX,
    )?;
    if raw.origins.is_empty() {
        return Err(wrong(format!(
            "{path}.origins is empty: name the pages that may do this, or `*` for all"
        )));
    }
    let delta_max = raw.delta_max.unwrap_or(DELTA_MAX_DEFAULT);
    if delta_max == 0 {
        return Err(wrong(format!(
            "{path}.delta_max is 0: it is 1 or more; leave out the scope `write` where nothing may be written"
        )));
    }
    let public_writes = PublicWrites {
        delta_max,
        allow: permissions(path, &raw.allow)?,
    };
    let scopes = scopes(path, &raw.scopes, &[Scope::Read, Scope::Write])?;
    let mut entry = PublicEntry {
        every_origin: false,
        origins: Vec::new(),
        grant: grant(path, raw.prefix, scopes, Some(public_writes))?,
    };
    for (at, text) in raw.origins.iter().enumerate() {
        if text == "*" {
            entry.every_origin = true;
        } else if let Some(origin) = origin(text) {
            entry.origins.push(origin);
        } else {
            return Err(wrong(format!(
                "{path}.origins[{at}] is not scheme://host[:port], such as https://example.com, nor `*`"
            )));
        }
    }
    Ok(entry)
}

fn grant(
    path: &str,
    prefix: String,
    scopes: Vec<Scope>,
    public_writes: Option<PublicWrites>,
) -> Result<Arc<Grant>, Problem> {
    if prefix.len() > PREFIX_BYTES_MAX || prefix.chars().any(char::is_control) {
        return Err(wrong(format!(
            "{path}.prefix begins no counter id: ids have at most {PREFIX_BYTES_MAX} bytes and no control characters"
        )));
    }
    Ok(Arc::new(Grant {
        scopes,
        prefix,
        public_writes,
    }))
}

/// Parses the scopes of a key: at least one, as of a key that a call makes.
fn key_scopes(path: &str, texts: &[String]) -> Result<Vec<Scope>, Problem> {
    if texts.is_empty() {
        return Err(wrong(format!(
            "{path}.scopes is empty: name what the key may do, or leave the entry out"
        )));
    }
    scopes(path, texts, &Scope::ALL)
}

/// Parses the scopes of an entry; `known` are those that it may have.
fn scopes(path: &str, texts: &[String], known: &[Scope]) -> Result<Vec<Scope>, Problem> {
    let known: Vec<_> = known.iter().map(|scope| (scope.as_str(), *scope)).collect();
    chosen(texts, &known).map_err(|(at, text)| {
        let is_elsewhere = Scope::ALL.iter().any(|scope| scope.as_str() == text);
        let what = if is_elsewhere {
            "needs a key"
        } else {
            Scope::why_not(text)
        };
        wrong(format!(
            "{path}.scopes[{at}]{} {what}: the scopes here are {}",
            named(text),
            listed(&known)
        ))
    })
}

/// Parses the permissions that a public entry names in `allow`.
fn permissions(path: &str, texts: &[String]) -> Result<Vec<Permission>, Problem> {
    let known = Permission::ALL.map(|permission| (permission.as_str(), permission));
    chosen(texts, &known).map_err(|(at, text)| {
        wrong(format!(
            "{path}.allow[{at}]{} is not known: it may name {}",
            named(text),
            listed(&known)
        ))
    })
}

/// Returns the values of these words, each once; or the first unknown word, with its index.
fn chosen<'a, T: Copy + PartialEq>(
    texts: &'a [String],
    known: &[(&str, T)],
) -> Result<Vec<T>, (usize, &'a str)> {
    let mut chosen = Vec::new();
    for (at, text) in texts.iter().enumerate() {
        let found = known.iter().find(|(word, _)| word == text);
        let (_, value) = found.ok_or((at, text.as_str()))?;
        if !chosen.contains(value) {
            chosen.push(*value);
        }
    }
    Ok(chosen)
}

fn listed<T>(known: &[(&str, T)]) -> String {
    let words: Vec<String> = known.iter().map(|(word, _)| format!("`{word}`")).collect();
    words.join(", ")
}

/// Returns the origin as browsers send it: `scheme://host[:port]`, without the port that the scheme implies; `None` if
/// the text is not an origin. Source: RFC 6454 section 6.2.
fn origin(text: &str) -> Option<String> {
    let (scheme, authority) = text.split_once("://")?;
    let right_scheme = scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    // The colon of a port comes after the bracket that ends an IPv6 address.
    let host_ends = authority.rfind(']').map_or(0, |bracket| bracket + 1);
    let (host, port) = match authority[host_ends..].find(':') {
        Some(colon) => (
            &authority[..host_ends + colon],
            Some(&authority[host_ends + colon + 1..]),
        ),
        None => (authority, None),
    };
    let right_host = match host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
    {
        Some(address) => address
            .bytes()
            .all(|byte| byte.is_ascii_hexdigit() || b":.".contains(&byte)),
        None => {
            !host.is_empty()
                && host
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
        }
    };
    if !right_scheme || !right_host {
        return None;
    }
    let Some(port) = port else {
        return Some(text.to_owned());
    };
    let number: u16 = port
        .parse()
        .ok()
        .filter(|_| port.bytes().all(|byte| byte.is_ascii_digit()))?;
    let implied = (scheme.eq_ignore_ascii_case("https") && number == 443)
        || (scheme.eq_ignore_ascii_case("http") && number == 80);
    Some(if implied {
        format!("{scheme}://{host}")
    } else {
        format!("{scheme}://{host}:{number}")
    })
}
