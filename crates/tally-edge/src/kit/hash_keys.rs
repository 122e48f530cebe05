//! The secrets of an isolate: the hash key of elements, the key of idempotency keys, the salts of visitors. All come
//! from the deployment's variables or from the directory.
//!
//! Invariant: the key of names never changes, otherwise a retry would not find its record. The key of elements may
//! change, and an isolate reads the new key within the time of [`Refresh`]. Earlier hashes are of the old epoch, and
//! are marked by its [`HashId`].

use std::cell::RefCell;
use std::rc::Rc;

use super::request_context::RequestContext;
use tally_core::sketch::{HashId, HashKey};
use tally_host::{Host, State};
use tally_shared::call;
use tally_shared::call::CALL_MS_MAX;
use tally_shared::call_within;
use tally_wire::isolate::refresh::{Refresh, RefreshAction};
use tally_wire::messages::{Fault, GetSecrets, RotateKey, Secrets};
use tally_wire::names::HASH_KEY;
use tally_wire::problem::{Code, Problem};
use tally_wire::settings;
use tally_wire::visitor::{Salt, forgotten_ms};

/// How long the directory may take, milliseconds, if this isolate has a key already.
const REFRESH_MS_MAX: u64 = 1_000;

/// The hash key of elements, and its epoch.
#[derive(Clone)]
pub struct Hashing {
    /// The key.
    pub key: Rc<HashKey>,
    /// Its identity, which sketches carry.
    pub id: HashId,
}

impl Hashing {
    fn of(bytes: [u8; 16]) -> Self {
        let key = Rc::new(HashKey::from(bytes));
        Self { id: key.id(), key }
    }
}

/// The cached keys.
#[derive(Default)]
struct CachedKeys {
    /// The key of the variable, once it was read: it does not change while the isolate lives.
    set: Option<Option<Hashing>>,
    /// The key of the directory.
    kept: Option<Hashing>,
    names: Option<Rc<HashKey>>,
    salts: Vec<(i64, Salt)>,
    refresh: Refresh,
}

/// The secrets of this isolate.
struct IsolateSecrets(RefCell<CachedKeys>);

impl State for IsolateSecrets {
    fn begin(_host: &Host) -> Self {
        Self(RefCell::default())
    }
}

fn with<T>(host: &Host, work: impl FnOnce(&mut CachedKeys) -> T) -> T {
    work(&mut host.state::<IsolateSecrets>().0.borrow_mut())
}

/// Asks the directory, and caches its answer; with a day, for its salt too.
async fn ask(host: &Host, day: Option<i64>, milliseconds: u64) -> Result<(), Problem> {
    let requested_ms = host.now_ms();
    with(host, |known| known.refresh.begin(requested_ms));
    let answer = call_within(host, &GetSecrets { day }, milliseconds).await;
    cache_answer(host, answer, requested_ms)
}

fn cache_answer(
    host: &Host,
    answer: Result<Secrets, Fault>,
    requested_ms: i64,
) -> Result<(), Problem> {
    let secrets = answer.map_err(|fault| {
        with(host, |known| known.refresh.fail(host.now_ms()));
        let detail = format!("the keys of hashes cannot be read ({fault}); try again");
        Problem::new(Code::Unavailable, detail)
    })?;
    with(host, |known| {
        known.names = Some(Rc::new(HashKey::from(secrets.names)));
        for (day, salt) in secrets.salts {
            if !known.salts.iter().any(|(known, _)| *known == day) {
                known.salts.push((day, salt));
            }
        }
        if known.refresh.accept(requested_ms) {
            known.kept = Some(Hashing::of(secrets.elements));
        }
    });
    Ok(())
}

/// The key in the deployment's variable, if there is one. Read once, because reading a variable is a call into
/// JavaScript.
fn set_key(host: &Host) -> Result<Option<Hashing>, Problem> {
    if let Some(known) = with(host, |known| known.set.clone()) {
        return Ok(known);
    }
    let set = match host.setting(HASH_KEY) {
        Some(digits) => Some(Hashing::of(parse_hash_key(&digits)?)),
        None => None,
    };
    with(host, |known| known.set = Some(set.clone()));
    Ok(set)
}

/// The hash key of elements: the deployment's own, or the one that the directory stores for it, no older than
/// [`Refresh`] allows.
///
/// # Errors
/// `not-configured` for an invalid key, `unavailable` where none is known and the directory does not answer.
pub async fn hashing(context: &RequestContext) -> Result<Hashing, Problem> {
    let host = &context.host;
    if let Some(set) = set_key(host)? {
        return Ok(set);
    }
    match with(host, |known| known.refresh.next(host.now_ms())) {
        RefreshAction::Use => {}
        RefreshAction::UseAndRefresh => {
            let host = host.clone();
            context.wait_until(async move { drop(ask(&host, None, CALL_MS_MAX).await) });
        }
        // Without an answer the old key stays in use: its hashes are of its own epoch.
        RefreshAction::Refresh => drop(ask(host, None, REFRESH_MS_MAX).await),
        RefreshAction::Need => ask(host, None, CALL_MS_MAX).await?,
    }
    kept(host)
}

fn kept(host: &Host) -> Result<Hashing, Problem> {
    with(host, |known| known.kept.clone()).ok_or_else(lost)
}

fn lost() -> Problem {
    Problem::new(Code::Internal, "the key of elements is not in memory")
}

/// The key under which idempotency keys and their meaning are hashed. It is never rotated, and never set: with another
/// one every pending retry would count again.
///
/// # Errors
/// `unavailable` where it is not known and the directory does not answer.
pub async fn name_key(host: &Host) -> Result<Rc<HashKey>, Problem> {
    let known = || with(host, |known| known.names.clone());
    if let Some(known) = known() {
        return Ok(known);
    }
    ask(host, None, CALL_MS_MAX).await?;
    known().ok_or_else(lost)
}

/// The salt of a day, if this isolate has it.
pub fn known_salt(host: &Host, day: i64) -> Option<Salt> {
    let now_ms = host.now_ms();
    with(host, |known| {
        known.salts.retain(|(day, _)| forgotten_ms(*day) > now_ms);
        let found = known.salts.iter().find(|(known, _)| *known == day);
        found.map(|(_, salt)| *salt)
    })
}

/// The salt of a day; `None` where it was deleted.
///
/// # Errors
/// `unavailable` where the directory does not answer.
pub async fn salt(host: &Host, day: i64) -> Result<Option<Salt>, Problem> {
    if let Some(known) = known_salt(host, day) {
        return Ok(Some(known));
    }
    if forgotten_ms(day) <= host.now_ms() {
        return Ok(None);
    }
    ask(host, Some(day), CALL_MS_MAX).await?;
    Ok(known_salt(host, day))
}

/// Asks for what a body may need and is not cached: the key of names, which is returned, and the salt of a day. Lines
/// that need a missing one are refused.
pub async fn prepare(host: &Host, day: Option<i64>) -> Option<Rc<HashKey>> {
    let known = || with(host, |known| known.names.clone());
    let is_missing = known().is_none() || day.is_some_and(|day| known_salt(host, day).is_none());
    let is_paused = with(host, |known| known.refresh.is_paused(host.now_ms()));
    if is_missing && !is_paused {
        let _ = ask(host, day, REFRESH_MS_MAX).await;
    }
    known()
}

/// Rotates the hash key of elements. Returns the identities of the old and the new one.
///
/// # Errors
/// `hash-key-set` where the key is a variable, `unavailable`.
pub async fn rotate(host: &Host) -> Result<(HashId, HashId), Problem> {
    if set_key(host)?.is_some() {
        let detail = format!("{HASH_KEY} sets the key; change or remove it, and deploy");
        return Err(Problem::new(Code::HashKeySet, detail));
    }
    ask(host, None, CALL_MS_MAX).await?;
    let before = kept(host)?.id;
    let requested_ms = host.now_ms();
    let answer = call(host, &RotateKey { from: before }).await;
    cache_answer(host, answer, requested_ms)?;
    Ok((before, kept(host)?.id))
}

fn parse_hash_key(digits: &str) -> Result<[u8; 16], Problem> {
    settings::check(HASH_KEY, digits)?;
    let key = u128::from_str_radix(digits, 16).map(u128::to_be_bytes);
    key.map_err(|_| Problem::new(Code::NotConfigured, HASH_KEY))
}
