//! The open holds of a policy, and the keys that hold most.

use super::policies;
use crate::kit::request_context::RequestContext;
use tally_api::limits::held_keys_json;
use tally_core::limit::named::Holders;
use tally_core::limit::policy::Scope;
use tally_shared::call_within;
use tally_shared::concurrency::all_in_order;
use tally_wire::messages::ListHolders;
use tally_wire::names::policy::PolicyName;
use tally_wire::names::{LIMITER_COUNT, LIMITER_PARTITIONS, LimiterAddress};
use tally_wire::problem::{Code, Problem};

/// The most limiters that are asked, each by a call.
const LIMITERS_ASKED_MAX: u32 = 256;

/// How long a limiter may take to answer, milliseconds.
const HOLDERS_MS_MAX: u64 = 1_500;

/// The JSON of the open holds of a policy, of all limiters of this datacenter, or of the world.
///
/// # Errors
/// `policy-not-found`; `invalid-query` where there are too many limiters.
pub async fn held(
    context: &RequestContext,
    policy: &PolicyName,
    rows: usize,
) -> Result<String, Problem> {
    let is_global = policies::policy_of(context, policy).await?.policy.scope == Scope::Global;
    let count = context
        .host
        .number(LIMITER_COUNT)
        .unwrap_or(LIMITER_PARTITIONS);
    if count > LIMITERS_ASKED_MAX {
        let detail = format!(
            "include=held asks each limiter, at most {LIMITERS_ASKED_MAX}, and there are {count}: look at single keys"
        );
        return Err(Problem::new(Code::InvalidQuery, detail));
    }
    let here = context.datacenter();
    let _waiting = context.waiting();
    let asking = (0..count).map(|partition| {
        let list = ListHolders {
            to: LimiterAddress {
                datacenter: (!is_global).then(|| here.clone()),
                partition,
            },
            name: policy.clone(),
            most: u32::try_from(rows).unwrap_or(u32::MAX),
        };
        async move { call_within(&context.host, &list, HOLDERS_MS_MAX).await.ok() }
    });
    let mut all = Holders::default();
    let mut is_complete = true;
    for holders in all_in_order(asking).await {
        match holders {
            Some(holders) => all.join(holders, rows),
            None => is_complete = false,
        }
    }
    Ok(held_keys_json(policy, &here, &all, is_complete))
}
