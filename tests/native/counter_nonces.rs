//! Law: every lane's newest flush is known for a minute, in bounded memory.

use tally_core::counter::nonces::{
    FlushEffect, FlushRecord, LANES_MAX, NONCE_KEPT_MS, Nonce, Nonces,
};

fn nonce(lane: u64, number: u64) -> Nonce {
    Nonce { lane, number }
}

fn outcome(sequence: u64) -> FlushEffect {
    FlushEffect {
        sequence,
        added: (u128::from(sequence) * 10).into(),
        removed: 3.into(),
    }
}

fn full(at_ms: i64) -> Nonces {
    let mut nonces = Nonces::default();
    for lane in (0..).take(LANES_MAX) {
        assert_eq!(nonces.look_up(nonce(lane, 1), at_ms), FlushRecord::New);
        nonces.remember(nonce(lane, 1), outcome(lane), at_ms);
    }
    nonces
}

#[test]
fn a_lanes_newest_flush_is_answered_and_older_ones_are_strays() {
    let mut nonces = Nonces::default();
    assert_eq!(nonces.look_up(nonce(7, 5), 0), FlushRecord::New);
    nonces.remember(nonce(7, 5), outcome(1), 0);
    assert_eq!(
        nonces.look_up(nonce(7, 5), 0),
        FlushRecord::Repeated(outcome(1))
    );
    assert_eq!(nonces.look_up(nonce(7, 4), 0), FlushRecord::Stray);
    assert_eq!(nonces.look_up(nonce(7, 6), 0), FlushRecord::New);
    assert_eq!(nonces.look_up(nonce(8, 5), 0), FlushRecord::New);
    nonces.remember(nonce(7, 6), outcome(2), 0);
    assert_eq!(
        nonces.look_up(nonce(7, 6), 0),
        FlushRecord::Repeated(outcome(2))
    );
    assert_eq!(nonces.look_up(nonce(7, 5), 0), FlushRecord::Stray);
}

#[test]
fn a_lane_is_known_for_a_minute_whatever_others_do() {
    let mut nonces = Nonces::default();
    nonces.remember(nonce(1, 1), outcome(1), 0);
    let mut number = 0;
    for at_ms in (0..=NONCE_KEPT_MS).step_by(5_000) {
        number += 1;
        nonces.remember(nonce(2, number), outcome(2), at_ms);
    }
    let first = nonces.look_up(nonce(1, 1), NONCE_KEPT_MS);
    assert_eq!(first, FlushRecord::Repeated(outcome(1)));
    nonces.remember(nonce(2, number + 1), outcome(3), NONCE_KEPT_MS + 1);
    let first = nonces.look_up(nonce(1, 1), NONCE_KEPT_MS + 1);
    assert_eq!(first, FlushRecord::New, "its minute is over");
}

#[test]
fn a_clock_that_steps_forward_lets_nothing_go() {
    let mut nonces = Nonces::default();
    let mut at_ms = 0;
    for (lane, step_ms) in (1..).zip([0, 600_000, 1, 86_400_000, 1_000, 61_000]) {
        at_ms += step_ms;
        nonces.remember(nonce(lane, 1), outcome(lane), at_ms);
    }
    for lane in 1..=6 {
        let known = nonces.look_up(nonce(lane, 1), at_ms);
        assert_eq!(known, FlushRecord::Repeated(outcome(lane)), "lane {lane}");
    }
}

#[test]
fn a_clock_that_steps_back_lets_nothing_go() {
    let mut nonces = Nonces::default();
    nonces.remember(nonce(1, 1), outcome(1), 1_000_000);
    nonces.remember(nonce(2, 1), outcome(2), 0);
    nonces.remember(nonce(3, 1), outcome(3), 60_001);
    let first = nonces.look_up(nonce(1, 1), 60_001);
    assert_eq!(first, FlushRecord::Repeated(outcome(1)));
}

#[test]
fn a_clock_that_steps_back_and_forth_lets_nothing_go() {
    let mut nonces = Nonces::default();
    let mut lane = 0;
    for at_ms in [0, 600_000, 1, 600_001, -600_000, 600_002, 86_400_000, 2] {
        lane += 1;
        nonces.remember(nonce(lane, 1), outcome(lane), at_ms);
        for known in 1..=lane {
            let seen = nonces.look_up(nonce(known, 1), at_ms);
            assert_eq!(
                seen,
                FlushRecord::Repeated(outcome(known)),
                "lane {known} at {at_ms}"
            );
        }
    }
}

#[test]
fn where_all_lanes_are_needed_another_is_refused() {
    let nonces = full(0);
    let next = nonce(u64::MAX, 1);
    assert_eq!(nonces.look_up(next, NONCE_KEPT_MS), FlushRecord::Full);
    assert_eq!(
        nonces.look_up(nonce(5, 2), 0),
        FlushRecord::New,
        "a known lane"
    );
    let repeated = nonces.look_up(nonce(5, 1), 0);
    assert_eq!(repeated, FlushRecord::Repeated(outcome(5)));
    assert_eq!(nonces.look_up(next, NONCE_KEPT_MS + 1), FlushRecord::New);
}

#[test]
fn memory_is_bounded_and_silent_lanes_are_let_go() {
    let mut nonces = full(0);
    let size = |nonces: &Nonces| tally_wire::messages::encode(nonces).unwrap().len();
    let full_bytes = size(&nonces);
    // As wide as it can be stored, an entry has four numbers of 10 bytes and two totals of 19.
    let widest = LANES_MAX * (4 * 10 + 2 * 19) + 2;
    assert!(full_bytes < widest, "{full_bytes} of at most {widest}");
    nonces.remember(nonce(0, 2), outcome(9), 0);
    assert!(
        size(&nonces) <= full_bytes,
        "a known lane takes no more room"
    );
    let last = nonce(u64::MAX, 1);
    nonces.remember(last, outcome(1), NONCE_KEPT_MS + 1);
    assert!(size(&nonces) < widest, "one gave way");
    for at_ms in (NONCE_KEPT_MS..=3 * NONCE_KEPT_MS).step_by(5_000) {
        nonces.remember(last, outcome(1), at_ms);
    }
    assert!(size(&nonces) < 60, "one lane is left");
}

#[test]
fn lanes_of_the_last_second_are_counted_once_each() {
    let mut nonces = Nonces::default();
    for (lane, number, at_ms) in [(1, 1, 0), (2, 1, 500), (1, 2, 900), (3, 1, 999)] {
        nonces.remember(nonce(lane, number), outcome(1), at_ms);
    }
    assert_eq!(nonces.lanes_within_second(999), 3);
    assert_eq!(nonces.lanes_within_second(1_500), 2);
    assert_eq!(nonces.lanes_within_second(1_999), 0);
}
