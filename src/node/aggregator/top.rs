//! The first counters of all partitions, in order, and where one of them stands.

use std::cmp::Ordering;

use crate::host::Host;
use crate::node::shared::call;
use crate::node::shared::partitions::ask_all;
use crate::protocol::messages::{AmountOf, AskTop, Fault, Top, TopOf, TopRow};
use crate::protocol::order::in_order;

/// Asks every partition once.
pub(super) async fn top(host: &Host, asked: Result<AskTop, Fault>) -> Result<Top, Fault> {
    let AskTop {
        order,
        limit,
        counter,
    } = asked?;
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
    let ask = |partition: u32| TopOf {
        partition,
        order: order.clone(),
        limit: if counter.is_some() { 0 } else { limit },
        above,
    };
    let (answered, missing) = ask_all(host, ask).await.by_any()?;
    let mut top = Top {
        rows,
        missing_partitions: missing,
        ..Top::default()
    };
    for (partition, part) in answered {
        top.rows.extend(part.rows);
        top.sums = top.sums.plus(part.sums);
        if !part.is_whole {
            top.missing_partitions.push(partition);
        }
    }
    top.missing_partitions = in_order(top.missing_partitions, Ord::cmp);
    top.rows = in_order(top.rows, compare);
    top.rows
        .truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    Ok(top)
}

/// Whoever has more stands first; of those that have as much, the name decides.
fn compare(one: &TopRow, other: &TopRow) -> Ordering {
    if other.amount.is_below(one.amount) {
        Ordering::Less
    } else if one.amount.is_below(other.amount) {
        Ordering::Greater
    } else {
        one.counter.cmp(&other.counter)
    }
}
