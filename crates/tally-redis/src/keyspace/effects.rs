//! What becomes of a key: the effect of a command, by the key's state before and after.

use super::steps::CommandRequest;
use crate::error;
use crate::space::{KeyspaceEntry, StoredValue};
use tally_wire::redis::Reply;

/// The effect of a command on the counter of a key. `S`: the counter as it was read; it must not have changed since.
#[derive(Debug, PartialEq, Eq)]
pub enum CounterEffect<S> {
    /// There is none.
    Same,
    /// A counter begins with a value.
    Begin(i64),
    /// An increment.
    Add(i64, S),
    /// The counter gets a value, or ends without one.
    Replace(Option<i64>, Option<S>),
}

/// The effect of a command on a key.
#[derive(Debug, PartialEq, Eq)]
pub struct KeyEffect<S> {
    /// Whether the board of this name ends.
    pub ends_board: bool,
    /// What happens to the counter of this name.
    pub counter: CounterEffect<S>,
    /// Whether the key is deleted, so that a counter or a board that other calls have made of its name ends too; and
    /// whether it was a counter.
    pub deleted: Option<bool>,
}

impl<S> KeyEffect<S> {
    /// The effect of a command.
    ///
    /// # Errors
    /// The refusal of an increment that does not fit into 64 bits.
    pub fn of(
        request: &CommandRequest<'_>,
        (before, after): (Option<&KeyspaceEntry>, Option<&KeyspaceEntry>),
        seen: Option<S>,
    ) -> Result<Self, Reply> {
        let is_sorted = |entry: Option<&KeyspaceEntry>| {
            entry.is_some_and(|entry| entry.value == StoredValue::Sorted)
        };
        let counted = |entry: Option<&KeyspaceEntry>| {
            let counter = entry.filter(|entry| entry.is_counter)?;
            Some(counter.number())
        };
        let (was, is) = (counted(before), counted(after));
        let counter = match (before, is.flatten(), seen) {
            _ if was == is => CounterEffect::Same,
            (None, Some(value), _) => CounterEffect::Begin(value),
            // What it adds counts as an increment, in the history too.
            (Some(before), Some(value), Some(seen)) if request.adds_within() => {
                let delta = before.number().and_then(|was| value.checked_sub(was));
                CounterEffect::Add(delta.ok_or_else(error::overflow)?, seen)
            }
            (_, value, seen) => CounterEffect::Replace(value, seen),
        };
        let is_deleted =
            before.is_some() && after.is_none() && !is_sorted(before) && !request.is_script();
        Ok(Self {
            ends_board: is_sorted(before) && !is_sorted(after),
            counter,
            deleted: is_deleted.then_some(was.is_some()),
        })
    }
}
