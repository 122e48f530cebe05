//! Laws of the load: a cell that is not hot asks nobody to wait; lanes that gather as they are asked
//! flush at a bounded rate with a bounded delay; the number of shards follows the load and does not flap.

use crate::common;

use common::config;
use proptest::prelude::*;
use tally_core::counter::autoscale::LINGER_MS_MAX;
use tally_core::counter::autoscale::{
    FLUSHES_PER_SECOND_TARGET, FlushMeter, LANE_WRITES_MAX, Loads, Rate, ShardStep, Thresholds,
    linger_ms, shard_with_room,
};
use tally_core::counter::settings::SHARDS_MAX;

/// 1 May 2026, 00:00:30 UTC.
const BEGIN_MS: i64 = 1_777_593_630_000;

const SECOND_MS: i64 = 1_000;

/// What the meter says at the end of these flushes.
fn metered(flushes_ms: &[i64], now_ms: i64) -> u32 {
    let mut meter = FlushMeter::default();
    flushes_ms.iter().for_each(|at_ms| meter.record(1, *at_ms));
    meter.per_second(now_ms).flushes
}

#[test]
fn the_meter_tells_the_last_second_or_the_current_one_where_that_has_more() {
    let three = [BEGIN_MS, BEGIN_MS + 1, BEGIN_MS + 999];
    assert_eq!(metered(&[], BEGIN_MS), 0);
    assert_eq!(metered(&three, BEGIN_MS + 999), 3, "the current second");
    assert_eq!(metered(&three, BEGIN_MS + 1_999), 3, "the last second");
    assert_eq!(metered(&three, BEGIN_MS + 2_000), 0, "a second of silence");
    let more = [three.as_slice(), &[BEGIN_MS + 1_000]].concat();
    assert_eq!(metered(&more, BEGIN_MS + 1_000), 3);
    assert_eq!(metered(&more, BEGIN_MS + 2_000), 1);
}

proptest! {
    #![proptest_config(config(131, 256))]

    #[test]
    fn the_meter_is_the_larger_of_two_whole_seconds(
        gaps in prop::collection::vec(0..400_i64, 0..200), wait_ms in 0..2_500_i64,
    ) {
        let mut now_ms = BEGIN_MS;
        let flushes: Vec<i64> = gaps.iter().map(|gap| { now_ms += gap; now_ms }).collect();
        let now_ms = now_ms + wait_ms;
        let within = |second: i64| flushes.iter().filter(|at| at.div_euclid(SECOND_MS) == second).count();
        let second = now_ms.div_euclid(SECOND_MS);
        let expected = within(second).max(within(second - 1));
        prop_assert_eq!(usize::try_from(metered(&flushes, now_ms)), Ok(expected));
    }

    #[test]
    fn a_clock_that_steps_makes_no_load(flushes in 1..2_000_u32, step_ms in any::<i64>()) {
        let mut meter = FlushMeter::default();
        (0..flushes).for_each(|_| meter.record(1, BEGIN_MS));
        let stepped_ms = BEGIN_MS.saturating_add(step_ms);
        prop_assert!(meter.per_second(stepped_ms).flushes <= flushes);
        meter.record(1, stepped_ms);
        prop_assert!(meter.per_second(stepped_ms).flushes <= flushes + 1);
        let away = (stepped_ms.div_euclid(SECOND_MS) - BEGIN_MS.div_euclid(SECOND_MS)).unsigned_abs();
        if away > 1 {
            prop_assert_eq!(meter.per_second(stepped_ms).flushes, 1, "what was before is not the last second");
        }
    }

    #[test]
    fn nobody_waits_at_a_cell_that_is_not_hot(
        flushes in 0..FLUSHES_PER_SECOND_TARGET / 2, writes in any::<u32>(), lanes in any::<u32>(),
    ) {
        prop_assert_eq!(linger_ms(Rate { flushes, writes }, lanes), 0);
    }

    #[test]
    fn nobody_waits_longer_than_the_limit(flushes in any::<u32>(), writes in any::<u32>(), lanes in any::<u32>()) {
        let rate = Rate { flushes, writes };
        prop_assert!(linger_ms(rate, lanes) <= LINGER_MS_MAX);
    }

    #[test]
    fn a_client_that_waits_for_each_answer_is_not_held_back_alone(flushes in any::<u32>()) {
        prop_assert_eq!(linger_ms(Rate { flushes, writes: flushes }, 1), 0);
    }

    #[test]
    fn a_hot_lane_alone_whose_flushes_join_writes_gathers(flushes in FLUSHES_PER_SECOND_TARGET..10_000) {
        let rate = Rate { flushes, writes: 2 * flushes };
        prop_assert_eq!(linger_ms(rate, 1), 1_000 / FLUSHES_PER_SECOND_TARGET);
    }
}

#[test]
fn the_limits_are_the_documented_ones() {
    assert_eq!(
        (LINGER_MS_MAX, FLUSHES_PER_SECOND_TARGET, SHARDS_MAX),
        (20, 250, 64)
    );
    let usual = Thresholds::default();
    assert_eq!(
        (usual.split_flushes_per_second, usual.quiet_ms),
        (1_000, 60_000)
    );
}

/// What came of lanes that always have something to flush.
#[derive(Debug)]
struct Steady {
    /// Flushes of the busiest second after the first two.
    most_per_second: u32,
    /// The longest that a lane was held back once its batch had settled.
    held_back_ms: i64,
}

/// Lanes flush whenever their last batch has settled and they have gathered as the cell asked: from
/// when the batch before was taken, as `Lane::take` does. The cell counts lanes within the second.
fn simulate(lanes: u32, round_trip_ms: i64) -> Steady {
    const SECONDS: i64 = 8;
    struct Lane {
        taken_ms: i64,
        linger_ms: i64,
    }
    let mut meter = FlushMeter::default();
    // Lanes begin one after the other within the first 50 ms.
    let begin = |lane: u32| Lane {
        taken_ms: BEGIN_MS + i64::from(lane % 50) - round_trip_ms,
        linger_ms: 0,
    };
    let mut all: Vec<Lane> = (0..lanes).map(begin).collect();
    let mut by_second = vec![0_u32; usize::try_from(SECONDS).unwrap()];
    let mut held_back_ms = 0;
    for passed_ms in 0..SECONDS * SECOND_MS {
        let now_ms = BEGIN_MS + passed_ms;
        let within_second: Vec<bool> = all
            .iter()
            .map(|lane| now_ms - lane.taken_ms < SECOND_MS)
            .collect();
        let recent = u32::try_from(within_second.iter().filter(|recent| **recent).count()).unwrap();
        for lane in &mut all {
            let landed_ms = lane.taken_ms + round_trip_ms;
            if now_ms < landed_ms.max(lane.taken_ms + lane.linger_ms) {
                continue;
            }
            held_back_ms = held_back_ms.max(now_ms - landed_ms);
            lane.taken_ms = now_ms;
            meter.record(1, now_ms);
            by_second[usize::try_from(passed_ms / SECOND_MS).unwrap()] += 1;
            lane.linger_ms = linger_ms(meter.per_second(now_ms), recent).into();
        }
    }
    let most_per_second = *by_second[2..].iter().max().unwrap();
    Steady {
        most_per_second,
        held_back_ms,
    }
}

#[test]
fn lanes_that_gather_as_asked_flush_at_a_bounded_rate_and_wait_a_bounded_time() {
    for lanes in [1, 2, 3, 4, 5, 6, 16, 32, 340] {
        for round_trip_ms in [1, 2, 5, 20, 100] {
            let steady = simulate(lanes, round_trip_ms);
            let named = format!("{lanes} lanes, {round_trip_ms} ms: {steady:?}");
            assert!(steady.held_back_ms <= LINGER_MS_MAX.into(), "{named}");
            // A lane flushes once a round trip, or once per lingering where that is longer: (lanes - 1)
            // × 4 ms, which two lanes exceed the target twice with. From 6 lanes on the longest
            // lingering is too short for it; the shards must then follow.
            let by_round_trip = lanes * 1_000 / u32::try_from(round_trip_ms).unwrap();
            let by_lingering = (2 * FLUSHES_PER_SECOND_TARGET).max(lanes * 1_000 / LINGER_MS_MAX);
            // One client that waits for each answer is held back by its round trip alone.
            let bound = if lanes == 1 {
                by_round_trip
            } else {
                by_round_trip.min(by_lingering)
            } + lanes;
            assert!(steady.most_per_second <= bound, "{named}, at most {bound}");
            if (4..=6).contains(&lanes) {
                let near = FLUSHES_PER_SECOND_TARGET * lanes / (lanes - 1) + lanes;
                assert!(steady.most_per_second <= near, "{named}, at most {near}");
            }
        }
    }
}

const USUAL: Thresholds = Thresholds {
    split_flushes_per_second: 1_000,
    quiet_ms: 60_000,
};

/// A lead whose cells share a load evenly, each telling its part every 200 ms. Returns how the number
/// of shards went, and what it is in the end.
fn follow(shards: u8, seconds: i64, load: impl Fn(i64) -> u32) -> (Vec<ShardStep>, u8) {
    let (mut shards, mut steps) = (shards, Vec::new());
    let mut loads = Loads::new(BEGIN_MS);
    for passed_ms in (0..seconds * SECOND_MS).step_by(200) {
        let now_ms = BEGIN_MS + passed_ms;
        let each = load(passed_ms / SECOND_MS) / u32::from(shards);
        loads.merge(each, USUAL, now_ms);
        let step = loads.decide(shards, USUAL, now_ms);
        match step {
            ShardStep::Keep => continue,
            ShardStep::Double => shards *= 2,
            ShardStep::Halve => shards /= 2,
        }
        assert!(shards.is_power_of_two() && shards <= SHARDS_MAX);
        steps.push(step);
        loads.changed(now_ms);
    }
    (steps, shards)
}

#[test]
fn shards_double_under_load_up_to_the_most_and_halve_after_quiet_down_to_one() {
    let (steps, shards) = follow(1, 30, |_| 1_000_000);
    assert_eq!((steps, shards), (vec![ShardStep::Double; 6], 64));
    // A second for each change to work.
    assert_eq!(follow(1, 4, |_| 1_000_000).1, 8);
    let (steps, shards) = follow(64, 6 * 61 + 1, |_| 0);
    assert_eq!((steps, shards), (vec![ShardStep::Halve; 6], 1));
    assert_eq!(follow(64, 60, |_| 0).1, 64, "not before a minute of quiet");
    assert_eq!(
        follow(64, 119, |_| 0).1,
        32,
        "each halving waits for its own"
    );
    assert_eq!(follow(1, 600, |_| 0).0, vec![]);
}

#[test]
fn a_load_that_comes_back_now_and_then_keeps_the_shards() {
    let (steps, shards) = follow(8, 600, |second| if second % 50 == 0 { 8 * 500 } else { 0 });
    assert_eq!((steps, shards), (vec![], 8));
}

#[test]
fn a_load_at_the_threshold_does_not_split() {
    assert_eq!(follow(1, 600, |_| 1_000).0, vec![]);
    assert_eq!(follow(1, 600, |_| 1_001).1, 2);
}

#[test]
fn no_constant_load_makes_the_shards_flap() {
    for load in (0..80_000).step_by(97) {
        for shards in [1, 2, 16, 64] {
            let (steps, _) = follow(shards, 500, |_| load);
            let turns = steps.windows(2).filter(|pair| pair[0] != pair[1]).count();
            assert_eq!(
                turns, 0,
                "{load} flushes a second, from {shards} shards: {steps:?}"
            );
        }
    }
}

#[test]
fn one_busy_cell_is_enough_to_split_and_to_keep_the_shards() {
    let mut loads = Loads::new(BEGIN_MS);
    let now_ms = BEGIN_MS + 1_000;
    loads.merge(1_001, USUAL, now_ms);
    loads.merge(3, USUAL, now_ms + 100);
    assert_eq!(loads.decide(4, USUAL, now_ms + 100), ShardStep::Double);
    for passed_ms in (0..120_000).step_by(500) {
        loads.merge(126, USUAL, now_ms + passed_ms);
        loads.merge(0, USUAL, now_ms + passed_ms);
    }
    assert_eq!(loads.decide(4, USUAL, now_ms + 120_000), ShardStep::Keep);
}

#[test]
fn an_old_burst_does_not_split_again() {
    let mut loads = Loads::new(BEGIN_MS);
    loads.merge(5_000, USUAL, BEGIN_MS + 1_000);
    assert_eq!(loads.decide(1, USUAL, BEGIN_MS + 1_000), ShardStep::Double);
    loads.changed(BEGIN_MS + 1_000);
    assert_eq!(loads.decide(2, USUAL, BEGIN_MS + 9_000), ShardStep::Keep);
    loads.merge(10, USUAL, BEGIN_MS + 9_000);
    assert_eq!(loads.decide(2, USUAL, BEGIN_MS + 9_000), ShardStep::Keep);
}

proptest! {
    #![proptest_config(config(132, 256))]

    #[test]
    fn no_step_of_the_clock_changes_more_than_one_doubling_or_halving(
        load_reports in prop::collection::vec((any::<u32>(), any::<i64>()), 0..40),
        doublings in 0..=6_u32, quiet_ms in 0..100_000_i64, split in any::<u32>(),
    ) {
        let thresholds = Thresholds { split_flushes_per_second: split, quiet_ms };
        let mut shards = 1_u8 << doublings;
        let mut loads = Loads::new(BEGIN_MS);
        for (per_second, now_ms) in load_reports {
            loads.merge(per_second, thresholds, now_ms);
            match loads.decide(shards, thresholds, now_ms) {
                ShardStep::Double => { prop_assert!(shards < SHARDS_MAX && per_second > split); shards *= 2 }
                ShardStep::Halve => { prop_assert!(shards > 1); shards /= 2 }
                ShardStep::Keep => continue,
            }
            loads.changed(now_ms);
        }
    }

    #[test]
    fn a_clock_that_steps_back_halves_nothing_early(step_ms in 1..1_000_000_000_i64) {
        let mut loads = Loads::new(BEGIN_MS);
        loads.merge(500, USUAL, BEGIN_MS);
        loads.merge(0, USUAL, BEGIN_MS - step_ms);
        prop_assert_eq!(loads.decide(2, USUAL, BEGIN_MS - step_ms), ShardStep::Keep);
    }
}

/// The shards that an isolate uses for this many writes within the time of one flush, and what waits in each.
fn spread(own: u8, shards: u8, writes: u32) -> Vec<u32> {
    let mut waiting = vec![0; shards.into()];
    for _ in 0..writes {
        let shard = shard_with_room(own, shards, |shard| waiting[usize::from(shard)]);
        waiting[usize::from(shard)] += 1;
    }
    waiting
}

proptest! {
    #![proptest_config(config(132, 256))]

    #[test]
    fn an_isolate_uses_as_many_shards_as_its_rate_needs(
        shards in 1..=SHARDS_MAX, lot in any::<u8>(), writes in 0..20_000_u32,
    ) {
        let own = lot % shards;
        let waiting = spread(own, shards, writes);
        prop_assert_eq!(waiting.iter().sum::<u32>(), writes);
        let used = waiting.iter().filter(|writes| **writes > 0).count();
        let needed = writes.div_ceil(LANE_WRITES_MAX).min(shards.into());
        prop_assert_eq!(u32::try_from(used), Ok(needed));
        // Its own shard is the first, and beyond the room of all of them they are loaded alike.
        prop_assert!(writes == 0 || waiting[usize::from(own)] > 0);
        let (most, fewest) = (waiting.iter().max(), waiting.iter().min());
        prop_assert!(most <= fewest.map(|fewest| fewest.max(&LANE_WRITES_MAX.saturating_sub(1)) + 1).as_ref());
    }
}

#[test]
fn a_shard_whose_flushes_lag_is_left() {
    // The lane of the own shard is full, since its cell does not answer.
    let waiting = |shard| if shard == 2 { LANE_WRITES_MAX } else { 3 };
    assert_eq!(shard_with_room(2, 4, waiting), 3);
    assert_eq!(shard_with_room(3, 4, waiting), 3);
    assert_eq!(
        shard_with_room(0, 1, |_| unreachable!("there is no other")),
        0
    );
}
