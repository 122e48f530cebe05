//! How checks of one isolate join into one message to a limiter.
//!
//! Invariant: a check keeps its position, so that it gets its own verdict, in order of arrival. Equal checks are
//! counted, not repeated: a hot key takes one entry of a message.

use tally_core::counter::autoscale::Rate;
use tally_core::counter::lane::BATCH_ENTRIES_MAX;
use tally_core::counter::lane::batchable::Batchable;
use tally_core::limit::policy::Policy;
use tally_wire::messages::KeyDemand;
use tally_wire::names::policy::PolicyName;

/// The most different demands of one message: with keys of 512 bytes 1.1 MB.
pub const DEMANDS_MAX: usize = 2_000;

/// How many of the newest demands are searched for an equal one: a hot key is among them.
const LOOK_BACK: usize = 64;

/// How long a lane gathers if its messages hold several checks. A client hardly notices this delay.
pub const GATHER_MS: u32 = 4;

/// The rate of messages a second from which on a lane may gather: below it, there is little to save.
const MESSAGES_MIN: u32 = 32;

/// How long a lane gathers before its next message, in milliseconds, after so many messages (flushes) and checks
/// (writes) within a second. A lane gathers only where checks join already: a single client that waits for each answer
/// would gain nothing. For a limiter farther away than [`GATHER_MS`] a lane does not wait at all, because checks gather
/// while a message is on its way.
pub fn gather_ms(rate: Rate) -> u32 {
    let joins = rate.writes / 2 >= rate.flushes;
    if joins && rate.flushes >= MESSAGES_MIN {
        GATHER_MS
    } else {
        0
    }
}

/// Checks that wait to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckBatch {
    /// The policies, each once.
    pub policies: Vec<(PolicyName, Policy)>,
    /// The demands.
    pub demands: Vec<KeyDemand>,
    last: CheckPosition,
}

/// The position of a check: the index of its demand, and how many equal ones came before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckPosition {
    /// Index of the demand.
    pub ask: usize,
    /// How many equal ones came before it.
    pub ordinal: u32,
}

impl CheckBatch {
    /// One demand, by the policy of this name.
    pub fn of(name: &PolicyName, policy: &Policy, demand: KeyDemand) -> Self {
        Self {
            policies: vec![(name.clone(), policy.clone())],
            demands: vec![KeyDemand {
                policy: 0,
                ..demand
            }],
            last: CheckPosition::default(),
        }
    }

    /// Demands in this order, without joining equal ones.
    pub fn each<'a>(all: impl Iterator<Item = (&'a PolicyName, &'a Policy, KeyDemand)>) -> Self {
        let mut batch = Self {
            policies: Vec::new(),
            demands: Vec::new(),
            last: CheckPosition::default(),
        };
        for (name, policy, demand) in all {
            let policy = batch.policy_number(&(name.clone(), policy.clone()));
            batch.demands.push(KeyDemand { policy, ..demand });
        }
        batch
    }

    /// The index of a policy in this batch, which is added if needed.
    fn policy_number(&mut self, policy: &(PolicyName, Policy)) -> u32 {
        let known = self.policies.iter().position(|known| known == policy);
        let index = known.unwrap_or_else(|| {
            self.policies.push(policy.clone());
            self.policies.len() - 1
        });
        u32::try_from(index).unwrap_or(u32::MAX)
    }

    fn take_in(&mut self, policy: &(PolicyName, Policy), demand: &KeyDemand) {
        let policy = self.policy_number(policy);
        let begin = self.demands.len().saturating_sub(LOOK_BACK);
        let mut newest = self.demands.iter_mut().enumerate().skip(begin).rev();
        let equal = newest.find(|(_, known)| {
            known.policy == policy
                && known.key == demand.key
                && known.cost == demand.cost
                && known.kind == demand.kind
        });
        if let Some((index, known)) = equal {
            self.last = CheckPosition {
                ask: index,
                ordinal: known.times,
            };
            known.times = known.times.saturating_add(demand.times);
            return;
        }
        self.last = CheckPosition {
            ask: self.demands.len(),
            ordinal: 0,
        };
        self.demands.push(KeyDemand {
            policy,
            ..demand.clone()
        });
    }
}

impl Batchable for CheckBatch {
    type Position = CheckPosition;

    fn absorb(&mut self, item: &Self) -> bool {
        for demand in &item.demands {
            let number = usize::try_from(demand.policy).unwrap_or(usize::MAX);
            if let Some(policy) = item.policies.get(number) {
                self.take_in(policy, demand);
            }
        }
        true
    }

    fn position(&self) -> CheckPosition {
        self.last
    }

    fn seen_from(item: CheckPosition, _last: CheckPosition) -> CheckPosition {
        item
    }

    fn entries(&self) -> usize {
        // Scaled so that the lane is full at the most demands of a message.
        self.demands.len() * (BATCH_ENTRIES_MAX / DEMANDS_MAX)
    }

    fn depart(&mut self, _items: u32, _generation: u64, _now_ms: i64) {}
}
