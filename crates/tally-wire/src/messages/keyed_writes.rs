//! Messages of keyed writes.

use serde::{Deserialize, Serialize};

use super::call::Call;
use crate::names::{Address, CellAddress};
use tally_core::callers::account::AccountId;
use tally_core::cluster::claim::ClaimHolder;
use tally_core::counter::dimensions::DimensionLog;
use tally_core::counter::id::{CounterId, Datacenter};
use tally_core::counter::ledger::{KeySource, KeyedOutcome, KeyedWrite, WriteKey};
use tally_core::counter::merge::CellTotals;
use tally_core::counter::samples::Samples;
use tally_core::counter::settings::TtlTerms;

calls! {
    CountKeyed => Counted, "/count", |it| Address::Cell(&it.to);
    Claim => ClaimAnswer, "/claim", |it| it.receiver();
    Recall => Counted, "/recall", |it| Address::Cell(&it.to);
    FindClaims => ClaimAnswer, "/find-claims", |it| Address::Root(&it.counter);
}

/// Edge → lead: counts these keyed writes, each once for any number of repeats.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CountKeyed {
    /// The lead that the keys are claimed for.
    pub to: CellAddress,
    /// The writes.
    pub writes: Vec<KeyedWrite>,
    /// How many moves their claims had when the root was asked; `None` for keys that only their sender knows.
    pub moves: Option<u32>,
    /// The kind of their keys.
    pub keys: KeySource,
    /// The samples of writes that have some, by index. The writes themselves are encoded without samples.
    samples: Vec<(u32, Samples)>,
    /// The dimensions of writes that have some, likewise.
    dimensions: Vec<(u32, DimensionLog)>,
    /// The indexes of writes that are refused where the value would pass 64 bits.
    within_64_bits: Vec<u32>,
    /// The newest generation that the writes may count in, as in a flush. 0 stands for the living generation, and for
    /// the one that a claim names.
    pub newest: u64,
    /// The time to live of the counter, if one of the writes creates it.
    pub ttl_if_new: Option<TtlTerms>,
}

impl CountKeyed {
    /// The message for these writes.
    pub fn new(
        to: CellAddress,
        mut writes: Vec<KeyedWrite>,
        moves: Option<u32>,
        keys: KeySource,
    ) -> Self {
        let (mut samples, mut dimensions) = (Vec::new(), Vec::new());
        let mut within_64_bits = Vec::new();
        for (index, write) in (0..).zip(&mut writes) {
            if !write.samples.is_empty() {
                samples.push((index, std::mem::take(&mut write.samples)));
            }
            if !write.dimensions.is_empty() {
                dimensions.push((index, std::mem::take(&mut write.dimensions)));
            }
            if std::mem::take(&mut write.within_64_bits) {
                within_64_bits.push(index);
            }
        }
        let ttl_if_new = ttl_if_new(&writes);
        Self {
            to,
            writes,
            moves,
            keys,
            samples,
            dimensions,
            within_64_bits,
            newest: 0,
            ttl_if_new,
        }
    }

    /// The message as the receiver counts it: the fields that were encoded beside the writes are put back into them.
    #[must_use]
    pub fn received(mut self) -> Self {
        let at = |index: u32| usize::try_from(index).unwrap_or(usize::MAX);
        for (index, samples) in self.samples.drain(..) {
            if let Some(write) = self.writes.get_mut(at(index)) {
                write.samples = samples;
            }
        }
        for (index, dimensions) in self.dimensions.drain(..) {
            if let Some(write) = self.writes.get_mut(at(index)) {
                write.dimensions = dimensions;
            }
        }
        for index in self.within_64_bits.drain(..) {
            if let Some(write) = self.writes.get_mut(at(index)) {
                write.within_64_bits = true;
            }
        }
        self
    }
}

/// The time to live of a counter that these writes create: of the first of them that has one.
pub fn ttl_if_new(writes: &[KeyedWrite]) -> Option<TtlTerms> {
    writes.iter().find_map(|write| write.ttl_if_new)
}

/// The lead has decided, durably.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counted {
    /// The result of each write, in their order.
    pub outcomes: Vec<KeyedOutcome>,
    /// Over how many shards writes of this datacenter are now spread.
    pub shards: u8,
    /// The datacenter to which all writes go, if that is another.
    pub home: Option<Datacenter>,
    /// Whether the lead has an object of its own, although tablets host others.
    pub is_apart: bool,
    /// The totals of the lead's own cell after these writes; `None` if it counts nothing now.
    pub totals: Option<CellTotals>,
}

/// Edge → root: claims these keys. The first datacenter that asks gets them. Claims of numbered keys go to the sender's
/// own lead, which has struck them out before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// The counter; it is created if needed.
    pub counter: CounterId,
    /// The datacenter that claims.
    pub datacenter: Datacenter,
    /// The keys.
    pub keys: Vec<WriteKey>,
    /// The former holder of these keys, which has struck them out: they then go to the home.
    pub struck_at: Option<ClaimHolder>,
    /// The kind of the keys.
    pub source: KeySource,
    /// Whose part of the room they fill.
    pub account: AccountId,
    /// The time to live of the counter, if it is created.
    pub ttl_if_new: Option<TtlTerms>,
}

impl Claim {
    fn receiver(&self) -> Address<'_> {
        match self.source {
            KeySource::Numbered => Address::Lead(&self.counter, &self.datacenter),
            KeySource::Clients | KeySource::Drawn | KeySource::Public => {
                Address::Root(&self.counter)
            }
        }
    }
}

/// The holders of the keys, durably.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimAnswer {
    /// The current generation.
    pub generation: u64,
    /// The owner of each key, in their order.
    pub owners: Vec<KeyOwner>,
}

/// The owner of a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum KeyOwner {
    /// A lead.
    Lead(ClaimHolder),
    /// It was claimed for a generation that has ended.
    Ended,
    /// There is no room for another claim.
    Full,
    /// The key belongs to an operation.
    Operation,
    /// Nobody: the key was only looked up.
    Nobody,
    /// The account has no room for another claim.
    PartFull(AccountId),
}

/// Edge → lead: asks whether these keyed writes were counted. Nothing is counted now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recall {
    /// The lead that the keys are claimed for.
    pub to: CellAddress,
    /// The writes.
    pub writes: Vec<KeyedWrite>,
}

/// Edge → root: looks up the owners of these keys. None is claimed now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FindClaims {
    /// The counter; it is not created.
    pub counter: CounterId,
    /// The keys.
    pub keys: Vec<WriteKey>,
}
