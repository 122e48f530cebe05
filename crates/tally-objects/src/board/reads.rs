//! Reads of a board: ranks, ranges of its order, members.
//!
//! Positions count upwards from 0 at the lowest score; a board whose highest score is the best is read from its other
//! end.

use std::slice;

use super::rows::{BoardRows, EpochRows};
use tally_core::board::directory::SegmentDirectory;
use tally_core::board::key::Key;
use tally_core::board::member::Member;
use tally_core::board::score::Score;
use tally_core::board::settings::{Order, Settings, Ties};
use tally_core::board::summary::{SUMMARY_KEYS_MAX, SUMMARY_TOP};
use tally_core::sketch::{HashKey, hash};
use tally_wire::messages::{
    BoardPosition, BoardQuestion, BoardSeen, Fault, MemberRange, Ranked, encode,
};

/// One period of a board, for reading.
pub(super) struct Reader<'a> {
    pub(super) rows: &'a BoardRows,
    pub(super) directory: &'a SegmentDirectory,
    pub(super) settings: &'a Settings,
    pub(super) generation: u64,
    pub(super) epoch: i64,
    /// When the period began, unix seconds.
    pub(super) start: i64,
}

/// The tag of a member. It changes with every change of the member, and with each period. Objects number periods
/// differently, so `start` is the period's beginning.
///
/// # Errors
/// `Broken`, which does not happen.
pub(super) fn tag(generation: u64, start: i64, name: &[u8], member: &Member) -> Result<u64, Fault> {
    let bytes = encode(&(generation, start, name, member))?;
    Ok(hash(&HashKey::from([0; 16]), &bytes))
}

impl Reader<'_> {
    /// Puts the answer to a question into `seen`.
    ///
    /// # Errors
    /// Where storage cannot be read.
    pub(super) fn answer_into(
        &self,
        seen: &mut BoardSeen,
        question: &BoardQuestion,
    ) -> Result<(), Fault> {
        match question {
            BoardQuestion::About | BoardQuestion::Periods => {}
            BoardQuestion::Range(range) => self.range_into(seen, range)?,
            BoardQuestion::Live(limit, names) => {
                let limit = *limit;
                let first = MemberRange {
                    limit,
                    ..MemberRange::default()
                };
                self.range_into(seen, &first)?;
                seen.members = self.members(names)?;
            }
            BoardQuestion::Better(positions) => {
                seen.better = self.better(positions)?;
            }
            BoardQuestion::Near(key, limit) => {
                seen.rows = self.near(key, *limit)?;
                seen.better = self.better(&[BoardPosition::Key(key.clone())])?;
            }
            BoardQuestion::Summary => {
                let first = MemberRange {
                    limit: SUMMARY_TOP,
                    ..MemberRange::default()
                };
                self.range_into(seen, &first)?;
                let shards = usize::try_from(seen.layout.shards).unwrap_or(1).max(1);
                // If one shard has all members, it gives exact ranks.
                if shards > 1 {
                    seen.summaries = vec![self.directory.summary(SUMMARY_KEYS_MAX / shards)];
                }
            }
            BoardQuestion::Members(names) => seen.rows = self.members(names)?,
            BoardQuestion::Hidden(after, limit) => {
                let limit = usize::try_from(*limit).unwrap_or(usize::MAX);
                seen.rows = self.hidden(after, limit)?;
                seen.has_more = seen.rows.len() > limit;
                seen.rows.truncate(limit);
            }
            BoardQuestion::Around(name, limit) => {
                seen.rows = self.around(name, *limit)?.unwrap_or_default();
            }
        }
        Ok(())
    }

    /// How many members stand before each of these keys.
    ///
    /// # Errors
    /// `Unavailable` where SQLite refuses; as for all methods below.
    pub(super) fn before(&self, keys: &[Key]) -> Result<Vec<u64>, Fault> {
        let rows = EpochRows(self.rows, self.epoch);
        self.directory.before(keys, &rows)
    }

    /// How many members stand before a key.
    pub(super) fn before_one(&self, key: &Key) -> Result<u64, Fault> {
        let counts = self.before(slice::from_ref(key))?;
        Ok(counts.first().copied().unwrap_or(0))
    }

    fn is_desc(&self) -> bool {
        self.settings.order == Order::Desc
    }

    /// How many members are before each of these positions.
    fn better(&self, positions: &[BoardPosition]) -> Result<Vec<u64>, Fault> {
        let is_desc = self.is_desc();
        let edges: Vec<Key> = positions
            .iter()
            .map(|position| position.edge(is_desc))
            .collect();
        let mut counts = self.before(&edges)?;
        if is_desc {
            for lower in &mut counts {
                *lower = self.directory.total().saturating_sub(*lower);
            }
        }
        Ok(counts)
    }

    /// The ranks of members in the order, from 1; none for hidden ones.
    pub(super) fn ranks(&self, members: &[(Vec<u8>, Member)]) -> Result<Vec<Option<u64>>, Fault> {
        let position = |(name, member): &(Vec<u8>, Member)| match self.settings.ties {
            Ties::Shared => BoardPosition::Score(member.score),
            _ => BoardPosition::Key(member.key(name)),
        };
        let positions: Vec<BoardPosition> = members.iter().map(position).collect();
        let mut ranks = Vec::with_capacity(members.len());
        for ((_, member), better) in members.iter().zip(self.better(&positions)?) {
            ranks.push((!member.is_hidden).then_some(better + 1));
        }
        Ok(ranks)
    }

    /// The rank of a member in the order, from 1.
    fn rank(&self, name: &[u8], member: &Member) -> Result<Option<u64>, Fault> {
        let ranks = self.ranks(&[(name.to_vec(), member.clone())])?;
        Ok(ranks.first().copied().flatten())
    }

    fn ranked(&self, name: Vec<u8>, member: Member, rank: Option<u64>) -> Result<Ranked, Fault> {
        Ok(Ranked {
            tag: tag(self.generation, self.start, &name, &member)?,
            member: name,
            score: member.score,
            tie: member.tie,
            rank,
            expires_ms: member.expires_ms,
            metadata: member.metadata,
        })
    }

    /// Those of these members that exist, in this order.
    fn members(&self, names: &[Vec<u8>]) -> Result<Vec<Ranked>, Fault> {
        let wanted: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
        let read = self.rows.members(self.epoch, &wanted)?;
        let mut known = Vec::new();
        for name in names {
            if let Some(member) = read.get(name).and_then(|read| read.member.clone()) {
                known.push((name.clone(), member));
            }
        }
        let ranks = self.ranks(&known)?;
        let mut rows = Vec::with_capacity(known.len());
        for ((name, member), rank) in known.into_iter().zip(ranks) {
            rows.push(self.ranked(name, member, rank)?);
        }
        Ok(rows)
    }

    /// The members at these positions, the best first.
    fn members_at(&self, (low, high): (u64, u64)) -> Result<Vec<Ranked>, Fault> {
        if low >= high {
            return Ok(Vec::new());
        }
        let (from, skip) = self.directory.find(low);
        let mut found = self.rows.range(self.epoch, &from, skip, high - low)?;
        if self.is_desc() {
            found.reverse();
        }
        let first = if self.is_desc() {
            self.directory.total().saturating_sub(high) + 1
        } else {
            low + 1
        };
        let mut rows: Vec<Ranked> = Vec::with_capacity(found.len());
        for ((name, member), position) in found.into_iter().zip(first..) {
            let before = rows.last().filter(|row| row.score == member.score);
            let rank = match (self.settings.ties, before) {
                (Ties::Shared, Some(before)) => before.rank,
                (Ties::Shared, None) if rows.is_empty() => self.rank(&name, &member)?,
                _ => Some(position),
            };
            rows.push(self.ranked(name, member, rank)?);
        }
        Ok(rows)
    }

    /// Puts into `seen` the size of the range of scores, both ends included, the members asked for, and whether there
    /// are more.
    fn range_into(&self, seen: &mut BoardSeen, range: &MemberRange) -> Result<(), Fault> {
        let at = |score: Option<Score>, key: fn(Score) -> Key| {
            score.map(|score| self.before_one(&key(score))).transpose()
        };
        let mut low = at(range.min, Key::first_of)?.unwrap_or(0);
        let mut high = at(range.max, Key::behind)?.unwrap_or(self.directory.total());
        let count = high.saturating_sub(low);
        if let Some(after) = &range.after {
            if self.is_desc() {
                high = high.min(self.before_one(after)?);
            } else {
                low = low.max(self.before_one(&after.clone().next())?);
            }
        }
        let limit = u64::from(range.limit);
        let has_more;
        if self.is_desc() {
            high = high.saturating_sub(range.skip);
            has_more = high.saturating_sub(low) > limit;
            low = low.max(high.saturating_sub(limit));
        } else {
            low = low.saturating_add(range.skip);
            has_more = high.saturating_sub(low) > limit;
            high = high.min(low.saturating_add(limit));
        }
        let first = match self.is_desc() {
            true => self.directory.total().saturating_sub(high),
            false => low,
        };
        (seen.count, seen.has_more, seen.better) = (count, has_more, vec![first]);
        seen.rows = self.members_at((low, high))?;
        Ok(())
    }

    /// Hidden members after a name: at most `limit`, and one more.
    fn hidden(&self, after: &[u8], limit: usize) -> Result<Vec<Ranked>, Fault> {
        let limit = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
        let rows = self.rows.hidden_after(self.epoch, after, limit)?;
        let rows = rows.into_iter();
        rows.map(|(name, member)| self.ranked(name, member, None))
            .collect()
    }

    /// The members next to a position, without the member at it.
    fn near(&self, key: &Key, limit: u32) -> Result<Vec<Ranked>, Fault> {
        let (low, behind) = (self.before_one(key)?, self.before_one(&key.clone().next())?);
        let limit = u64::from(limit);
        let above = (
            behind,
            behind.saturating_add(limit).min(self.directory.total()),
        );
        let below = (low.saturating_sub(limit), low);
        let mut rows = self.members_at(if self.is_desc() { above } else { below })?;
        rows.extend(self.members_at(if self.is_desc() { below } else { above })?);
        Ok(rows)
    }

    /// A member with `limit` members before and after it, fewer at the ends of the order; `None` if it is not in the
    /// order.
    pub(super) fn around(&self, name: &[u8], limit: u32) -> Result<Option<Vec<Ranked>>, Fault> {
        let member = self.rows.member(self.epoch, name)?;
        let Some(member) = member.filter(|member| !member.is_hidden) else {
            return Ok(None);
        };
        let position = self.before_one(&member.key(name))?;
        let limit = u64::from(limit);
        let high = position
            .saturating_add(limit + 1)
            .min(self.directory.total());
        self.members_at((position.saturating_sub(limit), high))
            .map(Some)
    }
}
