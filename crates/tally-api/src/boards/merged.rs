//! Several boards read as one, as the leaderboard of the world from those of its regions.
//!
//! Invariant: the entries are the first of the union of the boards. Each board gives as many of its first members as
//! the answer may have, so no better entry is left out. An entry belongs to a board: a member of two boards has two.
//! Equal scores share a rank, because neither names nor clocks of different boards decide between them.

use serde::Serialize;

use super::answer::{MemberView, ReadBoard, RowView, SeenView};
use super::query::BoardQuery;
use crate::fields::{Exactness, Moment, Staleness};
use crate::json::to_json;
use crate::query::{Query, has_parameter};
use tally_core::board::settings::Order;
use tally_core::counter::id::CounterId;
use tally_core::order::put_in_order;
use tally_wire::messages::{BoardPosition, BoardSeen, Ranked};
use tally_wire::problem::{Code, Problem};

/// The most boards of one answer: of 16 shards each, they take 256 calls.
pub const MERGED_BOARDS_MAX: usize = 16;

/// The parameters of such a read.
const PARAMETERS: [&str; 5] = ["boards", "member", "limit", "period", "consistency"];

fn refuse<T>(detail: String) -> Result<T, Problem> {
    Err(Problem::new(Code::InvalidQuery, detail))
}

/// What a read of several boards asks for.
pub struct MergedQuery {
    /// The boards, in the order of the query.
    pub boards: Vec<CounterId>,
    /// A member whose ranks are asked for.
    pub member: Option<CounterId>,
    /// How many entries.
    pub limit: u32,
    /// What is asked of each board.
    pub each: BoardQuery,
}

impl MergedQuery {
    /// Whether a query of a top asks for boards, and not for counters.
    pub fn is_meant(query: &str) -> bool {
        has_parameter(query, "boards", None)
    }

    /// Reads a query.
    ///
    /// # Errors
    /// `invalid-query`, `invalid-id`.
    pub fn parse(query: &str) -> Result<Self, Problem> {
        let query = Query::parse(query, &PARAMETERS)?;
        let mut boards = Vec::new();
        for name in query.get("boards").unwrap_or_default().split(',') {
            let board =
                CounterId::parse(name).map_err(|error| Problem::from(error).of_id("boards"))?;
            if boards.contains(&board) {
                return refuse(format!("boards names {name:?} twice; name each board once"));
            }
            if boards.len() == MERGED_BOARDS_MAX {
                return refuse(format!(
                    "boards may name at most {MERGED_BOARDS_MAX} boards, with commas between them"
                ));
            }
            boards.push(board);
        }
        let member = query.get("member").map(CounterId::parse).transpose();
        let member = member.map_err(|error| Problem::from(error).of_id("member"))?;
        let limit = query.limit()?;
        let each = BoardQuery::of(query);
        Ok(Self {
            boards,
            member,
            limit,
            each,
        })
    }
}

/// The answers of several boards.
#[derive(Default)]
pub struct MergedBoards<'a> {
    /// The boards that have answered, in the order of the query.
    pub parts: Vec<(&'a CounterId, BoardSeen)>,
    /// Boards that do not exist, or do not keep the period.
    absent: Vec<&'a CounterId>,
    /// Boards that did not answer.
    missing: Vec<&'a CounterId>,
    /// Why the first of these did not.
    refusal: Option<Problem>,
}

impl<'a> MergedBoards<'a> {
    /// Adds the answer of a board.
    ///
    /// # Errors
    /// Refusals that concern the caller, and `boards-differ` where this board has another order than those before it.
    pub fn add(
        &mut self,
        board: &'a CounterId,
        answer: Result<BoardSeen, Problem>,
    ) -> Result<(), Problem> {
        let problem = match answer {
            Ok(seen) => {
                let order = |seen: &BoardSeen| match seen.settings.order {
                    Order::Desc => "desc",
                    Order::Asc => "asc",
                };
                if let Some((first, other)) = self.parts.first()
                    && other.settings.order != seen.settings.order
                {
                    let (first, other, own) = (first.as_str(), order(other), order(&seen));
                    let detail = format!(
                        "the order of {first:?} is {other}, and that of {:?} is {own}; name boards of one order",
                        board.as_str()
                    );
                    return Err(Problem::new(Code::BoardsDiffer, detail));
                }
                self.parts.push((board, seen));
                return Ok(());
            }
            Err(problem) => problem,
        };
        match problem.code() {
            Code::BoardNotFound | Code::PeriodNotFound => self.absent.push(board),
            Code::Unavailable => self.missing.push(board),
            _ => return Err(problem),
        }
        self.refusal.get_or_insert(problem);
        Ok(())
    }

    /// Succeeds if a board has answered.
    ///
    /// # Errors
    /// The refusal of the first board.
    pub fn answered(&mut self) -> Result<(), Problem> {
        let refusal = self.refusal.take().filter(|_| self.parts.is_empty());
        refusal.map_or(Ok(()), Err)
    }

    /// The members asked for, of all boards, that have a rank.
    fn ranked(&mut self) -> impl Iterator<Item = &mut Ranked> {
        let all = self
            .parts
            .iter_mut()
            .flat_map(|(_, seen)| &mut seen.members);
        all.filter(|row| row.rank.is_some())
    }

    /// The positions before which each board is asked to count members: those of the members asked for.
    pub fn positions(&mut self) -> Vec<BoardPosition> {
        let scores = self.ranked().map(|row| BoardPosition::Score(row.score));
        scores.collect()
    }

    /// Gives the members asked for their ranks in all boards. `counted` has the answer of each board to
    /// [`Self::positions`]; a board that did not answer, or has begun anew since, is missing.
    pub fn rank(&mut self, counted: Vec<Option<BoardSeen>>) {
        let mut sums = vec![0; self.positions().len()];
        for ((board, seen), counted) in self.parts.iter().zip(counted) {
            let is_same = |other: &BoardSeen| {
                (other.generation, other.period.start) == (seen.generation, seen.period.start)
            };
            match counted.filter(is_same) {
                Some(counted) => {
                    for (sum, better) in sums.iter_mut().zip(&counted.better) {
                        *sum += better;
                    }
                }
                None if self.missing.contains(board) => {}
                None => self.missing.push(board),
            }
        }
        for (row, better) in self.ranked().zip(sums) {
            row.rank = Some(better + 1);
        }
    }

    /// The first entries of all boards, with their ranks.
    fn entries(&self, limit: u32) -> Vec<(&'a CounterId, Ranked)> {
        let is_desc =
            (self.parts.first()).is_some_and(|(_, seen)| seen.settings.order == Order::Desc);
        let of_board = |(board, seen): &(&'a CounterId, BoardSeen)| {
            let board = *board;
            let rows = seen.rows.clone().into_iter();
            rows.map(move |row| (board, row)).collect::<Vec<_>>()
        };
        let mut entries: Vec<_> = self.parts.iter().flat_map(of_board).collect();
        // Equal scores stay in the order of the boards, and within a board in its own.
        put_in_order(&mut entries, |(_, one), (_, other)| match is_desc {
            true => other.score.cmp(&one.score),
            false => one.score.cmp(&other.score),
        });
        entries.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        let mut last = None;
        for ((_, row), place) in entries.iter_mut().zip(1..) {
            let rank = match last {
                Some((score, rank)) if score == row.score => rank,
                _ => place,
            };
            last = Some((row.score, rank));
            row.rank = Some(rank);
        }
        entries
    }

    /// The JSON of at most `limit` entries. `has_member`: whether a member was asked for.
    pub fn json(&self, limit: u32, has_member: bool, now_ms: i64) -> String {
        #[derive(Serialize)]
        struct MergedView<'a> {
            /// The boards that have answered: what each answer is of.
            boards: Vec<SeenView<'a>>,
            /// The first entries of all of them. A member of two boards has two entries.
            entries: Vec<RowView<'a>>,
            /// `null`: the answer is one page.
            cursor: Option<&'static str>,
            /// The entries of `member`; none where no board has it.
            #[serde(skip_serializing_if = "Option::is_none")]
            members: Option<Vec<MemberView<'a>>>,
            /// Boards that do not exist, or do not keep the period.
            absent: &'a [&'a CounterId],
            /// Boards that did not answer: without them ranks may be too good.
            missing_boards: &'a [&'a CounterId],
            /// How many entries are ranked.
            total: u64,
            exact: Exactness,
            as_of: Moment,
            staleness_ms: Staleness,
        }
        let entries = self.entries(limit);
        let seen = || self.parts.iter().map(|(_, seen)| seen);
        let total = seen().map(|seen| seen.period.total).sum();
        let as_of_ms = seen().map(|seen| seen.as_of_ms).min().unwrap_or(now_ms);
        let boards = self.parts.iter().map(|(board, seen)| ReadBoard {
            board,
            seen,
            now_ms,
        });
        to_json(&MergedView {
            boards: boards.map(|read| read.view()).collect(),
            entries: (entries.iter())
                .map(|(board, row)| RowView::in_board(board, row))
                .collect(),
            cursor: None,
            members: has_member.then(|| {
                let all = self.parts.iter();
                all.flat_map(|(board, seen)| seen.members.iter().map(move |row| (*board, row)))
                    .map(|(board, row)| MemberView::of(RowView::in_board(board, row), row, total))
                    .collect()
            }),
            absent: &self.absent,
            missing_boards: &self.missing,
            total,
            exact: self.missing.is_empty() && seen().all(|seen| seen.is_exact),
            as_of: as_of_ms,
            staleness_ms: now_ms.saturating_sub(as_of_ms).max(0),
        })
    }
}
