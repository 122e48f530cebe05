//! What the lists of leases of a lender may take in memory.

use tally_limit::memory::{LIMITERS_BYTES_MAX, SharedMemory};
use tally_limit::policy::{Policy, Scope};
use tally_limit::table::{LEASES_BYTES_MIN, Table};

use crate::checks::check;
use crate::policy_kinds::{BEGIN_MS, request};

#[test]
fn lists_of_leases_are_bounded_by_their_bytes_and_keys_leave_room_for_some() {
    let policy = Policy {
        scope: Scope::Global,
        ..Policy::sliding(1_000, 60)
    };
    // Each lender gets an even part of the memory; the keys of one have filled it before.
    for keys_first in [0, 5_000_u32] {
        let memory = SharedMemory::default();
        let mut others = memory.share();
        others.hold(LIMITERS_BYTES_MAX);
        let mut table = Table::in_memory().sharing(memory.share());
        for number in 0..keys_first {
            let key = format!("first {number}");
            let _ = table.check(&check(&policy, &key, 1), BEGIN_MS);
        }
        let mut ask = |key: usize, borrower: usize, sequence: u64| {
            let request = request(&format!("{borrower:0>500}"), sequence, 1);
            let key = format!("lent {key}");
            let answer = table.ask(&check(&policy, &key, 1), &request, BEGIN_MS);
            (answer, table.size().bytes)
        };
        let before = ask(0, 0, 1).1;
        let (mut began, mut bytes) = (1, before);
        for key in 1..100 {
            for borrower in 0..50 {
                let (answer, now) = ask(key, borrower, 1);
                assert!(answer.granted > 0 || answer.retry_after_ms > 0);
                began += usize::from(answer.granted > 0);
                bytes = now;
            }
        }
        assert!(began > 700, "{began} leases after {keys_first} keys");
        let bytes_max = LIMITERS_BYTES_MAX / 16 + LEASES_BYTES_MIN + 60_000;
        assert!(
            bytes < bytes_max,
            "{bytes} bytes, not {bytes_max}, of {began} leases"
        );
        // Those that began go on.
        assert_eq!(ask(0, 0, 2).0.granted, 1);
    }
}
