//! The memory that clients fill: answers that wait, and of Redis's protocol commands that arrive, and transactions.
//!
//! Invariant: a client that fills little is never refused for what others fill. Of the others, none may fill more once
//! all together have the most.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

/// What each client may fill without being counted: it is part of what a connection takes.
pub(crate) const UNCOUNTED_BYTES: usize = 16 * 1_024;

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
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        self.room.bytes.fetch_sub(self.bytes, Relaxed);
    }
}

#[cfg(test)]
mod tests {
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
        drop((other, small));
        assert_eq!(room.bytes.load(Relaxed), 0);
    }
}
