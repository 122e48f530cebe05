//! Keys made by calls: making, changing and revoking them, and identifying their holders.
//!
//! Invariants: a revoked key is valid nowhere for longer than [`KEY_USABLE_MS`] while the directory answers, and never
//! for longer than [`KEY_STALE_MS_MAX`]. Whether a key exists is never guessed. An invented token costs no call,
//! because its tag is wrong.

use std::cell::Cell;
use std::rc::Rc;

use futures_util::future::FutureExt;

use super::audit;
use super::givers::{giver_ended, part_full};
use super::key_budget;
use super::shares;
use crate::kit::body;
use crate::kit::hash_keys::name_key;
use crate::kit::request_context::RequestContext;
use crate::kit::respond::Answer;
use crate::kit::shared_reads::{DIRECTORY_READ, SharedReads};
use tally_api::access::Caller;
use tally_api::api_key::{KeyChange, key_json, keys_json, parse_change, parse_rotation};
use tally_api::public::revoked_key_json;
use tally_api::query::{LIST_LIMIT, Query, wrong_cursor};
use tally_api::routes::Subject;
use tally_core::isolate::shared_read::{ReadRule, ReadValue};
use tally_core::order::in_order;
use tally_core::sketch::HashKey;
use tally_host::{Host, State};
use tally_shared::call;
use tally_shared::partitions::ask_some;
use tally_wire::messages::{
    EffectiveKeys, EndAlerts, Fault, FindApiKey, ListKeys, MakeKey, ReplaceKey, RevokeKey, UseKey,
};
use tally_wire::names::DIRECTORY_PARTITIONS;
use tally_wire::names::alert::AlertName;
use tally_wire::problem::{Code, Problem};
use tally_wire::rights::{
    ApiKey, Digest, HeldKey, KEY_DEPTH_MAX, KEYS_MAX, KeyId, KeyMade, KeyToken, SECRET_BYTES,
    Scope, make_token,
};

/// The age from which a cached key is used only after a refresh, milliseconds. So a revoked key ends within this time
/// while the directory answers.
pub const KEY_USABLE_MS: i64 = 30_000;

/// The age up to which a cached key is used while the directory does not answer, milliseconds.
pub const KEY_STALE_MS_MAX: i64 = 900_000;

/// The ages of a key.
const KEY_AGES: ReadRule = ReadRule {
    fresh_ms: 10_000,
    usable_ms: KEY_USABLE_MS,
    stale_ms: KEY_STALE_MS_MAX,
    ..DIRECTORY_READ
};

/// How long an isolate does not ask for the secret of tokens after it was not answered, milliseconds.
const PAUSE_MS: i64 = 1_000;

/// The most keys that an isolate caches, also unknown ones: 2,048 of at most 2.6 KB are 5.3 MB.
const KNOWN_MAX: usize = 2_048;

/// The most attempts of a change that conflicts with others.
const TRIES: u32 = 3;

/// The keys of this isolate, by their ids and secrets: a new secret is looked up at once.
type KnownKeys = SharedReads<(KeyId, Digest), Option<HeldKey>, KNOWN_MAX>;

/// When the secret of tokens could not be read last.
#[derive(Default)]
struct SecretFailure(Cell<Option<i64>>);

impl State for SecretFailure {
    fn begin(_host: &Host) -> Self {
        Self::default()
    }
}

/// The key of that id, within the allowed age.
///
/// # Errors
/// `unavailable` where it is not cached and the directory does not answer.
async fn look_up(
    context: &RequestContext,
    id: KeyId,
    secret: Digest,
) -> Result<Option<HeldKey>, Problem> {
    let name = (id, secret);
    let look = KnownKeys::value(context, &name, &KEY_AGES, 0, |host| {
        let read = async move {
            let found = call::refresh(&host, &UseKey { id, secret }, DIRECTORY_READ.read_ms).await;
            found.map(ReadValue::Kept)
        };
        read.boxed_local()
    });
    match look.await {
        Ok(found) => Ok(found.value),
        Err(why) => Err(why.into_problem(|fault| unread(&fault))),
    }
}

fn unread(fault: &Fault) -> Problem {
    let detail = format!("the key cannot be looked up ({fault}); try again");
    Problem::new(Code::Unavailable, detail)
}

/// The deployment's secret that signs tokens. Invented tokens make an isolate ask for it at most once a second.
async fn names(host: &Host) -> Result<Rc<HashKey>, Problem> {
    let failure = host.state::<SecretFailure>();
    let is_recent = |failed_ms: i64| host.now_ms().abs_diff(failed_ms) < PAUSE_MS.unsigned_abs();
    if failure.0.get().is_some_and(is_recent) {
        let fault = Fault::Unavailable("the directory does not answer".to_owned());
        return Err(unread(&fault));
    }
    let names = name_key(host).await;
    if names.is_err() {
        failure.0.set(Some(host.now_ms()));
    }
    names
}

/// The caller with a token.
///
/// # Errors
/// `unauthorized` for one that was revoked, has ended or was never made here; `unavailable`.
pub async fn caller_of(context: &RequestContext, token: &KeyToken) -> Result<Caller, Problem> {
    let host = &context.host;
    let names = names(host).await?;
    let unknown = || {
        let detail = "this key was revoked, has ended, or was never made here; ask who administers the deployment for another";
        Problem::new(Code::Unauthorized, detail)
    };
    let (id, secret) = token.signed(&names).ok_or_else(unknown)?;
    let key = look_up(context, id, secret).await?;
    let now_ms = host.now_ms();
    let is_good =
        |HeldKey { key, .. }: &HeldKey| key.knows(&secret, now_ms) && !key.has_expired(now_ms);
    let held = key.filter(is_good);
    let held = held.ok_or_else(unknown)?;
    let access = context.access()?;
    Ok(Caller::of_held_key(id, &held, &access))
}

/// Whether a token is a configured key: those take precedence.
fn is_configured(context: &RequestContext, authorization: &str) -> bool {
    let now_ms = context.host.now_ms();
    context.access().is_ok_and(|access| {
        !access.is_open() && access.identify(Some(authorization), None, now_ms).is_ok()
    })
}

/// Identifies the caller of a request with a key that a call has made, and takes one from the key's budget.
///
/// # Errors
/// `unauthorized`, `unavailable`, `quota-exceeded`.
pub async fn identify(context: &RequestContext, authorization: &str) -> Result<(), Problem> {
    match KeyToken::of(authorization) {
        Some(token) if !is_configured(context, authorization) => {
            context.set_caller(caller_of(context, &token).await?);
        }
        _ => {
            let access = context.access();
            if !access.is_ok_and(|access| access.has_budgets()) {
                return Ok(());
            }
            let Ok(caller) = context.caller() else {
                return Ok(());
            };
            context.set_caller(caller);
        }
    }
    key_budget::spend(context, &context.caller()?, 1).await
}

/// Identifies the caller with a key that was not sent in the header; takes one from its budget.
///
/// # Errors
/// As [`identify`].
#[cfg_attr(
    not(feature = "redis"),
    expect(dead_code, reason = "connections of Redis name their keys")
)]
pub async fn identify_by(context: &RequestContext, key: &str) -> Result<Caller, Problem> {
    let authorization = ["Bearer ", key].concat();
    if KeyToken::parse(key).is_some() && !is_configured(context, &authorization) {
        identify(context, &authorization).await?;
        return context.caller();
    }
    let caller = context.caller_with_key(key)?;
    key_budget::spend(context, &caller, 1).await?;
    Ok(caller)
}

fn missing() -> Problem {
    let detail = "GET /keys lists the keys that exist";
    Problem::new(Code::KeyNotFound, detail)
}

/// A new token of a key, and its stored part.
async fn new_token(host: &Host, id: KeyId) -> Result<(String, Digest), Problem> {
    let names = name_key(host).await?;
    let secret: [u8; SECRET_BYTES] = host.secret()?;
    Ok(make_token(&names, id, &secret))
}

/// `POST /keys`.
///
/// # Errors
/// `invalid-json`, `unknown-field`, `invalid-body`, `forbidden`, `too-many-keys`, `unavailable`.
pub async fn make(context: &RequestContext, caller: &Caller) -> Result<Answer, Problem> {
    Query::parse(context.query(), &[])?;
    let host = &context.host;
    let body = body::read_small(context).await?;
    let change = parse_change(&body, host.now_ms())?;
    let id = KeyId(u64::from_le_bytes(host.secret()?));
    let (token, secret) = new_token(host, id).await?;
    let by = caller.holder().map_or("", |holder| &holder.name);
    let key = change.make(by, secret, host.now_ms())?;
    caller.may_give(&key)?;
    audit::about(context, &id.to_string());
    let gift = caller.gift();
    let make = MakeKey { id, key, gift };
    match audit::carry(context, &make).await? {
        KeyMade::Made => {}
        KeyMade::Full => {
            let detail = "revoke a key that is not used any more: DELETE /keys/{id}";
            return Err(Problem::new(Code::TooManyKeys, detail));
        }
        KeyMade::PartFull => {
            let what = part_full("keys", KEYS_MAX, "DELETE /keys/{id}");
            return Err(Problem::new(Code::TooManyKeys, what));
        }
        KeyMade::TooDeep => {
            let detail = format!(
                "your key is the {KEY_DEPTH_MAX}th of which each was made by the one before: have one above it make this key"
            );
            return Err(Problem::new(Code::Forbidden, detail));
        }
        KeyMade::GiverEnded => return Err(giver_ended()),
    }
    let json = key_json(id, &make.key, Some(&token), host.now_ms());
    Ok(Answer::json(json).with_status(201))
}

/// `GET /keys`: those whose rights are all within what the caller administers.
///
/// # Errors
/// `invalid-query`, `forbidden`, `unavailable`.
pub async fn list(context: &RequestContext, caller: &Caller) -> Result<Answer, Problem> {
    let query = Query::parse(context.query(), &["cursor", "limit"])?;
    caller.may_somewhere(Scope::Admin, &[])?;
    let limit = query.limit()?;
    let after = query.get("cursor");
    let after = after.map(|text| KeyId::parse(text).map_or_else(wrong_cursor, Ok));
    let keys_max = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut keys = Vec::new();
    // One more than asked for shows whether there is another page.
    let mut list = ListKeys {
        after: after.transpose()?,
        limit: limit + 1,
    };
    // Filtered before the page is cut, so the cursor too is a key of the caller. There are at most `KEYS_MAX` keys.
    while keys.len() <= keys_max {
        let listed = call(&context.host, &list).await?;
        let is_last = u32::try_from(listed.len()).is_ok_and(|count| count < list.limit);
        list = ListKeys {
            after: listed.last().map(|(id, _)| *id),
            limit: LIST_LIMIT.1,
        };
        let is_seen = |(_, key): &(KeyId, ApiKey)| caller.may_name(&Subject::Key(key)).is_ok();
        keys.extend(listed.into_iter().filter(is_seen));
        if is_last {
            break;
        }
    }
    let has_more = keys.len() > keys_max;
    keys.truncate(keys_max);
    let cursor = keys.last().filter(|_| has_more).map(|(id, _)| *id);
    let ids = keys.iter().map(|(id, _)| *id).collect();
    let keys = call(&context.host, &EffectiveKeys { ids }).await?;
    let json = keys_json(&keys, cursor, context.host.now_ms());
    Ok(Answer::json(json))
}

/// A key that the caller administers, or has made. Another key looks as if there were none: a refusal would name its
/// prefixes.
async fn own(context: &RequestContext, caller: &Caller, id: KeyId) -> Result<HeldKey, Problem> {
    caller.may_somewhere(Scope::Admin, &[])?;
    let key = call(&context.host, &FindApiKey { id }).await?;
    let is_own = |held: &HeldKey| {
        caller.may_name(&Subject::Key(&held.key)).is_ok() || caller.is_above(&held.inheritance)
    };
    key.filter(is_own).ok_or_else(missing)
}

/// A key that the caller may change or revoke: one that it administers, and that is not above its own.
///
/// # Errors
/// `key-not-found`; `forbidden` for a key above the caller's, which would end or lose rights by what it gave away.
async fn own_to_change(
    context: &RequestContext,
    caller: &Caller,
    id: KeyId,
) -> Result<HeldKey, Problem> {
    let held = own(context, caller, id).await?;
    if caller.is_below(id) {
        let detail = format!(
            "key {id} is above your own, which it or a key below it has made: \
             change it by that key, by a key above it, or by a key of TALLY_KEYS"
        );
        return Err(Problem::new(Code::Forbidden, detail));
    }
    Ok(held)
}

/// `GET /keys/{id}`.
///
/// # Errors
/// `key-not-found`, `forbidden`, `unavailable`.
pub async fn get(context: &RequestContext, caller: &Caller, id: KeyId) -> Result<Answer, Problem> {
    Query::parse(context.query(), &[])?;
    own(context, caller, id).await?;
    let key = effective(context, id).await?;
    let json = key_json(id, &key, None, context.host.now_ms());
    Ok(Answer::json(json))
}

/// A key with the end and the rights that the keys above it leave.
async fn effective(context: &RequestContext, id: KeyId) -> Result<ApiKey, Problem> {
    let keys = call(&context.host, &EffectiveKeys { ids: vec![id] }).await?;
    let key = keys.into_iter().next();
    key.map(|(_, key)| key).ok_or_else(missing)
}

/// Changes the present key, also if others change it at the same time.
async fn replace(
    context: &RequestContext,
    caller: &Caller,
    id: KeyId,
    change: impl Fn(&HeldKey) -> Result<ApiKey, Problem>,
) -> Result<ApiKey, Problem> {
    for _ in 0..TRIES {
        // Decided by the key that is replaced: it may have been changed meanwhile.
        let key = change(&own_to_change(context, caller, id).await?)?;
        caller.may_give(&key)?;
        let replace = ReplaceKey { id, key };
        if audit::carry(context, &replace).await? {
            forget(&context.host, id);
            return Ok(replace.key);
        }
    }
    let detail = "others change this key at the same time; nothing was changed, try again";
    Err(Problem::new(Code::Overloaded, detail))
}

/// `PATCH /keys/{id}`.
///
/// # Errors
/// As [`make`], and `key-not-found`.
pub async fn change(
    context: &RequestContext,
    caller: &Caller,
    id: KeyId,
) -> Result<Answer, Problem> {
    Query::parse(context.query(), &[])?;
    let body = body::read_small(context).await?;
    let change: KeyChange = parse_change(&body, context.host.now_ms())?;
    let changed = replace(context, caller, id, |held| {
        let mut changed = held.key.clone();
        change.apply(&mut changed);
        // What a key gives away ends with it: rights that it adds to a key that is not below it would not.
        if !caller.may_rotate(id, &held.inheritance) && !changed.is_within(&held.key) {
            let detail = "only keys above this key, and keys of TALLY_KEYS without an end and a budget, may give it more: \
                make another key instead, POST /keys";
            return Err(Problem::new(Code::Forbidden, detail));
        }
        Ok(changed)
    })
    .await?;
    // The change is stored, whether or not it can be read again.
    let key = effective(context, id).await.unwrap_or(changed);
    let json = key_json(id, &key, None, context.host.now_ms());
    Ok(Answer::json(json))
}

/// `POST /keys/{id}/rotate`: makes a new secret. The former one stays valid for a while.
///
/// # Errors
/// As [`change`].
pub async fn rotate(
    context: &RequestContext,
    caller: &Caller,
    id: KeyId,
) -> Result<Answer, Problem> {
    Query::parse(context.query(), &[])?;
    let host = &context.host;
    let keep_ms = parse_rotation(&body::read_small(context).await?)?;
    let HeldKey { inheritance, .. } = own(context, caller, id).await?;
    if !caller.may_rotate(id, &inheritance) {
        let detail = "only the key itself, keys above it, and keys of TALLY_KEYS without an end and a budget get its secret: make another key instead, POST /keys";
        return Err(Problem::new(Code::Forbidden, detail));
    }
    let (token, secret) = new_token(host, id).await?;
    let now_ms = host.now_ms();
    let key = replace(context, caller, id, |held| {
        let mut key = held.key.clone();
        key.rotate(secret, keep_ms, now_ms);
        Ok(key)
    })
    .await?;
    let key = effective(context, id).await.unwrap_or(key);
    let json = key_json(id, &key, Some(&token), now_ms);
    Ok(Answer::json(json))
}

/// `DELETE /keys/{id}`.
///
/// # Errors
/// `key-not-found`, `forbidden`, `unavailable`.
pub async fn revoke(
    context: &RequestContext,
    caller: &Caller,
    id: KeyId,
) -> Result<Answer, Problem> {
    Query::parse(context.query(), &[])?;
    own_to_change(context, caller, id).await?;
    let host = &context.host;
    let of = caller.admin_rights();
    let revoke = RevokeKey { id, of: of.clone() };
    let mut revoked = audit::carry(context, &revoke).await?;
    forget(host, id);
    for (share, _) in &revoked.shares {
        shares::host_forgets(host, *share);
    }
    // The answer names nothing that the caller does not administer: the key may once have had other prefixes.
    revoked.shares.retain(|(_, prefix)| of.cover_prefix(prefix));
    let below = revoked.keys.iter().map(|(below, _)| *below);
    let below = below.chain(revoked.others.iter().copied());
    let givers: Vec<KeyId> = [id].into_iter().chain(below).collect();
    // What is not reached ends by itself: a partition looks for the key before it measures an alert.
    let ended = ask_some(host, 0..DIRECTORY_PARTITIONS, |partition| EndAlerts {
        partition,
        givers: givers.clone(),
        of: of.clone(),
    })
    .await;
    let alerts = ended.answers.into_iter().flat_map(|(_, names)| names);
    let alerts: Vec<AlertName> = in_order(alerts.collect(), AlertName::cmp);
    let json = revoked_key_json(id, &revoked, &alerts, &ended.missing);
    Ok(Answer::json(json))
}

/// This isolate reads the changed key at once, and those below it.
fn forget(host: &Host, id: KeyId) {
    let is_of = |held: &Option<HeldKey>| {
        held.as_ref()
            .is_some_and(|held| held.inheritance.above.contains(&id))
    };
    KnownKeys::with(host, |keys| {
        keys.forget_keys(|(known, _)| *known == id);
        keys.forget_where(is_of);
    });
    shares::forget_below(host, id);
}
