//! The number of members in each segment of a board's order. So a rank, and the member at a rank, cost O(log n) here
//! and at most one segment's rows.
//!
//! Invariants: segments are in order, and the first begins before all members. Each counts exactly the rows from its
//! first key up to that of the next segment. A change of a row is recorded here in the transaction that writes
//! [`SegmentDirectory::changes`].
//!
//! Cost: about 130 bytes for a segment of 64 to 256 members, so at most two bytes for each member. Segments of boards
//! with millions of members have four times as many, so that a board reads about 20,000 segments at a start. A split or
//! a join of segments costs O(segments), at most once in 128 changes.

use std::collections::BTreeMap;

use super::key::Key;
use super::summary::BoardSummary;

/// The most members of a segment of a board of up to 2.5 million members: counting a segment's rows is most of the cost
/// of a rank.
pub const SEGMENT_MEMBERS_MAX: u64 = 256;

/// The most members of a segment of the largest boards: reading the segments is most of the cost of a start.
pub const LARGE_SEGMENT_MEMBERS_MAX: u64 = 1_024;

/// Segments become larger if a board would have more full segments than this.
const SEGMENTS: u64 = 10_000;

/// The most members of a segment of a board with `total` members. With one more it is split in two. Two neighbours that
/// together have fewer than half of it are joined.
pub fn segment_members_max(total: u64) -> u64 {
    (total / SEGMENTS).clamp(SEGMENT_MEMBERS_MAX, LARGE_SEGMENT_MEMBERS_MAX)
}

/// The rows of a board: the keys of its members, in order.
pub trait MemberRows {
    /// Why rows cannot be read.
    type Fault;

    /// The number of rows from one key on and before another, for each of these pairs.
    ///
    /// # Errors
    /// If rows cannot be read.
    fn counts(&self, ranges: &[(&Key, &Key)]) -> Result<Vec<u64>, Self::Fault>;

    /// The key `skip` places after `from`, which is place 0.
    ///
    /// # Errors
    /// As above.
    fn key_at(&self, from: &Key, skip: u64) -> Result<Option<Key>, Self::Fault>;
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Segment {
    first: Key,
    count: u64,
}

/// The segments of a board.
#[derive(Clone, Debug)]
pub struct SegmentDirectory {
    segments: Vec<Segment>,
    /// Sums of counts. Source: Fenwick 1994, "A new data structure for cumulative frequency tables".
    sums: Vec<u64>,
    total: u64,
    changes: BTreeMap<Key, Option<u64>>,
}

impl Default for SegmentDirectory {
    fn default() -> Self {
        Self::new(Vec::new())
    }
}

impl SegmentDirectory {
    /// The directory of stored segments, in order: first key and count.
    pub fn new(stored: Vec<(Key, u64)>) -> Self {
        let mut segments: Vec<Segment> = stored
            .into_iter()
            .map(|(first, count)| Segment { first, count })
            .collect();
        if segments
            .first()
            .is_none_or(|segment| segment.first != Key::default())
        {
            let (first, count) = (Key::default(), 0);
            segments.insert(0, Segment { first, count });
        }
        let mut directory = Self {
            segments,
            sums: Vec::new(),
            total: 0,
            changes: BTreeMap::new(),
        };
        directory.sum_up();
        directory
    }

    /// The number of members.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The changes to store: the counts of segments by their first keys, `None` for a removed one.
    pub fn changes(&mut self) -> BTreeMap<Key, Option<u64>> {
        std::mem::take(&mut self.changes)
    }

    /// The number of members before each of these keys.
    ///
    /// # Errors
    /// As [`MemberRows`].
    pub fn before<R: MemberRows>(&self, keys: &[Key], rows: &R) -> Result<Vec<u64>, R::Fault> {
        let (mut sums, mut ranges) = (Vec::new(), Vec::new());
        for key in keys {
            let at = self.segment_of(key);
            sums.push(self.sum_before(at));
            ranges.push((self.segments.get(at).map_or(key, |it| &it.first), key));
        }
        let counts = rows.counts(&ranges)?;
        Ok(sums
            .iter()
            .zip(counts)
            .map(|(sum, count)| sum + count)
            .collect())
    }

    /// The place of the member at a rank, from 0: the first key of its segment, and the number of members to skip.
    pub fn find(&self, rank: u64) -> (Key, u64) {
        let (mut at, mut left) = (0, rank);
        let mut step = self.sums.len().checked_next_power_of_two().unwrap_or(0);
        while step > 0 {
            if let Some(sum) = self
                .sums
                .get((at + step).wrapping_sub(1))
                .filter(|sum| **sum <= left)
            {
                left -= sum;
                at += step;
            }
            step /= 2;
        }
        match self.segments.get(at) {
            Some(segment) => (segment.first.clone(), left),
            // Behind all.
            None => match self.segments.last() {
                Some(last) => (last.first.clone(), last.count.saturating_add(left)),
                None => (Key::default(), left),
            },
        }
    }

    /// The number of members before the first key of each of some segments: at most `keys_max`, at equal distances.
    pub fn summary(&self, keys_max: usize) -> BoardSummary {
        let step = self.segments.len().div_ceil(keys_max.max(1)).max(1);
        let mut before = 0;
        let mut keys = Vec::new();
        for (segment, number) in self.segments.iter().zip(0..) {
            if number % step == 0 && number > 0 {
                keys.push((segment.first.clone(), before));
            }
            before += segment.count;
        }
        BoardSummary {
            total: self.total,
            keys,
        }
    }

    /// Records that a member was added at a key.
    ///
    /// # Errors
    /// As [`MemberRows`]. Then the directory must be read again.
    pub fn added<R: MemberRows>(&mut self, key: &Key, rows: &R) -> Result<(), R::Fault> {
        let at = self.segment_of(key);
        let count = self.count_at(at) + 1;
        self.set(at, count);
        if count <= segment_members_max(self.total) {
            return Ok(());
        }
        let half = count / 2;
        let first = self.segments.get(at).map(|segment| segment.first.clone());
        let middle = rows.key_at(&first.unwrap_or_default(), half)?;
        if let Some(middle) = middle {
            self.set(at, half);
            self.changes.insert(middle.clone(), Some(count - half));
            let (first, count) = (middle, count - half);
            self.segments.insert(at + 1, Segment { first, count });
            self.sum_up();
        }
        Ok(())
    }

    /// Records that the member at a key was removed.
    pub fn removed(&mut self, key: &Key) {
        let at = self.segment_of(key);
        self.set(at, self.count_at(at).saturating_sub(1));
        for left in [at, at.wrapping_sub(1)] {
            let pair = (
                self.segments.get(left),
                self.segments.get(left.wrapping_add(1)),
            );
            let (Some(one), Some(other)) = pair else {
                continue;
            };
            let count = one.count + other.count;
            if count < segment_members_max(self.total) / 2 {
                self.changes.insert(other.first.clone(), None);
                self.segments.remove(left + 1);
                self.sum_up();
                return self.set(left, count);
            }
        }
    }

    /// The index of the segment that a key lies in.
    fn segment_of(&self, key: &Key) -> usize {
        let after = self
            .segments
            .partition_point(|segment| segment.first <= *key);
        after.saturating_sub(1)
    }

    fn count_at(&self, at: usize) -> u64 {
        self.segments.get(at).map_or(0, |segment| segment.count)
    }

    fn set(&mut self, at: usize, count: u64) {
        let Some(segment) = self.segments.get_mut(at) else {
            return;
        };
        let before = std::mem::replace(&mut segment.count, count);
        self.changes.insert(segment.first.clone(), Some(count));
        self.total = self.total + count - before;
        let mut node = at + 1;
        while let Some(sum) = self.sums.get_mut(node - 1) {
            *sum = *sum + count - before;
            node += node & node.wrapping_neg();
        }
    }

    fn sum_before(&self, at: usize) -> u64 {
        let (mut node, mut sum) = (at, 0);
        while node > 0 {
            sum += self.sums.get(node - 1).copied().unwrap_or(0);
            node &= node - 1;
        }
        sum
    }

    fn sum_up(&mut self) {
        self.sums = self.segments.iter().map(|segment| segment.count).collect();
        self.total = self.sums.iter().sum();
        for node in 1..=self.sums.len() {
            let parent = node + (node & node.wrapping_neg());
            let own = self.sums.get(node - 1).copied().unwrap_or(0);
            if let Some(sum) = self.sums.get_mut(parent - 1) {
                *sum += own;
            }
        }
    }
}
