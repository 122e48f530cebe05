//! Messages of leads that move from one place of their datacenter to another.

use serde::{Deserialize, Serialize};

use super::Call;
use crate::core::cluster::tablets::Place;
use crate::core::counter::id::{CounterId, Datacenter};
use crate::protocol::names::{Address, LeadAt};

calls! {
    LocateLead => Located, "/locate-lead", |it| Address::Root(&it.counter);
    PlaceLead => bool, "/place-lead", |it| Address::Root(&it.counter);
    GiveLead => Given, "/give-lead", |it| Address::LeadAt(&it.at);
    LeadTaken => (), "/lead-taken", |it| Address::LeadAt(&it.at);
    CallLead => Vec<u8>, "/call-lead", |it| Address::LeadAt(&it.at);
}

/// Lead → its partition: where do I live?
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocateLead {
    /// The counter.
    pub counter: CounterId,
    /// The lead's datacenter.
    pub datacenter: Datacenter,
}

/// Lead → its partition: may I live in an object of my own from now on, or again where the spread puts me? Whether it may. May be repeated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlaceLead {
    /// The counter.
    pub counter: CounterId,
    /// The lead's datacenter.
    pub datacenter: Datacenter,
    /// Whether it is to live apart.
    pub apart: bool,
}

/// Where a lead lives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Located {
    /// The number of the spread that holds, and how often the lead was moved out of it and back besides.
    pub epoch: u32,
    /// Its place.
    pub place: Place,
    /// The places where it may have lived before, the latest first.
    pub former: Vec<Place>,
}

/// A lead's place → one where it may have lived: count nothing more, and give me what you have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GiveLead {
    /// Who is asked.
    pub at: LeadAt,
    /// Who asks.
    pub to: Place,
    /// The number of the spread that says so.
    pub epoch: u32,
    /// The seal under which it was given to another, which has not taken it and never will.
    pub abandoned: Option<u64>,
    /// The rows after this one, under this seal; `None` to begin.
    pub after: Option<(u64, Vec<u8>)>,
}

/// What a place has of a lead. Nothing is counted there any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Given {
    /// Nothing.
    Nothing,
    /// It was given to another place under this seal, and it is not known whether that has taken it: ask there first.
    ToAnother(Place, u64),
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

/// A lead's place → the one that gave it: all is stored here, forget it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeadTaken {
    /// Who gave it.
    pub at: LeadAt,
    /// The seal under which it was given.
    pub seal: u64,
}

/// A place of a lead → another: a call that was meant for the lead. The answer is what the caller reads; it is not sent on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallLead {
    /// Where the lead is.
    pub at: LeadAt,
    /// Names the call; empty where the lead must only be there.
    pub path: String,
    /// The message.
    pub message: Vec<u8>,
}

/// Where a lead is, as its place notes it. Stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stay {
    /// It lives here since this spread.
    Here {
        /// The spread's number.
        epoch: u32,
        /// Who gave it and under which seal, until that one has forgotten it.
        former: Option<(LeadAt, u64)>,
    },
    /// It was given to this place, whose rows are complete only once that has said so.
    Leaving {
        /// The place.
        to: Place,
        /// The spread that says so.
        epoch: u32,
        /// What tells this time from others.
        seal: u64,
    },
    /// Some of its rows have been written here. Nothing is counted by them.
    Arriving,
}
