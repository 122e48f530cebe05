//! Random numbers for names that must not repeat: the system's, taken in blocks.

use std::cell::{Cell, RefCell};

/// Bytes that are taken from the system at once: a call for each number was a tenth of a small request's time.
const BLOCK_BYTES: usize = 4_096;

/// Random numbers that were taken and not given out yet.
pub(crate) struct Randomness {
    block: RefCell<Box<[u8]>>,
    used: Cell<usize>,
}

impl Default for Randomness {
    fn default() -> Self {
        Self {
            block: RefCell::new(vec![0; BLOCK_BYTES].into()),
            used: Cell::new(BLOCK_BYTES),
        }
    }
}

impl Randomness {
    /// 64 random bits. Each is given out once.
    ///
    /// # Errors
    /// If the system has no randomness.
    pub(crate) fn bits(&self) -> Result<u64, String> {
        let mut block = self.block.borrow_mut();
        if self.used.get() >= BLOCK_BYTES {
            getrandom::fill(&mut block).map_err(|error| error.to_string())?;
            self.used.set(0);
        }
        let from = self.used.get();
        self.used.set(from + 8);
        let bytes = block.get_mut(from..from + 8).unwrap_or_default();
        let bits = bytes
            .iter()
            .fold(0, |bits, byte| bits << 8 | u64::from(*byte));
        bytes.fill(0);
        Ok(bits)
    }
}
