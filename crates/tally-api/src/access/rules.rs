//! The access rules of a deployment.

use std::sync::Arc;

use super::caller::{Caller, CallerKind, unauthorized};
use super::config::Config;
use super::grant::shown;
use super::key::FixedKey;
use super::local;
use super::local::{OPEN_IS_LOCAL, is_loopback_origin};
use super::refusal::HOW_TO_SET_KEYS;
use tally_core::callers::owner;
use tally_core::limit::owner::Owner;
use tally_wire::problem::{Code, Problem};
use tally_wire::rights::{HeldKey, KeyId};

/// Returns the origin in a `Referer`, in the form of an `Origin` header. Browsers send no `Origin` for images, but a
/// page cannot forge `Referer` either; it can only leave it out. Source: RFC 9110 section 10.1.3, Fetch section 3.7.
pub fn origin_of_referrer(referrer: &str) -> Option<&str> {
    let (scheme, rest) = referrer.split_once("://")?;
    let host = rest
        .split(['/', '?', '#'])
        .next()
        .filter(|host| !host.is_empty())?;
    referrer.get(..scheme.len() + "://".len() + host.len())
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
    /// Reads the access rules of this deployment.
    ///
    /// `keys_json` is the text of the secret `TALLY_KEYS`; text of white space alone counts as none. Without keys,
    /// `open` lets everyone do everything. With keys, `open` is ignored. With neither, the rules refuse every request,
    /// and the refusal says how to set keys.
    ///
    /// ```json
    /// {"keys":   [{"name":"ops", "key":"at least 16 bytes", "prefixes":["/blog/"],
    ///              "scopes":["read","write","refund","admin"],
    ///              "rate_per_minute":600, "expires_at":"2027-12-31"}],
    ///  "public": [{"prefix":"/blog/", "origins":["https://example.com"], "scopes":["read","write"],
    ///              "delta_max":1, "allow":["decrement"]}]}
    /// ```
    /// `name` is a note for people, and names the sender of idempotency keys: entries with one name are one sender, so
    /// a retry is recognized after the key of its entry was replaced. Without `prefixes`, or one `prefix`, an entry
    /// covers all counters and boards. A prefix is compared as written: no slash is added. A prefix that begins with
    /// `limits/` covers limits instead. `rate_per_minute` is its budget, `expires_at` its end: a date, a time or unix
    /// seconds. The same key may stand in several entries and then has the grants of all.
    ///
    /// Without a key, `write` allows an increment, or a check of a limit, of at most `delta_max` (1 by default) at the
    /// current time. `allow` names what goes beyond that: [`Permission`](super::Permission). `"origins":["*"]` is
    /// all, with or without an `Origin`. Pages that send a key need a public entry for their origin too, so that the
    /// browser lets
    /// them read answers. It has `"scopes":[]` if they may do nothing without the key.
    ///
    /// A deployed Worker's secret holds at most 5 KB, about 50 entries. `make serve` accepts all that the limits here
    /// allow.
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

    /// Returns whether everybody may do everything, so that callers need not be identified.
    pub fn is_open(&self) -> bool {
        matches!(self.0, Mode::Open)
    }

    /// Returns the owner of the keys of a configured key's account. Cost: one comparison for every configured key.
    fn owner_of(&self, account: &str) -> Owner {
        let known = match &self.0 {
            Mode::Configured(config) => config.owner_of(account),
            Mode::Open | Mode::NotConfigured => None,
        };
        // The key was removed from the configuration since.
        known.unwrap_or_else(|| owner::of_account(account))
    }

    /// Returns whether any configured key has a budget, so that callers with a key must be identified first.
    pub fn has_budgets(&self) -> bool {
        matches!(&self.0, Mode::Configured(config) if config.has_budgets)
    }

    /// Identifies the caller by the request's `Authorization` and `Origin` headers at this time, in unix milliseconds.
    ///
    /// A key is sent as `Authorization: Bearer <key>`; its holder has the grants of that key and no
    /// public ones. Without `Authorization` the caller has the grants of the public entries that name
    /// the origin: scheme and host in any ASCII case, the port exactly.
    ///
    /// Cost: with a key, 16 word comparisons for every configured key, whichever matches. Without a key, one comparison
    /// for every configured origin.
    ///
    /// # Errors
    /// `not-configured` where no keys are set; `unauthorized` for an `Authorization` that is not a bearer key, or whose
    /// key is unknown, even if the same call would be allowed without it.
    pub fn identify(
        &self,
        authorization: Option<&str>,
        origin: Option<&str>,
        now_ms: i64,
    ) -> Result<Caller, Problem> {
        let config = match &self.0 {
            Mode::Open if origin.is_none_or(is_loopback_origin) => {
                return Ok(Caller::new(CallerKind::Anyone));
            }
            Mode::Open => return Err(Problem::new(Code::Forbidden, OPEN_IS_LOCAL)),
            Mode::NotConfigured => return Err(Problem::new(Code::NotConfigured, HOW_TO_SET_KEYS)),
            Mode::Configured(config) => config,
        };
        let Some(authorization) = authorization else {
            let entries = config.public.iter().filter(|entry| entry.names(origin));
            return Ok(Caller::new(CallerKind::Public {
                grants: entries.map(|entry| Arc::clone(&entry.grant)).collect(),
                origin: origin.map(shown),
            }));
        };
        let Some(presented) = bearer(authorization) else {
            return Err(unauthorized(
                "send the key as `Authorization: Bearer <key>`",
            ));
        };
        let known = presented.and_then(|key| config.held_by(&key, now_ms));
        let Some(held) = known else {
            return Err(unauthorized("this key is not known here, or has ended"));
        };
        Ok(Caller::new(CallerKind::KeyHolder {
            grants: held.grants,
            owner: held.owner,
            sender: held.sender,
            holder: Arc::new(held.holder),
        }))
    }

    /// Succeeds if the deployment is not open, or if the request comes from this machine, the only one that an open
    /// deployment serves. `host` is the host and port of the request's URL, `site` its `Sec-Fetch-Site`, `page` the
    /// origin of the page that sends it, where known.
    ///
    /// # Errors
    /// `forbidden` where the deployment is open and the request names a host that is not this machine, or comes from
    /// another site's page.
    pub fn check_local(
        &self,
        host: &str,
        site: Option<&str>,
        page: impl FnOnce() -> Option<String>,
    ) -> Result<(), Problem> {
        match self.0 {
            Mode::Open => local::check(host, site, page),
            Mode::NotConfigured | Mode::Configured(_) => Ok(()),
        }
    }

    /// Returns the value of `Access-Control-Allow-Origin` for a request with this `Origin`; `None` where the header
    /// must not be sent.
    ///
    /// `*` where the deployment is open or an entry names every origin; otherwise the origin itself if a public entry
    /// names it. Send `Vary: Origin` with every answer, whether the header is present or not. `*` is right for pages
    /// with keys too: they send the key in a header, not in a cookie.
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

/// Returns the key of a bearer `Authorization`: `None` if the scheme is another, `Some(None)` if the text cannot be a
/// key.
/// Source: RFC 9110 section 11.4 (the scheme is case-insensitive), RFC 6750 section 2.1.
fn bearer(authorization: &str) -> Option<Option<FixedKey>> {
    let (scheme, key) = authorization.trim().split_once(' ')?;
    let key = key.trim_start();
    (scheme.eq_ignore_ascii_case("bearer") && !key.is_empty()).then(|| FixedKey::new(key))
}

impl Caller {
    /// The holder of a key that was made by a call, with what it inherits. `access` knows the configured keys, which
    /// may be above it.
    pub fn of_held_key(id: KeyId, held: &HeldKey, access: &Access) -> Self {
        let mut caller = Self::of_key(id, &held.key);
        if let CallerKind::KeyHolder { holder, owner, .. } = &mut caller.0 {
            let account = &held.inheritance.account;
            Arc::make_mut(holder).inheritance = held.inheritance.clone();
            // Keys of one account have one part of a limiter.
            *owner = match (KeyId::parse(account), account.as_str()) {
                (Some(key), _) => owner::of_made_key(key.0),
                // The deployment was open when the key was made.
                (None, "") => *owner,
                (None, account) => access.owner_of(account),
            };
        }
        caller
    }
}
