//! Laws: no line is forgotten, and what is told of them is told in order.

use std::collections::BTreeSet;

use proptest::prelude::*;
use tally_api::batch::lines::{LineNumbers, LineSet};
use tally_api::batch::report::{BatchReport, RUNS_MAX};
use tally_wire::problem::{Code, Problem};

fn flat(runs: impl Iterator<Item = (u64, u64)>) -> Vec<u64> {
    runs.flat_map(|(first, last)| first..=last).collect()
}

proptest! {
    #[test]
    fn both_forms_keep_every_line(lines in prop::collection::btree_set(1u64..3_000, 0..400)) {
        let numbers = LineNumbers::of(lines.iter().copied());
        let mut set = LineSet::default();
        for (first, last) in numbers.runs() {
            set.insert(first, last);
        }
        let expected: Vec<u64> = lines.iter().copied().collect();
        prop_assert_eq!(numbers.count(), u64::try_from(expected.len()).expect("few"));
        prop_assert_eq!(flat(numbers.runs()), expected.clone());
        prop_assert_eq!(flat(set.runs()), expected);
        let runs: Vec<_> = set.runs().collect();
        prop_assert!(runs.windows(2).all(|two| two[0].1 + 1 < two[1].0), "neighbours are one run");
        prop_assert_eq!(runs, numbers.runs().collect::<Vec<_>>());
    }

    #[test]
    fn sets_are_told_whole_in_whatever_order_they_come(parts in prop::collection::vec((1u64..500, 0u64..70), 0..40)) {
        let mut set = LineSet::default();
        let mut expected = BTreeSet::new();
        for (first, more) in parts {
            set.insert(first, first + more);
            expected.extend(first..=first + more);
        }
        prop_assert_eq!(flat(set.runs()), expected.into_iter().collect::<Vec<_>>());
    }
}

#[test]
fn lines_that_follow_each_other_cost_nothing_and_others_a_few_bytes() {
    let mut numbers = LineNumbers::default();
    let held: u64 = (1..=1_000_000).map(|line| numbers.push(line)).sum();
    assert_eq!((numbers.count(), held), (1_000_000, 0));
    let mut numbers = LineNumbers::default();
    let held: u64 = (1..=1_000_000)
        .step_by(100)
        .map(|line| numbers.push(line))
        .sum();
    assert!(
        (20_000..40_000).contains(&held),
        "{held} bytes for 10,000 lines"
    );
}

#[test]
fn what_is_beyond_the_most_runs_is_told_as_a_number() {
    let bad = Problem::new(Code::InvalidJson, "no");
    let mut report = BatchReport::default();
    let most = u64::try_from(RUNS_MAX).expect("a number");
    for line in 1..=most + 7 {
        report.reject(2 * line, &bad);
    }
    let json = serde_json::to_value(&report).expect("JSON");
    let json = &json["rejected_lines"][0];
    assert_eq!(
        (&json["count"], &json["unlisted"]),
        (&(most + 7).into(), &7.into())
    );
    let lines = json["lines"].as_str().expect("a text");
    assert_eq!(lines.split(',').count(), RUNS_MAX);
}
