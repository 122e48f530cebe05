//! How many partitions the directory has, and which of them a name belongs to.

use std::cell::RefCell;
use std::collections::BTreeMap;

use tally_core::cluster::ring::{PARTITIONS_MAX, Ring};
use tally_core::counter::id::CounterId;
use tally_host::{Host, State};
use tally_wire::names::{DIRECTORY_COUNT, DIRECTORY_PARTITIONS};

/// The most partitions.
pub const COUNT_MAX: u32 = PARTITIONS_MAX;

/// The most cached rings: that of the current number of partitions, the fixed one, and earlier ones.
const RINGS_MAX: usize = 12;

thread_local! {
    /// The rings of the numbers of partitions that were asked for. A ring takes time to build, and depends on its
    /// number alone.
    static RINGS: RefCell<BTreeMap<u32, Ring>> = const { RefCell::new(BTreeMap::new()) };
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
pub fn place_among(partitions: u32, name: &CounterId) -> u32 {
    RINGS.with_borrow_mut(|rings| {
        if rings.len() >= RINGS_MAX && !rings.contains_key(&partitions) {
            rings.clear();
        }
        let ring = rings.entry(partitions);
        let ring = ring.or_insert_with(|| Ring::new(partitions));
        ring.partition_of(name.as_str())
    })
}

/// The number of partitions, by this isolate's variables.
pub fn count(host: &Host) -> u32 {
    host.state::<Count>().0
}
