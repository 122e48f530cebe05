//! The calls of a body, and the writes of one call.

use std::cell::Cell;

use tally_wire::problem::{Code, Problem};

/// The most keyed writes in one message: each is two rows at the lead, so a message takes about 0.1 s.
pub const KEYED_AT_ONCE_MAX: usize = 2_000;

/// The calls that a body may still make, shared by all its counters, first come, first served. Usually one lead decides
/// all keys of a counter. Where many leads hold them, the remaining calls are used, and may not suffice.
#[derive(Debug)]
pub struct CallBudget(Cell<usize>);

impl CallBudget {
    /// A budget of `calls` calls.
    pub fn new(calls: usize) -> Self {
        Self(Cell::new(calls))
    }

    /// No limit: for calls that travel in messages of others.
    pub fn unbounded() -> Self {
        Self::new(usize::MAX)
    }

    /// Takes one call. Returns false if none is left.
    #[must_use]
    pub fn take(&self) -> bool {
        self.take_many(1)
    }

    /// Takes `calls` calls. Takes none and returns false if fewer are left.
    #[must_use]
    pub fn take_many(&self, calls: usize) -> bool {
        let left = self.0.get().checked_sub(calls);
        if let Some(left) = left {
            self.0.set(left);
        }
        left.is_some()
    }

    /// The refusal of a line for which no call is left.
    pub fn spent() -> Problem {
        Problem::new(
            Code::TooManyCounters,
            "the body names more counters, or boards, than one request may call here; nothing of this line was counted, send it in another body",
        )
    }

    /// Takes all that are left, for work that continues after this request.
    #[must_use]
    pub fn take_rest(&self) -> Self {
        Self::new(self.0.take())
    }

    /// Gives back what was taken and not used.
    pub fn give_back(&self, calls: usize) {
        self.0.set(self.0.get().saturating_add(calls));
    }
}
