//! Flushes that are commits of their own.

use tally::core::counter::cell::Cell;
use tally::core::counter::flush::{Changes, Load, Refusal};
use tally::core::counter::nonces::{FlushEffect, Nonce};

/// Counts a flush alone.
pub trait ApplyAlone {
    /// Returns the state after it, and what to write.
    fn apply(
        &mut self,
        nonce: Nonce,
        load: &Load,
        now_ms: i64,
    ) -> Result<(FlushEffect, Changes), Refusal>;
}

impl ApplyAlone for Cell {
    fn apply(
        &mut self,
        nonce: Nonce,
        load: &Load,
        now_ms: i64,
    ) -> Result<(FlushEffect, Changes), Refusal> {
        let mut changes = Changes::default();
        let outcome = self.apply_in(nonce, load, now_ms, &mut changes)?;
        Ok((outcome, changes))
    }
}
