//! Flags of work that runs once at a time.

use std::cell::Cell;

/// Resets a flag when the work ends, for whatever reason.
pub struct FlagGuard<'a>(pub &'a Cell<bool>);

impl Drop for FlagGuard<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}
