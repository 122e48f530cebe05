//! The slots of a table, in which its keys lie.
//!
//! Invariants: `by_subject` and the filled slots name the same keys; `memory` holds the sum over the filled slots; a
//! slot is only emptied once its key is idle and stored. A clock hand moves over the slots, a few with each call, and
//! empties those with idle keys.

use alloc::sync::Arc;
use std::collections::HashMap;

use super::room::{BYTES_MAX, Full, KEYS_MAX, LEASES_BYTES_MIN};
use crate::lender::Lender;
use crate::memory::MemoryShare;
use crate::owner::{GroupingOfTable, KeyGroup, Owner, hash_of};
use crate::policy::Policy;

/// The slots that the hand checks with each call. A call fills at most one, so the hand passes all before they are
/// filled twice.
const SWEPT_EACH: usize = 2;

/// The slots that it checks if a key finds no room: 1,000 · 20 ns = 20 µs.
const SWEPT_FULL: usize = 1_000;

/// The most shared meters, for keys without room: of one policy and, below, of all: 1.6 MB at about 400 bytes.
const SHARED_EACH: u64 = 256;
const SHARED_MAX: u64 = 4_096;

/// A group may have at most the free room for keys times this: alone it may fill three quarters.
const ROOM_TIMES: u64 = 3;
/// A group may have at most the free room for shared meters times this: alone it may fill half.
const SHARED_ROOM_TIMES: u64 = 1;

/// The bytes of a key with few buckets.
const KEY_BYTES: u64 = 320;

/// The first character of the name of a shared meter; no client's key has a control character.
const SHARED: char = '\u{1}';

/// How long after a change the former policy is not applied again, milliseconds: isolates use a policy for at most
/// 3.5 s after they asked for it, and wait at most 1.5 s for a limiter. Another change of the key, or the end of its
/// override, takes effect as late as that.
const LEFT_MS: i64 = 5_000;

/// The bytes of the map and of the subject's header, besides the entry: 24 at a load of a half, and 16.
const MAP_ENTRY_BYTES: usize = 64;

/// One key.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// Policy's name, a zero, key.
    pub(super) subject: Arc<str>,
    pub(super) owner: Owner,
    pub(crate) policy: Policy,
    /// The former policy, if it counted in another way, and when it was changed.
    pub(super) left: Option<Box<(Policy, i64)>>,
    pub(crate) lender: Lender,
    /// The row with its newest stored state, and the length of that; 0 if there is none.
    pub(super) row: u64,
    pub(super) stored_bytes: u32,
    /// Whether it has changed since then.
    pub(super) is_dirty: bool,
    weight: Weight,
}

/// How many bytes are a unit of the parts of a [`Weight`].
const UNIT_BYTES: u64 = 16;

/// What a key weighs: in all, in bytes; its leases and named calls, which are below a MiB each, in units of 16 bytes.
/// It is as small as that because a limiter has 75,000 of them.
#[derive(Clone, Copy, Debug, Default)]
struct Weight {
    all: u32,
    leases: u16,
    calls: u16,
}

fn units(bytes: u64) -> u16 {
    u16::try_from(bytes.div_ceil(UNIT_BYTES)).unwrap_or(u16::MAX)
}

/// A sum in which one part has changed.
fn changed(sum: u64, from: u64, to: u64) -> u64 {
    sum.saturating_sub(from).saturating_add(to)
}

/// A sum of units in which one part has changed.
fn changed_units(sum: u64, from: u16, to: u16) -> u64 {
    let [from, to] = [from, to].map(|units| u64::from(units).saturating_mul(UNIT_BYTES));
    changed(sum, from, to)
}

impl Entry {
    /// Whether `policy` is the former one, sent by a caller that does not know of the change yet. A switch back would
    /// lose the use from before the shorter window.
    pub(super) fn has_left(&self, policy: &Policy, now_ms: i64) -> bool {
        let left = self.left.as_ref();
        left.is_some_and(|left| {
            let (left, left_ms) = &**left;
            left.counts_like(policy) && now_ms.saturating_sub(*left_ms) < LEFT_MS
        })
    }

    /// Whether it is a shared meter.
    pub(crate) fn is_shared(&self) -> bool {
        self.subject
            .split_once('\0')
            .is_some_and(|(_, key)| key.starts_with(SHARED))
    }

    /// Whether nothing is used or lent.
    pub(super) fn is_unused(&self, now_ms: i64) -> bool {
        !self.lender.lends() && self.lender.meter.used(&self.policy, now_ms) == 0
    }

    fn measure(&self) -> Weight {
        let bytes = size_of::<Self>() + MAP_ENTRY_BYTES + self.subject.len();
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        let all = bytes.saturating_add(self.lender.heap_bytes());
        Weight {
            all: u32::try_from(all).unwrap_or(u32::MAX),
            leases: units(self.lender.lease_bytes()),
            calls: units(self.lender.calls_bytes()),
        }
    }
}

fn name_of(subject: &str) -> &str {
    subject.split_once('\0').map_or(subject, |(name, _)| name)
}

/// The name of the meter that a key shares if there is no room for its own.
pub(super) fn shared_subject(subject: &str) -> String {
    let (name, key) = subject.split_once('\0').unwrap_or((subject, ""));
    format!("{name}\0{SHARED}{}", hash_of(key) % SHARED_EACH)
}

/// All keys.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slots {
    by_subject: HashMap<Arc<str>, usize>,
    entries: Vec<Option<Entry>>,
    empty: Vec<usize>,
    /// The memory of all keys, as a part of the isolate's.
    memory: MemoryShare,
    /// The bytes of all leases in it.
    lease_bytes: u64,
    /// The bytes of all named calls in it.
    calls_bytes: u64,
    hand: usize,
    grouping: GroupingOfTable,
    /// The number of keys, and of shared meters, of each group: 40 bytes each.
    held: HashMap<(KeyGroup, bool), u64>,
    shared: u64,
}

impl Slots {
    pub(super) fn slot_of(&self, subject: &str) -> Option<usize> {
        self.by_subject.get(subject).copied()
    }

    pub(crate) fn get(&self, slot: usize) -> Option<&Entry> {
        self.entries.get(slot)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, slot: usize) -> Option<&mut Entry> {
        self.entries.get_mut(slot)?.as_mut()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().flatten()
    }

    pub(super) fn len(&self) -> usize {
        self.by_subject.len()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.memory.bytes()
    }

    /// Counts its memory together with that of others.
    pub(super) fn sharing(mut self, mut memory: MemoryShare) -> Self {
        memory.hold(self.bytes());
        self.memory = memory;
        self
    }

    /// Divides room by these groups of keys. There are no keys yet.
    pub(super) fn grouped_by(mut self, grouping: GroupingOfTable) -> Self {
        self.grouping = grouping;
        self
    }

    /// The groups of a key, each within the one before.
    fn groups(&self, subject: &str, owner: Owner) -> impl Iterator<Item = KeyGroup> + use<> {
        let GroupingOfTable(grouping) = self.grouping;
        grouping(name_of(subject), owner).into_iter().flatten()
    }

    pub(super) fn calls_bytes(&self) -> u64 {
        self.calls_bytes
    }

    /// Whether there is no room for another key.
    pub(super) fn is_full(&self) -> bool {
        let keys = u32::try_from(self.by_subject.len()).unwrap_or(u32::MAX);
        keys >= KEYS_MAX || self.is_overgrown()
    }

    /// Whether existing keys may not grow either.
    pub(super) fn is_overgrown(&self) -> bool {
        !self.memory.has_room(BYTES_MAX)
    }

    /// Whether another lease may begin.
    pub(crate) fn has_room_for_lease(&self) -> bool {
        self.lease_bytes < LEASES_BYTES_MIN || !self.is_overgrown()
    }

    /// Whether there is room for another key of this owner. Each group may have three times as many keys as there is
    /// free room, so that none takes the room of others.
    pub(super) fn has_room_for(&self, subject: &str, owner: Owner) -> bool {
        let keys = u64::try_from(self.by_subject.len()).unwrap_or(u64::MAX);
        let bytes = self.memory.room(BYTES_MAX);
        let room = u64::from(KEYS_MAX)
            .saturating_sub(keys)
            .min(bytes / KEY_BYTES);
        !self.is_full() && self.has_part(self.groups(subject, owner), false, room, ROOM_TIMES)
    }

    /// Whether each of these nested groups, the outermost first, has less than `times` times its free room. The free
    /// room of the outermost is `room`. That of an inner group is what the outer one could still get: x with `held + x
    /// = times · (room - x)`.
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

    /// Returns the slot of a new shared meter.
    ///
    /// # Errors
    /// [`Full`] if there are too many, or if its owner has more than its part.
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

    /// Counts a key that comes or leaves.
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
    /// [`Full`] if the bounds are reached. With `is_forced` it is inserted all the same.
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
            weight: Weight::default(),
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

    /// Counts the bytes of a key again, after it has changed.
    pub(super) fn weigh(&mut self, slot: usize) {
        if let Some(Some(entry)) = self.entries.get_mut(slot) {
            let weight = entry.measure();
            let former = std::mem::replace(&mut entry.weight, weight);
            self.change(former, weight);
        }
    }

    fn change(&mut self, from: Weight, to: Weight) {
        let [from_all, to_all] = [from.all, to.all].map(u64::from);
        self.memory
            .hold(changed(self.memory.bytes(), from_all, to_all));
        self.lease_bytes = changed_units(self.lease_bytes, from.leases, to.leases);
        self.calls_bytes = changed_units(self.calls_bytes, from.calls, to.calls);
    }

    /// Moves the hand, and empties slots of idle keys. Calls `gone` for each. While rows are loaded, holds do not end:
    /// a later row may have the meter in which the end of a hold already counts.
    pub(super) fn sweep(
        &mut self,
        is_full: bool,
        is_loading: bool,
        now_ms: i64,
        mut gone: impl FnMut(&Entry),
    ) {
        let many = if is_full { SWEPT_FULL } else { SWEPT_EACH };
        for _ in 0..many.min(self.entries.len()) {
            let slot = self.hand;
            self.hand = (slot + 1) % self.entries.len().max(1);
            let Some(contents) = self.entries.get_mut(slot) else {
                continue;
            };
            let Some(entry) = contents else { continue };
            if entry.is_dirty || is_loading && entry.lender.calls.is_some() {
                continue;
            }
            entry.lender.expire(&entry.policy, now_ms);
            if entry.lender.idle_at_ms(&entry.policy) > now_ms {
                continue;
            }
            gone(entry);
            let weight = entry.weight;
            self.by_subject.remove(&entry.subject);
            let (subject, owner, is_shared) =
                (Arc::clone(&entry.subject), entry.owner, entry.is_shared());
            *contents = None;
            self.empty.push(slot);
            self.change(weight, Weight::default());
            self.count(&subject, owner, is_shared, false);
        }
    }
}
