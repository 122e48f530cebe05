//! Keys that calls make: their rights, and the secret that identifies their holder.
//!
//! Invariants: a secret is shown once, in the answer that makes it. Only its SHA-256 is stored. A secret has 256 random
//! bits, so it cannot be guessed. A slow hash protects words that people choose; here it would only slow each request.
//! A token ends in a tag under the deployment's secret, so an invented token is refused without a read of storage.
//!
//! A token is `tally_`, the key's id, `_`, the secret and the tag: `tally_[0-9a-f]{16}_[0-9a-f]{80}`. The id is no
//! secret: it lets an operator revoke the key of a token that leaked.

use std::fmt;

use serde::{Deserialize, Serialize};
use subtle::{Choice, ConstantTimeEq};

use super::budget::KeyBudget;
use super::scope::{PrefixKind, Scope, is_within};
use tally_core::sha256;
use tally_core::sketch::{HashKey, hash};

/// What a token begins with.
const TOKEN_START: &str = "tally_";

/// Random bytes of a secret.
pub const SECRET_BYTES: usize = 32;

/// Hexadecimal digits of a secret, and of the tag behind it.
const SECRET_DIGITS: usize = 2 * SECRET_BYTES;
const TAG_DIGITS: usize = 16;

/// The most keys of a deployment: 10,000 of at most 2.6 KB are 26 MB in one partition of the directory.
pub const KEYS_MAX: u64 = 10_000;

/// The most prefixes of a key.
pub const KEY_PREFIXES_MAX: usize = 16;

/// The largest budget of a key: the most that the window of one limit holds.
pub const RATE_PER_MINUTE_MAX: u32 = 100_000_000;

/// The most replaced secrets that are valid at once: a rotation whose answer was lost can be repeated twice.
pub const FORMER_SECRETS_MAX: usize = 3;

const HOUR_MS: i64 = 3_600_000;

/// Names a key: 16 hexadecimal digits. It is no secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct KeyId(pub u64);

impl fmt::Display for KeyId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:016x}", self.0)
    }
}

fn is_hex(text: &str, digits: usize) -> bool {
    let mut bytes = text.bytes();
    text.len() == digits && bytes.all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

impl KeyId {
    /// Parses an id.
    pub fn parse(text: &str) -> Option<Self> {
        let id = u64::from_str_radix(text, 16).ok();
        id.filter(|_| is_hex(text, 16)).map(Self)
    }
}

/// What is stored of a secret.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Digest([u8; SECRET_BYTES]);

impl fmt::Debug for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Digest(hidden)")
    }
}

/// A key, as stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename = "ApiKey+")]
pub struct ApiKey {
    /// A note for people, 1 to 64 bytes.
    pub name: String,
    /// What it may do.
    pub scopes: Vec<Scope>,
    /// Where: on what one of these covers, see [`PrefixKind`].
    pub prefixes: Vec<String>,
    /// How much it may do in a minute, if that is limited.
    pub rate_per_minute: Option<u32>,
    /// When it was made, unix milliseconds.
    pub created_ms: i64,
    /// The name of the key that made it.
    pub created_by: String,
    /// Its end, if it has one.
    pub expires_ms: Option<i64>,
    /// Its secret.
    pub secret: Digest,
    /// Replaced secrets, and until when each is valid.
    pub replaced_secrets: Vec<(Digest, i64)>,
    /// The hour of its last reported use, in unix milliseconds.
    pub used_ms: Option<i64>,
    /// Rises with each change, so that concurrent changes do not overwrite each other.
    pub revision: u32,
}

impl ApiKey {
    /// Whether it may do no more, no longer and no faster than another.
    pub fn is_within(&self, other: &Self) -> bool {
        let has_prefix =
            |prefix: &String| other.prefixes.iter().any(|known| is_within(prefix, known));
        let is_at_most = |own: Option<i64>, bound: Option<i64>| {
            bound.is_none_or(|bound| own.is_some_and(|own| own <= bound))
        };
        let rate = |key: &Self| key.rate_per_minute.map(i64::from);
        self.scopes.iter().all(|scope| other.scopes.contains(scope))
            && self.prefixes.iter().all(has_prefix)
            && is_at_most(self.expires_ms, other.expires_ms)
            && is_at_most(rate(self), rate(other))
    }

    /// Returns whether it administers the counters with this prefix.
    pub fn administers(&self, prefix: &str) -> bool {
        let covers = |own: &String| {
            PrefixKind::of(own) == PrefixKind::Counters && prefix.starts_with(own.as_str())
        };
        self.scopes.contains(&Scope::Admin) && self.prefixes.iter().any(covers)
    }

    /// Its budget, if it has one.
    pub fn budget(&self, id: KeyId) -> Option<KeyBudget> {
        self.rate_per_minute.map(|rate_per_minute| KeyBudget {
            rate_per_minute,
            subject: id.to_string(),
        })
    }

    /// Returns whether its end has passed.
    pub fn has_expired(&self, now_ms: i64) -> bool {
        self.expires_ms.is_some_and(|end_ms| end_ms <= now_ms)
    }

    /// Returns whether a secret is valid for this key now. Compares with each of its secrets, in constant time.
    pub fn knows(&self, secret: &Digest, now_ms: i64) -> bool {
        let replaced = self
            .replaced_secrets
            .iter()
            .filter(|(_, end_ms)| *end_ms > now_ms);
        let all = std::iter::once(&self.secret).chain(replaced.map(|(known, _)| known));
        let is_equal = all.fold(Choice::from(0), |found, known| {
            found | known.0.ct_eq(&secret.0)
        });
        bool::from(is_equal)
    }

    /// Gives it a new secret. The replaced secrets stay valid for at most `keep_ms`, and none longer than before.
    pub fn rotate(&mut self, secret: Digest, keep_ms: i64, now_ms: i64) {
        let until_ms = now_ms.saturating_add(keep_ms);
        self.replaced_secrets.insert(0, (self.secret, until_ms));
        for (_, end_ms) in &mut self.replaced_secrets {
            *end_ms = until_ms.min(*end_ms);
        }
        self.replaced_secrets.retain(|(_, end_ms)| *end_ms > now_ms);
        self.replaced_secrets.truncate(FORMER_SECRETS_MAX);
        self.secret = secret;
    }

    /// Records a use. Returns whether it is the first in this hour.
    pub fn record_use(&mut self, now_ms: i64) -> bool {
        let hour_ms = now_ms - now_ms.rem_euclid(HOUR_MS);
        let is_news = self.used_ms.is_none_or(|known_ms| known_ms < hour_ms);
        if is_news {
            self.used_ms = Some(hour_ms);
        }
        is_news
    }
}

/// The tag of a token, over the text before it, under a key used for names only.
fn tag(names: &HashKey, text: &str) -> String {
    let half = |part: u8| hash(names, format!("tally/keys/{part}").as_bytes()).to_le_bytes();
    let mut key = [0; 16];
    for (to, from) in key.iter_mut().zip(half(0).into_iter().chain(half(1))) {
        *to = from;
    }
    format!("{:016x}", hash(&HashKey::from(key), text.as_bytes()))
}

/// Makes the token of a key from random bytes, and what is stored of it. `names` is derived from the deployment's
/// secret that never changes.
pub fn make_token(names: &HashKey, id: KeyId, random: &[u8; SECRET_BYTES]) -> (String, Digest) {
    let secret = sha256::hex(random);
    let text = format!("{TOKEN_START}{id}_{secret}");
    let tag = tag(names, &text);
    (text + &tag, digest_of(&secret))
}

fn digest_of(secret: &str) -> Digest {
    Digest(sha256::digest(secret.as_bytes()))
}

/// A text in the form of a token.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyToken(String);

impl fmt::Debug for KeyToken {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Token(hidden)")
    }
}

impl KeyToken {
    /// Parses a token; `None` where the text does not have the form.
    pub fn parse(text: &str) -> Option<Self> {
        let (id, rest) = text.strip_prefix(TOKEN_START)?.split_once('_')?;
        let looks_so = is_hex(id, 16) && is_hex(rest, SECRET_DIGITS + TAG_DIGITS);
        looks_so.then(|| Self(text.to_owned()))
    }

    /// The token in an `Authorization`.
    pub fn of(authorization: &str) -> Option<Self> {
        let (scheme, token) = authorization.trim().split_once(' ')?;
        let is_bearer = scheme.eq_ignore_ascii_case("bearer");
        Self::parse(token.trim_start()).filter(|_| is_bearer)
    }

    /// Returns the key that it names and its secret, if this deployment made it. Compares in constant time.
    pub fn signed(&self, names: &HashKey) -> Option<(KeyId, Digest)> {
        let (text, shown) = self.0.split_at_checked(self.0.len() - TAG_DIGITS)?;
        let (id, secret) = text.strip_prefix(TOKEN_START)?.split_once('_')?;
        let is_equal = tag(names, text).as_bytes().ct_eq(shown.as_bytes());
        let id = KeyId::parse(id).filter(|_| bool::from(is_equal))?;
        Some((id, digest_of(secret)))
    }
}
