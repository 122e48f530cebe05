//! Several boards read as one: each is asked for its first members, and [`MergedBoards`] joins the answers.

use futures_util::future::join_all;

use super::calls::{ask, bytes_of, top as top_of_board};
use crate::kit::request_context::RequestContext;
use crate::kit::respond::Answer;
use tally_api::access::Caller;
use tally_api::boards::{MergedBoards, MergedQuery};
use tally_wire::messages::{BoardQuestion, MemberRange};
use tally_wire::problem::Problem;
use tally_wire::rights::Scope;

/// `GET /top?boards=`: the first entries of several boards, and the ranks of a member among all of them.
///
/// # Errors
/// `invalid-query`, `boards-differ`; if no board answers, the refusal of the first.
pub async fn top(context: &RequestContext, caller: &Caller) -> Result<Answer, Problem> {
    let wanted = MergedQuery::parse(context.query())?;
    for board in &wanted.boards {
        caller.may(Scope::Read, board.as_str())?;
    }
    let (each, limit) = (&wanted.each, wanted.limit);
    let read = async |board| match &wanted.member {
        None => {
            let range = MemberRange {
                limit,
                ..MemberRange::default()
            };
            top_of_board(context, board, each, range).await
        }
        Some(name) => {
            let question = BoardQuestion::Live(limit, vec![bytes_of(name)]);
            ask(context, board, each, question).await
        }
    };
    let mut merged = MergedBoards::default();
    let answers = join_all(wanted.boards.iter().map(&read)).await;
    for (board, answer) in wanted.boards.iter().zip(answers) {
        merged.add(board, answer.map(|seen| *seen))?;
    }
    merged.answered()?;
    let positions = merged.positions();
    if !positions.is_empty() {
        let count = async |board| {
            let question = BoardQuestion::Better(positions.clone());
            ask(context, board, each, question).await.ok()
        };
        let counted = join_all(merged.parts.iter().map(|(board, _)| count(board))).await;
        merged.rank(
            counted
                .into_iter()
                .map(|seen| seen.map(|seen| *seen))
                .collect(),
        );
    }
    let json = merged.json(limit, wanted.member.is_some(), context.host.now_ms());
    Ok(Answer::json(json))
}
