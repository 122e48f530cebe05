//! What pages embed: the pixel for mail and for pages without scripts, hits by `GET`, and badges. The script is one of
//! the [`files`](super::files).
//!
//! Images send no `Origin`: the page is known by the `Referer`, if there is one.

use crate::kit::request_context::RequestContext;
use crate::kit::respond::Answer;
use crate::read::counter::see;
use crate::write::counter;
use tally_api::access::Caller;
use tally_api::badge::{Badge, FRESH_SECONDS, NONE_YET};
use tally_api::batch::event::UNIQUE_BYTES_MAX;
use tally_api::dimensions::parse_list;
use tally_api::public::SummedCounter;
use tally_api::query::{Query, Window};
use tally_api::routes::RouteName;
use tally_core::counter::dimensions::Dimensions;
use tally_core::counter::id::CounterId;
use tally_core::counter::total::Value;
use tally_wire::messages::Read;
use tally_wire::problem::{Code, Problem};
use tally_wire::rights::Scope;

/// One transparent point. Source: GIF89a specification, sections 17 to 27.
const PIXEL: &[u8] = b"GIF89a\x01\0\x01\0\x80\0\0\0\0\0\xff\xff\xff!\xf9\x04\x01\0\0\0\0,\0\0\0\0\x01\0\x01\0\0\x02\x02D\x01\0;";

/// A badge opened by itself is a document: it may load and run nothing.
const BADGE_POLICY: &str = "default-src 'none'; sandbox";

/// A hash of bytes, for entity tags: FNV-1a. Source: draft-eastlake-fnv, section 2.
fn tag_of(bytes: &[u8]) -> u64 {
    let hash = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, hash)
}

/// `GET /pixel/{id}.gif`: counts one, then answers with the image. `HEAD` counts nothing.
///
/// # Errors
/// As an increment: the answer to a failed one is no image, so that it does not pass for a counted one. A parameter
/// that does not fit is left out, and the view counts without it.
pub async fn pixel(
    context: &RequestContext,
    caller: &Caller,
    id: CounterId,
) -> Result<Answer, Problem> {
    let query = Query::of_image(context.query(), &["unique", "by"]);
    let unique = element(&query).unwrap_or_default();
    let dimensions = dimensions(context, &query).unwrap_or_default();
    if context.method() != "HEAD" {
        caller.may_write(id.as_str(), 1, &[])?;
        counter::one(context, id, unique, dimensions, None).await?;
    }
    Ok(Answer::bytes("image/gif", PIXEL).for_images())
}

/// `GET /hit/{id}`: counts one, then answers as an increment does. For pages that can use no other method. `HEAD`
/// counts nothing.
///
/// # Errors
/// As an increment.
pub async fn hit(
    context: &RequestContext,
    caller: &Caller,
    id: CounterId,
) -> Result<Answer, Problem> {
    let query = Query::parse_for(
        RouteName::Hit,
        context.query(),
        &["unique", "by", "numbers"],
    )?;
    let (unique, dimensions) = (element(&query)?, dimensions(context, &query)?);
    let strings = query.numbers_as_strings()?;
    if context.method() == "HEAD" {
        return Ok(Answer::json(String::new()));
    }
    caller.may_write(id.as_str(), 1, &[])?;
    counter::one(context, id, unique, dimensions, Some(strings)).await
}

/// The element that uniques are counted by.
fn element(query: &Query) -> Result<Option<String>, Problem> {
    let unique = query.get("unique");
    if unique.is_some_and(|unique| unique.is_empty() || unique.len() > UNIQUE_BYTES_MAX) {
        let detail = format!("unique has 1 to {UNIQUE_BYTES_MAX} bytes of UTF-8");
        return Err(Problem::new(Code::InvalidQuery, detail));
    }
    Ok(unique.map(str::to_owned))
}

/// What the query and the address of its page say for breakdowns.
fn dimensions(context: &RequestContext, query: &Query) -> Result<Dimensions, Problem> {
    match query.get("by") {
        Some(list) => parse_list(list, &context.header("referer").unwrap_or_default()),
        None => Ok(Dimensions::default()),
    }
}

/// Whether only some pages may show a badge, so that a shared cache must not serve it to others.
///
/// # Errors
/// As [`RequestContext::access`].
fn depends_on_page(context: &RequestContext, id: &CounterId) -> Result<bool, Problem> {
    let anybody = context
        .access()?
        .identify(None, None, context.host.now_ms());
    let may = anybody.and_then(|caller| caller.may(Scope::Read, id.as_str()));
    Ok(may.is_err())
}

/// `GET /badge/{id}.svg`. The badge of a counter that does not exist says so, with status 200, because image proxies
/// show no other status.
///
/// # Errors
/// `unavailable`.
pub async fn badge(
    context: &RequestContext,
    caller: &Caller,
    id: CounterId,
) -> Result<Answer, Problem> {
    let badge = Badge::parse(context.query());
    let by_page = caller.is_public() && depends_on_page(context, &id)?;
    let window = badge.window(context.host.now_ms().div_euclid(1_000));
    let question = Read {
        counter: id,
        datacenter: None,
        wanted: Window::wanted(window),
    };
    let waiting = context.waiting();
    let seen = see(context, &question, false).await?;
    drop(waiting);
    let view = seen
        .sum
        .as_ref()
        .map(|sum| SummedCounter::new(&question.counter, sum, seen.freshness));
    let text = match &view {
        Some(view) => {
            let value = match window {
                Some(_) => Value::new(view.window_count(), 0),
                None => view.value(),
            };
            badge.text_of(&value.to_string())
        }
        None => NONE_YET.to_owned(),
    };
    let svg = badge.draw(&text);
    let tag = format!("\"{:016x}\"", tag_of(svg.as_bytes()));
    // A badge read with a key must not be stored in shared caches.
    let whose = if caller.is_public() {
        "public"
    } else {
        "private"
    };
    let answer = Answer::text(svg)
        .of_type("image/svg+xml")
        .tagged(tag)
        .cached(format!("{whose}, max-age={FRESH_SECONDS}"))
        .with_header("content-security-policy", BADGE_POLICY.to_owned())
        .for_images();
    let answer = match by_page {
        true => answer.with_header("vary", "Referer".to_owned()),
        false => answer,
    };
    Ok(match view {
        Some(view) => answer.fresh(view.is_exact(), view.as_of_ms(), view.staleness_ms()),
        None => answer,
    })
}
