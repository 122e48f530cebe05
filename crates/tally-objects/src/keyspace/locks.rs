//! Locks of keys: commands that add share a key, all others lock it exclusively.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use tally_host::Host;
use tally_wire::messages::Fault;

/// The interval at which a command checks whether its keys are free, milliseconds.
const LOOK_EVERY_MS: u64 = 1;

/// How long it tries, milliseconds: less than its sender waits.
const WAIT_MS_MAX: i64 = 3_000;

/// The mode of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LockMode {
    Alone,
    /// Shared by this many increments.
    Shared(u32),
}

/// The locked keys.
#[derive(Clone, Default)]
pub(super) struct Locks(Rc<RefCell<BTreeMap<String, LockMode>>>);

/// Locks of keys, released when it is dropped.
pub(super) struct Guard {
    locks: Locks,
    keys: BTreeSet<String>,
}

impl Locks {
    /// Locks all these keys at once, exclusively or shared.
    ///
    /// # Errors
    /// `Unavailable` if they stay locked for [`WAIT_MS_MAX`].
    pub(super) async fn hold(
        &self,
        host: &Host,
        keys: BTreeSet<String>,
        alone: bool,
    ) -> Result<Guard, Fault> {
        let begun_ms = host.now_ms();
        while !self.try_hold(&keys, alone) {
            if host.now_ms() - begun_ms > WAIT_MS_MAX {
                let busy = "another command works on this key; nothing was done";
                return Err(Fault::Unavailable(busy.to_owned()));
            }
            host.sleep_ms(LOOK_EVERY_MS).await;
        }
        Ok(Guard {
            locks: self.clone(),
            keys,
        })
    }

    /// Whether none of these keys is locked.
    pub(super) fn are_free(&self, keys: &BTreeSet<String>) -> bool {
        let held = self.0.borrow();
        keys.iter().all(|key| !held.contains_key(key))
    }

    fn try_hold(&self, keys: &BTreeSet<String>, alone: bool) -> bool {
        let mut held = self.0.borrow_mut();
        let is_free = |key: &String| match held.get(key) {
            None => true,
            Some(LockMode::Shared(_)) => !alone,
            Some(LockMode::Alone) => false,
        };
        if !keys.iter().all(is_free) {
            return false;
        }
        for key in keys {
            let now = match (alone, held.get(key)) {
                (true, _) => LockMode::Alone,
                (false, Some(LockMode::Shared(count))) => LockMode::Shared(count + 1),
                (false, _) => LockMode::Shared(1),
            };
            held.insert(key.clone(), now);
        }
        true
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let mut held = self.locks.0.borrow_mut();
        for key in &self.keys {
            match held.get_mut(key) {
                Some(LockMode::Shared(count)) if *count > 1 => *count -= 1,
                _ => {
                    held.remove(key);
                }
            }
        }
    }
}
