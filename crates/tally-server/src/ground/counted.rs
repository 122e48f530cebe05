//! Counts what goes on in a thread.

use std::cell::Cell;
use std::rc::Rc;

/// How many go on.
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

    /// How many go on.
    pub(crate) fn get(&self) -> usize {
        self.0.get()
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.set(self.0.get().saturating_sub(1));
    }
}
