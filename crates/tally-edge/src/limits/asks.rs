//! What is asked of limiters: by lanes, which join the demands of an isolate, or alone.

use super::limiters::{self, CHECK_MS_MAX, GLOBAL_MS_MAX, Limiters};
use super::resolved_check::ResolvedCheck;
use crate::kit::lanes;
use crate::kit::request_context::RequestContext;
use tally_api::limits::batch::{CheckBatch, CheckPosition};
use tally_core::limit::meter::Verdict;
use tally_shared::call;
use tally_wire::messages::{CheckAnswer, CheckKeys, DemandKind, DemandOutcome};

/// The verdict by the lane to the limiter. `None` where it is not known.
pub async fn ask(context: &RequestContext, resolved: &ResolvedCheck) -> Option<Verdict> {
    let (judged, ordinal) = judge_in_lane(context, resolved, DemandKind::Consume).await?;
    match judged {
        DemandOutcome::Full | DemandOutcome::Unreachable => None,
        judged => match judged.verdict_of(ordinal, resolved.cost) {
            Some(verdict) => Some(verdict),
            // The global limiter must be asked, and the other checks of the message need not wait for that.
            None => ask_alone(context, resolved, DemandKind::Consume).await,
        },
    }
}

/// The outcome by the lane to the limiter, and how many equal demands came before this one. `None` where it is not
/// known.
pub async fn judge_in_lane(
    context: &RequestContext,
    resolved: &ResolvedCheck,
    kind: DemandKind,
) -> Option<(DemandOutcome, u32)> {
    let _waiting = context.waiting();
    let batch = resolved.batch(kind);
    let arrival = lanes::carry::<Limiters>(context, &resolved.to, batch, context.host.now_ms())
        .await
        .ok()?;
    let CheckPosition { ask, ordinal } = arrival.later;
    let checked = arrival.outcome.ok()?;
    Some((*checked.outcomes.get(ask)?, ordinal))
}

/// Asks a limiter for one thing, and waits for the global limiter if needed. `None` where it is not known.
pub async fn ask_alone(
    context: &RequestContext,
    resolved: &ResolvedCheck,
    kind: DemandKind,
) -> Option<Verdict> {
    let judged = judge_alone(context, resolved, kind).await;
    judged.verdict_of(0, resolved.cost)
}

/// As [`ask_alone`], for the whole outcome.
pub async fn judge_alone(
    context: &RequestContext,
    resolved: &ResolvedCheck,
    kind: DemandKind,
) -> DemandOutcome {
    // Questions that only the global limiter can answer are sent there at once.
    let is_for_global =
        resolved.is_global() && !matches!(kind, DemandKind::Consume | DemandKind::Refund);
    let to = if is_for_global {
        call::limiter_of(&context.host, None, &resolved.name, &resolved.key)
    } else {
        resolved.to.clone()
    };
    let CheckBatch {
        policies, demands, ..
    } = resolved.batch(kind);
    let check = CheckKeys {
        to,
        policies,
        demands,
        waits: true,
    };
    let milliseconds = if resolved.is_global() {
        GLOBAL_MS_MAX
    } else {
        CHECK_MS_MAX
    };
    let checked = limiters::send(&context.host, &check, milliseconds).await;
    let first = |checked: CheckAnswer| checked.outcomes.first().copied();
    checked
        .ok()
        .and_then(first)
        .unwrap_or(DemandOutcome::Unreachable)
}
