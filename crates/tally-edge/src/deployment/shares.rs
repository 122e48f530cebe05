//! Shares: keys for reading one prefix. Making, listing and revoking them, and identifying their holders.
//!
//! Invariant: a revoked share is valid for no call after [`SHARE_MS_MAX`], and its streams end within
//! [`SHARE_STREAM_MS_MAX`] of their beginning. Whether a share exists is never guessed.

use futures_util::future::FutureExt;

use super::audit;
use super::givers::{giver_ended, part_full};
use super::key_budget;
use crate::kit::body;
use crate::kit::hash_keys::name_key;
use crate::kit::request_context::RequestContext;
use crate::kit::respond::Answer;
use crate::kit::shared_reads::{DIRECTORY_READ, SharedReads};
use tally_api::access::Caller;
use tally_api::live::{KEY_STREAM_MS_MAX, SHARE_STREAM_MS_MAX};
use tally_api::public::revoked_json;
use tally_api::query::{ListPage, PagedList, Query};
use tally_api::routes::Subject;
use tally_api::share::{parse_share, share_json, shares_json};
use tally_core::isolate::shared_read::{ReadRule, ReadValue};
use tally_core::order::put_in_order;
use tally_host::Host;
use tally_shared::call;
use tally_wire::messages::{DeleteShare, GetShare, ListShares, PutShare, SharePut};
use tally_wire::problem::{Code, Problem};
use tally_wire::rights::{HeldShare, KeyId, SHARES_MAX, Scope, Share, ShareId, ShareToken};

/// How long an isolate uses a cached share while the directory does not answer, milliseconds: a revoked share ends
/// within this time.
pub const SHARE_MS_MAX: i64 = 60_000;

/// The ages of a share.
const SHARE_AGES: ReadRule = ReadRule {
    fresh_ms: 10_000,
    usable_ms: 30_000,
    stale_ms: SHARE_MS_MAX,
    ..DIRECTORY_READ
};

/// The most shares that an isolate caches: 1,024 of at most 700 bytes.
const KNOWN_MAX: usize = 1_024;

/// The shares of this isolate.
type KnownShares = SharedReads<ShareId, Option<HeldShare>, KNOWN_MAX>;

async fn look_up(context: &RequestContext, id: ShareId) -> Result<Option<HeldShare>, Problem> {
    let look = KnownShares::value(context, &id, &SHARE_AGES, 0, |host| {
        let read = async move {
            let found = call::refresh(&host, &GetShare { id }, DIRECTORY_READ.read_ms).await;
            found.map(ReadValue::Kept)
        };
        read.boxed_local()
    });
    let unread = |fault| {
        let detail = format!("the share cannot be looked up ({fault}); try again");
        Problem::new(Code::Unavailable, detail)
    };
    match look.await {
        Ok(found) => Ok(found.value),
        Err(why) => Err(why.into_problem(unread)),
    }
}

/// Identifies the caller of a request with a share, and takes one from the budgets of the keys above it. Returns
/// whether there was a share.
///
/// # Errors
/// `unauthorized` for one that was revoked, has expired or was never made here; `unavailable`, `quota-exceeded`.
pub async fn identify(context: &RequestContext, authorization: &str) -> Result<bool, Problem> {
    let Some(share) = share_of(context, authorization).await? else {
        return Ok(false);
    };
    let caller = Caller::of_held_share(share);
    context.set_caller(caller.clone());
    key_budget::spend(context, &caller, 1).await?;
    Ok(true)
}

/// When a stream of the caller must end, unix milliseconds, if it has a share, or a key that ends or may be revoked.
///
/// # Errors
/// As [`identify`].
#[cfg_attr(
    not(feature = "live"),
    expect(dead_code, reason = "streams end with their share")
)]
pub async fn stream_ends_ms(
    context: &RequestContext,
    caller: &Caller,
) -> Result<Option<i64>, Problem> {
    let now_ms = context.host.now_ms();
    if let Some(holder) = caller.holder() {
        let revocable_ms = holder.id.map(|_| now_ms.saturating_add(KEY_STREAM_MS_MAX));
        return Ok([holder.expires_ms, revocable_ms]
            .into_iter()
            .flatten()
            .min());
    }
    let authorization = context.header("authorization").unwrap_or_default();
    let share = share_of(context, &authorization).await?;
    let latest_ms = now_ms.saturating_add(SHARE_STREAM_MS_MAX);
    let ends_ms = |held: HeldShare| held.share.expires_ms.unwrap_or(latest_ms).min(latest_ms);
    Ok(share.map(ends_ms))
}

async fn share_of(
    context: &RequestContext,
    authorization: &str,
) -> Result<Option<HeldShare>, Problem> {
    let Some(token) = ShareToken::of(authorization) else {
        return Ok(None);
    };
    let names = name_key(&context.host).await?;
    let share = match token.signed(&names) {
        Some(id) => look_up(context, id).await?,
        None => None,
    };
    let share = share.filter(|held| !held.share.has_expired(context.host.now_ms()));
    let share = share.ok_or_else(|| {
        let detail =
            "this share was revoked, has expired, or is of another deployment; ask for a new link";
        Problem::new(Code::Unauthorized, detail)
    })?;
    Ok(Some(share))
}

/// `POST /shares`.
///
/// # Errors
/// `invalid-json`, `unknown-field`, `invalid-body`, `forbidden`, `too-many-shares`, `unavailable`.
pub async fn create(context: &RequestContext, caller: &Caller) -> Result<Answer, Problem> {
    Query::parse(context.query(), &[])?;
    let body = body::read_small(context).await?;
    let mut share = parse_share(&body, context.host.now_ms())?;
    caller.may_name(&Subject::Share(&share.prefix))?;
    end_with(caller, &mut share)?;
    let names = name_key(&context.host).await?;
    let gift = caller.gift();
    let put = PutShare { share, gift };
    audit::about(context, &put.share.prefix);
    let id = match audit::carry(context, &put).await? {
        SharePut::Made(id) => id,
        SharePut::Full => {
            let detail = "revoke a share that is not used any more: DELETE /shares/{id}";
            return Err(Problem::new(Code::TooManyShares, detail));
        }
        SharePut::PartFull => {
            let what = part_full("shares", SHARES_MAX, "DELETE /shares/{id}");
            return Err(Problem::new(Code::TooManyShares, what));
        }
        SharePut::GiverEnded => return Err(giver_ended()),
    };
    Ok(Answer::json(share_json(&names, id, &put.share)).with_status(201))
}

/// A share ends with the key that gives it.
///
/// # Errors
/// `forbidden` where the body has a later end.
fn end_with(caller: &Caller, share: &mut Share) -> Result<(), Problem> {
    let Some(end_ms) = caller.holder().and_then(|holder| holder.expires_ms) else {
        return Ok(());
    };
    if share.expires_ms.is_some_and(|own_ms| own_ms > end_ms) {
        let detail = format!(
            "your own key ends at unix second {}: send a shorter expires_in_seconds, or none",
            end_ms.div_euclid(1_000)
        );
        return Err(Problem::new(Code::Forbidden, detail));
    }
    share.expires_ms.get_or_insert(end_ms);
    Ok(())
}

/// `GET /shares`: those of prefixes that the caller administers.
///
/// # Errors
/// `forbidden`, `unavailable`.
pub async fn list(context: &RequestContext, caller: &Caller) -> Result<Answer, Problem> {
    let page = ListPage::parse(PagedList::Shares, context.query())?;
    caller.may_somewhere(Scope::Admin, &[])?;
    let names = name_key(&context.host).await?;
    let shares = call(&context.host, &ListShares).await?;
    let mut shares: Vec<(ShareId, Share, bool)> = shares
        .into_iter()
        .filter(|(_, held)| {
            let subject = Subject::Share(&held.share.prefix);
            caller.may_name(&subject).is_ok()
        })
        .map(|(id, held)| {
            // Otherwise a key about to end would go on by the share of another.
            let has_token = caller.may_have_secrets(&held.inheritance);
            (id, held.share, has_token)
        })
        .collect();
    put_in_order(&mut shares, |(id, one, _), (other_id, other, _)| {
        (one.created_ms, id.to_string()).cmp(&(other.created_ms, other_id.to_string()))
    });
    Ok(Answer::json(shares_json(&names, &shares, &page)))
}

/// `DELETE /shares/{id}`.
///
/// # Errors
/// `share-not-found`, `forbidden`, `unavailable`.
pub async fn revoke(
    context: &RequestContext,
    caller: &Caller,
    id: ShareId,
) -> Result<Answer, Problem> {
    Query::parse(context.query(), &[])?;
    caller.may_somewhere(Scope::Admin, &[])?;
    let missing = || {
        Problem::new(
            Code::ShareNotFound,
            "GET /shares lists the shares that exist",
        )
    };
    let share = call(&context.host, &GetShare { id }).await?;
    // The refusal of another's share would name its prefix.
    share
        .filter(|held| {
            let subject = Subject::Share(&held.share.prefix);
            caller.may_name(&subject).is_ok()
        })
        .ok_or_else(missing)?;
    audit::carry(context, &DeleteShare { id }).await?;
    host_forgets(&context.host, id);
    Ok(Answer::json(revoked_json(&id.to_string())))
}

/// Removes a share from the cache of this isolate, so that it ends here at once.
pub(super) fn host_forgets(host: &Host, id: ShareId) {
    KnownShares::with(host, |shares| shares.forget_keys(|known| *known == id));
}

/// This isolate reads the shares below a changed key at once.
pub(super) fn forget_below(host: &Host, id: KeyId) {
    let is_below = |held: &Option<HeldShare>| {
        held.as_ref()
            .is_some_and(|held| held.inheritance.above.contains(&id))
    };
    KnownShares::with(host, |shares| shares.forget_where(is_below));
}
