//! Reads of a board over all its shards.

use super::boards::{
    AGAIN_MS, BoardReader, BoardResult, FAR_ROUNDS_MAX, Parts, SKIPPED_MAX, TRIES_MAX, cache_route,
    is_there, known, layout_of, moving,
};
use futures_util::future::LocalBoxFuture;
use futures_util::future::try_join_all;
use std::cell::Cell;
use std::collections::BTreeMap;
use tally_core::board::key::Key;
use tally_core::board::placing::{Layout, ShardAt};
use tally_core::board::settings::{Order, Ties};
use tally_core::board::summary::SUMMARY_TOP;
use tally_core::order::{in_order, put_in_order};
use tally_wire::messages::{
    BoardAnswer, BoardPosition, BoardQuestion, BoardSeen, Fault, MemberRange, PeriodOf, Ranked,
};

/// The shards of a board that is spread over several.
pub(super) struct Shards<'a> {
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
    pub(super) fn new(reading: &'a BoardReader<'a>, layout: Layout) -> Self {
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

    pub(super) async fn answer(&self, question: &BoardQuestion) -> Result<BoardResult, Fault> {
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
            BoardQuestion::Better(positions) => {
                let counted = self.better(positions.clone()).await?;
                Ok(counted.map(|(seen, better)| BoardSeen { better, ..seen }))
            }
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
        let is_present = seen.period.start == start && seen.period.end > 0;
        let is_kept = is_present || starts.any(|kept| kept == start);
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

    /// These members, with their ranks. The answer is as old as the scores: a member may move before its rank is asked.
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
        let Some(first) = self.joined(&parts) else {
            return Ok(Err(BoardAnswer::Stale));
        };
        let mut found: BTreeMap<Vec<u8>, Ranked> = BTreeMap::new();
        for row in parts
            .iter_mut()
            .flat_map(|part| std::mem::take(&mut part.rows))
        {
            found.insert(row.member.clone(), row);
        }
        let is_shown = |row: &&mut Ranked| row.rank.is_some();
        let positions = found
            .values_mut()
            .filter(is_shown)
            .map(|row| match first.settings.ties {
                Ties::Shared => BoardPosition::Score(row.score),
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
            is_exact: first.is_exact && seen.is_exact,
            as_of_ms: first.as_of_ms,
            sequences: first.sequences,
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

impl<'a> BoardReader<'a> {
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
}
