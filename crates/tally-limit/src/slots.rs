//! The slots of a table: where each of its keys lies.
//!
//! Invariants: `by_subject` and the filled slots name the same keys; `memory` holds the sum over the filled slots; a
//! slot is only emptied once its key is idle and stored. A hand goes round the slots, a few with each call, and empties
//! those whose keys are idle.

use alloc::sync::Arc;
use std::collections::HashMap;

use super::lender::Lender;
use super::memory::MemoryShare;
use super::owner::{GroupingOfTable, KeyGroup, Owner, hash_of};
use super::policy::Policy;
use super::table::{BYTES_MAX, Full, KEYS_MAX, LEASES_BYTES_MIN};

/// Slots that the hand looks at with each call. A call fills at most one, so it goes round before they are all used
/// twice.
const SWEPT_EACH: usize = 2;

/// Slots that it looks at where a key finds no room: 1,000 · 20 ns = 20 µs.
const SWEPT_FULL: usize = 1_000;

/// Meters that keys share for which there is no room, of one policy, and of all: at about 400 bytes 1.6 MB.
const SHARED_EACH: u64 = 256;
const SHARED_MAX: u64 = 4_096;

/// A group may hold at most this many times the keys for which there is still room: alone it may fill three quarters.
const ROOM_TIMES: u64 = 3;
/// Of the meters that keys share a group may hold as many as there is still room for: alone it may fill half.
const SHARED_ROOM_TIMES: u64 = 1;

/// What a key with few buckets takes.
const KEY_BYTES: u64 = 320;

/// What the name of a key that stands for others begins with; no client's key has a control character.
const SHARED: char = '\u{1}';

/// How long a policy that was left is not taken up again: isolates use one for at most 15 s after they read it.
const LEFT_MS: i64 = 20_000;

/// What the map and the header of the subject take beside the entry: 24 bytes at a load of a half, and 16.
const MAP_ENTRY_BYTES: usize = 64;

/// One key.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// Policy's name, a zero, key.
    pub(super) subject: Arc<str>,
    pub(super) owner: Owner,
    pub(super) policy: Policy,
    /// The policy before, if it counted in another way, and when it was left.
    pub(super) left: Option<Box<(Policy, i64)>>,
    pub(super) lender: Lender,
    /// The row that has its newest stored state, and how long that is; 0 where there is none.
    pub(super) row: u64,
    pub(super) stored_bytes: u64,
    /// Whether it has changed since.
    pub(super) is_dirty: bool,
    bytes: u64,
    lease_bytes: u64,
}

impl Entry {
    /// Whether `policy` is the one before, sent by a caller that does not know of the change yet. Switching back would
    /// lose what lies further back than the shorter window.
    pub(super) fn has_left(&self, policy: &Policy, now_ms: i64) -> bool {
        let left = self.left.as_ref();
        left.is_some_and(|left| {
            let (left, left_ms) = &**left;
            left.counts_like(policy) && now_ms.saturating_sub(*left_ms) < LEFT_MS
        })
    }

    /// Whether it is one of the meters that keys share.
    pub(super) fn is_shared(&self) -> bool {
        self.subject
            .split_once('\0')
            .is_some_and(|(_, key)| key.starts_with(SHARED))
    }

    /// Whether nothing is used or lent.
    pub(super) fn is_unused(&self, now_ms: i64) -> bool {
        !self.lender.lends() && self.lender.meter.used(&self.policy, now_ms) == 0
    }

    fn measure(&self) -> u64 {
        let bytes = size_of::<Self>() + MAP_ENTRY_BYTES + self.subject.len();
        u64::try_from(bytes)
            .unwrap_or(u64::MAX)
            .saturating_add(self.lender.heap_bytes())
    }
}

fn name_of(subject: &str) -> &str {
    subject.split_once('\0').map_or(subject, |(name, _)| name)
}

/// The name of the meter that a key shares where there is no room for its own.
pub(super) fn shared_subject(subject: &str) -> String {
    let (name, key) = subject.split_once('\0').unwrap_or((subject, ""));
    format!("{name}\0{SHARED}{}", hash_of(key) % SHARED_EACH)
}

/// All keys.
#[derive(Clone, Debug, Default)]
pub(super) struct Slots {
    by_subject: HashMap<Arc<str>, usize>,
    entries: Vec<Option<Entry>>,
    empty: Vec<usize>,
    /// What all keys take, beside the other tables of the isolate.
    memory: MemoryShare,
    /// What the leases of all keys take of it.
    lease_bytes: u64,
    hand: usize,
    grouping: GroupingOfTable,
    /// How many keys each group has, and how many meters that are shared: 40 bytes for each.
    held: HashMap<(KeyGroup, bool), u64>,
    shared: u64,
}

impl Slots {
    pub(super) fn slot_of(&self, subject: &str) -> Option<usize> {
        self.by_subject.get(subject).copied()
    }

    pub(super) fn get(&self, slot: usize) -> Option<&Entry> {
        self.entries.get(slot)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, slot: usize) -> Option<&mut Entry> {
        self.entries.get_mut(slot)?.as_mut()
    }

    pub(super) fn len(&self) -> usize {
        self.by_subject.len()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.memory.bytes()
    }

    /// Counts what it holds with what others of the same memory do.
    pub(super) fn sharing(mut self, mut memory: MemoryShare) -> Self {
        memory.hold(self.bytes());
        self.memory = memory;
        self
    }

    /// Shares out room by these groups of keys, of which there are none yet.
    pub(super) fn grouped_by(mut self, grouping: GroupingOfTable) -> Self {
        self.grouping = grouping;
        self
    }

    /// The groups of a key, each within the one before.
    fn groups(&self, subject: &str, owner: Owner) -> impl Iterator<Item = KeyGroup> + use<> {
        let GroupingOfTable(grouping) = self.grouping;
        grouping(name_of(subject), owner).into_iter().flatten()
    }

    /// Whether there is no room for another key.
    pub(super) fn is_full(&self) -> bool {
        let keys = u32::try_from(self.by_subject.len()).unwrap_or(u32::MAX);
        keys >= KEYS_MAX || self.is_overgrown()
    }

    /// Whether the keys that are here may not grow either.
    pub(super) fn is_overgrown(&self) -> bool {
        !self.memory.has_room(BYTES_MAX)
    }

    /// Whether another lease may begin.
    pub(super) fn has_room_for_lease(&self) -> bool {
        self.lease_bytes < LEASES_BYTES_MIN || !self.is_overgrown()
    }

    /// Whether there is room for another key of this owner: so that none takes what others need, each group may have
    /// three times as many as could still come.
    pub(super) fn has_room_for(&self, subject: &str, owner: Owner) -> bool {
        let keys = u64::try_from(self.by_subject.len()).unwrap_or(u64::MAX);
        let bytes = self.memory.room(BYTES_MAX);
        let room = u64::from(KEYS_MAX)
            .saturating_sub(keys)
            .min(bytes / KEY_BYTES);
        !self.is_full() && self.has_part(self.groups(subject, owner), false, room, ROOM_TIMES)
    }

    /// Whether each of these nested groups, the outermost first, holds less than `times` times what it could still
    /// get. The outermost could get the room; one within it what the outer could still get, x where
    /// `held + x = times · (room - x)`.
    fn has_part(
        &self,
        mut groups: impl Iterator<Item = KeyGroup>,
        is_shared: bool,
        mut room: u64,
        times: u64,
    ) -> bool {
        groups.all(|group| {
            let held = self.held.get(&(group, is_shared)).copied().unwrap_or(0);
            let more = room.saturating_mul(times).saturating_sub(held);
            room = more / times.saturating_add(1);
            more > 0
        })
    }

    /// Returns the slot of a new meter that keys share.
    ///
    /// # Errors
    /// [`Full`] where there are too many, or its owner has more than could still come.
    pub(super) fn insert_shared(
        &mut self,
        subject: &str,
        owner: Owner,
        policy: &Policy,
    ) -> Result<usize, Full> {
        let room = SHARED_MAX.saturating_sub(self.shared);
        let groups = self.groups(subject, owner);
        if !self.has_part(groups, true, room, SHARED_ROOM_TIMES) {
            return Err(Full);
        }
        self.insert(subject, owner, policy, true)
    }

    /// Counts a key in, or out.
    fn count(&mut self, subject: &str, owner: Owner, is_shared: bool, comes: bool) {
        for group in self.groups(subject, owner) {
            let held = self.held.entry((group, is_shared)).or_default();
            *held = if comes {
                held.saturating_add(1)
            } else {
                held.saturating_sub(1)
            };
            if *held == 0 {
                self.held.remove(&(group, is_shared));
            }
        }
        let shared = u64::from(is_shared);
        self.shared = if comes {
            self.shared.saturating_add(shared)
        } else {
            self.shared.saturating_sub(shared)
        };
    }

    /// Returns the slot of a new key.
    ///
    /// # Errors
    /// [`Full`] where the bounds are reached. `is_forced` puts it in all the same.
    pub(super) fn insert(
        &mut self,
        subject: &str,
        owner: Owner,
        policy: &Policy,
        is_forced: bool,
    ) -> Result<usize, Full> {
        if !is_forced && self.is_full() {
            return Err(Full);
        }
        let subject: Arc<str> = Arc::from(subject);
        let entry = Entry {
            left: None,
            subject: Arc::clone(&subject),
            owner,
            policy: policy.clone(),
            lender: Lender::new(policy),
            row: 0,
            stored_bytes: 0,
            is_dirty: false,
            bytes: 0,
            lease_bytes: 0,
        };
        let slot = self.empty.pop().unwrap_or(self.entries.len());
        if slot == self.entries.len() {
            self.entries.push(None);
        }
        let is_shared = entry.is_shared();
        if let Some(contents) = self.entries.get_mut(slot) {
            *contents = Some(entry);
        }
        self.count(&subject, owner, is_shared, true);
        self.by_subject.insert(subject, slot);
        self.weigh(slot);
        Ok(slot)
    }

    /// Counts the bytes of a key anew, after it has changed.
    pub(super) fn weigh(&mut self, slot: usize) {
        if let Some(Some(entry)) = self.entries.get_mut(slot) {
            let bytes = entry.measure();
            let others = self.memory.bytes().saturating_sub(entry.bytes);
            self.memory.hold(others.saturating_add(bytes));
            entry.bytes = bytes;
            let of_leases = entry.lender.lease_bytes();
            let others = self.lease_bytes.saturating_sub(entry.lease_bytes);
            self.lease_bytes = others.saturating_add(of_leases);
            entry.lease_bytes = of_leases;
        }
    }

    /// Moves the hand on, and empties slots of keys that are idle. Calls `gone` for each.
    pub(super) fn sweep(&mut self, is_full: bool, now_ms: i64, mut gone: impl FnMut(&Entry)) {
        let many = if is_full { SWEPT_FULL } else { SWEPT_EACH };
        for _ in 0..many.min(self.entries.len()) {
            let slot = self.hand;
            self.hand = (slot + 1) % self.entries.len().max(1);
            let Some(contents) = self.entries.get_mut(slot) else {
                continue;
            };
            let Some(entry) = contents else { continue };
            if entry.is_dirty {
                continue;
            }
            entry.lender.expire(&entry.policy, now_ms);
            if entry.lender.idle_at_ms(&entry.policy) > now_ms {
                continue;
            }
            gone(entry);
            let others = self.memory.bytes().saturating_sub(entry.bytes);
            self.memory.hold(others);
            self.lease_bytes = self.lease_bytes.saturating_sub(entry.lease_bytes);
            self.by_subject.remove(&entry.subject);
            let (subject, owner, is_shared) =
                (Arc::clone(&entry.subject), entry.owner, entry.is_shared());
            *contents = None;
            self.empty.push(slot);
            self.count(&subject, owner, is_shared, false);
        }
    }
}
