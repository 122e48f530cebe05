//! Law: each limit that nothing else meets is met here: what fits is taken, and one more is refused. That the tables of
//! docs say what the constants are is a law of tests/docs.

use tally_api::batch::sections::SECTION_BYTES_MAX;
use tally_api::bodies;
use tally_core::counter::ledger::{Ledger, RECORDS_MAX};
use tally_wire::{names, shell_limits};

const NOW_MS: i64 = 1_777_593_630_000;

#[test]
fn shells_stay_below_what_the_platform_gives() {
    // Half of an isolate is left to everything else while bulk bodies are summed.
    const { assert!(shell_limits::BULK_MEMORY_BYTES_MAX <= shell_limits::ISOLATE_BYTES_MAX / 2) };
    // A body may be of that size.
    const { assert!(bodies::BULK_BYTES_MAX <= shell_limits::BULK_MEMORY_BYTES_MAX) };
    let claims =
        (shell_limits::CLAIMS_MAX + shell_limits::PUBLIC_CLAIMS_MAX) * shell_limits::CLAIM_BYTES;
    assert!(
        claims <= shell_limits::OBJECT_BYTES_MAX / 10,
        "roots have room beside claims"
    );
    // A section of a body fits beside what is read of it, where three others are.
    const { assert!(4 * SECTION_BYTES_MAX <= shell_limits::BULK_MEMORY_BYTES_MAX) };
    let partitions = names::DIRECTORY_PARTITIONS;
    assert!(shell_limits::AGGREGATE_MAX + partitions <= shell_limits::CALLS_MAX);
    let tries = shell_limits::WHOLE_MS_MAX / i64::try_from(shell_limits::WHOLE_EVERY_MS).unwrap();
    assert_eq!(tries, 35, "`WHOLE_TRIES` of a cell");
}

#[test]
fn a_ledger_has_room_for_all_its_records_and_for_no_other() {
    let day_ms = 86_400_000;
    let mut ledger = Ledger::default();
    for record in 0..RECORDS_MAX {
        // Some of each hour, so that they lie in several slots.
        let hour = i64::try_from(record % 20).unwrap();
        let slot = ledger.admit(NOW_MS + hour * 3_600_000, day_ms, RECORDS_MAX);
        assert!(slot.is_some(), "record {record}");
    }
    assert_eq!(ledger.records(), RECORDS_MAX);
    assert_eq!(ledger.admit(NOW_MS, day_ms, RECORDS_MAX), None);
}
