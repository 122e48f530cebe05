//! The list of boards, from all partitions of the directory.

use tally_core::order::in_order;
use tally_host::Host;
use tally_shared::partitions::ask_all;
use tally_wire::messages::{BoardsListed, Fault, ListAllBoards, ListBoards};

/// One page of boards of all partitions, together in order.
pub(super) async fn list(
    host: &Host,
    list: Result<ListAllBoards, Fault>,
) -> Result<BoardsListed, Fault> {
    let list = list?;
    let ask = |partition: u32| ListBoards {
        partition,
        prefix: list.prefix.clone(),
        after: list.after.clone(),
        limit: list.limit,
    };
    let (answered, missing_partitions) = ask_all(host, ask).await.by_any()?;
    let boards = answered.into_iter().flat_map(|(_, page)| page).collect();
    let mut boards = in_order(boards, Ord::cmp);
    boards.truncate(usize::try_from(list.limit).unwrap_or(usize::MAX));
    Ok(BoardsListed {
        boards,
        missing_partitions,
    })
}
