//! Messages about leads that move from one place of their datacenter to another.

use serde::{Deserialize, Serialize};

use super::call::Call;
use crate::names::{Address, LeadAt};
use tally_core::cluster::tablets::LeadPlace;
use tally_core::counter::id::{CounterId, Datacenter};

calls! {
    LocateLead => LeadLocation, "/locate-lead", |it| Address::Root(&it.counter);
    PlaceLead => bool, "/place-lead", |it| Address::Root(&it.counter);
    GiveLead => LeadHandover, "/give-lead", |it| Address::LeadAt(&it.at);
    LeadTaken => (), "/lead-taken", |it| Address::LeadAt(&it.at);
    CallLead => Vec<u8>, "/call-lead", |it| Address::LeadAt(&it.at);
}

/// Lead → its partition: asks for its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocateLead {
    /// The counter.
    pub counter: CounterId,
    /// The lead's datacenter. Without it, the answer is the place by the spread.
    pub datacenter: Option<Datacenter>,
}

/// Lead → its partition: asks to move to an object of its own, or back to its tablet. The answer says whether it may.
/// May be repeated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlaceLead {
    /// The counter.
    pub counter: CounterId,
    /// The lead's datacenter.
    pub datacenter: Datacenter,
    /// Whether it moves to an object of its own.
    pub apart: bool,
}

/// The place of a lead.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeadLocation {
    /// The number of the current spread, plus the number of times the lead was moved out of it and back.
    pub epoch: u32,
    /// Its place.
    pub place: LeadPlace,
    /// The places where it may have been before, the latest first.
    pub former_places: Vec<LeadPlace>,
}

/// A lead's place → a former one: stop counting, and hand over the rows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GiveLead {
    /// The receiver.
    pub at: LeadAt,
    /// The sender.
    pub to: LeadPlace,
    /// The number of the spread that says so.
    pub epoch: u32,
    /// The seal of a transfer to another place that has not completed and never will.
    pub abandoned: Option<u64>,
    /// The rows after this one, under this seal; `None` to begin.
    pub after: Option<(u64, Vec<u8>)>,
}

/// The rows of a lead at a place. The place no longer counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LeadHandover {
    /// There are none.
    Nothing,
    /// They were handed to another place under this seal, and it is not known whether that has stored them: ask there
    /// first.
    ToAnother(LeadPlace, u64),
    /// Rows, by the bytes of their names.
    Rows {
        /// The seal, until [`LeadTaken`].
        seal: u64,
        /// The rows.
        rows: Vec<(Vec<u8>, Vec<u8>)>,
        /// The name after which there are more, if there are.
        after: Option<Vec<u8>>,
    },
}

/// A lead's place → the former one: everything is stored here, delete the rows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeadTaken {
    /// The former place.
    pub at: LeadAt,
    /// The seal of the transfer.
    pub seal: u64,
}

/// A place of a lead → another: a call for the lead. The answer is what the caller reads; the call is not forwarded
/// again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallLead {
    /// The address of the lead.
    pub at: LeadAt,
    /// The path of the call; empty where the lead must only be brought there.
    pub path: String,
    /// The message.
    pub message: Vec<u8>,
}

impl CallLead {
    /// The call that only brings a lead to a place.
    pub fn take(at: LeadAt) -> Self {
        Self {
            at,
            path: String::new(),
            message: Vec::new(),
        }
    }
}

/// The state of a lead at a place. Stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LeadPresence {
    /// It is here since this spread.
    Here {
        /// The spread's number.
        epoch: u32,
        /// The former place and its seal, until that place has deleted its rows.
        former_place: Option<(LeadAt, u64)>,
    },
    /// It was handed to this place; the transfer is complete once that place has said so.
    Leaving {
        /// The place.
        to: LeadPlace,
        /// The number of the spread that says so.
        epoch: u32,
        /// Identifies the transfer.
        seal: u64,
    },
    /// Some of its rows have been written here. They are not used for counting yet.
    Arriving,
}
