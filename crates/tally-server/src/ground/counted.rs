//! Counts the work in progress in a thread.

use std::cell::Cell;
use std::rc::Rc;

/// How much work of one kind is in progress.
#[derive(Default)]
pub(crate) struct Count(Rc<Cell<usize>>);

/// One of a [`Count`], until it is dropped.
pub(crate) struct Counted(Rc<Cell<usize>>);

impl Count {
    /// Counts one more.
    pub(crate) fn begin(&self) -> Counted {
        self.0.set(self.0.get() + 1);
        Counted(self.0.clone())
    }

    /// How much is in progress.
    pub(crate) fn get(&self) -> usize {
        self.0.get()
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.set(self.0.get().saturating_sub(1));
    }
}
