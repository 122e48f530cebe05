//! The room for replies that are stored under idempotency keys.
//!
//! Invariants: no caller stores more than its maximum, nor more than is left for all others together. So a caller that
//! stores all it may is refused, and no other caller is. Replies are counted in slots, which are deleted whole; a slot
//! is named by the time when it may be deleted, unix milliseconds.

use std::collections::BTreeMap;

use crate::options::number;
use crate::{VALUE_BYTES_MAX, error};
use tally_wire::messages::KeptSize;
use tally_wire::redis::Reply;

/// The most stored replies of all callers.
pub const KEPT_REPLIES_MAX: u64 = 2_000_000;

/// The most bytes of stored replies of all callers: 256 MiB of the 10 GB that an object may hold.
pub const KEPT_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// The most stored replies of one caller: 5 a second, kept for a day and a quarter.
pub const KEPT_REPLIES_OF_CALLER_MAX: u64 = 500_000;

/// The most bytes of stored replies of one caller.
pub const KEPT_BYTES_OF_CALLER_MAX: u64 = 64 * 1024 * 1024;

/// The most members that one command with an idempotency key removes and returns: its reply has 1 MiB at most, and a
/// row of an object 2 MB.
pub const KEPT_MEMBERS_MAX: u64 = 1_000;

/// What a stored reply uses besides itself, bytes: its name, the hash of its request, and its place in an index.
const KEPT_REPLY_BYTES: u64 = 64;

/// The most bytes of a reply that returns nothing stored: a number, or a sentence of an error.
const SHORT_BYTES_MAX: usize = 256;

/// The number of slots in the time that replies are kept.
const SLOTS: i64 = 4;

/// The size of one stored reply.
pub fn size_of(reply: &Reply) -> KeptSize {
    let bytes = u64::try_from(reply.bytes()).unwrap_or(u64::MAX);
    KeptSize {
        replies: 1,
        bytes: bytes.saturating_add(KEPT_REPLY_BYTES),
    }
}

/// The most that the reply to one command uses, except to one that removes members.
pub fn size_max(returns_stored: bool) -> KeptSize {
    let bytes = if returns_stored {
        VALUE_BYTES_MAX
    } else {
        SHORT_BYTES_MAX
    };
    KeptSize {
        replies: 1,
        bytes: u64::try_from(bytes).unwrap_or(u64::MAX),
    }
}

fn minus(size: KeptSize, other: KeptSize) -> KeptSize {
    KeptSize {
        replies: size.replies.saturating_sub(other.replies),
        bytes: size.bytes.saturating_sub(other.bytes),
    }
}

fn is_within(size: KeptSize, most: KeptSize) -> bool {
    size.replies <= most.replies && size.bytes <= most.bytes
}

/// The most of one caller.
const OF_CALLER_MAX: KeptSize = KeptSize {
    replies: KEPT_REPLIES_OF_CALLER_MAX,
    bytes: KEPT_BYTES_OF_CALLER_MAX,
};

/// The most of all callers.
const MAX: KeptSize = KeptSize {
    replies: KEPT_REPLIES_MAX,
    bytes: KEPT_BYTES_MAX,
};

/// The sizes of stored replies, by slot and caller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeptReplies {
    slots: BTreeMap<(i64, u64), KeptSize>,
    callers: BTreeMap<u64, KeptSize>,
    all: KeptSize,
}

impl KeptReplies {
    /// Whether a caller may store this much more.
    pub fn has_room(&self, caller: u64, more: KeptSize) -> bool {
        let own = self.callers.get(&caller).copied().unwrap_or_default();
        let (own, all) = (own.plus(more), self.all.plus(more));
        is_within(all, MAX) && is_within(own, OF_CALLER_MAX) && is_within(own, minus(MAX, all))
    }

    /// Adds what was stored. Returns what the caller has in that slot.
    pub fn add(&mut self, slot: i64, caller: u64, more: KeptSize) -> KeptSize {
        let of_caller = self.callers.entry(caller).or_default();
        *of_caller = of_caller.plus(more);
        self.all = self.all.plus(more);
        let of_slot = self.slots.entry((slot, caller)).or_default();
        *of_slot = of_slot.plus(more);
        *of_slot
    }

    /// Drops the slots that may be deleted. Returns whether there were any.
    pub fn expire(&mut self, now_ms: i64) -> bool {
        let left = self.slots.split_off(&(now_ms.saturating_add(1), 0));
        let gone = std::mem::replace(&mut self.slots, left);
        for ((_, caller), size) in &gone {
            self.all = minus(self.all, *size);
            if let Some(of_caller) = self.callers.get_mut(caller) {
                *of_caller = minus(*of_caller, *size);
                if of_caller.replies == 0 {
                    self.callers.remove(caller);
                }
            }
        }
        !gone.is_empty()
    }
}

/// The slot of a reply that is stored now and kept for so long, milliseconds. It is deleted up to a quarter of that
/// later.
pub fn slot_of(now_ms: i64, kept_ms: i64) -> i64 {
    let width = (kept_ms / SLOTS).max(1);
    let until_ms = now_ms.saturating_add(kept_ms);
    until_ms
        .div_euclid(width)
        .saturating_add(1)
        .saturating_mul(width)
}

/// The refusal of a command whose reply has no room.
pub fn no_room() -> Reply {
    Reply::err(format!(
        "this caller has as many stored replies to idempotency keys as it may: at most {KEPT_REPLIES_OF_CALLER_MAX} and \
         {KEPT_BYTES_OF_CALLER_MAX} bytes, and never more than all others have left; nothing was done, send it without \
         a key, or later"
    ))
}

/// The answer to a repeated attempt, by its stored reply; another request may not use its name.
pub fn repeated(reply: Reply, is_same: bool) -> Reply {
    if is_same { reply } else { error::key_reused() }
}

/// Succeeds if the reply to these words is small enough to be stored.
///
/// # Errors
/// The refusal.
pub fn check_reply(args: &[String]) -> Result<(), Reply> {
    let pops = args.first().is_some_and(|name| {
        name.eq_ignore_ascii_case("ZPOPMIN") || name.eq_ignore_ascii_case("ZPOPMAX")
    });
    let count = args.get(2).and_then(|count| number(count).ok());
    match count.and_then(|count| u64::try_from(count).ok()) {
        Some(count) if pops && count > KEPT_MEMBERS_MAX => Err(Reply::err(format!(
            "with an Idempotency-Key a command removes at most {KEPT_MEMBERS_MAX} members, not {count}; nothing was done, \
             send several"
        ))),
        _ => Ok(()),
    }
}
