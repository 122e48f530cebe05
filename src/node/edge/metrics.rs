//! `/metrics`: the numbers of the edge isolate that answers, with those of the aggregator.

use super::request_context::RequestContext;
use super::respond::Answer;
use crate::node::shared::{call_within, metrics};
use crate::protocol::messages::Measure;
use crate::protocol::metrics::CONTENT_TYPE;
use crate::protocol::problem::Problem;
use crate::protocol::query::Query;

/// How long the aggregator may take; a scraper waits 10 s by default, and its own numbers are worth more.
const AGGREGATOR_MS_MAX: u64 = 2_000;

/// `GET /metrics`.
///
/// # Errors
/// `invalid-query`.
pub async fn metrics(context: &RequestContext) -> Result<Answer, Problem> {
    Query::parse(context.query(), &[])?;
    let snapshot = {
        let _waiting = context.waiting();
        call_within(&context.host, &Measure {}, AGGREGATOR_MS_MAX).await
    };
    let text = metrics::render(&context.host, snapshot.ok().as_ref());
    Ok(Answer::text(text).of_type(CONTENT_TYPE))
}
