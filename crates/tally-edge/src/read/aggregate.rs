//! Sums and histories of all counters with a prefix.

use super::gathered::{ManyAnswer, ManyQuestion, gather, mixed_up};
use crate::kit::request_context::RequestContext;
use crate::kit::respond::Answer;
use tally_api::public::{
    aggregate_json, prefix_breakdown_json, prefix_history_json, prefix_value_json,
};
use tally_api::query::Query;
use tally_core::isolate::views::VIEW_MS_MAX;
use tally_wire::messages::{Aggregate, SumMany};
use tally_wire::problem::Problem;

/// How old a shared sum may be: as any default read.
const SHARED_MS_MAX: i64 = VIEW_MS_MAX;

/// `GET /counters/{prefix}*/aggregate`.
///
/// # Errors
/// `too-many-counters`, `invalid-query`, `quota-exceeded`, `unavailable`.
pub async fn aggregate(context: &RequestContext, prefix: String) -> Result<Answer, Problem> {
    let query = Query::parse(context.query(), &["numbers", "consistency"])?;
    let strings = query.numbers_as_strings()?;
    let is_strong = query.is_strong()?;
    let request = SumMany {
        prefix: prefix.clone(),
        is_strong,
        ..SumMany::default()
    };
    let (gathered, is_own) = sum(context, request, is_strong).await?;
    let now_ms = context.host.now_ms();
    Ok(Answer::json(aggregate_json(
        &gathered, &prefix, is_own, now_ms, strings,
    )))
}

/// `GET /counters/{prefix}*/aggregate/history`.
///
/// # Errors
/// As [`aggregate`], and `range-too-large`.
pub async fn history(context: &RequestContext, prefix: String) -> Result<Answer, Problem> {
    let known = [
        "from",
        "to",
        "step",
        "consistency",
        "datacenter",
        "numbers",
        "zeros",
        "top",
    ];
    let query = Query::parse(context.query(), &known)?;
    let range = query.history(context.host.now_ms().div_euclid(1_000))?;
    let format = query.history_format()?;
    let is_strong = query.is_strong()?;
    let request = SumMany {
        prefix: prefix.clone(),
        datacenter: query.datacenter()?,
        history: Some(range),
        top: query.history_top()?,
        is_strong,
        ..SumMany::default()
    };
    let (gathered, is_own) = sum(context, request, is_strong).await?;
    let now_ms = context.host.now_ms();
    let json = prefix_history_json(&gathered, &prefix, range, is_own, now_ms, format);
    Ok(Answer::json(json))
}

/// `GET /counters/{prefix}*/aggregate/breakdown`.
///
/// # Errors
/// As [`aggregate`].
pub async fn breakdown(context: &RequestContext, prefix: String) -> Result<Answer, Problem> {
    let query = Query::parse_breakdown(context.query(), &["value"])?;
    let selection = query.breakdown(context.host.now_ms().div_euclid(1_000))?;
    let strings = query.numbers_as_strings()?;
    let value = query.breakdown_value()?;
    let wanted = selection.wanted();
    let is_strong = query.is_strong()?;
    let many = SumMany {
        prefix: prefix.clone(),
        datacenter: query.datacenter()?,
        history: wanted.history,
        by: Some(selection.by),
        top: match value {
            Some(_) => u32::try_from(selection.limit).unwrap_or(u32::MAX),
            None => 0,
        },
        value: value.clone(),
        window: selection.window,
        is_strong,
        ..SumMany::default()
    };
    let (gathered, is_own) = sum(context, many, is_strong).await?;
    let now_ms = context.host.now_ms();
    let json = match value {
        Some(_) => prefix_value_json(&gathered, &prefix, &selection, is_own, now_ms, strings),
        None => prefix_breakdown_json(&gathered, &prefix, &selection, is_own, now_ms, strings),
    };
    Ok(Answer::json(json))
}

async fn sum(
    context: &RequestContext,
    request: SumMany,
    is_strong: bool,
) -> Result<(Aggregate, bool), Problem> {
    let shared_ms = (!is_strong).then_some(SHARED_MS_MAX);
    let found = gather(context, ManyQuestion::Sum(request), shared_ms).await?;
    match &*found.gathered {
        ManyAnswer::Sum(sum) => Ok((sum.clone(), found.is_own)),
        ManyAnswer::Top(..) => Err(mixed_up()),
    }
}
