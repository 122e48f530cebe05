//! Where a body with a key is cut: by its bytes alone, however it arrives; and no section sums to much more than it
//! may.

use crate::common::config;
use std::borrow::Cow;

use proptest::prelude::*;
use tally_api::access::Caller;
use tally_api::batch::BulkRecord;
use tally_api::batch::gather::{BatchLimits, CLOCK_SKEW_MS, Gatherer};
use tally_api::batch::gathered::Times;
use tally_api::batch::keyed_writes::BodyKey;
use tally_api::batch::sections::Sections;
use tally_core::counter::ledger::WriteKey;
use tally_core::sketch::{HashKey, Sample};

const NOW_MS: i64 = 1_777_593_630_000;
const KEY: WriteKey = WriteKey([5; 16]);
const OF_BODY: u64 = 77;

fn hash(bytes: &[u8]) -> u64 {
    tally_core::sketch::hash(&HashKey::from([7; 16]), bytes)
}

/// A record: its counter, its element, and whether it has an id, a sample and a time of its own.
type Line = (u16, Option<u32>, bool, bool, Option<u32>);

fn record(&(counter, element, has_id, has_sample, ago): &Line, line: usize) -> BulkRecord<'static> {
    BulkRecord {
        key: Cow::Owned(format!("counter/{counter}")),
        delta: 1,
        unique: element.map(|element| Cow::Owned(element.to_le_bytes().to_vec())),
        at_ms: ago.map(|ago| NOW_MS - i64::from(ago)),
        id: has_id.then(|| Cow::Owned(format!("id {line}"))),
        sample: has_sample.then(|| Sample::new(1.5).expect("a sample")),
        ttl_if_new: None,
        dimensions: Default::default(),
    }
}

/// The line after each section, the key of each, and the most that one held.
fn cut(lines: &[Line], bytes_max: u64) -> (Vec<usize>, Vec<BodyKey>, u64) {
    let mut sections = Sections::new(KEY, &hash, &[b"events"], bytes_max);
    let limits = BatchLimits {
        times: Times::Past,
        clock_skew_ms: CLOCK_SKEW_MS,
    };
    let mut gather = Gatherer::new(limits, Caller::nobody().sender(), 1);
    let (mut ends, mut keys, mut most) = (Vec::new(), Vec::new(), 0);
    for (number, line) in lines.iter().enumerate() {
        let record = record(line, number);
        gather.add(u64::try_from(number).unwrap() + 1, &record, NOW_MS, &hash);
        if sections.add_record(&hash, format!("{line:?}").as_bytes(), Some(&record)) {
            keys.push(sections.end(&hash));
            ends.push(number + 1);
            most = most.max(gather.sums_bytes());
            gather.take();
        }
    }
    keys.push(sections.finish(&hash, OF_BODY));
    (ends, keys, most)
}

proptest! {
    #![proptest_config(config(3, 60))]

    #[test]
    fn sections_hold_what_they_may_and_each_has_a_key_of_its_own(
        lines in prop::collection::vec(
            (
                0..400_u16,
                prop::option::of(0..900_u32),
                prop::bool::weighted(0.1),
                prop::bool::weighted(0.1),
                prop::option::of(0..9_000_000_u32),
            ),
            1..800,
        ),
        other in any::<prop::sample::Index>(),
    ) {
        const BYTES_MAX: u64 = 40_000;
        let (ends, keys, most) = cut(&lines, BYTES_MAX);
        prop_assert!(most <= BYTES_MAX * 3 / 2, "{} of {}", most, BYTES_MAX);
        let mut names: Vec<[u8; 16]> = keys.iter().map(|key| key.key.0).collect();
        prop_assert_eq!(names[0], KEY.0, "the first is the key's own");
        names.sort_unstable();
        names.dedup();
        prop_assert_eq!(names.len(), keys.len());
        prop_assert_eq!(keys.len() == 1, keys[0].fingerprint == OF_BODY);
        // What is sent again is cut again so, whatever follows; what differs has another hash from there on.
        let longer = [&lines[..], &[(9, None, false, false, None)]].concat();
        let (again, same, _) = cut(&longer, BYTES_MAX);
        prop_assert!(again.starts_with(&ends));
        prop_assert_eq!(&same[..ends.len()], &keys[..ends.len()]);
        let mut changed = lines.clone();
        let place = other.index(lines.len());
        changed[place].0 = 1_000;
        let (_, others, _) = cut(&changed, BYTES_MAX);
        let section = ends.iter().filter(|end| **end <= place).count();
        prop_assert_eq!(&others[..section], &keys[..section]);
        if let Some(key) = others.get(section).filter(|_| keys.len() > 1 && others.len() > 1) {
            prop_assert_ne!(key, &keys[section]);
        }
    }
}
