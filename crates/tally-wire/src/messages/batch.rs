//! Many calls in one message, to an object that hosts many tenants.

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::call::Call;
use super::fault::Fault;
use crate::names::{Address, TabletAddress};

calls! {
    Batch => Vec<Option<Vec<u8>>>, "/batch", |it| it.to.address();
}

/// The most calls of one batch: their changes are one transaction, decided in one turn.
pub const CALLS_MAX: usize = 2_048;

/// The most bytes of one batch: half of what a row of storage may hold, because the changes of all calls may be one
/// row.
pub const BYTES_MAX: usize = 1 << 20;

/// The receiver of a batch.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Receiver {
    /// A tablet.
    Tablet(TabletAddress),
    /// A partition of the directory.
    Directory(u32),
}

impl Receiver {
    /// Its address.
    pub fn address(&self) -> Address<'_> {
        match self {
            Self::Tablet(tablet) => Address::Tablet(tablet),
            Self::Directory(partition) => Address::Directory(*partition),
        }
    }
}

/// Calls of one sender to one object. The answer holds the answer of each call, in their order, in the form that the
/// call alone would get. A call that is still under way gets `None`: the sender repeats it alone, with the same
/// message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Batch {
    /// Who receives them.
    pub to: Receiver,
    /// The calls, at most [`CALLS_MAX`] with [`BYTES_MAX`] together.
    pub calls: Vec<BatchedCall>,
}

/// One call of a batch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchedCall {
    /// Names the call, see [`Call::PATH`].
    pub path: String,
    /// The message.
    pub message: Vec<u8>,
}

/// Decodes the first field of a message.
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
