//! The memory that bulk bodies of one isolate hold while they are read and counted, shared among their senders.
//!
//! Invariants: all together hold at most the maximum; a sender may grow only while it holds at most twice what is left. So
//! one alone gets two thirds, of two each gets two fifths, of n each gets 2 / (2 n + 1), and something is left for who
//! comes next, whatever others hold. Source: dynamic thresholds of Choudhury and Hahne, 1998, with α = 2.

use std::collections::HashMap;

/// How much of what is left a sender may hold.
const OF_REST: u64 = 2;

/// Who holds how much.
#[derive(Clone, Debug)]
pub struct Shares {
    bytes_max: u64,
    bytes: u64,
    by_sender: HashMap<u64, u64>,
}

/// Why a body may not grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyRefusal {
    /// It would not fit if it were alone, so there is no use in sending it again.
    Alone,
    /// Others, of its sender or not, hold what it needs now.
    Now,
}

impl Shares {
    /// Nobody holds any of so many bytes.
    pub fn new(bytes_max: u64) -> Self {
        Self {
            bytes_max,
            bytes: 0,
            by_sender: HashMap::new(),
        }
    }

    /// What one body may hold that is alone, bytes.
    pub fn alone_bytes(&self) -> u64 {
        self.bytes_max / (OF_REST + 1) * OF_REST
    }

    /// Lets a body of a sender, which holds `before`, hold `after` from now on; unchanged where it may not. To hold less is
    /// always possible.
    ///
    /// # Errors
    /// [`BodyRefusal`], which says whether it may later.
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

    /// What all hold together, bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How many senders hold something.
    pub fn senders(&self) -> usize {
        self.by_sender.len()
    }
}
