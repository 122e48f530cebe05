//! Whether an object's storage could be read. While it could not, every call is refused: answers and writes based on
//! empty memory would be wrong.

use std::cell::RefCell;

use tally_wire::messages::Fault;

/// Why storage could not be read, if it could not.
#[derive(Default)]
pub(crate) struct StorageGuard(RefCell<Option<Fault>>);

impl StorageGuard {
    /// Records the result of a read.
    pub(crate) fn record(&self, read: Result<(), Fault>) {
        self.0.replace(read.err());
    }

    /// Refuses while storage cannot be read. `again` reads it once more and records the result, because the failure may
    /// have been temporary, such as a lack of file descriptors.
    ///
    /// # Errors
    /// The fault that was recorded last.
    pub(crate) fn check(&self, again: impl FnOnce()) -> Result<(), Fault> {
        if matches!(&*self.0.borrow(), Some(Fault::Unavailable(_))) {
            again();
        }
        self.0.borrow().clone().map_or(Ok(()), Err)
    }
}
