//! The gate: one address that a proxy asks before it lets a request through.
//!
//! Invariant: a request passes only by a verdict, or by the rule of its policy where no limiter answers. A key, a cost
//! or a name that cannot be read is refused. The query is the client's, because some proxies send it along, and so is a
//! path below the gate: neither is read. So no client chooses whose quota it uses.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::answers::answer_of_all;
use super::calls::judge;
use super::checks::{check_sums, decide};
use super::resolved_check::ResolvedCheck;
use super::verdicts;
use crate::deployment::key_budget;
use crate::kit::request_context::RequestContext;
use crate::kit::respond::Answer;
use tally_api::access::Caller;
use tally_api::limits::{CheckRequest, CheckResult, check_takes, refused_many_json};
use tally_api::query::Query;
use tally_core::counter::id::CounterId;
use tally_wire::names::limit_right;
use tally_wire::names::policy::PolicyName;
use tally_wire::problem::{Code, Problem};
use tally_wire::visitor::ClientAddress;

/// The most policies of one request: each is an item of two headers.
const GATE_POLICIES_MAX: usize = 10;

/// `/gate/{policies}`, with `;key=<header>` and `;cost=<header>`, by any method: 204 where all policies admit the
/// request, 429 where one refuses.
///
/// # Errors
/// As [`super::calls::check`]; `no-client-address`, `invalid-id`, `invalid-cost`.
pub async fn gate(
    context: &RequestContext,
    caller: &Caller,
    path: &str,
) -> Result<Answer, Problem> {
    let (names, options) = path.split_once(';').unwrap_or((path, ""));
    let options = Query::parse(&options.replace(';', "&"), &["key", "cost"])?;
    for name in ["key", "cost"] {
        if options.get(name) == Some("") {
            let detail = format!("`{name}` has no value; give it the name of a header");
            return Err(Problem::new(Code::InvalidQuery, detail));
        }
    }
    let key = key_of(context, options.get("key"))?;
    let cost = cost_of(context, options.get("cost"))?;
    let names = names.split(',').map(PolicyName::parse);
    let names: Vec<PolicyName> = names.collect::<Result<_, _>>()?;
    if names.len() > GATE_POLICIES_MAX {
        let detail = format!(
            "the gate asks at most {GATE_POLICIES_MAX} policies, not {}",
            names.len()
        );
        return Err(Problem::new(Code::InvalidPolicy, detail));
    }
    let here = context.datacenter();
    let mut checks = Vec::with_capacity(names.len());
    for name in names {
        let right = limit_right(&name, Some(&key));
        caller.may_check(&right, cost, &[])?;
        let asks = CheckRequest { cost, policy: None };
        let resolved = ResolvedCheck::new(context, &here, name, key.clone(), asks).await?;
        check_takes(&resolved.client_name, &resolved.policy)?;
        context.visitor().admit(&right)?;
        checks.push(resolved);
    }
    let judged = match checks.as_slice() {
        [one] => vec![judge(context, one).await.0],
        all => {
            check_sums(all)?;
            let count = u64::try_from(all.len()).unwrap_or(u64::MAX);
            key_budget::spend_body(context, caller, count).await?;
            let _waiting = context.waiting();
            let judged = decide(context, all).await;
            for (resolved, verdict) in all.iter().zip(&judged) {
                verdicts::record(context, resolved, *verdict);
            }
            judged
        }
    };
    let results = checks.iter().zip(&judged);
    let results = results.map(|(resolved, verdict)| resolved.result(&here, *verdict));
    Ok(answer_of(&results.collect::<Vec<_>>()))
}

fn answer_of(results: &[CheckResult<'_>]) -> Answer {
    answer_of_all(
        results,
        || Answer::text(String::new()).with_status(204),
        || match results {
            [one] => one.refused_json(),
            all => refused_many_json(all),
        },
    )
}

/// The key: the value of the header that the proxy's configuration names. Otherwise the client's address, of IPv6 its
/// network.
fn key_of(context: &RequestContext, header: Option<&str>) -> Result<CounterId, Problem> {
    let sent = header.and_then(|name| context.header(name));
    let text = match sent {
        Some(sent) => sent,
        None => match context.address()? {
            ClientAddress::V4(octets) => Ipv4Addr::from(octets).to_string(),
            ClientAddress::V6(network) => {
                let mut octets = [0; 16];
                octets[..8].copy_from_slice(&network);
                Ipv6Addr::from(octets).to_string()
            }
        },
    };
    CounterId::parse(text).map_err(Problem::from)
}

/// The cost: the value of the header that the proxy's configuration names; 1 if the request has none.
fn cost_of(context: &RequestContext, header: Option<&str>) -> Result<u64, Problem> {
    let sent = header.and_then(|name| context.header(name));
    let Some(sent) = sent else { return Ok(1) };
    let cost = sent.parse::<u64>().ok().filter(|cost| *cost > 0);
    cost.ok_or_else(|| {
        let detail = "the header that `cost` names must have a whole number of 1 or more";
        Problem::new(Code::InvalidCost, detail)
    })
}
