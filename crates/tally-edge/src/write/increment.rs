//! One increment or decrement: read, and checked as far as that is possible without calls.

use super::unique_elements::{Unique, unique_of};
use crate::kit::body;
use crate::kit::request_context::RequestContext;
use crate::kit::request_key::RequestKey;
use tally_api::access::{Caller, Permission};
use tally_api::batch::by::Actor;
use tally_api::batch::event::{IncrementBody, parse_increment};
use tally_api::batch::gather::skew_of;
use tally_api::dimensions;
use tally_api::idempotency_keys::parse_if_match;
use tally_api::metrics::Metric;
use tally_core::counter::dimensions::{DimensionLog, Dimensions, Stamp};
use tally_core::counter::id::CounterId;
use tally_core::counter::samples::Samples;
use tally_core::sketch::Histogram;
use tally_host::Host;
use tally_shared::metrics;
use tally_wire::messages::OperationCondition;
use tally_wire::problem::{Code, Problem};

/// The write of a client.
pub struct Write {
    /// Its body.
    pub body: IncrementBody,
    /// Its element.
    pub unique: Option<Unique>,
    /// Whether it is an increment.
    pub adds: bool,
    /// Unix second.
    pub second: i64,
    /// Its idempotency key, and the hash of its request.
    pub key: Option<(RequestKey, u64)>,
    /// Its precondition.
    pub condition: Option<OperationCondition>,
    /// Why it may not be counted now, if its time is out of range: a write with a key is answered if it was counted
    /// before.
    pub skewed: Option<Problem>,
}

impl Write {
    /// Reads a write; `None` for one of a bot, which is ignored. `strings` is the value of its query.
    ///
    /// # Errors
    /// Why it may not be counted.
    pub async fn read(
        context: &RequestContext,
        caller: &Caller,
        id: &CounterId,
        (adds, strings): (bool, bool),
    ) -> Result<Option<Self>, Problem> {
        let bytes = body::read_small(context).await?;
        let mut body = parse_increment(&bytes)?;
        fill_in(context, &mut body);
        if !adds && body.sample.is_some() {
            let detail = "a sample goes with an increment; leave it out of a decrement";
            return Err(Problem::new(Code::InvalidBody, detail));
        }
        if !adds && !body.dimensions.is_empty() {
            let detail = "`by` goes with an increment: breakdowns are of what was added; leave it out of a decrement";
            return Err(Problem::new(Code::InvalidBody, detail));
        }
        if !adds && body.ttl_if_new.is_some() {
            let detail = "`ttl_seconds` goes with an increment; leave it out of a decrement";
            return Err(Problem::new(Code::InvalidBody, detail));
        }
        let if_match = context.precondition()?;
        if caller.is_public() {
            let mut needs = needs(adds, body.at_ms.is_some(), if_match.is_some());
            needs.extend(body.ttl_if_new.map(|_| Permission::Ttl));
            caller.may_write(id.as_str(), body.delta, &needs)?;
        }
        let key = RequestKey::of(context, caller).await?;
        let condition = if_match.as_deref().map(parse_if_match).transpose()?;
        if is_ignored(context, &body) {
            return Ok(None);
        }
        let unique = unique_of(context, &body)?;
        let (at_ms, skewed) = stamp_ms(&context.host, body.at_ms);
        if let Some(problem) = skewed.as_ref().filter(|_| key.is_none()) {
            return Err(problem.clone());
        }
        Ok(Some(Self {
            body,
            unique,
            adds,
            second: at_ms.div_euclid(1_000),
            key: key.map(|key| {
                let call: &[u8] = if adds { b"increment" } else { b"decrement" };
                let hash = key.request_hash(&[call, &[u8::from(strings)]], &bytes);
                (key, hash)
            }),
            condition,
            skewed,
        }))
    }

    /// An increment by one, with this element if there is one; `None` for one of a bot. An image has no element if the
    /// address of its visitor is not known.
    ///
    /// # Errors
    /// `no-client-address`, not of an image.
    pub fn one(
        context: &RequestContext,
        unique: Option<String>,
        dimensions: Dimensions,
        is_image: bool,
    ) -> Result<Option<Self>, Problem> {
        let mut body = IncrementBody {
            delta: 1,
            by: Actor::of_unique(unique.as_deref()),
            unique,
            at_ms: None,
            sample: None,
            dimensions,
            ttl_if_new: None,
        };
        fill_in(context, &mut body);
        if is_ignored(context, &body) {
            return Ok(None);
        }
        let unique = match unique_of(context, &body) {
            Err(_) if is_image => None,
            known => known?,
        };
        Ok(Some(Self {
            unique,
            body,
            adds: true,
            second: context.host.now_ms().div_euclid(1_000),
            key: None,
            condition: None,
            skewed: None,
        }))
    }

    /// Its dimensions, in the form of loads.
    pub fn dimensions(&self) -> DimensionLog {
        let mut log = DimensionLog::default();
        let stamp = Stamp::Live(self.second);
        log.push(stamp, self.body.delta, self.body.dimensions.iter());
        log
    }

    /// Its sample, in the form of loads.
    pub fn samples(&self) -> Samples {
        let sample = self.body.sample.map(Histogram::of);
        sample.map(|one| (self.second, one)).into_iter().collect()
    }
}

/// Replaces `auto` by what the request says.
fn fill_in(context: &RequestContext, body: &mut IncrementBody) {
    if body.dimensions.is_empty() {
        return;
    }
    let country = || context.request.country();
    let own = body.by.user_agent.as_deref().map(str::to_owned);
    let user_agent = || own.or_else(|| context.header("user-agent"));
    dimensions::fill_in(&mut body.dimensions, country, user_agent);
}

/// The permissions that a write needs, in addition to the right to increment now and without a key.
fn needs(adds: bool, has_time: bool, has_condition: bool) -> Vec<Permission> {
    let needs = [
        (Permission::Decrement, !adds),
        (Permission::At, has_time),
        (Permission::IfMatch, has_condition),
    ];
    let needed = needs.into_iter().filter(|(_, is_needed)| *is_needed);
    needed.map(|(need, _)| need).collect()
}

/// Whether a write is ignored because a bot sent it. An ignored write is counted in the metrics.
fn is_ignored(context: &RequestContext, body: &IncrementBody) -> bool {
    let is_ignored = body.by.is_ignored(|| context.header("user-agent"));
    if is_ignored {
        metrics::count(&context.host, Metric::BotIgnored);
    }
    is_ignored
}

/// The time of a write, the client's own if there is one; and the problem if it is too far from ours.
fn stamp_ms(host: &Host, given_ms: Option<i64>) -> (i64, Option<Problem>) {
    let now_ms = host.now_ms();
    let at_ms = given_ms.unwrap_or(now_ms);
    (at_ms, skew_of(at_ms, now_ms))
}
