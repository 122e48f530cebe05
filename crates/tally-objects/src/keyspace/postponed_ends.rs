//! The ends of keys that have failed, and when each is tried again.

use std::cell::{Cell, RefCell};

use tally_core::counter::bounded_map::BoundedMap;
use tally_core::order::put_in_order;

/// The most postponed ends, about 150 bytes each. Other failed ends are retried by each alarm.
pub const ENDS_POSTPONED_MAX: usize = 10_000;

/// The keys that one alarm ends, without those whose end has failed before: each may need calls to a root. The next
/// alarm follows at once and ends further ones.
pub(super) const LAPSED_AT_ONCE: usize = 500;

/// The keys whose end has failed before that one alarm tries again.
const RETRIED_AT_ONCE: usize = 64;

/// The ends that have failed.
#[derive(Default)]
pub(super) struct PostponedEnds {
    /// When each is retried, unix milliseconds, and for how long it was postponed.
    pub(super) keys: RefCell<BoundedMap<String, (i64, i64), ENDS_POSTPONED_MAX>>,
    /// All keys that had expired by this time have ended or are postponed, unix milliseconds.
    pub(super) swept_ms: Cell<i64>,
}

impl PostponedEnds {
    /// The keys to end now: those whose end was not tried before, and some of the postponed ones that are due. Also
    /// returns whether all of the first kind are among them.
    pub(super) fn due_keys(&self, lapsed: Vec<String>, now_ms: i64) -> (Vec<String>, bool) {
        let keys = self.keys.borrow();
        let (mut due_keys, mut again) = (Vec::new(), Vec::new());
        for key in lapsed {
            match keys.peek(&key) {
                None => due_keys.push(key),
                Some((due_ms, _)) if *due_ms <= now_ms => again.push((*due_ms, key)),
                Some(_) => {}
            }
        }
        let has_first = due_keys.len() <= LAPSED_AT_ONCE;
        due_keys.truncate(LAPSED_AT_ONCE);
        // The longest waiting ones first: ends that fail each time come after the others.
        put_in_order(&mut again, Ord::cmp);
        again.truncate(RETRIED_AT_ONCE);
        due_keys.extend(again.into_iter().map(|(_, key)| key));
        (due_keys, has_first)
    }

    /// Records that a key was stored that expires at a time, unix milliseconds: an alarm must ring for it, whatever was
    /// ended before.
    pub(super) fn record_expiry(&self, expires_ms: i64) {
        let before_ms = expires_ms.saturating_sub(1);
        self.swept_ms.set(self.swept_ms.get().min(before_ms));
    }

    pub(super) fn postpone(&self, key: String, now_ms: i64) {
        let mut keys = self.keys.borrow_mut();
        let (first_ms, longest_ms) = POSTPONED_MS;
        let before_ms = keys.peek(&key).map(|(_, wait_ms)| wait_ms * 2);
        let wait_ms = before_ms.unwrap_or(first_ms).min(longest_ms);
        if keys.has_room(&key) {
            keys.insert(key, (now_ms + wait_ms, wait_ms));
        }
    }

    pub(super) fn next_due_ms(&self) -> Option<i64> {
        let keys = self.keys.borrow();
        keys.iter().map(|(_, (due_ms, _))| *due_ms).min()
    }
}

/// How long an end that has failed is postponed, milliseconds: at first, and at most. It doubles each time.
const POSTPONED_MS: (i64, i64) = (1_000, 60_000);
