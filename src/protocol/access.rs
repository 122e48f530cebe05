//! Who may do what: keys with scopes, and public entries for browsers.
//!
//! Invariant: nothing is allowed unless a grant says so. A grant is a set of scopes on the ids that
//! begin with a prefix; a key holds the grants of its own entries, a caller without a key those of the
//! public entries that name its origin. A deployment without keys refuses everyone, except where it
//! was opened on purpose for development on loopback.
//!
//! What flows through: the secret's text becomes an [`Access`] once per isolate; each request's
//! `Authorization` and `Origin` headers become a [`Caller`]; the route asks the caller about each id or
//! prefix that it is about to touch.
//!
//! An `Origin` is what a browser vouches for. Anything else can send any `Origin`, so a public entry is
//! public: it limits which sites' pages may call, not which programs.

mod config;
mod key;

use std::sync::Arc;

use self::config::Config;
use self::key::FixedKey;
use super::problem::{Code, Problem};

pub use self::config::{
    CONFIG_BYTES_MAX, KEYS_COUNT_MAX, NAME_BYTES_MAX, ORIGINS_COUNT_MAX, PREFIX_BYTES_MAX,
    PUBLIC_ENTRIES_COUNT_MAX,
};
pub use self::key::{KEY_BYTES_MAX, KEY_BYTES_MIN};

/// How much of an id or an origin a refusal repeats, in characters.
const SHOWN_CHARACTERS_MAX: usize = 64;

const HOW_TO_SET_KEYS: &str = "Set the secret TALLY_KEYS to JSON such as \
    {\"keys\":[{\"key\":\"<at least 16 random characters>\",\"scopes\":[\"admin\"]}],\"public\":[]}: \
    with `npx wrangler secret put TALLY_KEYS -c wrangler.toml` for a deployed Worker, or as the \
    environment variable TALLY_KEYS of `make serve`.";

/// Why a page of another machine may not use an open instance: its visitor did not ask for that.
const OPEN_IS_LOCAL: &str = "without keys only pages of this machine may call; for pages of other \
    origins set TALLY_KEYS with a public entry that names them";

/// Whether a browser's `Origin` is a page that this machine serves. A browser sends it with every
/// request of a page to another origin, and pages cannot change it.
fn is_loopback_origin(origin: &str) -> bool {
    let host = origin.split_once("://").map_or("", |(_, rest)| rest);
    let name = match host.strip_prefix('[') {
        Some(v6) => v6.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    let is_v4 = name
        .parse::<std::net::Ipv4Addr>()
        .is_ok_and(|address| address.is_loopback());
    let is_v6 = name
        .parse::<std::net::Ipv6Addr>()
        .is_ok_and(|address| address.is_loopback());
    is_v4 || is_v6 || name.eq_ignore_ascii_case("localhost")
}

/// The origin in a `Referer`, as an `Origin` header would say it. Browsers send no `Origin` for images, but vouch for this
/// header in the same way: a page can leave it out, not make it up. Source: RFC 9110 section 10.1.3, Fetch section 3.7.
pub fn origin_of_referrer(referrer: &str) -> Option<&str> {
    let (scheme, rest) = referrer.split_once("://")?;
    let host = rest
        .split(['/', '?', '#'])
        .next()
        .filter(|host| !host.is_empty())?;
    referrer.get(..scheme.len() + "://".len() + host.len())
}

/// What a grant allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Reading counters, their history, uniques and listings.
    Read,
    /// Counting. Does not imply [`Scope::Read`]: a beacon's key need not open the dashboard. The
    /// answer to an own write carries the new value all the same.
    Write,
    /// Settings and deletion. Implies [`Scope::Write`] and [`Scope::Read`].
    Admin,
}

impl Scope {
    /// All scopes.
    pub const ALL: [Self; 3] = [Self::Read, Self::Write, Self::Admin];

    /// The scope as configuration and refusals write it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Admin => "admin",
        }
    }
}

/// Scopes on the ids that begin with a prefix.
#[derive(Clone, Debug)]
struct Grant {
    scopes: Vec<Scope>,
    prefix: String,
}

impl Grant {
    fn has(&self, scope: Scope) -> bool {
        self.scopes.contains(&scope) || self.scopes.contains(&Scope::Admin)
    }
}

/// Who may do what in this deployment. Holds key material: it has no `Display`, and `Debug` shows none.
#[derive(Debug)]
pub struct Access(Mode);

#[derive(Debug)]
enum Mode {
    /// Development on loopback: everyone may do everything.
    Open,
    /// No keys are set: nobody may do anything.
    NotConfigured,
    Configured(Config),
}

impl Access {
    /// The access rules of this deployment.
    ///
    /// `keys_json` is the text of the secret `TALLY_KEYS`; text of white space alone is none. Without
    /// it, `open` lets everyone do everything; with it, `open` is ignored. With neither, the rules
    /// exist and refuse every request, saying how to set keys.
    ///
    /// ```json
    /// {"keys":   [{"name":"ops", "key":"at least 16 bytes", "scopes":["read","write","admin"], "prefix":"blog/"}],
    ///  "public": [{"prefix":"blog/", "origins":["https://example.com"], "scopes":["read","write"]}]}
    /// ```
    ///
    /// `name` is a note for people; without `prefix` an entry is about all ids. The same key may stand
    /// in several entries and then has the grants of all. `"origins":["*"]` is everyone, with or
    /// without an `Origin`. Pages that send a key need a public entry for their origin too, so that the
    /// browser lets them see answers: `"scopes":[]` where they may do nothing without the key.
    ///
    /// A deployed Worker's secret holds at most 5 KB, about 50 entries; `make serve` takes all that the
    /// limits here allow.
    ///
    /// # Errors
    /// `not-configured` saying what is wrong and where, without repeating any text that could be a key.
    pub fn from_config(keys_json: Option<&str>, open: bool) -> Result<Self, Problem> {
        match keys_json.filter(|text| !text.trim().is_empty()) {
            Some(text) => Ok(Self(Mode::Configured(Config::parse(text)?))),
            None if open => Ok(Self(Mode::Open)),
            None => Ok(Self(Mode::NotConfigured)),
        }
    }

    /// Returns whether everybody may do everything, so that nobody need be identified.
    pub fn is_open(&self) -> bool {
        matches!(self.0, Mode::Open)
    }

    /// Who is asking, from the request's `Authorization` and `Origin` headers.
    ///
    /// A key is sent as `Authorization: Bearer <key>`; its holder has the grants of that key and no
    /// public ones. Without `Authorization` the caller has the grants of the public entries that name
    /// the origin: scheme and host in any ASCII case, the port exactly.
    ///
    /// Cost: with a key, 16 word comparisons for every configured key, whichever matches; without,
    /// one comparison for every configured origin.
    ///
    /// # Errors
    /// `not-configured` where no keys are set; `unauthorized` for an `Authorization` that is not a
    /// bearer key or holds an unknown one, also where the same call would be public.
    pub fn identify(
        &self,
        authorization: Option<&str>,
        origin: Option<&str>,
    ) -> Result<Caller, Problem> {
        let config = match &self.0 {
            Mode::Open if origin.is_none_or(is_loopback_origin) => {
                return Ok(Caller(Who::Anyone));
            }
            Mode::Open => return Err(Problem::new(Code::Forbidden, OPEN_IS_LOCAL)),
            Mode::NotConfigured => return Err(Problem::new(Code::NotConfigured, HOW_TO_SET_KEYS)),
            Mode::Configured(config) => config,
        };
        let Some(authorization) = authorization else {
            let entries = config.public.iter().filter(|entry| entry.names(origin));
            return Ok(Caller(Who::Public {
                grants: entries.map(|entry| Arc::clone(&entry.grant)).collect(),
                origin: origin.map(shown),
            }));
        };
        let Some(presented) = bearer(authorization) else {
            return Err(unauthorized(
                "send the key as `Authorization: Bearer <key>`",
            ));
        };
        let grants = presented.map_or_else(Vec::new, |key| config.grants_of(&key));
        if grants.is_empty() {
            return Err(unauthorized("this key is not known here"));
        }
        Ok(Caller(Who::KeyHolder { grants }))
    }

    /// The value of `Access-Control-Allow-Origin` for a request with this `Origin`; `None` where the
    /// header must not be sent.
    ///
    /// `*` where the deployment is open or an entry names every origin; otherwise the origin itself if
    /// a public entry names it. Send `Vary: Origin` with every answer, the header present or not. Keys
    /// travel in a header that pages set themselves, not in cookies, so `*` is right for them too.
    pub fn cors_origin(&self, origin: Option<&str>) -> Option<String> {
        match &self.0 {
            Mode::Open => Some("*".to_owned()),
            Mode::NotConfigured => None,
            Mode::Configured(config) => {
                if config.public.iter().any(|entry| entry.every_origin) {
                    return Some("*".to_owned());
                }
                let named = config.public.iter().any(|entry| entry.names(origin));
                origin.filter(|_| named).map(str::to_owned)
            }
        }
    }
}

/// Who is asking. A value of this type exists only after [`Access::identify`].
#[derive(Clone, Debug)]
pub struct Caller(Who);

#[derive(Clone, Debug)]
enum Who {
    Anyone,
    KeyHolder {
        grants: Vec<Arc<Grant>>,
    },
    Public {
        grants: Vec<Arc<Grant>>,
        origin: Option<String>,
    },
}

impl Caller {
    /// Returns whether the caller has shown a key.
    pub fn has_key(&self) -> bool {
        matches!(self.0, Who::KeyHolder { .. })
    }

    /// Returns whether the caller may do this to any counter at all, so that nobody else's bulk bodies
    /// need be read.
    ///
    /// # Errors
    /// `unauthorized` without a key, `forbidden` with one.
    pub fn may_somewhere(&self, scope: Scope) -> Result<(), Problem> {
        match &self.0 {
            Who::Anyone => Ok(()),
            Who::KeyHolder { grants } | Who::Public { grants, .. } => {
                if grants.iter().any(|grant| grant.has(scope)) {
                    return Ok(());
                }
                let scope = scope.as_str();
                Err(match &self.0 {
                    Who::Public { .. } => unauthorized(format!("send a key with scope `{scope}`")),
                    _ => Problem::new(Code::Forbidden, format!("this key has no scope `{scope}`")),
                })
            }
        }
    }

    /// Nothing, if the caller may do this to the counter of that id, or to all ids that begin with
    /// that text: some grant has the scope, and its prefix begins the target.
    ///
    /// # Errors
    /// `forbidden` for holders of a key, `unauthorized` for callers without.
    pub fn may(&self, scope: Scope, target: &str) -> Result<(), Problem> {
        let grants = match &self.0 {
            Who::Anyone => return Ok(()),
            Who::KeyHolder { grants } | Who::Public { grants, .. } => grants,
        };
        if grants
            .iter()
            .any(|grant| grant.has(scope) && target.starts_with(&grant.prefix))
        {
            return Ok(());
        }
        let (scope, target) = (scope.as_str(), shown(target));
        Err(match &self.0 {
            Who::Public {
                origin: Some(origin),
                ..
            } => unauthorized(format!(
                "send a key with scope `{scope}` for `{target}`; pages of {origin} may not do this without one"
            )),
            Who::Public { origin: None, .. } => {
                unauthorized(format!("send a key with scope `{scope}` for `{target}`"))
            }
            Who::KeyHolder { .. } | Who::Anyone => Problem::new(
                Code::Forbidden,
                format!("this key has no scope `{scope}` for `{target}`"),
            ),
        })
    }

    /// Whether the caller sent no key and has only what public entries allow: whose writes are limited, and whose answers
    /// anybody may see.
    pub fn is_public(&self) -> bool {
        matches!(self.0, Who::Public { .. })
    }

    /// What the ids begin with that the caller may read; the empty text where that is every id.
    pub fn readable_prefixes(&self) -> Vec<String> {
        match &self.0 {
            Who::Anyone => vec![String::new()],
            Who::KeyHolder { grants } | Who::Public { grants, .. } => {
                let may_read = grants.iter().filter(|grant| grant.has(Scope::Read));
                may_read.map(|grant| grant.prefix.clone()).collect()
            }
        }
    }

    /// Nothing, if the caller may list and sum the counters whose ids begin with `prefix`: the rule of
    /// [`Caller::may`] with scope read. The empty prefix needs a grant on all ids.
    ///
    /// # Errors
    /// As [`Caller::may`].
    pub fn may_list(&self, prefix: &str) -> Result<(), Problem> {
        self.may(Scope::Read, prefix)
    }
}

fn unauthorized(detail: impl Into<String>) -> Problem {
    Problem::new(Code::Unauthorized, detail)
}

/// The beginning of a text of the caller's, for a refusal.
fn shown(text: &str) -> String {
    let mut shown: String = text.chars().take(SHOWN_CHARACTERS_MAX).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}

/// The key of a bearer `Authorization`: `None` if it is none, `Some(None)` if no key can look so.
/// Source: RFC 9110 section 11.4 (the scheme is case-insensitive), RFC 6750 section 2.1.
fn bearer(authorization: &str) -> Option<Option<FixedKey>> {
    let (scheme, key) = authorization.trim().split_once(' ')?;
    let key = key.trim_start();
    (scheme.eq_ignore_ascii_case("bearer") && !key.is_empty()).then(|| FixedKey::new(key))
}
