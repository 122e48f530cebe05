//! The holder of a key: name, end and budget.

use tally_wire::rights::{ApiKey, Inheritance, KeyBudget, KeyId};

/// The holder of a key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holder {
    /// The key's id, where it was made by a call.
    pub id: Option<KeyId>,
    /// Its name; for a configured key without a name, its index in the configuration.
    pub name: String,
    /// When it ends, unix milliseconds, if it does.
    pub expires_ms: Option<i64>,
    /// How much it may do in a minute, if that is limited.
    pub budget: Option<KeyBudget>,
    /// What it inherits from the keys above it, and its account.
    pub inheritance: Inheritance,
}

impl Holder {
    /// The holder of a key that was made by a call.
    pub fn of_key(id: KeyId, key: &ApiKey) -> Self {
        Self {
            id: Some(id),
            name: key.name.clone(),
            expires_ms: key.expires_ms,
            budget: key.budget(id),
            inheritance: Inheritance {
                account: id.to_string(),
                ..Inheritance::default()
            },
        }
    }

    /// Narrows the holder by another entry of the same key: the earliest end and the smallest budget apply.
    pub(super) fn narrow(&mut self, other: &Self) {
        let ends = [self.expires_ms, other.expires_ms];
        self.expires_ms = ends.into_iter().flatten().min();
        let budgets = [self.budget.take(), other.budget.clone()];
        let budgets = budgets.into_iter().flatten();
        self.budget = budgets.min_by_key(|budget| budget.rate_per_minute);
    }
}
