//! The memory that bulk bodies of one isolate use while they are read and counted, shared among their senders.
//!
//! Invariants: all bodies together use at most the maximum. A sender may grow only while it uses at most twice what is
//! free. So one sender alone gets two thirds, each of two gets two fifths, each of n gets 2 / (2 n + 1), and some
//! memory is always left for the next sender. Source: dynamic thresholds of Choudhury and Hahne, 1998, with α = 2.

use std::collections::HashMap;

/// How many times the free memory a sender may use.
const OF_REST: u64 = 2;

/// How much each sender uses.
#[derive(Clone, Debug)]
pub struct Shares {
    bytes_max: u64,
    bytes: u64,
    by_sender: HashMap<u64, u64>,
}

/// Why a body may not grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyRefusal {
    /// It would not fit even alone, so a repeat cannot succeed.
    Alone,
    /// Others, of the same sender or not, use the memory that it needs now.
    Now,
}

impl Shares {
    /// Shares of so many bytes, all free.
    pub fn new(bytes_max: u64) -> Self {
        Self {
            bytes_max,
            bytes: 0,
            by_sender: HashMap::new(),
        }
    }

    /// What one body may use if it is alone, in bytes.
    pub fn alone_bytes(&self) -> u64 {
        self.bytes_max / (OF_REST + 1) * OF_REST
    }

    /// Changes the memory of a sender's body from `before` to `after`; unchanged where that is refused. Shrinking
    /// always succeeds.
    ///
    /// # Errors
    /// [`BodyRefusal`], which says whether a repeat may succeed.
    pub fn hold(&mut self, sender: u64, before: u64, after: u64) -> Result<(), BodyRefusal> {
        if after > before && after > self.alone_bytes() {
            return Err(BodyRefusal::Alone);
        }
        let of_sender = self.by_sender.get(&sender).copied().unwrap_or(0);
        let of_sender = of_sender.saturating_sub(before).saturating_add(after);
        let bytes = self.bytes.saturating_sub(before).saturating_add(after);
        let rest = self.bytes_max.saturating_sub(bytes);
        if after > before && of_sender > rest.saturating_mul(OF_REST) {
            return Err(BodyRefusal::Now);
        }
        self.bytes = bytes;
        if of_sender == 0 {
            self.by_sender.remove(&sender);
        } else {
            self.by_sender.insert(sender, of_sender);
        }
        Ok(())
    }

    /// What all use together, in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How many senders use some.
    pub fn senders(&self) -> usize {
        self.by_sender.len()
    }
}
