//! The deployment's secrets that the directory stores and hands to edges.
//!
//! Invariant: none of them is ever sent to a client.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::messages::call::Call;
use crate::names::Address;
use crate::visitor::Salt;
use tally_core::sketch::HashId;

calls! {
    GetSecrets => Secrets, "/secrets", |_| Address::Directory(0);
    RotateKey => Secrets, "/rotate-key", |_| Address::Directory(0);
}

/// Edge → partition 0: the deployment's own secrets, each created when it is first asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetSecrets {
    /// The day whose salt is needed; `None` creates none.
    pub day: Option<i64>,
}

/// Edge → partition 0: replaces the key by which elements are hashed. A repeat does nothing, because the stored key
/// then has another identity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RotateKey {
    /// The key that is to be replaced.
    pub from: HashId,
}

/// The secrets that the directory stores; never printed.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Secrets {
    /// The key under which idempotency keys are hashed. It never changes: a retry must find its record again.
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
