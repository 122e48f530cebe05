//! Messages of keyed writes.

use serde::{Deserialize, Serialize};

use super::Call;
use crate::core::counter::dimensions::DimensionLog;
use crate::core::counter::id::{CounterId, Datacenter};
use crate::core::counter::ledger::{Keyed, KeyedOutcome, Keys, WriteKey};
use crate::core::counter::samples::Samples;
use crate::protocol::names::{Address, CellAddress};

calls! {
    Count => Counted, "/count", |it| Address::Cell(&it.to), lacks (0, 1);
    Claim => Claimed, "/claim", |it| it.receiver();
    Recall => Counted, "/recall", |it| Address::Cell(&it.to), lacks (0, 1);
    FindClaims => Claimed, "/find-claims", |it| Address::Root(&it.counter);
}

/// Edge → lead: count these keyed writes, each once however often it comes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Count {
    /// The lead that the keys are claimed for.
    pub to: CellAddress,
    /// The writes.
    pub writes: Vec<Keyed>,
    /// How often their claims had moved when the root was asked; `None` for keys that only their sender knows.
    pub moves: Option<u32>,
    /// What their keys are.
    pub keys: Keys,
    /// The samples of writes that have some, by their places: writes themselves travel without.
    samples: Vec<(u32, Samples)>,
    /// The dimensions of writes that have some, as well.
    dimensions: Vec<(u32, DimensionLog)>,
}

impl Count {
    /// The message that has a lead count these writes.
    pub fn new(to: CellAddress, mut writes: Vec<Keyed>, moves: Option<u32>, keys: Keys) -> Self {
        let (mut samples, mut dimensions) = (Vec::new(), Vec::new());
        for (place, write) in (0..).zip(&mut writes) {
            if !write.samples.is_empty() {
                samples.push((place, std::mem::take(&mut write.samples)));
            }
            if !write.dimensions.is_empty() {
                dimensions.push((place, std::mem::take(&mut write.dimensions)));
            }
        }
        Self {
            to,
            writes,
            moves,
            keys,
            samples,
            dimensions,
        }
    }

    /// The message with samples and dimensions at their writes, as its receiver counts them.
    #[must_use]
    pub fn received(mut self) -> Self {
        let index = |place: u32| usize::try_from(place).unwrap_or(usize::MAX);
        for (place, samples) in self.samples.drain(..) {
            if let Some(write) = self.writes.get_mut(index(place)) {
                write.samples = samples;
            }
        }
        for (place, dimensions) in self.dimensions.drain(..) {
            if let Some(write) = self.writes.get_mut(index(place)) {
                write.dimensions = dimensions;
            }
        }
        self
    }
}

/// The lead has decided, durably.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counted {
    /// What became of each write, in their order.
    pub outcomes: Vec<KeyedOutcome>,
    /// Shards that writes of this datacenter spread over now.
    pub shards: u8,
    /// Where all writes go, if that is elsewhere.
    pub home: Option<Datacenter>,
    /// Whether the lead lives in an object of its own, though tablets host others.
    pub is_apart: bool,
}

/// Edge → root: whose are these keys? The first datacenter that asks has them. Of numbered keys their sender's own lead is
/// asked, which has struck them out before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// The counter; it is created if need be.
    pub counter: CounterId,
    /// The datacenter that claims.
    pub datacenter: Datacenter,
    /// The keys.
    pub keys: Vec<WriteKey>,
    /// Who had these keys and has struck them out: they are home's, then.
    pub struck_at: Option<Holder>,
    /// Whose keys they are.
    pub whose: Keys,
}

impl Claim {
    fn receiver(&self) -> Address<'_> {
        match self.whose {
            Keys::Numbered => Address::Lead(&self.counter, &self.datacenter),
            Keys::Clients | Keys::Drawn | Keys::Public => Address::Root(&self.counter),
        }
    }
}

/// Who has the keys, durably.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claimed {
    /// The living generation.
    pub generation: u64,
    /// Who has each, in their order.
    pub owners: Vec<Owner>,
}

/// The lead that has a key. It is told so by what it is sent, so that it takes no late copy for a claim that has come
/// back.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Holder {
    /// Its datacenter.
    pub datacenter: Datacenter,
    /// How often the claim had moved when it came there.
    pub moves: u32,
}

impl Holder {
    /// The lead that has a key first.
    pub fn first(datacenter: &Datacenter) -> Self {
        Self {
            datacenter: datacenter.clone(),
            moves: 0,
        }
    }

    /// The lead that has the key next.
    pub fn next(&self, datacenter: &Datacenter) -> Self {
        Self {
            datacenter: datacenter.clone(),
            moves: self.moves.saturating_add(1),
        }
    }
}

/// Who has a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Owner {
    /// A lead.
    Lead(Holder),
    /// It was claimed for a generation that has ended.
    Ended,
    /// There is no room for another claim.
    Full,
    /// An operation had the key.
    Operation,
    /// Nobody: it was only looked for.
    Nobody,
}

/// Edge → lead: were these keyed writes counted? Nothing is counted now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recall {
    /// The lead that the keys are claimed for.
    pub to: CellAddress,
    /// The writes.
    pub writes: Vec<Keyed>,
}

/// Edge → root: whose are these keys? None is claimed now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FindClaims {
    /// The counter; it is not created.
    pub counter: CounterId,
    /// The keys.
    pub keys: Vec<WriteKey>,
}
