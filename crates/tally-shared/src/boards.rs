//! Reads and writes boards, over any number of shards.
//!
//! Invariants: a member lives in one shard, so counts add up, and the order within a shard is a part of the order of
//! the board. Answers of different layouts are never combined. A shard whose members have moved refuses writes: they
//! are sent to the new shard, and none is sent twice.
//!
//! A rank is 1 plus the number of members before it, summed over the shards. Shards count at different moments: with
//! several shards the sum can be off by the writes that were made during the read, and by nothing else.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use futures_util::future::{LocalBoxFuture, try_join_all};

use super::call;
use super::concurrency::all_in_order;
use tally_core::board::key::Key;
use tally_core::board::placing::{Layout, ShardAt, first_sequence};
use tally_core::board::settings::{Order, Ties};
use tally_core::board::summary::SUMMARY_TOP;
use tally_core::counter::bounded_map::BoundedMap;
use tally_core::counter::id::{CounterId, Datacenter};
use tally_core::order::{in_order, put_in_order};
use tally_host::{Host, State};
use tally_protocol::boards::BoardVersion;
use tally_protocol::messages::{
    AskBoard, BoardAnswer, BoardPosition, BoardQuestion, BoardSeen, BoardWritten, Fault, FindKey,
    MemberOutcome, MemberRange, MemberWrite, OnceKey, PeriodOf, Ranked, WriteBoard,
};

/// The boards whose layout an isolate remembers; about 600 bytes each. A forgotten one costs a call or two.
const ROUTES_MAX: usize = 10_000;

/// The attempts while members of a board are being moved, and the wait between two, milliseconds: 4 s together.
const TRIES_MAX: u32 = 80;
const AGAIN_MS: u64 = 100;

/// The most rows that a page may skip to be read directly: then each shard is asked for all rows before the page too.
/// For a later page, a member at most this many rows before it is found first.
const SKIPPED_MAX: u64 = 1_000;

/// The most rounds of that search: of 16 shards with 300,000 members each it takes one or two.
const FAR_ROUNDS_MAX: u32 = 12;

/// An existing board: its layout, its home, and the next sequence for this isolate's writes.
#[derive(Clone, Default)]
struct Route {
    layout: Layout,
    home: Option<Datacenter>,
    next_sequence: u64,
}

/// The boards whose routes this isolate has cached.
#[derive(Default)]
struct Routes(RefCell<BoundedMap<CounterId, Route, ROUTES_MAX>>);

impl State for Routes {
    fn begin(_host: &Host) -> Self {
        Self::default()
    }
}

fn known(host: &Host, board: &CounterId) -> Option<Route> {
    let routes = host.state::<Routes>();
    let mut routes = routes.0.borrow_mut();
    routes.get_mut(board).cloned()
}

fn cache_route(host: &Host, board: &CounterId, work: impl FnOnce(&mut Route)) {
    let routes = host.state::<Routes>();
    let mut routes = routes.0.borrow_mut();
    routes.make_room(board, |_| false);
    work(routes.entry(board, Route::default));
}

/// The home of a board, if this isolate knows it.
pub fn home_of(host: &Host, board: &CounterId) -> Option<Datacenter> {
    known(host, board).and_then(|route| route.home)
}

/// The layout of a board, as far as this isolate knows it.
pub fn layout_of(host: &Host, board: &CounterId) -> Layout {
    known(host, board).map_or_else(Layout::default, |route| route.layout)
}

/// Whether a board of this name exists, by the directory. Its object is not asked, because a call would create it.
///
/// # Errors
/// `Unavailable` where the directory does not answer.
pub fn is_there<'a>(
    host: &'a Host,
    board: &'a CounterId,
) -> LocalBoxFuture<'a, Result<bool, Fault>> {
    Box::pin(async move {
        let find = FindKey { key: board.clone() };
        Ok(call(host, &find).await?.is_board)
    })
}

/// The answers of all shards, in their order, or the answer that ends the read.
type Parts = Result<Vec<BoardSeen>, BoardAnswer>;

/// Asks a board.
pub struct BoardReader<'a> {
    /// The platform.
    pub host: &'a Host,
    /// The board.
    pub board: &'a CounterId,
    /// The beginning of an ended period, unix seconds; `None` for the current one.
    pub period: Option<i64>,
    /// The version that the answer must include.
    pub at_least: Option<BoardVersion>,
}

impl<'a> BoardReader<'a> {
    /// Asks about the current period.
    pub fn new(host: &'a Host, board: &'a CounterId) -> Self {
        Self {
            host,
            board,
            period: None,
            at_least: None,
        }
    }

    /// Asks the board. If it does not exist, no object is created.
    ///
    /// # Errors
    /// `Unavailable` where one of its shards does not answer.
    pub fn ask<'b>(
        &'b self,
        question: BoardQuestion,
    ) -> LocalBoxFuture<'b, Result<BoardAnswer, Fault>> {
        Box::pin(async move {
            if known(self.host, self.board).is_none() {
                if !is_there(self.host, self.board).await? {
                    return Ok(BoardAnswer::Absent);
                }
                cache_route(self.host, self.board, |_| {});
            }
            let mut layout = layout_of(self.host, self.board);
            let mut missed = false;
            for _ in 0..TRIES_MAX {
                let answer = self.ask_in(layout, &question).await?;
                match answer {
                    BoardAnswer::Spread(next) => {
                        if let Some(wanted) = self.at_least.as_ref()
                            && wanted.layout > next.number
                        {
                            return Ok(BoardAnswer::NotReached(wanted.generation, 0));
                        }
                        layout = next;
                        cache_route(self.host, self.board, |route| route.layout = next);
                    }
                    BoardAnswer::Stale | BoardAnswer::Moving => {
                        // The owner is asked at once, and again after a while.
                        if missed {
                            self.host.sleep_ms(AGAIN_MS).await;
                        }
                        (layout, missed) = (Layout::default(), true);
                    }
                    BoardAnswer::Seen(seen) => {
                        if let Some(wanted) = self.at_least.as_ref()
                            && wanted.layout > seen.layout.number
                        {
                            return Ok(BoardAnswer::NotReached(seen.generation, seen.sequence));
                        }
                        cache_route(self.host, self.board, |route| {
                            route.layout = seen.layout;
                            route.home.clone_from(&seen.placing.home);
                        });
                        return Ok(BoardAnswer::Seen(seen));
                    }
                    other => return Ok(other),
                }
            }
            Err(moving())
        })
    }

    async fn ask_in(&self, layout: Layout, question: &BoardQuestion) -> Result<BoardAnswer, Fault> {
        if let Some(wanted) = self.at_least.as_ref()
            && wanted.layout > layout.number
            && layout.number > 0
        {
            return Ok(BoardAnswer::Stale);
        }
        if layout.shards <= 1 {
            let at = ShardAt {
                layout: layout.number,
                shard: 0,
            };
            return self.ask_shard(layout, at, question.clone()).await;
        }
        let shards = Shards::new(self, layout);
        Ok(match shards.answer(question).await? {
            Ok(seen) => BoardAnswer::Seen(Box::new(seen)),
            Err(other) => other,
        })
    }

    /// Asks one shard.
    ///
    /// # Errors
    /// `Unavailable` where it does not answer.
    pub fn ask_shard<'b>(
        &'b self,
        layout: Layout,
        at: ShardAt,
        question: BoardQuestion,
    ) -> LocalBoxFuture<'b, Result<BoardAnswer, Fault>> {
        Box::pin(async move {
            let at_least = self.at_least.as_ref().map(|wanted| {
                let shard = usize::try_from(at.shard).unwrap_or(usize::MAX);
                // A move transfers everything that was acknowledged before it.
                let sequence = match wanted.layout == layout.number {
                    true => wanted.sequences.get(shard).copied().unwrap_or(0),
                    false => 0,
                };
                (wanted.generation, sequence)
            });
            let ask = AskBoard {
                at,
                home: home_of(self.host, self.board),
                period: self.period,
                at_least,
                ..AskBoard::new(self.board, question)
            };
            call(self.host, &ask).await
        })
    }
}

fn moving() -> Fault {
    Fault::Unavailable("members of the board are being moved".to_owned())
}

/// The shards of a board that is spread over several.
struct Shards<'a> {
    reading: &'a BoardReader<'a>,
    layout: Layout,
    /// The generation of the board and the beginning of its period, by the first answer. All answers must have the
    /// same.
    now: Cell<Option<(u64, i64)>>,
}

/// A member's position in the order.
pub fn key_of(row: &Ranked) -> Key {
    Key::new(row.score, row.tie, &row.member)
}

impl<'a> Shards<'a> {
    fn new(reading: &'a BoardReader<'a>, layout: Layout) -> Self {
        Self {
            reading,
            layout,
            now: Cell::default(),
        }
    }

    /// Asks each shard its question.
    async fn each(&self, question: impl Fn(ShardAt) -> BoardQuestion) -> Result<Parts, Fault> {
        let ask = |at: ShardAt| self.reading.ask_shard(self.layout, at, question(at));
        let answered = try_join_all(self.layout.all().map(ask)).await?;
        let (mut parts, mut absent) = (Vec::with_capacity(answered.len()), Vec::new());
        for (answer, shard) in answered.into_iter().zip(0..) {
            match answer {
                BoardAnswer::Seen(seen) => parts.push(*seen),
                // The shard had no members in that period.
                BoardAnswer::NoPeriod => absent.push(shard),
                other => return Ok(Err(other)),
            }
        }
        if let Some(nothing) = parts.first().map(without_members) {
            // The index of a part is the number of its shard.
            for shard in absent {
                parts.insert(shard, nothing.clone());
            }
        } else {
            return Ok(Err(match absent.is_empty() {
                true => BoardAnswer::Stale,
                false => BoardAnswer::NoPeriod,
            }));
        }
        let now = |part: &BoardSeen| (part.generation, part.period.start);
        let first = self.now.get().or_else(|| parts.first().map(now));
        self.now.set(first);
        // While a period or a generation of the board begins, shards begin it at different moments.
        if !parts.iter().all(|part| Some(now(part)) == first) {
            return Ok(Err(BoardAnswer::Moving));
        }
        Ok(Ok(parts))
    }

    /// Combines the parts, without members.
    fn joined(&self, parts: &[BoardSeen]) -> Option<BoardSeen> {
        let first = parts.first()?;
        let mut periods: BTreeMap<i64, PeriodOf> = BTreeMap::new();
        for period in parts.iter().flat_map(|part| &part.periods) {
            let known = periods.entry(period.start).or_insert(PeriodOf {
                total: 0,
                ..*period
            });
            known.total += period.total;
        }
        let archive = usize::try_from(first.settings.archive).unwrap_or(usize::MAX);
        Some(BoardSeen {
            sequences: parts.iter().map(|part| part.sequence).collect(),
            as_of_ms: parts.iter().map(|part| part.as_of_ms).min().unwrap_or(0),
            is_exact: parts.iter().all(|part| part.is_exact),
            period: PeriodOf {
                total: parts.iter().map(|part| part.period.total).sum(),
                ..first.period
            },
            count: parts.iter().map(|part| part.count).sum(),
            has_more: parts.iter().any(|part| part.has_more),
            rows: Vec::new(),
            periods: periods.into_values().rev().take(archive).collect(),
            members: Vec::new(),
            better: Vec::new(),
            layout: self.layout,
            summaries: (parts.iter())
                .flat_map(|part| part.summaries.clone())
                .collect(),
            ..first.clone()
        })
    }

    async fn answer(&self, question: &BoardQuestion) -> Result<BoardResult, Fault> {
        if let (Some(period), false) = (self.reading.period, *question == BoardQuestion::Periods)
            && let Err(other) = self.check_period(period).await?
        {
            return Ok(Err(other));
        }
        match question {
            BoardQuestion::Range(range) if range.skip > SKIPPED_MAX => self.far(range).await,
            BoardQuestion::Range(range) => self.range(range).await,
            BoardQuestion::Members(names) => self.members(names).await,
            BoardQuestion::Around(name, limit) => self.around(name, *limit).await,
            BoardQuestion::Summary => self.pick(question, Skip::Rows(0), SUMMARY_TOP).await,
            BoardQuestion::Live(limit, names) => self.live(*limit, names).await,
            BoardQuestion::Hidden(_, limit) => self.hidden(question, *limit).await,
            other => {
                let parts = match self.each(|_| other.clone()).await? {
                    Ok(parts) => parts,
                    Err(other) => return Ok(Err(other)),
                };
                Ok(self.joined(&parts).ok_or(BoardAnswer::Stale))
            }
        }
    }

    /// Returns nothing if the board keeps a period: one shard may still have a period that the others have deleted.
    async fn check_period(&self, start: i64) -> Result<Result<(), BoardAnswer>, Fault> {
        let reading = BoardReader {
            period: None,
            at_least: self.reading.at_least.clone(),
            ..*self.reading
        };
        let all = Shards::new(&reading, self.layout);
        let parts = match all.each(|_| BoardQuestion::Periods).await? {
            Ok(parts) => parts,
            Err(other) => return Ok(Err(other)),
        };
        let Some(seen) = self.joined(&parts) else {
            return Ok(Err(BoardAnswer::Stale));
        };
        let mut starts = seen.periods.iter().map(|period| period.start);
        let is_kept = seen.period.start == start || starts.any(|kept| kept == start);
        Ok(is_kept.then_some(()).ok_or(BoardAnswer::NoPeriod))
    }

    /// Merges the rows of all parts in the board's order.
    fn merged(parts: &mut [BoardSeen]) -> Vec<Ranked> {
        let is_desc = is_desc(parts);
        let rows: Vec<(Key, Ranked)> = parts
            .iter_mut()
            .flat_map(|part| std::mem::take(&mut part.rows))
            .map(|row| (key_of(&row), row))
            .collect();
        let rows = in_order(rows, |(one, _), (other, _)| match is_desc {
            true => other.cmp(one),
            false => one.cmp(other),
        });
        rows.into_iter().map(|(_, row)| row).collect()
    }

    /// The number of members, in all shards, before each of these positions.
    async fn better(
        &self,
        positions: Vec<BoardPosition>,
    ) -> Result<Result<(BoardSeen, Vec<u64>), BoardAnswer>, Fault> {
        let parts = match self
            .each(|_| BoardQuestion::Better(positions.clone()))
            .await?
        {
            Ok(parts) => parts,
            Err(other) => return Ok(Err(other)),
        };
        let count = |at: usize| parts.iter().filter_map(|part| part.better.get(at)).sum();
        let counts = (0..positions.len()).map(count).collect();
        let joined = self.joined(&parts).ok_or(BoardAnswer::Stale);
        Ok(joined.map(|seen| (seen, counts)))
    }

    /// Ranks adjacent rows; `before` is the number of rows before the first.
    async fn ranked(
        &self,
        mut rows: Vec<Ranked>,
        before: u64,
        ties: Ties,
    ) -> Result<Result<Vec<Ranked>, BoardAnswer>, Fault> {
        let mut shared = None;
        if let (Ties::Shared, Some(first), 1..) = (ties, rows.first(), before) {
            match self.better(vec![BoardPosition::Score(first.score)]).await? {
                Ok((_, counts)) => shared = counts.first().map(|count| count + 1),
                Err(other) => return Ok(Err(other)),
            }
        }
        let mut last = None;
        for (row, position) in rows.iter_mut().zip(before + 1..) {
            let rank = match last.filter(|(score, _)| ties == Ties::Shared && *score == row.score) {
                Some((_, rank)) => rank,
                None if last.is_none() => shared.unwrap_or(position),
                None => position,
            };
            row.rank = Some(rank);
            last = Some((row.score, rank));
        }
        Ok(Ok(rows))
    }

    async fn range(&self, range: &MemberRange) -> Result<BoardResult, Fault> {
        let skip = u32::try_from(range.skip).unwrap_or(u32::MAX);
        let of_all = MemberRange {
            skip: 0,
            limit: range.limit.saturating_add(skip),
            ..range.clone()
        };
        let of_all = BoardQuestion::Range(of_all);
        self.pick(&of_all, Skip::Rows(range.skip), range.limit)
            .await
    }

    /// Asks each shard for a range, and returns as many of its members as were asked for, without the skipped ones.
    async fn pick(
        &self,
        of_all: &BoardQuestion,
        skip: Skip,
        limit: u32,
    ) -> Result<BoardResult, Fault> {
        let mut parts = match self.each(|_| of_all.clone()).await? {
            Ok(parts) => parts,
            Err(other) => return Ok(Err(other)),
        };
        let Some(mut seen) = self.joined(&parts) else {
            return Ok(Err(BoardAnswer::Stale));
        };
        let before: u64 = parts.iter().filter_map(|part| part.better.first()).sum();
        let skip = match skip {
            Skip::Rows(rows) => rows,
            // The positions of members before it have changed in the meantime.
            Skip::Until(until) if until < before => return Ok(Err(BoardAnswer::Moving)),
            Skip::Until(until) => until - before,
        };
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let skipped = usize::try_from(skip).unwrap_or(usize::MAX);
        let mut rows = Self::merged(&mut parts);
        rows.drain(..skipped.min(rows.len()));
        seen.has_more |= rows.len() > limit;
        rows.truncate(limit);
        let ties = seen.settings.ties;
        let ranked = self.ranked(rows, before + skip, ties).await?;
        Ok(ranked.map(|rows| BoardSeen { rows, ..seen }))
    }

    /// Reads a page that begins far from the first member. Finds a member shortly before it, and asks each shard for
    /// its members from there on.
    async fn far(&self, range: &MemberRange) -> Result<BoardResult, Fault> {
        let parts = match self.each(|_| BoardQuestion::About).await? {
            Ok(parts) => parts,
            Err(other) => return Ok(Err(other)),
        };
        let totals: Vec<u64> = parts.iter().map(|part| part.period.total).collect();
        if totals.iter().sum::<u64>() <= range.skip {
            return Ok(self.joined(&parts).ok_or(BoardAnswer::Stale));
        }
        let (before, after) = match self.member_before(range, totals).await? {
            Ok(found) => found,
            Err(other) => return Ok(Err(other)),
        };
        let more = u32::try_from(range.skip.saturating_sub(before)).unwrap_or(u32::MAX);
        let of_all = MemberRange {
            after,
            skip: 0,
            limit: range.limit.saturating_add(more),
            ..range.clone()
        };
        let of_all = BoardQuestion::Range(of_all);
        self.pick(&of_all, Skip::Until(range.skip), range.limit)
            .await
    }

    /// A member at most [`SKIPPED_MAX`] positions before a page, and the number of members before it. Each round asks
    /// every shard for a member near the position, and then for the number of its members before each of these.
    async fn member_before(
        &self,
        range: &MemberRange,
        totals: Vec<u64>,
    ) -> Result<Result<(u64, Option<Key>), BoardAnswer>, Fault> {
        // Members may come before the page while it is read.
        let aim = range.skip.saturating_sub(SKIPPED_MAX / 2);
        let sum = |counts: &[u64]| counts.iter().sum::<u64>();
        // The lower and upper bounds of the number of each shard's members before the position.
        let (mut low, mut high, mut after) = (vec![0; totals.len()], totals, None);
        for _ in 0..FAR_ROUNDS_MAX {
            let (before, before_max) = (sum(&low), sum(&high));
            if before + SKIPPED_MAX >= range.skip {
                return Ok(Ok((before, after)));
            }
            let near = |at: ShardAt| {
                let shard = usize::try_from(at.shard).unwrap_or(usize::MAX);
                let (low, high) = (low.get(shard).unwrap_or(&0), high.get(shard).unwrap_or(&0));
                let part = high.saturating_sub(*low) * aim.saturating_sub(before);
                BoardQuestion::Range(MemberRange {
                    after: None,
                    skip: low + part / before_max.saturating_sub(before).max(1),
                    limit: 1,
                    ..range.clone()
                })
            };
            let found = match self.each(near).await? {
                Ok(found) => found,
                Err(other) => return Ok(Err(other)),
            };
            let keys: Vec<Key> = found
                .iter()
                .flat_map(|part| &part.rows)
                .map(key_of)
                .collect();
            let positions: Vec<BoardPosition> =
                keys.iter().cloned().map(BoardPosition::Key).collect();
            let counted = match self
                .each(|_| BoardQuestion::Better(positions.clone()))
                .await?
            {
                Ok(counted) => counted,
                Err(other) => return Ok(Err(other)),
            };
            for (number, key) in keys.into_iter().enumerate() {
                let count = |part: &BoardSeen| part.better.get(number).copied().unwrap_or(0);
                let counts: Vec<u64> = counted.iter().map(count).collect();
                let is_before = sum(&counts) <= aim;
                if is_before && sum(&counts) >= sum(&low) {
                    (low, after) = (counts, Some(key));
                } else if !is_before && sum(&counts) < sum(&high) {
                    high = counts;
                }
            }
        }
        Err(Fault::Unavailable("the page was not found".to_owned()))
    }

    /// These members, with their ranks.
    async fn members(&self, names: &[Vec<u8>]) -> Result<BoardResult, Fault> {
        let of_shard = |at: ShardAt| {
            let names = names.iter().cloned();
            let is_there = |name: &Vec<u8>| self.layout.shard_of_member(name) == at;
            BoardQuestion::Members(names.filter(is_there).collect())
        };
        let mut parts = match self.each(of_shard).await? {
            Ok(parts) => parts,
            Err(other) => return Ok(Err(other)),
        };
        let is_exact = parts.iter().all(|part| part.is_exact);
        let ties = parts.first().map(|part| part.settings.ties);
        let mut found: BTreeMap<Vec<u8>, Ranked> = BTreeMap::new();
        for row in parts
            .iter_mut()
            .flat_map(|part| std::mem::take(&mut part.rows))
        {
            found.insert(row.member.clone(), row);
        }
        let is_shown = |row: &&mut Ranked| row.rank.is_some();
        let positions = found.values_mut().filter(is_shown).map(|row| match ties {
            Some(Ties::Shared) => BoardPosition::Score(row.score),
            _ => BoardPosition::Key(key_of(row)),
        });
        let positions = positions.collect();
        let (seen, counts) = match self.better(positions).await? {
            Ok(counted) => counted,
            Err(other) => return Ok(Err(other)),
        };
        let shown = found.values_mut().filter(is_shown);
        for (row, count) in shown.zip(counts) {
            row.rank = Some(count + 1);
        }
        let rows = names.iter().filter_map(|name| found.get(name).cloned());
        Ok(Ok(BoardSeen {
            rows: rows.collect(),
            is_exact: is_exact && seen.is_exact,
            ..seen
        }))
    }

    /// Hidden members of all shards, in the order of their names.
    async fn hidden(&self, of_all: &BoardQuestion, limit: u32) -> Result<BoardResult, Fault> {
        let mut parts = match self.each(|_| of_all.clone()).await? {
            Ok(parts) => parts,
            Err(other) => return Ok(Err(other)),
        };
        let Some(mut seen) = self.joined(&parts) else {
            return Ok(Err(BoardAnswer::Stale));
        };
        let rows = parts.iter_mut();
        seen.rows = rows
            .flat_map(|part| std::mem::take(&mut part.rows))
            .collect();
        put_in_order(&mut seen.rows, |one, other| one.member.cmp(&other.member));
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        seen.has_more |= seen.rows.len() > limit;
        seen.rows.truncate(limit);
        Ok(Ok(seen))
    }

    /// A member and its neighbours; no rows if it is not in the order.
    async fn around(&self, name: &[u8], limit: u32) -> Result<BoardResult, Fault> {
        let seen = match self.members(&[name.to_vec()]).await? {
            Ok(seen) => seen,
            Err(other) => return Ok(Err(other)),
        };
        let Some(own) = seen.rows.first().filter(|row| row.rank.is_some()) else {
            let rows = Vec::new();
            return Ok(Ok(BoardSeen { rows, ..seen }));
        };
        let key = key_of(own);
        let near = |_| BoardQuestion::Near(key.clone(), limit);
        let mut parts = match self.each(near).await? {
            Ok(parts) => parts,
            Err(other) => return Ok(Err(other)),
        };
        let is_desc = is_desc(&parts);
        let before: u64 = parts.iter().filter_map(|part| part.better.first()).sum();
        let rows = Self::merged(&mut parts);
        // Its position may have changed since it was read.
        if rows.iter().any(|row| row.member == name) {
            return Ok(Err(BoardAnswer::Moving));
        }
        let is_before = |row: &Ranked| match is_desc {
            true => key_of(row) > key,
            false => key_of(row) < key,
        };
        let (mut ahead, mut behind): (Vec<_>, Vec<_>) = rows.into_iter().partition(is_before);
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        ahead.drain(..ahead.len().saturating_sub(limit));
        behind.truncate(limit);
        let first = before.saturating_sub(u64::try_from(ahead.len()).unwrap_or(0));
        let rows = [ahead, vec![own.clone()], behind].concat();
        let ranked = self.ranked(rows, first, seen.settings.ties).await?;
        Ok(ranked.map(|rows| BoardSeen { rows, ..seen }))
    }

    async fn live(&self, limit: u32, names: &[Vec<u8>]) -> Result<BoardResult, Fault> {
        let first = MemberRange {
            limit,
            ..MemberRange::default()
        };
        let mut seen = match self.range(&first).await? {
            Ok(seen) => seen,
            Err(other) => return Ok(Err(other)),
        };
        if !names.is_empty() {
            match self.members(names).await? {
                Ok(found) => seen.members = found.rows,
                Err(other) => return Ok(Err(other)),
            }
        }
        Ok(Ok(seen))
    }
}

/// The members of a range to skip: a number, or those before a position of the board.
enum Skip {
    Rows(u64),
    Until(u64),
}

/// The combined answer of all shards, or the answer that ends the read.
type BoardResult = Result<BoardSeen, BoardAnswer>;

/// The answer of a shard that had no members in an ended period, by that of another.
fn without_members(other: &BoardSeen) -> BoardSeen {
    BoardSeen {
        sequence: 0,
        period: PeriodOf {
            total: 0,
            ..other.period
        },
        count: 0,
        has_more: false,
        rows: Vec::new(),
        periods: Vec::new(),
        members: Vec::new(),
        better: Vec::new(),
        placing: other.placing.clone(),
        sequences: Vec::new(),
        summaries: Vec::new(),
        slack: Vec::new(),
        ..*other
    }
}

fn is_desc(parts: &[BoardSeen]) -> bool {
    let first = parts.first();
    first.is_some_and(|part| part.settings.order == Order::Desc)
}

/// The first of the sequences for several writes to a spread board. They rise from one call to the next, for any
/// shards.
fn sequences(host: &Host, board: &CounterId, layout: Layout, count: usize) -> Option<u64> {
    if layout.number == 0 || count < 2 {
        return None;
    }
    let mut first = first_sequence(host.now_ms());
    cache_route(host, board, |route| {
        first = first.max(route.next_sequence);
        route.next_sequence = first.saturating_add(u64::try_from(count).unwrap_or(u64::MAX));
    });
    Some(first)
}

/// Sends writes to one shard.
pub type Send<'a> = dyn Fn(WriteBoard) -> LocalBoxFuture<'a, Result<BoardWritten, Fault>> + 'a;

/// Writes, each with its place among all.
type IndexedWrites = Vec<(u32, MemberWrite)>;

/// Makes writes in the shards of their members; `here` is the datacenter of the writer. Equal scores of several writes
/// stand in their order, also in different shards. Writes to a spread board that have a key are made after its claim.
/// Returns the outcomes, and the version that includes them.
///
/// # Errors
/// Where a shard does not answer: then what it was sent may have been written.
pub fn write<'a>(
    host: &'a Host,
    board: &'a CounterId,
    here: &'a Datacenter,
    (writes, once): (Vec<MemberWrite>, Option<OnceKey>),
    send: &'a Send<'a>,
) -> LocalBoxFuture<'a, Result<(BoardWritten, BoardVersion), Fault>> {
    Box::pin(async move {
        let mut layout = layout_of(host, board);
        let count = writes.len();
        let mut first = None;
        let mut left: IndexedWrites = (0..).zip(writes).collect();
        let mut made = WriteProgress::default();
        let mut missed = false;
        let send = |write: WriteBoard| {
            let home = home_of(host, board).or_else(|| Some(here.clone()));
            send(WriteBoard { home, ..write })
        };
        for _ in 0..TRIES_MAX {
            first = first.or_else(|| sequences(host, board, layout, count));
            let mut next = None;
            if let Some(claim) = claim_of(board, layout, once) {
                let at = claim.at;
                next = made.add_claim(layout, at, send(claim).await?);
            }
            if next.is_none() && made.last.is_none() {
                let parts = parts_of(layout, std::mem::take(&mut left));
                let sent = parts.into_iter().map(|(at, part)| {
                    let write = write_of(board, &part, once, first);
                    let sent = send(WriteBoard { at, ..write });
                    async move { (at, part, sent.await) }
                });
                (left, next) = made.add_all(layout, all_in_order(sent).await)?;
            }
            if let Some(last) = made.last() {
                return last.map(|last| (last, made.version));
            }
            let Some(next) = next else {
                cache_route(host, board, |route| route.layout = layout);
                return made.finish();
            };
            put_in_order(&mut left, |(one, _), (other, _)| one.cmp(other));
            // The owner is asked at once, and again after a while.
            if next.number == 0 && std::mem::replace(&mut missed, true) {
                host.sleep_ms(AGAIN_MS).await;
            }
            layout = next;
            cache_route(host, board, |route| route.layout = next);
        }
        Err(moving())
    })
}

/// The writes by the shards of their members.
fn parts_of(layout: Layout, writes: IndexedWrites) -> BTreeMap<ShardAt, IndexedWrites> {
    let mut parts: BTreeMap<ShardAt, IndexedWrites> = BTreeMap::new();
    for (index, write) in writes {
        let at = layout.shard_of_member(&write.member);
        parts.entry(at).or_default().push((index, write));
    }
    parts
}

/// The claim of a key, to its shard; `None` without a key, and in a layout whose only object has the records of all
/// keys. The claim is needed because two requests with one key may go to different shards.
fn claim_of(board: &CounterId, layout: Layout, once: Option<OnceKey>) -> Option<WriteBoard> {
    let once = once.filter(|_| layout.number > 0)?;
    let claim = MemberWrite::claim_of(once.key);
    Some(WriteBoard {
        at: layout.shard_of_member(&claim.member),
        ..WriteBoard::new(board, vec![claim], Some(once.claim()))
    })
}

/// The writes to one shard; their sequences are counted from `first`, by the index of each among all.
fn write_of(
    board: &CounterId,
    part: &[(u32, MemberWrite)],
    once: Option<OnceKey>,
    first: Option<u64>,
) -> WriteBoard {
    let writes = part.iter().map(|(_, write)| write.clone()).collect();
    let indices = part.iter().map(|(index, _)| u64::from(*index));
    let sequences = first.map(|first| indices.map(|index| first + index).collect());
    WriteBoard {
        sequences: sequences.unwrap_or_default(),
        ..WriteBoard::new(board, writes, once)
    }
}

fn version_of(layout: Layout, at: ShardAt, written: &MemberOutcome) -> BoardVersion {
    let shards = usize::try_from(layout.shards).unwrap_or(1);
    let mut sequences = vec![0; shards.max(1)];
    let shard = usize::try_from(at.shard).unwrap_or(0);
    if let Some(sequence) = sequences.get_mut(shard) {
        *sequence = written.sequence;
    }
    BoardVersion {
        generation: written.generation,
        layout: layout.number,
        sequences,
    }
}

/// The outcomes of writes so far.
struct WriteProgress {
    written: Option<MemberOutcome>,
    /// Whether all of them had been made before.
    is_replay: bool,
    version: BoardVersion,
    /// The answer that ends the writing: a refusal, or the earlier result of all writes.
    last: Option<BoardWritten>,
}

/// The answer of a shard to its part of the writes.
type AnsweredPart = (ShardAt, IndexedWrites, Result<BoardWritten, Fault>);

impl Default for WriteProgress {
    fn default() -> Self {
        Self {
            written: None,
            is_replay: true,
            version: BoardVersion {
                generation: 0,
                layout: 0,
                sequences: vec![0],
            },
            last: None,
        }
    }
}

impl WriteProgress {
    /// Notes the answers of shards. Returns the writes that are left, and the layout to send them in.
    ///
    /// # Errors
    /// Where a shard did not answer.
    fn add_all(
        &mut self,
        layout: Layout,
        answered: Vec<AnsweredPart>,
    ) -> Result<(IndexedWrites, Option<Layout>), Fault> {
        let (mut left, mut next, mut fault) = (Vec::new(), None, None);
        for (at, part, written) in answered {
            match written {
                Ok(BoardWritten::Done(written)) => self.add(layout, at, &part, written, false),
                Ok(BoardWritten::Replayed(written)) => self.add(layout, at, &part, written, true),
                Ok(BoardWritten::ReplayedWhole(written)) => {
                    self.add_whole(layout, at, written);
                    return Ok((Vec::new(), None));
                }
                Ok(BoardWritten::Spread(to)) => {
                    next = Some(to);
                    left.extend(part);
                }
                Ok(BoardWritten::Stale | BoardWritten::Moving) => {
                    next.get_or_insert(Layout::default());
                    left.extend(part);
                }
                Ok(other) => self.last = Some(other),
                Err(why) => fault = Some(why),
            }
        }
        fault.map_or(Ok((left, next)), Err)
    }

    /// Notes the answer to a claim. Returns the layout to try next, where this one has no members.
    fn add_claim(&mut self, layout: Layout, at: ShardAt, answer: BoardWritten) -> Option<Layout> {
        match answer {
            BoardWritten::Done(_) | BoardWritten::Replayed(_) => {}
            BoardWritten::ReplayedWhole(written) => self.add_whole(layout, at, written),
            BoardWritten::Spread(to) => return Some(to),
            BoardWritten::Stale | BoardWritten::Moving => return Some(Layout::default()),
            other => self.last = Some(other),
        }
        None
    }

    /// Notes that all writes were made before the board was spread.
    fn add_whole(&mut self, layout: Layout, at: ShardAt, written: MemberOutcome) {
        self.version = version_of(layout, at, &written);
        self.last = Some(BoardWritten::Replayed(written));
    }

    fn add(
        &mut self,
        layout: Layout,
        at: ShardAt,
        part: &[(u32, MemberWrite)],
        written: MemberOutcome,
        is_replay: bool,
    ) {
        let version = version_of(layout, at, &written);
        if version.layout == self.version.layout && self.written.is_some() {
            let both = self.version.sequences.iter_mut().zip(version.sequences);
            both.for_each(|(known, sequence)| *known = sequence.max(*known));
        } else {
            // The new layout includes the writes of the former one.
            self.version = version;
        }
        self.is_replay &= is_replay;
        let index_of = |index: u32| {
            let index = usize::try_from(index).ok()?;
            part.get(index).map(|(index, _)| *index)
        };
        let refused = written.refused.iter();
        let refused = refused.filter_map(|(index, why)| Some((index_of(*index)?, *why)));
        let written = MemberOutcome {
            refused: refused.collect(),
            ..written
        };
        self.written = Some(match self.written.take() {
            None => written,
            Some(before) => before.and(written),
        });
    }

    /// The answer that ends the writing, if there was one. A full shard says that nothing was written, which holds for
    /// it alone.
    fn last(&mut self) -> Option<Result<BoardWritten, Fault>> {
        let last = self.last.take()?;
        Some(match (&last, &self.written) {
            (BoardWritten::Full, Some(_)) => Err(Fault::Unavailable(
                "one shard remembers too many keys, others have written; keep the key".to_owned(),
            )),
            _ => Ok(last),
        })
    }

    fn finish(self) -> Result<(BoardWritten, BoardVersion), Fault> {
        let nothing = || Fault::Broken("writes to no member".to_owned());
        let written = self.written.ok_or_else(nothing)?;
        let written = match self.is_replay {
            true => BoardWritten::Replayed(written),
            false => BoardWritten::Done(written),
        };
        Ok((written, self.version))
    }
}
