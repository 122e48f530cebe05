//! Why a call failed, and the bytes of messages.

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::encoding;
use crate::encoding::Undecodable;
use crate::health::Ailment;
use crate::problem::{Code, Problem};
use tally_core::cluster::tablets::LeadPlace;
use tally_core::counter::dimensions::BrokenLog;
use tally_core::counter::flush::Refusal;
use tally_core::counter::id::Datacenter;

/// Why a call failed. The call changed nothing; only after `Unavailable` is this unknown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Fault {
    /// Something that the call needs did not answer. The text says what.
    #[error("unavailable: {0}")]
    Unavailable(String),
    /// The cell did not count the flush.
    #[error("refused: {0:?}")]
    Refused(Refusal),
    /// The cell counts for this newer generation: the sender must read the root again.
    #[error("generation {0} has begun")]
    Superseded(u64),
    /// All writes of the counter go to this datacenter; nothing was counted.
    #[error("home is {0}")]
    Elsewhere(Datacenter),
    /// More counters than one call may touch.
    #[error("more than {0} counters")]
    TooMany(u32),
    /// The message cannot be read, or storage is broken. The text says what.
    #[error("broken: {0}")]
    Broken(String),
    /// The lead is at this place of its datacenter; nothing was done here. Used only between places of a lead.
    #[error("the lead lives in {0:?}")]
    Moved(LeadPlace),
    /// The lead may be elsewhere, and was not found: the root has granted nothing, or a place that may have the rows
    /// did not give them. Nothing was counted, and the same call may succeed soon.
    #[error("the lead may live elsewhere")]
    NotLocated,
    /// Stored data cannot be read: it is damaged, or a newer build wrote it. Nothing was done; only the operator can
    /// repair it. The text says why.
    #[error("stored data cannot be read: {0}")]
    Unreadable(String),
    /// The message is of a newer protocol than the receiver's. Holds the receiver's protocol. Nothing was done.
    #[error("the receiver speaks protocol {0}")]
    Later(u8),
    /// The number of partitions of the directory was changed. The root may be elsewhere, or all partitions must be
    /// asked by [`super::root_moves::CallPartition`]. Nothing was done.
    #[error("the number of partitions was changed")]
    Repartitioned,
}

impl Fault {
    /// Whether the same call may succeed soon: nobody answered, or what it needs is moving.
    pub fn is_passing(&self) -> bool {
        matches!(self, Self::Unavailable(_) | Self::NotLocated)
    }

    /// Whether the sender of a flush that fails so never sends it again under its nonce: it counts the writes by other
    /// flushes, or answers that they were not counted.
    pub fn ends_flush(&self) -> bool {
        match self {
            Self::Refused(refusal) => !matches!(refusal, Refusal::Newer(_) | Refusal::NeedsGrant),
            Self::Elsewhere(_) => true,
            _ => false,
        }
    }

    /// The fault of a call that was refused while a lead moves, before anything was counted.
    #[must_use]
    pub fn while_moving(self) -> Self {
        match self {
            Self::Unavailable(_) => Self::NotLocated,
            other => other,
        }
    }
}

impl From<BrokenLog> for Fault {
    fn from(broken: BrokenLog) -> Self {
        Self::Broken(broken.to_string())
    }
}

impl From<Fault> for Problem {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::TooMany(limit) => Problem::new(
                Code::TooManyCounters,
                format!(
                    "more than {limit} counters would have to be read; ask for a longer prefix"
                ),
            ),
            Fault::Unavailable(what) => Problem::new(
                Code::Unavailable,
                format!("{what}; the write may or may not have been counted, try again"),
            ),
            Fault::Refused(_)
            | Fault::Superseded(_)
            | Fault::Elsewhere(_)
            | Fault::Moved(_)
            | Fault::Later(_)
            | Fault::Repartitioned
            | Fault::NotLocated => Problem::new(
                Code::Unavailable,
                "the counter is busy; nothing was counted, try again",
            ),
            Fault::Broken(what) => Problem::new(Code::Internal, what),
            Fault::Unreadable(why) => Ailment::Unreadable(why).into(),
        }
    }
}

/// Encodes a message. Does not fail for the types above: they hold no sequences of unknown length.
///
/// # Errors
/// `Broken` if postcard refuses the message.
pub fn encode<T: Serialize>(message: &T) -> Result<Vec<u8>, Fault> {
    encoding::write(message, Vec::new())
        .map_err(|error| Fault::Broken(format!("a message cannot be encoded: {error}")))
}

/// Decodes a message. Bytes after its end are not read.
///
/// # Errors
/// `Broken` for bytes that are no such message: it names the field that is missing or malformed.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Fault> {
    encoding::read(bytes).map_err(undecodable)
}

fn undecodable(error: Undecodable) -> Fault {
    Fault::Broken(format!("a message cannot be decoded: {error}"))
}

/// The receiver's protocol, if its answer is [`Fault::Later`].
pub fn later(answer: &[u8]) -> Option<u8> {
    // Longer ones are answers.
    let is_short = answer.len() <= 4;
    match decode::<Result<(), Fault>>(answer) {
        Ok(Err(Fault::Later(protocol))) if is_short => Some(protocol),
        _ => None,
    }
}
