//! The budget of a key.

use serde::{Deserialize, Serialize};

/// What a key may do in a minute. A stored format and a part of messages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyBudget {
    /// How much.
    pub rate_per_minute: u32,
    /// The name under which it is accounted, the same in all isolates and deployments.
    pub subject: String,
}
