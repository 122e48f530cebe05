//! Requests and answers about keys that calls make.

use serde::{Deserialize, Deserializer, Serialize};

use crate::access::{NAME_BYTES_MAX, PREFIX_BYTES_MAX};
use crate::fields::Moment;
use crate::json::{Time, WholeNumber, present, read_object, to_json};
use tally_wire::problem::{Code, Problem};
use tally_wire::rights::{ApiKey, Digest, KEY_PREFIXES_MAX, KeyId, RATE_PER_MINUTE_MAX, Scope};

/// The most bytes of all prefixes of a key that a call makes.
pub const KEY_PREFIXES_BYTES_MAX: usize = 2_048;

/// The shortest life of a key, in seconds, where it has an end.
pub const KEY_SECONDS_MIN: u64 = 60;

/// The longest life of a key: ten years.
pub const KEY_SECONDS_MAX: u64 = 3_650 * 86_400;

/// The longest time for which a replaced secret stays valid: 30 days.
pub const KEEP_SECONDS_MAX: u64 = 30 * 86_400;

/// How long a replaced secret stays valid by default: a day.
pub const KEEP_SECONDS: u64 = 86_400;

/// A field that may be missing, `null`, or have a value.
#[derive(Debug, Default)]
enum Field<T> {
    #[default]
    Absent,
    Null,
    Is(T),
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Field<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Option::deserialize(deserializer)?;
        Ok(value.map_or(Self::Null, Self::Is))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wire {
    /// A note for people, at most 64 bytes; needed for a new key.
    #[serde(default, deserialize_with = "present")]
    name: Option<String>,
    /// Needed for a new key.
    #[serde(default, deserialize_with = "present")]
    scopes: Option<Vec<String>>,
    /// It acts on counters and boards whose ids begin with one of these, and on limits by one that begins with
    /// `limits/`; on all counters and boards if not given. At most 2,048 bytes together.
    #[serde(default)]
    prefixes: Field<Vec<String>>,
    /// Its budget: requests, and of bodies with many lines, checks or commands one for each; in all datacenters
    /// together.
    #[serde(default)]
    rate_per_minute: Field<WholeNumber>,
    /// Seconds after which it ends.
    #[serde(default)]
    expires_in_seconds: Field<WholeNumber>,
    /// When it ends, instead of `expires_in_seconds`. It lasts until it is revoked if neither is given.
    #[serde(default)]
    expires_at: Field<Time>,
}

/// The settings of a key to be made or changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyChange {
    name: Option<String>,
    scopes: Option<Vec<Scope>>,
    prefixes: Option<Vec<String>>,
    rate_per_minute: Option<Option<u32>>,
    expires_ms: Option<Option<i64>>,
}

fn refuse<T>(detail: impl Into<String>) -> Result<T, Problem> {
    Err(Problem::new(Code::InvalidBody, detail))
}

fn is_text(text: &str) -> bool {
    !text.chars().any(char::is_control)
}

fn check_name(name: String) -> Result<String, Problem> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX || !is_text(&name) {
        return refuse(format!(
            "name must have 1 to {NAME_BYTES_MAX} bytes and no control characters"
        ));
    }
    Ok(name)
}

fn scopes_of(texts: Vec<String>) -> Result<Vec<Scope>, Problem> {
    let mut scopes = Vec::new();
    for text in texts {
        let known = Scope::ALL.into_iter().find(|scope| scope.as_str() == text);
        match known {
            Some(scope) if scopes.contains(&scope) => {}
            Some(scope) => scopes.push(scope),
            None => {
                let why = Scope::why_not(&text);
                return refuse(format!(
                    "one of scopes {why}: the scopes are {}",
                    scope_names()
                ));
            }
        }
    }
    if scopes.is_empty() {
        return refuse(format!("scopes must be at least one of {}", scope_names()));
    }
    Ok(scopes)
}

fn scope_names() -> String {
    let names = Scope::ALL.map(|scope| format!("`{}`", scope.as_str()));
    names.join(", ")
}

fn check_prefixes(prefixes: Vec<String>) -> Result<Vec<String>, Problem> {
    if !(1..=KEY_PREFIXES_MAX).contains(&prefixes.len()) {
        return refuse(format!(
            "prefixes must be 1 to {KEY_PREFIXES_MAX} texts; leave them out for a key of all counters"
        ));
    }
    let is_prefix = |prefix: &String| prefix.len() <= PREFIX_BYTES_MAX && is_text(prefix);
    if !prefixes.iter().all(is_prefix) {
        return refuse(format!(
            "one of prefixes begins no counter id: ids have at most {PREFIX_BYTES_MAX} bytes and no control characters"
        ));
    }
    let bytes: usize = prefixes.iter().map(String::len).sum();
    if bytes > KEY_PREFIXES_BYTES_MAX {
        return refuse(format!(
            "prefixes have {bytes} bytes together, at most {KEY_PREFIXES_BYTES_MAX} are kept"
        ));
    }
    Ok(prefixes)
}

fn check_rate(rate: u64) -> Result<u32, Problem> {
    let rate = u32::try_from(rate).ok();
    let rate = rate.filter(|rate| (1..=RATE_PER_MINUTE_MAX).contains(rate));
    rate.map_or_else(
        || refuse(format!("rate_per_minute must be from 1 to {RATE_PER_MINUTE_MAX}; leave it out for a key without a budget")),
        Ok,
    )
}

fn end_of(
    within: Field<WholeNumber>,
    at: Field<Time>,
    now_ms: i64,
) -> Result<Option<Option<i64>>, Problem> {
    let end_ms = match (within, at) {
        (Field::Absent, Field::Absent) => return Ok(None),
        (Field::Null, Field::Absent | Field::Null) | (Field::Absent, Field::Null) => {
            return Ok(Some(None));
        }
        (Field::Is(WholeNumber(seconds)), Field::Absent | Field::Null) => {
            let lasts_ms = i64::try_from(seconds.saturating_mul(1_000)).unwrap_or(i64::MAX);
            now_ms.saturating_add(lasts_ms)
        }
        (Field::Absent | Field::Null, Field::Is(Time(at_ms))) => at_ms,
        (Field::Is(_), Field::Is(_)) => {
            return refuse("send expires_in_seconds or expires_at, not both");
        }
    };
    let lasts_seconds = u64::try_from((end_ms.saturating_sub(now_ms)) / 1_000).unwrap_or(0);
    if !(KEY_SECONDS_MIN..=KEY_SECONDS_MAX).contains(&lasts_seconds) {
        return refuse(format!(
            "a key ends in {KEY_SECONDS_MIN} to {KEY_SECONDS_MAX} seconds: expires_in_seconds says how many, expires_at when; \
             leave both out for a key that lasts until it is revoked"
        ));
    }
    Ok(Some(Some(end_ms)))
}

/// Reads `{"name"?, "scopes"?, "prefixes"?, "rate_per_minute"?, "expires_in_seconds"? | "expires_at"?}`; `null`
/// removes a budget, an end or prefixes.
///
/// # Errors
/// `invalid-json`, `unknown-field`, `invalid-body`.
pub fn parse_change(body: &[u8], now_ms: i64) -> Result<KeyChange, Problem> {
    let wire: Wire = read_object(body)?;
    Ok(KeyChange {
        name: wire.name.map(check_name).transpose()?,
        scopes: wire.scopes.map(scopes_of).transpose()?,
        prefixes: match wire.prefixes {
            Field::Absent => None,
            Field::Null => Some(vec![String::new()]),
            Field::Is(prefixes) => Some(check_prefixes(prefixes)?),
        },
        rate_per_minute: match wire.rate_per_minute {
            Field::Absent => None,
            Field::Null => Some(None),
            Field::Is(WholeNumber(rate)) => Some(Some(check_rate(rate)?)),
        },
        expires_ms: end_of(wire.expires_in_seconds, wire.expires_at, now_ms)?,
    })
}

impl KeyChange {
    /// Makes a key of these settings.
    ///
    /// # Errors
    /// `invalid-body` where it has no name or no scopes.
    pub fn make(self, created_by: &str, secret: Digest, now_ms: i64) -> Result<ApiKey, Problem> {
        let (Some(name), Some(scopes)) = (self.name, self.scopes) else {
            return refuse("a key needs a name and scopes");
        };
        Ok(ApiKey {
            name,
            scopes,
            prefixes: self.prefixes.unwrap_or_else(|| vec![String::new()]),
            rate_per_minute: self.rate_per_minute.flatten(),
            created_ms: now_ms,
            created_by: created_by.to_owned(),
            expires_ms: self.expires_ms.flatten(),
            secret,
            replaced_secrets: Vec::new(),
            used_ms: None,
            revision: 0,
        })
    }

    /// Applies these settings to a key.
    pub fn apply(&self, key: &mut ApiKey) {
        let change = self.clone();
        key.name = change.name.unwrap_or_else(|| key.name.clone());
        key.scopes = change.scopes.unwrap_or_else(|| key.scopes.clone());
        key.prefixes = change.prefixes.unwrap_or_else(|| key.prefixes.clone());
        key.rate_per_minute = change.rate_per_minute.unwrap_or(key.rate_per_minute);
        key.expires_ms = change.expires_ms.unwrap_or(key.expires_ms);
    }
}

/// Reads `{"keep_seconds"?: 0 to 30 days}`, or nothing: how long the former secrets stay valid, in milliseconds.
///
/// # Errors
/// As [`parse_change`].
pub fn parse_rotation(body: &[u8]) -> Result<i64, Problem> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Rotation {
        /// How long the old secret still works.
        #[serde(default)]
        keep_seconds: Option<WholeNumber>,
    }
    let seconds = match body.trim_ascii() {
        [] => None,
        body => read_object::<Rotation>(body)?.keep_seconds,
    };
    let seconds = seconds.map_or(KEEP_SECONDS, |WholeNumber(seconds)| seconds);
    if seconds > KEEP_SECONDS_MAX {
        return refuse(format!(
            "keep_seconds must be from 0 to {KEEP_SECONDS_MAX}: the earlier secret stays valid for that time"
        ));
    }
    Ok(i64::try_from(seconds).unwrap_or(0) * 1_000)
}

#[derive(Serialize)]
struct KeyView<'a> {
    id: String,
    name: &'a str,
    scopes: Vec<&'static str>,
    prefixes: &'a [String],
    rate_per_minute: Option<u32>,
    created_at: Moment,
    /// The name of the key that made it; empty where the deployment is open.
    created_by: &'a str,
    /// `null` where it lasts until it is revoked.
    expires_at: Option<Moment>,
    /// The hour in which it was used last.
    last_used_at: Option<Moment>,
    /// When the secret that was replaced last ends.
    former_ends_at: Option<Moment>,
    /// The key itself; only in the answer that makes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
}

fn view<'a>(id: KeyId, key: &'a ApiKey, token: Option<&'a str>, now_ms: i64) -> KeyView<'a> {
    let ends_ms = key.replaced_secrets.iter().map(|(_, end_ms)| *end_ms);
    KeyView {
        id: id.to_string(),
        name: &key.name,
        scopes: key.scopes.iter().map(|scope| scope.as_str()).collect(),
        prefixes: &key.prefixes,
        rate_per_minute: key.rate_per_minute,
        created_at: key.created_ms,
        created_by: &key.created_by,
        expires_at: key.expires_ms,
        last_used_at: key.used_ms,
        former_ends_at: ends_ms.filter(|end_ms| *end_ms > now_ms).max(),
        key: token,
    }
}

/// The JSON of a key; with its token where it was just made.
pub fn key_json(id: KeyId, key: &ApiKey, token: Option<&str>, now_ms: i64) -> String {
    to_json(&view(id, key, token, now_ms))
}

/// The JSON of `GET /keys`.
pub fn keys_json(keys: &[(KeyId, ApiKey)], cursor: Option<KeyId>, now_ms: i64) -> String {
    #[derive(Serialize)]
    struct KeysView<'a> {
        entries: Vec<KeyView<'a>>,
        /// Names the next page; `null` on the last. A page may have fewer keys than `limit`.
        cursor: Option<String>,
    }
    let views = keys.iter().map(|(id, key)| view(*id, key, None, now_ms));
    to_json(&KeysView {
        entries: views.collect(),
        cursor: cursor.map(|id| id.to_string()),
    })
}
