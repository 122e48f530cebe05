//! `/metrics`: the numbers of the edge isolate that answers, with those of the aggregator.

use super::respond::Answer;
use super::visit::Visit;
use crate::platform::{call_within, measure};
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
pub async fn metrics(visit: &Visit) -> Result<Answer, Problem> {
    Query::parse(visit.query(), &[])?;
    let snapshot = {
        let _waiting = visit.waiting();
        call_within(&visit.host, &Measure {}, AGGREGATOR_MS_MAX).await
    };
    let text = measure::render(&visit.host, snapshot.ok().as_ref());
    Ok(Answer::text(text).of_type(CONTENT_TYPE))
}
