//! Laws: `/healthz` looks at one partition of the directory at a time, and at all of them in turn; where it writes, it
//! writes once a second at most, and says what came of the last write.

use tally_wire::health::{Ailment, Health, LOOK_EVERY_MS, WRITE_EVERY_MS, WriteHealth};
use tally_wire::names::DIRECTORY_PARTITIONS;
use tally_wire::problem::{Code, Problem};

const NOW_MS: i64 = 1_777_593_630_000;

#[test]
fn sixteen_looks_find_the_one_partition_that_cannot_be_read_and_that_it_can_again() {
    for first in 0..DIRECTORY_PARTITIONS {
        let mut health = Health::new(DIRECTORY_PARTITIONS, u64::from(first));
        let mut now_ms = NOW_MS;
        for is_broken in [true, false] {
            for _ in 0..DIRECTORY_PARTITIONS {
                let due = health.next_checks(now_ms, false);
                assert_eq!(due.len(), 1, "one call a look");
                assert_eq!(
                    health.next_checks(now_ms + LOOK_EVERY_MS - 1, false).len(),
                    0,
                    "it was asked a moment ago"
                );
                for partition in due {
                    let is_it = is_broken && partition == 7;
                    health.record(
                        partition,
                        is_it.then(|| Ailment::Unreadable("from the future".to_owned())),
                    );
                }
                now_ms += LOOK_EVERY_MS;
            }
            assert_eq!(health.ailment().is_some(), is_broken, "from {first}");
        }
    }
}

#[test]
fn where_one_process_has_all_of_them_a_look_is_at_all_once_a_second() {
    let mut health = Health::new(DIRECTORY_PARTITIONS, 3);
    let mut due = health.next_checks(NOW_MS, true);
    due.sort_unstable();
    assert_eq!(due, Vec::from_iter(0..DIRECTORY_PARTITIONS));
    assert_eq!(health.next_checks(NOW_MS + 900, true).len(), 0);
    assert_eq!(health.next_checks(NOW_MS + 1_000, true).len(), due.len());
    assert_eq!(
        health.next_checks(NOW_MS - 60_000, false).len(),
        1,
        "the clock was put back"
    );
}

#[test]
fn storage_counts_as_unwritable_until_a_write_has_succeeded_and_as_the_last_write_found_it() {
    let mut health = WriteHealth::default();
    assert!(matches!(health.ailment(), Some(Ailment::Unwritable(_))));
    assert!(health.begin(NOW_MS));
    assert!(health.ailment().is_some(), "it has not ended");
    for is_full in [false, true, false] {
        health.record(match is_full {
            true => Err("the disk is full".to_owned()),
            false => Ok(()),
        });
        let problem = health.ailment().map(Problem::from);
        assert_eq!(problem.is_some(), is_full);
        if let Some(problem) = problem {
            assert_eq!(problem.code(), Code::Unavailable);
            let detail = problem.detail();
            let named = "storage takes no writes: the disk is full";
            assert!(detail.starts_with(named), "{detail}");
        }
    }
}

#[test]
fn any_rate_of_probes_is_one_write_a_second() {
    let mut health = WriteHealth::default();
    let writes = (0..10_000).filter(|ms| health.begin(NOW_MS + ms)).count();
    assert_eq!(i64::try_from(writes), Ok(10_000 / WRITE_EVERY_MS));
    assert!(health.begin(NOW_MS - 60_000), "the clock was put back");
}
