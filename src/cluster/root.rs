//! The root of a counter: which generation lives, with what settings, and in which datacenters.
//!
//! Invariants: generations of a counter only rise; a datacenter is in the root before any of its
//! cells acknowledges a write of that generation; the root is live or ended, never both.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::counter::grant::Grant;
use crate::counter::id::Datacenter;
use crate::counter::queue::InboxId;
use crate::counter::settings::{Settings, TtlMode};

/// How long the memory of an ended generation is kept: the idempotency time (24 h) and an hour,
/// after which no retry of the old generation can come.
pub const TOMBSTONE_KEPT_MS: i64 = 25 * 3_600_000;

/// The most datacenters of one counter; Cloudflare has about 340 colos.
pub const DATACENTERS_MAX: usize = 1_024;

/// What the directory keeps of a counter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Entry {
    /// The counter exists.
    Live(Root),
    /// Its last generation has ended.
    Ended {
        /// The generation that ended.
        generation: u64,
        /// When, unix milliseconds.
        at_ms: i64,
    },
}

/// The root of a living counter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Root {
    /// The living generation.
    pub generation: u64,
    /// When it was created, unix milliseconds.
    pub created_at_ms: i64,
    /// Its settings.
    pub settings: Settings,
    /// The datacenters that have cells.
    pub datacenters: BTreeSet<Datacenter>,
    /// The newest write that the root has heard of, unix milliseconds.
    pub last_write_ms: i64,
    /// When the end is tried again that could not be carried out, unix milliseconds; 0 for none.
    pub retry_end_ms: i64,
    /// Inboxes that may have events of it which are not counted yet; a strong read asks them.
    pub inboxes: BTreeSet<InboxId>,
}

impl Root {
    /// A new counter. Its generation is above the one that ended, and above the clock in
    /// milliseconds, so that it rises even where no memory of the old one is left.
    pub fn create(before: Option<&Entry>, now_ms: i64) -> Self {
        let from_clock = u64::try_from(now_ms).unwrap_or(0);
        let above_old = before.map_or(1, |entry| entry.generation() + 1);
        Self {
            generation: from_clock.max(above_old),
            created_at_ms: now_ms,
            settings: Settings::default(),
            datacenters: BTreeSet::new(),
            last_write_ms: now_ms,
            retry_end_ms: 0,
            inboxes: BTreeSet::new(),
        }
    }

    /// When the counter ends by what the root knows; leads may know of later writes.
    pub fn expires_at_ms(&self) -> Option<i64> {
        self.settings
            .ttl
            .map(|ttl| ttl.expires_at_ms(self.last_write_ms))
    }

    /// Whether the time to live has passed by what the root knows.
    pub fn is_due(&self, now_ms: i64) -> bool {
        self.expires_at_ms().is_some_and(|at| now_ms >= at)
    }

    /// Tries an end that could not be carried out again at that time, not before. A sliding counter
    /// lives until then, since its leads could not be asked for their last write.
    pub fn postpone_end(&mut self, until_ms: i64) {
        self.retry_end_ms = until_ms;
        if self.is_sliding() {
            let length_ms = self.settings.ttl.map_or(0, |ttl| ttl.length_ms());
            self.last_write_ms = self.last_write_ms.max(until_ms.saturating_sub(length_ms));
        }
    }

    /// Whether leads must be asked for their last write before the counter may end.
    pub fn is_sliding(&self) -> bool {
        self.settings
            .ttl
            .is_some_and(|ttl| ttl.mode == TtlMode::Sliding)
    }

    /// The lead that must be told, before `newcomer` may count, that it is no longer alone.
    pub fn lone_lead(&self, newcomer: &Datacenter) -> Option<&Datacenter> {
        let only = self
            .datacenters
            .first()
            .filter(|_| self.datacenters.len() == 1);
        only.filter(|lead| *lead != newcomer)
    }

    /// The grant for the lead of a datacenter; `alone` if no other datacenter counts.
    pub fn grant(&self, datacenter: &Datacenter) -> Grant {
        Grant {
            generation: self.generation,
            settings: self.settings,
            last_write_ms: self.last_write_ms,
            // Of a counter with queued events no cell knows the whole.
            alone: self.inboxes.is_empty()
                && self.datacenters.iter().all(|other| other == datacenter),
            spread: 0,
        }
    }
}

impl Entry {
    /// The generation that lives or ended last.
    pub fn generation(&self) -> u64 {
        match self {
            Self::Live(root) => root.generation,
            Self::Ended { generation, .. } => *generation,
        }
    }

    /// When the directory must look at the entry again, unix milliseconds.
    pub fn due_at_ms(&self) -> Option<i64> {
        match self {
            Self::Live(root) => root
                .expires_at_ms()
                .map(|at_ms| at_ms.max(root.retry_end_ms)),
            Self::Ended { at_ms, .. } => Some(at_ms.saturating_add(TOMBSTONE_KEPT_MS)),
        }
    }
}

/// The first text after all texts that begin with `prefix`, in the order of their code points;
/// `None` where there is none. Listing reads from `prefix` up to it.
pub fn prefix_end(prefix: &str) -> Option<String> {
    let mut chars: Vec<char> = prefix.chars().collect();
    while let Some(last) = chars.pop() {
        // Stepping over the surrogates, which are no characters.
        let next = match last {
            '\u{d7ff}' => Some('\u{e000}'),
            _ => char::from_u32(u32::from(last) + 1),
        };
        if let Some(next) = next {
            chars.push(next);
            return Some(chars.into_iter().collect());
        }
    }
    None
}
