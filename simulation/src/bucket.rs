//! The deployment's files: a bucket, which is remote for all sites.
//!
//! An operation that has failed may still be executed, long after its caller was told so or has crashed.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use crate::core::Core;
use crate::one_shot::OneShot;

/// The time of an operation, microseconds: least and most. A failed operation may be executed up to a hundred times as
/// late.
const TAKES_US: (u64, u64) = (2_000, 60_000);

/// All files, by their names.
#[derive(Default)]
pub(crate) struct Bucket(RefCell<BTreeMap<String, Vec<u8>>>);

impl Bucket {
    /// Writes a file, or deletes it.
    pub(crate) fn put(&self, name: &str, bytes: Option<Vec<u8>>) {
        let mut files = self.0.borrow_mut();
        match bytes {
            Some(bytes) => files.insert(name.to_owned(), bytes),
            None => files.remove(name),
        };
    }

    /// What a file holds.
    pub(crate) fn get(&self, name: &str) -> Option<Vec<u8>> {
        self.0.borrow().get(name).cloned()
    }

    /// The names of all files.
    pub(crate) fn names(&self) -> Vec<String> {
        self.0.borrow().keys().cloned().collect()
    }

    /// The names of the files and folders that lie directly in a folder.
    pub(crate) fn names_in(&self, folder: &str) -> Vec<String> {
        let files = self.0.borrow();
        let below = files.keys().filter_map(|name| name.strip_prefix(folder));
        let firsts: BTreeSet<&str> = below.filter_map(|name| name.split('/').next()).collect();
        let names = firsts.into_iter().map(|first| format!("{folder}{first}"));
        names.collect()
    }

    /// Runs an operation after a time, and returns its result.
    pub(crate) fn work<T: 'static>(
        core: &Rc<Core>,
        work: impl FnOnce(&Self) -> T + 'static,
        slot: Rc<OneShot<Result<T, String>>>,
    ) {
        let fails = core.chance.once_in(core.faults.get().files_fail_once_in);
        let is_done = !fails || core.chance.once_in(2);
        let after_us = core.chance.between(TAKES_US.0, TAKES_US.1);
        if fails {
            let slot = slot.clone();
            core.after(after_us, move || {
                slot.fill(Err("the bucket failed".to_owned()))
            });
        }
        let late = if fails {
            core.chance.between(1, 100)
        } else {
            1
        };
        let known = core.clone();
        core.after(after_us * late, move || {
            if is_done {
                let done = work(&known.bucket);
                if !fails {
                    slot.fill(Ok(done));
                }
            }
        });
    }
}
