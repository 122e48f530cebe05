//! The first counters of all partitions, in order, and the rank of one of them.

use std::cell::RefCell;

use super::first_rows::{ask_top, compare};
use super::largest::sum_largest;
use super::read::read;
use super::read_options::ReadOptions;
use tally_api::query::kept_only;
use tally_core::cluster::top_order::TopRow;
use tally_core::order::in_order;
use tally_host::Host;
use tally_shared::call;
use tally_wire::messages::{Aggregate, AmountOf, AskTop, Fault, Read, ReadParts, SumMany, Top};
use tally_wire::shell_limits::AGGREGATE_MAX;

/// Asks every partition once; for a range also leads.
pub(super) async fn top(host: &Host, request: Result<AskTop, Fault>) -> Result<Top, Fault> {
    let request = request?;
    if let Some(range) = request.range {
        return top_of_range(host, request, range).await;
    }
    let AskTop {
        order,
        limit,
        counter,
        ..
    } = request;
    let mut rows = Vec::new();
    if let Some(counter) = &counter {
        let amount_of = AmountOf {
            counter: counter.clone(),
            order: order.clone(),
        };
        match call(host, &amount_of).await? {
            Some(row) => rows.push(row),
            None => return Ok(Top::default()),
        }
    }
    let above = rows.first().map(|row: &TopRow| row.amount);
    let limit_each = if counter.is_some() { 0 } else { limit };
    let (parts, missing) = ask_top(host, &order, limit_each, above).await?;
    let mut top = Top {
        rows,
        missing_partitions: missing,
        ..Top::default()
    };
    for part in parts {
        top.rows.extend(part.rows);
        top.sums = top.sums.plus(part.sums);
    }
    top.missing_partitions = in_order(top.missing_partitions, Ord::cmp);
    top.rows = in_order(top.rows, compare);
    top.rows
        .truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    Ok(top)
}

/// Asks the leads of the counters that may have counted most in a range.
async fn top_of_range(host: &Host, request: AskTop, range: (i64, i64)) -> Result<Top, Fault> {
    let begun_ms = host.now_ms();
    let wanted = ReadParts {
        window: Some(range),
        history: Some(kept_only(range.0)),
        totals_only: true,
        ..ReadParts::default()
    };
    let mut own = None;
    if let Some(counter) = request.counter {
        let own_request = Read {
            counter: counter.clone(),
            datacenter: None,
            wanted,
        };
        let Some(sum) = read(host, Ok(own_request), None, ReadOptions::default()).await? else {
            return Ok(Top::default());
        };
        let counted = sum.parts().map(|part| part.window.count);
        own = Some((counter, counted.fold(0, u128::saturating_add)));
    }
    let many = SumMany {
        prefix: request.order.prefix,
        history: wanted.history,
        // All counters that are asked, so that their number is known.
        top: AGGREGATE_MAX,
        window: wanted.window,
        begun_ms,
        ..SumMany::default()
    };
    let all = RefCell::new(Aggregate::new(begun_ms, many.top, None));
    let enough = |all: &Aggregate| match &own {
        Some((_, count)) => Some(*count),
        None => all.count_at(request.limit),
    };
    sum_largest(host, &many, begun_ms, &all, &enough).await?;
    Ok(all.into_inner().into_top(range.0, request.limit, own))
}
