//! `/live`: the edge finds a hub near the watcher, and forwards its stream.
//!
//! Invariant: a watcher is passed to a hub only after it has the right to read all that it names.

use std::cell::Cell;

use crate::deployment::shares;
use crate::kit::hash_keys::name_key;
use crate::kit::request_context::RequestContext;
use crate::kit::respond::{self, Answer};
use tally_api::live::client_message::{parse_topics, resumes};
use tally_api::live::{HUBS_MAX, PREFIXES_BYTES_MAX, VISITOR_COUNTERS_MAX, VISITOR_STREAMS_MAX};
use tally_api::routes::{RouteName, not_shared};
use tally_core::cluster::region::location_hint;
use tally_core::sketch::hash;
use tally_host::http::Response;
use tally_host::{Host, State, Stream};
use tally_shared::call;
use tally_wire::live::topic::Topic;
use tally_wire::messages::Join;
use tally_wire::problem::{Code, Problem};
use tally_wire::rights::Scope;

/// How long an isolate uses the hub that it found, before it looks for room in earlier ones.
const FOUND_MS: u64 = 60_000;

/// How long an isolate refuses streams after all hubs of the region were full, milliseconds: finding that out took a
/// call to each.
const ALL_FULL_MS: u64 = 1_000;

/// Statuses of a hub that has begun a stream.
const SOCKET: u16 = 101;
const EVENTS: u16 = 200;

/// Status of a hub that is full.
const FULL: u16 = 503;

/// Status of a hub where the visitor has too many streams.
const SPENT: u16 = 429;

/// When a visitor with too many streams should try again, seconds.
const SPENT_SECONDS: u32 = 30;

/// What this isolate knows of hubs.
#[derive(Default)]
struct Hubs {
    /// The hub that had room last, its region, and when it was found. An isolate is nearly always asked from one
    /// region.
    found: Cell<(Option<&'static str>, u32, i64)>,
    /// When all hubs of a region were full, and that region.
    all_full: Cell<(Option<&'static str>, i64)>,
}

impl State for Hubs {
    fn begin(_host: &Host) -> Self {
        Self::default()
    }
}

/// `GET /live`.
pub async fn fetch(context: &RequestContext) -> Response {
    match open(context).await {
        Ok(Some(stream)) if stream.status == SOCKET => {
            respond::socket(context, RouteName::Live, stream)
        }
        Ok(stream) => respond::events(context, RouteName::Live, stream),
        Err(problem) => respond::respond(context, RouteName::Live, Answer::from(problem)),
    }
}

/// The hash that identifies a visitor in all isolates. A hub and the attachment of its socket have it while the stream
/// is open; it is not stored.
async fn visitor_of(context: &RequestContext) -> Result<Option<u64>, Problem> {
    if !context.is_visitor() {
        return Ok(None);
    }
    let key = name_key(&context.host).await?;
    Ok(Some(hash(&key, &context.address_bytes())))
}

fn spent() -> Problem {
    let detail = format!(
        "without a key an address has at most {VISITOR_STREAMS_MAX} streams open here, of at most {VISITOR_COUNTERS_MAX} counters \
         together; close some, or read the counters one by one"
    );
    Problem::new(Code::QuotaExceeded, detail).with_retry_after(SPENT_SECONDS)
}

/// The stream of a hub; `None` for `HEAD`.
async fn open(context: &RequestContext) -> Result<Option<Stream>, Problem> {
    let caller = context.caller()?;
    let (ids, as_strings) = parse_topics(context.query())?;
    for id in &ids {
        caller.may(Scope::Read, id.name().as_str())?;
        if caller.is_share() && matches!(id, Topic::Board(_)) {
            return Err(not_shared());
        }
    }
    // A possible upgrade to HTTP/2 does not concern this call.
    let upgrade = context
        .header("upgrade")
        .filter(|protocol| protocol != "h2c");
    if let Some(protocol) = &upgrade
        && !protocol.eq_ignore_ascii_case("websocket")
    {
        let detail = "this call can be upgraded to websocket alone; leave out Upgrade for server-sent events";
        return Err(Problem::new(Code::InvalidUpgrade, detail));
    }
    if context.method() == "HEAD" {
        return Ok(None);
    }
    // Each is read at once, also if it is watched already.
    let reads = u64::try_from(ids.len()).unwrap_or(u64::MAX);
    context.visitor().read(reads)?;
    let mut prefixes = caller.readable_prefixes();
    let mut bytes = 0;
    prefixes.retain(|prefix| {
        bytes += prefix.len() + 1;
        bytes <= PREFIXES_BYTES_MAX
    });
    let join = Join {
        datacenter: context.datacenter(),
        hub: 0,
        topics: ids,
        as_strings,
        resumes: resumes(context.header("last-event-id").as_deref()),
        prefixes,
        visitor: visitor_of(context).await?,
        ends_ms: shares::stream_ends_ms(context, &caller).await?,
    };
    join_hub(context, join, upgrade.as_deref()).await.map(Some)
}

/// Joins a hub of the visitor's region that has room.
///
/// # Errors
/// `overloaded`, `quota-exceeded`, `unavailable`.
async fn join_hub(
    context: &RequestContext,
    mut join: Join,
    upgrade: Option<&str>,
) -> Result<Stream, Problem> {
    let region = location_hint(&join.datacenter);
    let hubs = context.host.state::<Hubs>();
    let (found_region, first, found_ms) = hubs.found.get();
    let is_recent = found_region == region && context.host.now_ms().abs_diff(found_ms) < FOUND_MS;
    let first = if is_recent { first } else { 0 };
    let (full_region, full_ms) = hubs.all_full.get();
    let all_full = || {
        let detail = "all places for streams are taken; connect again later";
        Err(Problem::new(Code::Overloaded, detail))
    };
    if full_region == region && context.host.now_ms().abs_diff(full_ms) < ALL_FULL_MS {
        return all_full();
    }
    // Hubs before the found one may have room again.
    for number in (first..HUBS_MAX).chain(0..first) {
        join.hub = number;
        let stream = call::stream(&context.host, &join, upgrade).await;
        let stream = stream
            .map_err(|fault| Problem::new(Code::Unavailable, format!("{fault}; connect again")))?;
        match stream.status {
            FULL => continue,
            SOCKET | EVENTS => {}
            SPENT => return Err(spent()),
            _ => {
                let detail = "the hub of the stream has failed; connect again";
                return Err(Problem::new(Code::Unavailable, detail));
            }
        }
        if !is_recent || number != first {
            hubs.found.set((region, number, context.host.now_ms()));
        }
        return Ok(stream);
    }
    hubs.all_full.set((region, context.host.now_ms()));
    all_full()
}
