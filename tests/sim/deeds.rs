//! What owners do to counters as a whole.

use tally::core::counter::id::Datacenter;
use tally::core::counter::ledger::WriteKey;
use tally::core::counter::total::Value;
use tally::protocol::messages::{Operation, OperationKey, Put};

use super::chance::Chance;
use super::client;
use super::datacenter;
use super::world::{EDGES, World};

/// Keys of operations. What a key asks for is told by its number, so that a client can send it again.
pub const DEEDS: u8 = 16;

/// One of so many keys of operations is that of a write.
const SHARED_EACH: u8 = 4;

/// The value is set to at most this.
const VALUE_MAX: u64 = 5_000;

/// What an owner does to a counter.
#[derive(Clone, Copy, Debug)]
pub enum Deed {
    Set(u64),
    Reset,
    /// Settings: the home, by its number, and the floor.
    Put(Option<usize>, Option<u64>),
    SettleHome,
}

impl Deed {
    /// Draws one: set, reset or settings.
    pub fn draw(chance: &mut Chance, datacenters: usize) -> Self {
        match chance.below(8) {
            0..3 => Self::Set(chance.below(VALUE_MAX)),
            3..5 => Self::Reset,
            5 => Self::SettleHome,
            _ => {
                let home = (!chance.once_in(3)).then(|| chance.pick(datacenters));
                let floor = chance.once_in(2).then(|| chance.below(VALUE_MAX / 8));
                Self::Put(home, floor)
            }
        }
    }

    pub fn operation(self) -> Operation {
        match self {
            Self::Set(value) => Operation::Set(Value::new(u128::from(value), 0)),
            Self::Reset => Operation::Reset,
            Self::Put(home, floor) => Operation::Put(Put {
                home: home.map(|number| -> Datacenter { datacenter(number) }),
                floor: floor.map(|floor| Value::new(u128::from(floor), 0)),
                ..Put::default()
            }),
            Self::SettleHome => Operation::SettleHome,
        }
    }
}

/// The key of this number. Some name a write too, which another client sends.
fn name_of(number: u8) -> WriteKey {
    let mut name = [number; 16];
    name[0] = if number.is_multiple_of(SHARED_EACH) {
        0
    } else {
        2
    };
    WriteKey(name)
}

/// Whether a key may name a write too.
pub fn is_shared(key: OperationKey) -> bool {
    key.key.0[0] == 0
}

impl World {
    /// An owner asks once, through an isolate; under a key, or without.
    pub(super) fn operate(&mut self, counter: usize, number: u8, deed: Deed) {
        let asked = client::operate(self.edge(counter, number), deed.operation(), None);
        self.begin(Some(number), async move {
            asked.await;
        });
    }

    /// An owner asks under a key, for the first time or again.
    pub(super) fn operate_keyed(&mut self, counter: usize, number: u8, key: u8) {
        let number_of_key = key;
        let mut chance = Chance::new(key.into());
        let deed = Deed::draw(&mut chance, self.layout.datacenters);
        let key = OperationKey {
            key: name_of(key),
            fingerprint: key.into(),
        };
        let asked = client::operate(self.edge(counter, number), deed.operation(), Some(key));
        let deeds = self.deeds.clone();
        deeds
            .borrow_mut()
            .entry((counter, number_of_key))
            .or_default();
        self.begin(Some(number), async move {
            if asked.await {
                deeds.borrow_mut().insert((counter, number_of_key), true);
            }
        });
    }

    /// Every owner who asked under a key gets an answer; and once more from elsewhere, which changes nothing.
    pub(super) fn retry_deeds(&mut self) {
        let deeds: Vec<(usize, u8)> = self.deeds.borrow().keys().copied().collect();
        for (counter, key) in deeds {
            for edge in [key % EDGES, (key + 1) % EDGES] {
                self.operate_keyed(counter, edge, key);
                self.rest();
            }
            let is_answered = self.deeds.borrow()[&(counter, key)];
            assert!(is_answered, "operation {key} is never answered");
        }
    }
}
