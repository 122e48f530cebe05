//! A board in memory, and its changes: each change writes its rows, within the caller's commit.

use super::reads::{Reader, tag};
use super::rows::{BoardRole, BoardRows, EpochRows, Head};
use tally_core::board::directory::SegmentDirectory;
use tally_core::board::member::{Member, MemberRefusal, change};
use tally_core::board::period::Period;
use tally_core::counter::id::CounterId;
use tally_wire::messages::{
    Fault, MemberAction, MemberCondition, MemberStanding, MemberWrite, PeriodOf, encode,
};
use tally_wire::shell_limits::{BOARD_BYTES_MAX, MEMBER_BYTES};

/// The members that expire in one turn. Further ones wait for the next turn, and answers until then are not exact.
const EXPIRED_AT_ONCE: u64 = 1_000;

/// The turns that one call makes for a period that ends. A thousand members take about 50 ms, as a thousand writes do.
/// So a call removes 10,000 in half a second, and the next one continues.
const EXPIRED_ROUNDS_MAX: u32 = 10;

/// A board in memory.
pub(super) struct Loaded {
    pub(super) head: Head,
    /// The stored form of the head.
    pub(super) stored: Vec<u8>,
    pub(super) role: BoardRole,
    stored_role: BoardRole,
    pub(super) directory: SegmentDirectory,
    /// The ended period that was read last.
    pub(super) ended: Option<(i64, SegmentDirectory)>,
    pub(super) next_expiry_ms: Option<i64>,
    /// Whether all expired members are removed.
    pub(super) is_exact: bool,
    /// Whether the period has ended while members that expired before its end are still being removed. Until they are
    /// removed nothing is answered, because the next period has not begun.
    pub(super) is_ending: bool,
    /// The smallest sequence of the next change: in a shard the time, so that the order of equal scores is known across
    /// shards.
    pub(super) next_sequence: u64,
}

/// The effect of one write.
pub(super) type Made = (MemberStanding, Option<Member>, bool);

/// The approximate size of a member on disk: its name is stored twice.
pub(super) fn bytes_of(name: &[u8], member: &Member) -> u64 {
    let metadata = member.metadata.as_ref().map_or(0, String::len);
    u64::try_from(2 * name.len() + metadata).map_or(u64::MAX, |bytes| bytes + MEMBER_BYTES)
}

impl Loaded {
    /// A new board.
    pub(super) fn new(board: &CounterId, generation: u64) -> Self {
        Self {
            head: Head::new(board, generation),
            stored: Vec::new(),
            role: BoardRole::default(),
            stored_role: BoardRole::default(),
            directory: SegmentDirectory::default(),
            ended: None,
            next_expiry_ms: None,
            is_exact: true,
            is_ending: false,
            next_sequence: 0,
        }
    }

    /// The stored board; `None` where there is none.
    ///
    /// # Errors
    /// `Broken` for unreadable rows, `Unavailable` where SQLite refuses; as for all methods below.
    pub(super) fn load(rows: &BoardRows) -> Result<Option<Self>, Fault> {
        let Some((head, stored)) = rows.load()? else {
            return Ok(None);
        };
        let role = rows.role()?;
        Ok(Some(Self {
            stored_role: role.clone(),
            role,
            directory: rows.directory(head.epoch)?,
            next_expiry_ms: rows.next_expiry(head.epoch)?,
            head,
            stored,
            ended: None,
            is_exact: true,
            is_ending: false,
            next_sequence: 0,
        }))
    }

    /// Writes the changed segments, and the head if it has changed.
    pub(super) fn store(&mut self, rows: &BoardRows) -> Result<(), Fault> {
        rows.put_segments(self.head.epoch, &mut self.directory)?;
        let bytes = encode(&self.head)?;
        if bytes != self.stored {
            rows.put_head(&bytes)?;
            self.stored = bytes;
        }
        if self.role != self.stored_role {
            rows.put_role(&self.role)?;
            self.stored_role = self.role.clone();
        }
        Ok(())
    }

    /// Keeps the board's number of ended periods; the rows of the others are deleted later.
    pub(super) fn keep_periods(&mut self, rows: &BoardRows, limit: u32) -> Result<(), Fault> {
        rows.keep_periods(limit)?;
        let oldest = rows.periods()?.last().map(|(epoch, _)| *epoch);
        let head = &mut self.head;
        // Rows of periods that were kept until now are deleted too.
        head.swept_epoch = head.swept_epoch.min(head.oldest_epoch);
        head.oldest_epoch = oldest.unwrap_or(head.epoch);
        Ok(())
    }

    pub(super) fn reader<'a>(&'a self, rows: &'a BoardRows) -> Reader<'a> {
        Reader {
            rows,
            directory: &self.directory,
            settings: &self.head.settings,
            generation: self.head.generation,
            epoch: self.head.epoch,
            start: self.head.period.0,
        }
    }

    /// Changes a member; `None` removes it. The row is written first, because segments are split by rows.
    pub(super) fn put(
        &mut self,
        rows: &BoardRows,
        name: &[u8],
        before: Option<&Member>,
        after: Option<&Member>,
    ) -> Result<(), Fault> {
        let head = &mut self.head;
        rows.put_member(head.epoch, name, after)?;
        if self.role.source.is_noting() {
            rows.record_changed(head.epoch, name)?;
        }
        head.sequence = head.sequence.max(self.next_sequence.saturating_sub(1)) + 1;
        head.members = head.members + u64::from(after.is_some()) - u64::from(before.is_some());
        let bytes = |member: Option<&Member>| member.map_or(0, |member| bytes_of(name, member));
        head.bytes = (head.bytes + bytes(after)).saturating_sub(bytes(before));
        let key = |member: Option<&Member>| {
            let ranked = member.filter(|member| !member.is_hidden);
            ranked.map(|member| member.key(name))
        };
        let (before, key) = (key(before), key(after));
        if before != key {
            if let Some(before) = &before {
                self.directory.removed(before);
            }
            if let Some(key) = &key {
                self.directory
                    .added(key, &EpochRows(rows, self.head.epoch))?;
            }
        }
        if let Some(expires_ms) = after.and_then(|after| after.expires_ms) {
            let next_ms = self.next_expiry_ms.unwrap_or(i64::MAX);
            self.next_expiry_ms = Some(next_ms.min(expires_ms));
        }
        Ok(())
    }

    /// Removes expired members, as many as one turn does. Returns whether there were any.
    fn expire(&mut self, rows: &BoardRows, now_ms: i64) -> Result<bool, Fault> {
        self.is_exact = true;
        if self.next_expiry_ms.is_none_or(|next_ms| next_ms > now_ms) {
            return Ok(false);
        }
        let names = rows.expired(self.head.epoch, now_ms, EXPIRED_AT_ONCE)?;
        for name in &names {
            let before = rows.member(self.head.epoch, name)?;
            self.put(rows, name, before.as_ref(), None)?;
        }
        self.next_expiry_ms = rows.next_expiry(self.head.epoch)?;
        self.is_exact = self.next_expiry_ms.is_none_or(|next_ms| next_ms > now_ms);
        Ok(true)
    }

    /// Whether the period has ended. A clock that steps back does not begin it again.
    pub(super) fn has_ended(&self, now_ms: i64) -> bool {
        let end_ms = self.head.period.1.saturating_mul(1_000);
        self.head.settings.period != Period::None && now_ms >= end_ms
    }

    /// Begins the current period if the one before has ended and has no expired members left. Returns whether anything
    /// has changed.
    fn begin_period(&mut self, rows: &BoardRows, now_ms: i64) -> Result<bool, Fault> {
        self.is_ending = false;
        if !self.has_ended(now_ms) {
            return Ok(false);
        }
        let settings = self.head.settings;
        let bounds = settings.period.bounds(now_ms, settings.zone);
        let Some((start, end)) = bounds else {
            return Ok(false);
        };
        let (ended_start, ended_end) = self.head.period;
        if settings.archive > 0 {
            for _ in 0..EXPIRED_ROUNDS_MAX {
                self.expire(rows, ended_end.saturating_mul(1_000))?;
                if self.is_exact {
                    break;
                }
            }
            self.is_ending = !self.is_exact;
            if self.is_ending {
                return Ok(true);
            }
        }
        if self.head.members > 0 {
            if settings.archive > 0 {
                rows.put_segments(self.head.epoch, &mut self.directory)?;
                let ended = PeriodOf {
                    start: ended_start,
                    end: ended_end,
                    total: self.directory.total(),
                };
                rows.put_period(self.head.epoch, &ended)?;
            }
            self.begin_epoch();
            self.keep_periods(rows, settings.archive)?;
        }
        self.head.period = (start, end);
        Ok(true)
    }

    /// Begins without members.
    pub(super) fn begin_epoch(&mut self) {
        self.head.epoch += 1;
        self.head.sequence += 1;
        self.head.members = 0;
        self.head.bytes = 0;
        self.directory = SegmentDirectory::default();
        self.next_expiry_ms = None;
        self.is_exact = true;
        self.is_ending = false;
    }

    /// Whether it exists, has its members here and may change them.
    pub(super) fn is_at_work(&self) -> bool {
        self.head.is_living && self.role.is_here() && !self.role.source.is_sealed()
    }

    /// Removes expired members and periods. Returns whether anything has changed.
    pub(super) fn catch_up(&mut self, rows: &BoardRows, now_ms: i64) -> Result<bool, Fault> {
        if !self.is_at_work() {
            return Ok(false);
        }
        let has_begun = self.begin_period(rows, now_ms)?;
        // A member that expired after the end of its period is a member of that period.
        Ok(!self.is_ending && self.expire(rows, now_ms)? || has_begun)
    }

    /// Removes a member that has expired and waits for its turn: otherwise a write to it would be removed with it.
    /// Returns a member that has not expired.
    pub(super) fn unless_expired(
        &mut self,
        rows: &BoardRows,
        name: &[u8],
        member: Option<Member>,
        now_ms: i64,
    ) -> Result<Option<Member>, Fault> {
        let expires_ms = member.as_ref().and_then(|member| member.expires_ms);
        if expires_ms.is_none_or(|expires_ms| expires_ms > now_ms) {
            return Ok(member);
        }
        self.put(rows, name, member.as_ref(), None)?;
        Ok(None)
    }

    /// Makes one write; `sequence` orders it among equal scores, where it is not 0. Returns the member's standing,
    /// without its rank, the member, if it is there now, and whether anything has changed.
    pub(super) fn make(
        &mut self,
        rows: &BoardRows,
        write: &MemberWrite,
        sequence: u64,
        now_ms: i64,
    ) -> Result<Result<Made, MemberRefusal>, Fault> {
        let MemberWrite {
            member: name,
            action,
            condition,
        } = write;
        let (generation, start) = (self.head.generation, self.head.period.0);
        let before = rows.member(self.head.epoch, name)?;
        let before = self.unless_expired(rows, name, before, now_ms)?;
        let own = before
            .as_ref()
            .map(|before| tag(generation, start, name, before))
            .transpose()?;
        let holds = match condition {
            None => true,
            Some(MemberCondition::There) => own.is_some(),
            Some(MemberCondition::Tagged(wanted)) => own == Some(*wanted),
        };
        if !holds {
            return Ok(Err(MemberRefusal::Changed));
        }
        let after = match action {
            MemberAction::Put(put) => match change(
                &self.head.settings,
                before.as_ref(),
                put,
                match sequence {
                    0 => self.head.sequence.max(self.next_sequence.saturating_sub(1)) + 1,
                    sequence => sequence,
                },
            ) {
                Ok(change) => change.after.or_else(|| before.clone()),
                Err(refusal) => return Ok(Err(refusal)),
            },
            MemberAction::Hide(is_hidden) => before.clone().map(|before| Member {
                is_hidden: *is_hidden,
                ..before
            }),
            MemberAction::Remove => None,
        };
        let is_changed = after != before;
        if is_changed {
            if !self.has_room(Growth::of(name, before.as_ref(), after.as_ref())) {
                return Ok(Err(MemberRefusal::Full));
            }
            self.put(rows, name, before.as_ref(), after.as_ref())?;
            // A member that reaches the same score by a later write comes after it.
            self.head.sequence = self.head.sequence.max(sequence);
        }
        let stand = MemberStanding {
            score: after.as_ref().map(|after| after.score),
            previous: before.map(|before| before.score),
            rank: None,
            tag: after
                .as_ref()
                .map(|after| tag(generation, start, name, after))
                .transpose()?,
        };
        Ok(Ok((stand, after, is_changed)))
    }

    /// Whether the board has room for this growth.
    pub(super) fn has_room(&self, growth: Growth) -> bool {
        let settings = &self.head.settings;
        let bytes_max = BOARD_BYTES_MAX / (u64::from(settings.archive) + 1);
        // Each shard gets an equal part, and the first ones the remainder.
        let shards = u64::from(self.role.layout.shards.max(1));
        let is_first = u64::from(self.role.at.shard) < settings.members_max % shards;
        let members_max = (settings.members_max / shards + u64::from(is_first)).max(1);
        let members = self.head.members.saturating_add(growth.members);
        let bytes = self.head.bytes.saturating_add(growth.bytes);
        (growth.members == 0 || members <= members_max) && (growth.bytes == 0 || bytes <= bytes_max)
    }
}

/// By how much a board grows.
#[derive(Clone, Copy, Default)]
pub(super) struct Growth {
    members: u64,
    bytes: u64,
}

impl Growth {
    /// The growth by the change of a member.
    pub(super) fn of(name: &[u8], before: Option<&Member>, after: Option<&Member>) -> Self {
        let Some(after) = after else {
            return Self::default();
        };
        let before_bytes = before.map_or(0, |before| bytes_of(name, before));
        Self {
            members: u64::from(before.is_none()),
            bytes: bytes_of(name, after).saturating_sub(before_bytes),
        }
    }

    /// The growth by both.
    pub(super) fn and(self, other: Self) -> Self {
        Self {
            members: self.members.saturating_add(other.members),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }
}
