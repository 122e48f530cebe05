//! The results of a policy's checks over time, and the keys that were refused most.

use super::verdicts::{SEND_MS, send};
use super::{holders, policies};
use crate::kit::request_context::RequestContext;
use crate::read::cache::FetchedSum;
use crate::read::fetch::see;
use tally_api::public::{SummedCounter, VerdictCounts};
use tally_api::query::Query;
use tally_core::counter::id::CounterId;
use tally_shared::concurrency::all_in_order;
use tally_wire::messages::{Read, ReadParts};
use tally_wire::names;
use tally_wire::names::VerdictKind;
use tally_wire::names::policy::PolicyName;
use tally_wire::problem::{Code, Problem};

/// The parameters of `GET /limits/{policy}`: all but `include` are about what it includes.
pub const PARAMETERS: [&str; 9] = [
    "include",
    "window",
    "from",
    "to",
    "step",
    "zeros",
    "limit",
    "consistency",
    "numbers",
];

/// The fields of `GET /limits/{policy}?include=…`, as members of its JSON: `history` says how many checks were allowed
/// and refused, bucket by bucket, `refused` which keys were refused most, and `held` which hold most.
///
/// # Errors
/// `policy-not-found`, `invalid-query`, `range-too-large`, `unavailable`.
pub async fn included(
    context: &RequestContext,
    policy: &PolicyName,
    query: &Query,
) -> Result<String, Problem> {
    query.verdict_parameters()?;
    let mut members = String::new();
    for name in query.get("include").unwrap_or_default().split(',') {
        let json = match name {
            "history" => history(context, policy, query).await?,
            "refused" => refused(context, policy, query).await?,
            "held" => holders::held(context, policy, query.rows()?).await?,
            other => {
                let detail = format!("include can be history, refused and held, not `{other}`");
                return Err(Problem::new(Code::InvalidQuery, detail));
            }
        };
        if members.contains(&format!("\"{name}\":{{")) {
            let detail = format!("include names `{name}` twice: name it once");
            return Err(Problem::new(Code::InvalidQuery, detail));
        }
        members.push_str(&format!(",\"{name}\":{json}"));
    }
    Ok(members)
}

async fn history(
    context: &RequestContext,
    policy: &PolicyName,
    query: &Query,
) -> Result<String, Problem> {
    let range = query.verdict_history(context.host.now_ms().div_euclid(1_000))?;
    let format = query.history_format()?;
    let wanted = ReadParts {
        history: Some(range),
        totals_only: true,
        ..ReadParts::default()
    };
    let is_strong = query.is_strong()?;
    let read = read(context, policy, &VerdictKind::ALL, wanted, is_strong).await?;
    let counts = counts_of(context, policy, &read);
    let mut kinds = read.iter().map(PolicyCounter::view);
    let kinds = VerdictKind::ALL.map(|_| kinds.next().flatten());
    Ok(counts.history_json(&kinds, range, format))
}

async fn refused(
    context: &RequestContext,
    policy: &PolicyName,
    query: &Query,
) -> Result<String, Problem> {
    let selection = query.refused_keys(context.host.now_ms().div_euclid(1_000))?;
    let strings = query.numbers_as_strings()?;
    let is_strong = query.is_strong()?;
    let kinds = [VerdictKind::Refused];
    let read = read(context, policy, &kinds, selection.wanted(), is_strong).await?;
    let counts = counts_of(context, policy, &read);
    let keys = read.first().and_then(PolicyCounter::view);
    Ok(counts.refused_json(keys.as_ref(), &selection, strings))
}

/// A counter of a policy that was read.
struct PolicyCounter {
    id: CounterId,
    seen: FetchedSum,
}

impl PolicyCounter {
    fn view(&self) -> Option<SummedCounter<'_>> {
        let sum = self.seen.sum.as_deref()?;
        Some(SummedCounter::new(&self.id, sum, self.seen.freshness))
    }
}

/// Reads counters of an existing policy, after this isolate's results were sent to them.
async fn read(
    context: &RequestContext,
    policy: &PolicyName,
    kinds: &[VerdictKind],
    wanted: ReadParts,
    is_strong: bool,
) -> Result<Vec<PolicyCounter>, Problem> {
    policies::policy_of(context, policy).await?;
    let _waiting = context.waiting();
    send(&context.host, &context.datacenter()).await;
    let ids = kinds
        .iter()
        .filter_map(|kind| names::verdicts(policy, *kind));
    let all = ids.map(|id| async move {
        let question = Read {
            counter: id.clone(),
            datacenter: None,
            wanted,
        };
        let seen = see(context, &question, is_strong).await?;
        Ok(PolicyCounter { id, seen })
    });
    all_in_order(all).await.into_iter().collect()
}

/// As old as the oldest counter, and as the verdicts that other isolates have not sent yet.
fn counts_of<'a>(
    context: &RequestContext,
    policy: &'a PolicyName,
    read: &[PolicyCounter],
) -> VerdictCounts<'a> {
    let as_of_ms = read.iter().map(|of| match of.view() {
        Some(view) => view.as_of_ms(),
        None => of.seen.freshness.as_of_ms,
    });
    let now_ms = context.host.now_ms();
    VerdictCounts {
        policy,
        as_of_ms: as_of_ms.min().unwrap_or(now_ms) - SEND_MS,
        now_ms,
    }
}
