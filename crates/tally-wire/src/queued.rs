//! Messages in a queue of the platform: their bytes, and how those of a batch are grouped.
//!
//! Invariant: messages that are in a queue when a newer build is deployed can still be read: versions are only ever
//! added.

use serde::{Deserialize, Serialize};

use crate::messages::{Fault, decode, encode};
use tally_core::counter::id::Datacenter;
use tally_core::counter::queue::QueuedDelivery;
use tally_core::counter::queue::queued_events::{MESSAGE_BYTES_MAX, QueuedEvents};

/// A message. A stored format, in postcard: the first byte is the version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    /// An event, or several of one counter and second.
    V0(QueuedEvents),
}

impl Message {
    /// The bytes of a message.
    ///
    /// # Errors
    /// None for the types of a message, see [`encode`].
    pub fn write(sent: QueuedEvents) -> Result<Vec<u8>, Fault> {
        encode(&Self::V0(sent))
    }

    /// Parses a message; `None` for other bytes.
    pub fn read(bytes: &[u8]) -> Option<QueuedEvents> {
        if bytes.len() > MESSAGE_BYTES_MAX {
            return None;
        }
        let Self::V0(sent) = decode(bytes).ok()?;
        (sent.added > 0).then_some(sent)
    }
}

/// Messages of a batch that one call to one lead counts. All have the same counter, generation and datacenter. Either
/// all have clients' keys, or none has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Where they were accepted.
    pub datacenter: Datacenter,
    /// The indexes of its writes in the batch.
    pub indices: Vec<usize>,
    /// The writes.
    pub deliveries: Vec<QueuedDelivery>,
}

impl Group {
    fn takes(&self, sent: &QueuedEvents) -> bool {
        self.datacenter == sent.datacenter
            && self.deliveries.first().is_some_and(|due| {
                let of = |due: &QueuedDelivery| (due.write.generation, due.is_clients, due.keys());
                let own = (sent.generation, sent.is_clients, sent.keys());
                due.counter == sent.counter && of(due) == own
            })
    }
}

/// Groups messages, given with their indexes. Cost: O(messages × groups); a batch has at most 100.
pub fn group(messages: Vec<(usize, QueuedEvents)>) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for (index, sent) in messages {
        let known = groups.iter_mut().find(|group| group.takes(&sent));
        match known {
            Some(group) => {
                group.indices.push(index);
                group.deliveries.push(sent.into_delivery());
            }
            None => groups.push(Group {
                datacenter: sent.datacenter.clone(),
                indices: vec![index],
                deliveries: vec![sent.into_delivery()],
            }),
        }
    }
    groups
}
