//! A page of many partitions is the first names of all, however these lie, though no partition is asked for a full page
//! at first.

use std::cell::Cell;
use std::collections::BTreeSet;

use proptest::prelude::*;
use tally_core::counter::id::CounterId;
use tally_core::isolate::joined_pages::JoinedPages;

fn id(number: u32) -> CounterId {
    CounterId::parse(format!("page/{number:06}")).expect("an id")
}

/// The partition's names after one, at most so many.
fn ask(names: &BTreeSet<u32>, after: Option<&CounterId>, limit: u32) -> Vec<(CounterId, u32)> {
    let named = names.iter().map(|number| (id(*number), *number));
    let later = named.filter(|(id, _)| after.is_none_or(|after| id > after));
    later.take(usize::try_from(limit).expect("small")).collect()
}

/// The page, and how many names the partitions sent for it.
fn page(partitions: &[BTreeSet<u32>], limit: u32) -> (Vec<u32>, usize) {
    let rows_read = Cell::new(0);
    let count = u32::try_from(partitions.len()).expect("few");
    let mut pages = JoinedPages::new(limit, count);
    let share = pages.share();
    for (number, names) in (0..).zip(partitions) {
        let rows = ask(names, None, share);
        rows_read.set(rows_read.get() + rows.len());
        pages.add(number, share, rows);
    }
    for (number, after) in pages.take_left() {
        let names = &partitions[usize::try_from(number).expect("small")];
        let rows = ask(names, Some(&after), limit);
        rows_read.set(rows_read.get() + rows.len());
        pages.add(number, limit, rows);
    }
    assert!(pages.take_left().is_empty());
    let rows = pages.into_rows().into_iter();
    (rows.map(|(_, number)| number).collect(), rows_read.get())
}

proptest! {
    #[test]
    fn a_page_is_the_first_names_of_all(
        names in proptest::collection::btree_map(0_u32..5_000, any::<u32>(), 0..600),
        partitions in 1_u32..40,
        // All in one, or spread.
        skew in 1_u32..40,
        limit in 1_u32..200,
    ) {
        let mut all = vec![BTreeSet::new(); usize::try_from(partitions).expect("few")];
        for (name, place) in &names {
            let place = place % partitions % skew;
            all[usize::try_from(place).expect("few")].insert(*name);
        }
        let most = usize::try_from(limit).expect("few");
        let first: Vec<u32> = names.keys().copied().take(most).collect();
        prop_assert_eq!(page(&all, limit).0, first);
    }
}

#[test]
fn thousands_of_partitions_tell_little_more_than_the_page() {
    let mut all = vec![BTreeSet::new(); 4_096];
    for number in 0..400_000_u32 {
        // As a hash spreads them.
        let place = number.wrapping_mul(2_654_435_761) >> 20;
        all[usize::try_from(place).expect("few")].insert(number);
    }
    let (names, rows_read) = page(&all, 1_000);
    assert_eq!(names, (0..1_000).collect::<Vec<_>>());
    // Full pages of all were 400,000 names.
    assert!(rows_read <= 4_096 * 17, "{rows_read}");
}
