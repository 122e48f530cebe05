//! What the directory keeps secret for the whole deployment, and hands to edges.
//!
//! Invariant: none of it is ever answered to a client.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::Call;
use crate::core::sketch::HashId;
use crate::protocol::names::Address;
use crate::protocol::visitor::Salt;

calls! {
    GetSecrets => Secrets, "/secrets", |_| Address::Directory(0);
    RotateKey => Secrets, "/rotate-key", |_| Address::Directory(0);
}

/// Edge → partition 0: the deployment's own secrets, each made when it is first asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetSecrets {
    /// The day whose salt is needed; `None` makes none.
    pub day: Option<i64>,
}

/// Edge → partition 0: let elements be hashed with a new key. Repeated it does nothing, as the key has another identity then.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RotateKey {
    /// The key that is to be replaced.
    pub from: HashId,
}

/// The secrets of a deployment, as far as they are the directory's; never printed.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Secrets {
    /// The key of what idempotency keys are kept by. It never changes: a retry must find its name again.
    pub names: [u8; 16],
    /// The key of elements.
    pub elements: [u8; 16],
    /// Salts by day.
    pub salts: Vec<(i64, Salt)>,
}

impl fmt::Debug for Secrets {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secrets(secret)")
    }
}
