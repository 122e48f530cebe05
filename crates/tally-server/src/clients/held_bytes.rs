//! The memory that clients fill: bodies that arrive, answers and updates that wait, and of Redis's protocol commands
//! that arrive, and transactions.
//!
//! Invariant: a client that fills little is never refused for what others fill. Of the others, none may fill more once
//! all together have the most.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// What each client may fill without being counted: it is part of what a connection takes.
pub(crate) const UNCOUNTED_BYTES: usize = 16 * 1_024;

/// How often a client that waits looks for room.
const ROOM_LOOK: Duration = Duration::from_millis(20);

/// The memory of all clients together.
#[derive(Default)]
pub(crate) struct HeldRoom {
    bytes_max: usize,
    bytes: AtomicUsize,
}

impl HeldRoom {
    pub(crate) fn new(bytes_max: usize) -> Arc<Self> {
        let bytes = AtomicUsize::default();
        Arc::new(Self { bytes_max, bytes })
    }

    /// The most bytes.
    pub(crate) fn bytes_max(&self) -> usize {
        self.bytes_max
    }
}

/// What one client fills.
pub(crate) struct HeldBytes {
    room: Arc<HeldRoom>,
    bytes: usize,
}

impl HeldBytes {
    /// A client that fills nothing.
    pub(crate) fn new(room: &Arc<HeldRoom>) -> Self {
        let (room, bytes) = (room.clone(), 0);
        Self { room, bytes }
    }

    /// Counts what the client fills from now on. Returns whether there is room for it.
    pub(crate) fn set(&mut self, bytes: usize) -> bool {
        let bytes = bytes.saturating_sub(UNCOUNTED_BYTES);
        let before = std::mem::replace(&mut self.bytes, bytes);
        if bytes == before {
            return true;
        }
        let all = self.room.bytes.fetch_add(bytes, Relaxed);
        self.room.bytes.fetch_sub(before, Relaxed);
        bytes < before || all.saturating_sub(before).saturating_add(bytes) <= self.room.bytes_max
    }

    /// As [`Self::set`], but only where there is room for it.
    fn set_within(&mut self, bytes: usize) -> bool {
        let before = self.bytes;
        let has_room = self.set(bytes);
        if !has_room {
            let more = std::mem::replace(&mut self.bytes, before) - before;
            self.room.bytes.fetch_sub(more, Relaxed);
        }
        has_room
    }

    /// Waits until there is room for what the client fills. For how long is up to whoever waits.
    pub(crate) async fn wait(held: &RefCell<Self>, bytes: usize) {
        while !held.borrow_mut().set_within(bytes) {
            tokio::time::sleep(ROOM_LOOK).await;
        }
    }
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        self.room.bytes.fetch_sub(self.bytes, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn who_fills_more_is_refused_and_who_fills_little_never() {
        let room = HeldRoom::new(100_000);
        let [mut one, mut other, mut small] = [0; 3].map(|_| HeldBytes::new(&room));
        assert!(one.set(UNCOUNTED_BYTES + 60_000));
        assert!(!other.set(UNCOUNTED_BYTES + 40_001));
        assert!(small.set(UNCOUNTED_BYTES));
        assert!(other.set(UNCOUNTED_BYTES + 40_000));
        assert!(!one.set(UNCOUNTED_BYTES + 60_001));
        assert!(one.set(UNCOUNTED_BYTES + 60_000));
        drop(one);
        assert!(other.set(UNCOUNTED_BYTES + 100_000));
        assert!(small.set_within(UNCOUNTED_BYTES));
        assert!(!small.set_within(UNCOUNTED_BYTES + 1));
        assert!(other.set_within(UNCOUNTED_BYTES + 50_000));
        assert!(small.set_within(UNCOUNTED_BYTES + 50_000));
        drop((other, small));
        assert_eq!(room.bytes.load(Relaxed), 0);
    }

    #[test]
    fn who_waits_gets_room_once_another_leaves_it() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build();
        runtime.expect("a runtime").block_on(async {
            let room = HeldRoom::new(100_000);
            let [first, next] = [0; 2].map(|_| RefCell::new(HeldBytes::new(&room)));
            let all = UNCOUNTED_BYTES + 90_000;
            assert!(HeldBytes::wait(&first, all).now_or_never().is_some());
            assert!(HeldBytes::wait(&next, all).now_or_never().is_none());
            // Whoever waits in vain has what it had before.
            assert_eq!(room.bytes.load(Relaxed), 90_000);
            drop(first);
            HeldBytes::wait(&next, all).await;
            assert_eq!(room.bytes.load(Relaxed), 90_000);
        });
    }
}
