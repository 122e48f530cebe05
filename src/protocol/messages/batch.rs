//! Many calls in one message, to an object that hosts many tenants.

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{Call, Fault};
use crate::protocol::names::{Address, TabletAddress};

calls! {
    Batch => Vec<Option<Vec<u8>>>, "/batch", |it| it.to.address();
}

/// The most calls of one batch: what they change is one transaction, decided in one turn of some 20 µs each, so 40 ms.
pub const CALLS_MAX: usize = 2_048;

/// The most bytes of one batch: half of what a row of storage may hold, since all that they change may be one row.
pub const BYTES_MAX: usize = 1 << 20;

/// Who receives a batch.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Receiver {
    /// A tablet.
    Tablet(TabletAddress),
    /// A partition of the directory.
    Directory(u32),
}

impl Receiver {
    /// Where it is.
    pub fn address(&self) -> Address<'_> {
        match self {
            Self::Tablet(tablet) => Address::Tablet(tablet),
            Self::Directory(partition) => Address::Directory(*partition),
        }
    }
}

/// Calls that one sender has for one object. The answer holds the answer of each, in their order, as the call by itself would have
/// had it; `None` for one that is under way still: it is asked for again by itself, with the same message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Batch {
    /// Who receives them.
    pub to: Receiver,
    /// The calls, at most [`CALLS_MAX`] with [`BYTES_MAX`] together.
    pub calls: Vec<BatchedCall>,
}

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchedCall {
    /// Names the call, see [`Call::PATH`].
    pub path: String,
    /// The message.
    pub message: Vec<u8>,
}

/// What a message begins with.
///
/// # Errors
/// `Broken` for bytes that do not begin so.
pub fn prefix<T: DeserializeOwned>(message: &[u8]) -> Result<T, Fault> {
    match postcard::take_from_bytes(message) {
        Ok((prefix, _)) => Ok(prefix),
        Err(error) => Err(Fault::Broken(format!(
            "a message does not begin with its receiver: {error}"
        ))),
    }
}
