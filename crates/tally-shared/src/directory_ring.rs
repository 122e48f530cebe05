//! How many partitions the directory has, and which of them a name belongs to.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use tally_core::cluster::ring::{PARTITIONS_MAX, Ring};
use tally_core::counter::id::CounterId;
use tally_host::{Host, State};
use tally_wire::names::{DIRECTORY_COUNT, DIRECTORY_PARTITIONS};

/// The most partitions.
pub const COUNT_MAX: u32 = PARTITIONS_MAX;

/// The most cached rings: that of the current number of partitions, the fixed one, and earlier ones.
const RINGS_MAX: usize = 12;

/// The rings of the numbers of partitions that were asked for: a ring takes time to build.
struct Rings(RefCell<BTreeMap<u32, Rc<Ring>>>);

impl State for Rings {
    fn begin(_host: &Host) -> Self {
        Self(RefCell::default())
    }
}

/// The number of partitions by this isolate's variables, which never change.
struct Count(u32);

impl State for Count {
    fn begin(host: &Host) -> Self {
        let count = host.number(DIRECTORY_COUNT);
        Self(
            count
                .filter(|count| (1..=COUNT_MAX).contains(count))
                .unwrap_or(DIRECTORY_PARTITIONS),
        )
    }
}

/// The partition of a name among this many.
pub fn place_among(host: &Host, partitions: u32, name: &CounterId) -> u32 {
    let rings = host.state::<Rings>();
    let known = rings.0.borrow().get(&partitions).cloned();
    if let Some(ring) = known {
        return ring.partition_of(name.as_str());
    }
    let ring = Rc::new(Ring::new(partitions));
    let partition = ring.partition_of(name.as_str());
    let mut rings = rings.0.borrow_mut();
    if rings.len() >= RINGS_MAX {
        rings.clear();
    }
    rings.insert(partitions, ring);
    partition
}

/// The number of partitions, by this isolate's variables.
pub fn count(host: &Host) -> u32 {
    host.state::<Count>().0
}
