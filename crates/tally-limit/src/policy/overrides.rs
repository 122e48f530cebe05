//! Overrides: what a policy promises to some of its keys instead.
//!
//! Invariant: among the overrides that have not ended, a key has the one of exactly this key. If there is none, the key
//! has the one with the longest prefix. What [`Override::apply`] returns is a policy that passes [`Policy::check`]
//! wherever the overridden policy does, also if that was replaced since the override was made.
//!
//! The longest prefix is found in any ordered list ([`longest_prefix`]): the rows of a table, or an [`OverrideSet`].
//! A [`PatternFilter`] says of most keys without an override that they have none.

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Bound;

use serde::{Deserialize, Serialize};

use super::{Algorithm, LIMIT_MAX, PRECISE_LIMIT_MAX, Policy};
use crate::named::HOLD_SECONDS_MAX;

/// What a key is promised. Stored: append, never reorder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum OverrideEffect {
    /// Another limit, window or burst; the policy's where one is missing.
    Limited {
        /// Instead of [`Policy::limit`].
        limit: Option<u64>,
        /// Instead of [`Policy::window_ms`].
        window_ms: Option<i64>,
        /// Instead of [`Policy::burst`].
        burst: Option<u64>,
    },
    /// Everything is admitted.
    Unlimited,
    /// Nothing is admitted.
    Blocked,
}

/// An override. A stored format and a part of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Override {
    /// What it promises.
    pub effect: OverrideEffect,
    /// When it ends, unix milliseconds; `None` where it lasts until it is deleted.
    pub ends_ms: Option<i64>,
}

impl Override {
    /// Whether it has not ended.
    pub fn is_valid(&self, now_ms: i64) -> bool {
        self.ends_ms.is_none_or(|ends_ms| now_ms < ends_ms)
    }

    /// The policy with what it replaces, as it was sent: it may not pass [`Policy::check`].
    pub fn replace_in(&self, policy: &Policy) -> Policy {
        let (limit, window_ms, burst) = match self.effect {
            OverrideEffect::Limited {
                limit,
                window_ms,
                burst,
            } => (limit, window_ms, burst),
            OverrideEffect::Unlimited => (Some(LIMIT_MAX), None, Some(LIMIT_MAX)),
            OverrideEffect::Blocked => (None, None, None),
        };
        Policy {
            limit: limit.unwrap_or(policy.limit),
            window_ms: window_ms.unwrap_or(policy.window_ms),
            // As in a policy, a limit without a burst is the burst.
            burst: burst.or(limit).unwrap_or(policy.burst),
            is_precise: policy.is_precise && self.effect != OverrideEffect::Unlimited,
            ..policy.clone()
        }
    }

    /// The policy of an overridden key. If a value is too large for the policy, the largest one is applied.
    pub fn apply(&self, policy: &Policy) -> Policy {
        let replaced = self.replace_in(policy);
        let hold_ms_max = i64::try_from(HOLD_SECONDS_MAX.saturating_mul(1_000)).unwrap_or(i64::MAX);
        let (limit_max, window_ms_max) = match replaced.algorithm {
            Algorithm::Concurrency => (LIMIT_MAX, hold_ms_max),
            _ if replaced.is_precise => (PRECISE_LIMIT_MAX, i64::MAX),
            _ => (LIMIT_MAX, i64::MAX),
        };
        Policy {
            limit: replaced.limit.min(limit_max),
            window_ms: replaced.window_ms.min(window_ms_max),
            ..replaced
        }
    }
}

/// The longest prefix of a key in an ordered list, with its value. `greatest` returns the greatest text of the list
/// that is at most another one, by bytes. Values of which `is_valid` is false are skipped. Cost: a call for each
/// sibling on the way, most often two, and never more than the key has characters.
///
/// Each prefix of a text is at most that text. If the greatest text is no prefix, it differs from the bound at some
/// byte, where the bound is greater. A longer prefix of the bound would be greater than that text, so only prefixes of
/// what both have in common remain.
///
/// # Errors
/// Those of `greatest`.
pub fn longest_prefix<T, E>(
    key: &str,
    mut greatest: impl FnMut(&str) -> Result<Option<(String, T)>, E>,
    is_valid: impl Fn(&T) -> bool,
) -> Result<Option<(String, T)>, E> {
    let mut bound = key;
    loop {
        let Some((text, value)) = greatest(bound)? else {
            return Ok(None);
        };
        let is_prefix = bound.starts_with(text.as_str());
        if is_prefix && is_valid(&value) {
            return Ok(Some((text, value)));
        }
        let shorter = if is_prefix {
            text.char_indices().next_back().map(|(index, _)| index)
        } else {
            let common = bound.chars().zip(text.chars());
            let common = common.take_while(|(one, other)| one == other);
            Some(common.map(|(one, _)| one.len_utf8()).sum())
        };
        let shorter = shorter.and_then(|length| bound.get(..length));
        match shorter {
            Some(shorter) if shorter.len() < bound.len() => bound = shorter,
            _ => return Ok(None),
        }
    }
}

/// Values of exact keys and of prefixes, all in memory.
#[derive(Clone, Debug)]
pub struct OverrideSet<T> {
    exact: BTreeMap<String, T>,
    prefixes: BTreeMap<String, T>,
}

impl<T> Default for OverrideSet<T> {
    fn default() -> Self {
        Self {
            exact: BTreeMap::new(),
            prefixes: BTreeMap::new(),
        }
    }
}

impl<T> OverrideSet<T> {
    /// Inserts the value of a key, or of a prefix of keys.
    pub fn insert(&mut self, text: &str, is_prefix: bool, value: T) {
        let list = if is_prefix {
            &mut self.prefixes
        } else {
            &mut self.exact
        };
        list.insert(text.to_string(), value);
    }

    /// The value of a key: of exactly this key, otherwise of its longest prefix. Values of which `is_valid` is false
    /// are skipped.
    pub fn find(&self, key: &str, is_valid: impl Fn(&T) -> bool) -> Option<&T> {
        if let Some(value) = self.exact.get(key).filter(|value| is_valid(value)) {
            return Some(value);
        }
        let greatest = |bound: &str| {
            let range = (Bound::Unbounded, Bound::Included(bound));
            let found = self.prefixes.range::<str, _>(range).next_back();
            Ok::<_, core::convert::Infallible>(found.map(|(text, value)| (text.clone(), value)))
        };
        match longest_prefix(key, greatest, |value| is_valid(value)) {
            Ok(found) => found.map(|(_, value)| value),
            Err(never) => match never {},
        }
    }
}

/// The bits of a filter for each pattern, and the probes of one: 1 % of the other keys pass.
const BITS_EACH: usize = 10;
const PROBES: u64 = 7;

/// A Bloom filter of patterns, and the lengths of their prefixes. A key that does not pass has no pattern. Source:
/// Bloom 1970; two hashes for all probes: Kirsch and Mitzenmacher 2006. A part of messages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PatternFilter {
    bits: Vec<u8>,
    /// The lengths of prefixes in bytes, each once, in order.
    lengths: Vec<u16>,
}

impl PatternFilter {
    /// A filter without patterns, with room for this number: 1.25 bytes each.
    pub fn with_room(patterns: usize) -> Self {
        let bytes = patterns.max(1).saturating_mul(BITS_EACH).div_ceil(8);
        Self {
            bits: vec![0; bytes],
            lengths: Vec::new(),
        }
    }

    /// Adds a pattern. With more patterns than there is room for, more of the other keys pass.
    pub fn insert(&mut self, text: &str, is_prefix: bool) {
        let hash = text.bytes().fold(FIRST, step);
        if is_prefix {
            let length = u16::try_from(text.len()).unwrap_or(u16::MAX);
            if let Err(place) = self.lengths.binary_search(&length) {
                self.lengths.insert(place, length);
            }
        }
        let size = self.size();
        for bit in probes(hash, is_prefix, size) {
            let place = usize::try_from(bit / 8).unwrap_or(usize::MAX);
            if let Some(byte) = self.bits.get_mut(place) {
                *byte |= 1 << (bit % 8);
            }
        }
    }

    /// Whether a key may have a pattern. Cost: one pass over the key, and a probe for each length of a prefix.
    pub fn may_match(&self, key: &str) -> bool {
        let mut lengths = self.lengths.iter().peekable();
        let mut hash = FIRST;
        for (index, byte) in (0_u16..).zip(key.bytes()) {
            if lengths.next_if_eq(&&index).is_some() && self.has(hash, true) {
                return true;
            }
            hash = step(hash, byte);
        }
        let whole = u16::try_from(key.len()).unwrap_or(u16::MAX);
        let is_prefix_too = lengths.next_if_eq(&&whole).is_some();
        (is_prefix_too && self.has(hash, true)) || self.has(hash, false)
    }

    /// Its size in bits; 0 for one that was sent without any.
    fn size(&self) -> u64 {
        let bytes = u64::try_from(self.bits.len()).unwrap_or(u64::MAX);
        bytes.saturating_mul(8)
    }

    fn has(&self, hash: u64, is_prefix: bool) -> bool {
        probes(hash, is_prefix, self.size()).all(|bit| {
            let place = usize::try_from(bit / 8).unwrap_or(usize::MAX);
            let byte = self.bits.get(place);
            byte.is_some_and(|byte| byte & (1 << (bit % 8)) != 0)
        })
    }
}

/// FNV-1a, 64 bits: its state after a byte is the hash of the prefix up to there.
const FIRST: u64 = 0xcbf2_9ce4_8422_2325;

fn step(hash: u64, byte: u8) -> u64 {
    (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
}

/// The bits of a pattern in a filter of this size. Source of the mixing: splitmix64.
fn probes(hash: u64, is_prefix: bool, size: u64) -> impl Iterator<Item = u64> {
    let mut mixed = hash ^ u64::from(is_prefix);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^= mixed >> 31;
    let second = mixed.rotate_left(32) | 1;
    let bit = move |probe: u64| {
        mixed
            .wrapping_add(probe.wrapping_mul(second))
            .checked_rem(size)
    };
    (0..PROBES).map(move |probe| bit(probe).unwrap_or(0))
}
