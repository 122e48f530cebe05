//! Law: generations of a cell only rise. A grant of a generation that is over changes nothing, a
//! newer one begins from nothing, and a time to live ends the counting until a granter speaks.

use crate::common;

use common::config;
use proptest::collection::vec;
use proptest::prelude::*;
use tally_core::counter::cell::CellState;
use tally_core::counter::flush::{Load, Refusal};
use tally_core::counter::grant::{GRANT_TRUSTED_MS, Grant, GrantOutcome};
use tally_core::counter::merge::Question;
use tally_core::counter::nonces::Nonce;
use tally_core::counter::settings::{SHARDS_MAX, Settings, TTL_SECONDS_MAX, Ttl, TtlMode};
use tally_core::counter::total::Sum;

const NOW_MS: i64 = 1_777_593_630_000;

fn grant(generation: u64, number: u64) -> Grant {
    Grant {
        generation,
        settings: Settings {
            number,
            shards: None,
            ttl: None,
            ..Settings::default()
        },
        last_write_ms: 0,
        alone: true,
        spread: 0,
        ..Grant::default()
    }
}

fn with_ttl(mode: TtlMode, seconds: u64, last_write_ms: i64) -> Grant {
    let mut grant = grant(1, 1);
    grant.settings.ttl = Some(Ttl {
        seconds,
        mode,
        set_at_ms: NOW_MS,
    });
    grant.last_write_ms = last_write_ms;
    grant
}

fn flush(cell: &mut CellState, number: u64, now_ms: i64) -> Result<u128, Refusal> {
    let load = Load {
        added: 1,
        live: vec![(now_ms.div_euclid(1_000), 1)],
        ..Load::default()
    };
    let nonce = Nonce { lane: 1, number };
    cell.apply(nonce, &load, now_ms)
        .map(|(outcome, _)| Sum::from(outcome.added).low_bits())
}

#[derive(Clone, Debug)]
enum Event {
    Grant(u64),
    Close(u64),
    Flush,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        2 => (1..8_u64).prop_map(Event::Grant),
        1 => (1..8_u64).prop_map(Event::Close),
        3 => Just(Event::Flush),
    ]
}

proptest! {
    #![proptest_config(config(51, 512))]

    #[test]
    fn a_generation_counts_from_nothing_and_never_after_its_end(events in vec(event(), 0..40)) {
        let mut cell = CellState::default();
        // The living generation with its count, and the newest that has ended.
        let (mut living, mut ended): (Option<(u64, u128)>, u64) = (None, 0);
        for (number, event) in (1..).zip(events) {
            match event {
                Event::Grant(generation) => {
                    let before = cell.clone();
                    let taken = cell.take_grant(grant(generation, 0), NOW_MS);
                    let newest = living.map_or(0, |(own, _)| own);
                    if generation <= ended || generation < newest {
                        prop_assert_eq!(taken, GrantOutcome::Outdated);
                        prop_assert!(cell == before, "an outdated grant changed the cell");
                    } else if generation == newest {
                        prop_assert_eq!(taken, GrantOutcome::Renewed);
                    } else {
                        let expected = if living.is_some() { GrantOutcome::Replaced } else { GrantOutcome::Born };
                        prop_assert_eq!(taken, expected);
                        living = Some((generation, 0));
                    }
                }
                Event::Close(generation) => {
                    let closes = living.is_some_and(|(own, _)| own <= generation);
                    prop_assert_eq!(cell.close(generation), closes);
                    living = living.filter(|_| !closes);
                    ended = ended.max(generation);
                }
                Event::Flush => match &mut living {
                    Some((_, count)) => {
                        *count += 1;
                        prop_assert_eq!(flush(&mut cell, number, NOW_MS), Ok(*count));
                    }
                    None => prop_assert_eq!(flush(&mut cell, number, NOW_MS), Err(Refusal::NeedsGrant)),
                },
            }
            prop_assert_eq!(cell.generation(), living.map(|(own, _)| own));
            for generation in 0..9 {
                let part = cell.answer(&Question::plain(generation));
                let expected = living.filter(|(own, _)| *own == generation).map(|(_, count)| count);
                prop_assert_eq!(part.map(|part| part.added().low_bits()), expected);
            }
        }
    }

    #[test]
    fn a_cell_lapses_exactly_at_its_end(
        sliding in any::<bool>(), seconds in 1..=TTL_SECONDS_MAX,
        set_at_ms in 0..NOW_MS, written_ms in 0..NOW_MS, offset in -2..2_i64,
    ) {
        let mode = if sliding { TtlMode::Sliding } else { TtlMode::Fixed };
        let mut grant = with_ttl(mode, seconds, written_ms);
        if let Some(ttl) = &mut grant.settings.ttl {
            ttl.set_at_ms = set_at_ms;
        }
        let mut cell = CellState::default();
        cell.take_grant(grant, 0);
        let from_ms = if sliding { set_at_ms.max(written_ms) } else { set_at_ms };
        let end_ms = from_ms + i64::try_from(seconds).unwrap() * 1_000;
        prop_assert_eq!(cell.has_lapsed(end_ms + offset), offset >= 0);
    }
}

#[test]
fn a_sliding_cell_lives_on_by_its_own_writes_and_a_fixed_one_does_not() {
    for (mode, lives) in [(TtlMode::Sliding, true), (TtlMode::Fixed, false)] {
        let mut cell = CellState::default();
        cell.take_grant(with_ttl(mode, 60, NOW_MS), NOW_MS);
        assert_eq!(flush(&mut cell, 1, NOW_MS + 59_000), Ok(1));
        let second = flush(&mut cell, 2, NOW_MS + 100_000);
        assert_eq!(second.is_ok(), lives, "{mode:?}");
        assert_eq!(cell.has_lapsed(NOW_MS + 118_999), !lives, "{mode:?}");
        // By its own write of second 100, where that was counted.
        assert!(cell.has_lapsed(NOW_MS + 160_000), "{mode:?}");
    }
}

#[test]
fn a_clock_that_steps_back_does_not_shorten_a_sliding_life() {
    let mut cell = CellState::default();
    cell.take_grant(with_ttl(TtlMode::Sliding, 60, NOW_MS), NOW_MS);
    assert_eq!(flush(&mut cell, 1, NOW_MS + 50_000), Ok(1));
    assert_eq!(flush(&mut cell, 2, NOW_MS + 20_000), Ok(2));
    assert_eq!(cell.last_write_ms(), NOW_MS + 50_000);
    assert!(!cell.has_lapsed(NOW_MS + 109_999));
}

#[test]
fn a_granters_word_outweighs_the_cells_clock_for_a_second() {
    let mut cell = CellState::default();
    let lapsed_ms = NOW_MS + 60_000;
    let trusted_ms = i64::try_from(GRANT_TRUSTED_MS).unwrap();
    cell.take_grant(with_ttl(TtlMode::Fixed, 60, 0), lapsed_ms);
    assert!(cell.has_lapsed(lapsed_ms));
    assert!(!cell.needs_grant(lapsed_ms));
    assert_eq!(flush(&mut cell, 1, lapsed_ms + trusted_ms - 1), Ok(1));
    assert!(cell.needs_grant(lapsed_ms + trusted_ms));
    let late = flush(&mut cell, 2, lapsed_ms + trusted_ms);
    assert_eq!(late, Err(Refusal::NeedsGrant));
    // A clock that steps back gives no endless trust.
    assert!(!cell.needs_grant(lapsed_ms - trusted_ms + 1));
    assert_eq!(
        cell.take_grant(grant(1, 2), lapsed_ms),
        GrantOutcome::Renewed
    );
    assert!(!cell.needs_grant(i64::MAX), "newer settings have no end");
}

#[test]
fn a_renewal_takes_newer_settings_alone_and_never_steps_back() {
    let mut cell = CellState::default();
    let mut first = grant(7, 5);
    first.last_write_ms = 100;
    cell.take_grant(first, NOW_MS);
    assert_eq!(flush(&mut cell, 1, NOW_MS), Ok(1));

    let mut older = grant(7, 4);
    older.settings.shards = Some(64);
    older.last_write_ms = 50;
    older.alone = false;
    assert_eq!(cell.take_grant(older, NOW_MS), GrantOutcome::Renewed);
    let held = cell.grant().unwrap();
    assert_eq!(
        held.settings, first.settings,
        "older settings are not taken"
    );
    assert_eq!(held.last_write_ms, 100, "the newest write is kept");
    assert!(!held.alone, "another cell never goes away again");

    let mut newer = grant(7, 6);
    newer.settings.shards = Some(4);
    newer.last_write_ms = 200;
    assert_eq!(cell.take_grant(newer, NOW_MS), GrantOutcome::Renewed);
    let held = cell.grant().unwrap();
    assert_eq!(held.settings, newer.settings);
    assert_eq!((held.last_write_ms, held.alone), (200, false));
    assert_eq!(cell.shards_ever(), 4);

    let mut fewer = grant(7, 7);
    fewer.settings.shards = Some(1);
    cell.take_grant(fewer, NOW_MS);
    assert_eq!(cell.shards_ever(), 4, "shards that ever were are asked");
    assert_eq!(flush(&mut cell, 2, NOW_MS), Ok(2), "its counts are kept");
}

#[test]
fn a_flush_of_an_ended_generation_is_neither_answered_nor_counted_by_the_next() {
    let mut cell = CellState::default();
    cell.take_grant(grant(1, 0), NOW_MS);
    assert_eq!(flush(&mut cell, 1, NOW_MS), Ok(1));
    assert!(cell.close(1));
    assert_eq!(cell.take_grant(grant(1, 0), NOW_MS), GrantOutcome::Outdated);
    assert_eq!(cell.take_grant(grant(2, 0), NOW_MS), GrantOutcome::Born);
    assert_eq!(flush(&mut cell, 1, NOW_MS), Err(Refusal::Stray));
    assert_eq!(flush(&mut cell, 2, NOW_MS), Ok(1), "from nothing");
    assert!(!cell.close(1), "an end that comes twice ends nothing else");
    assert_eq!(cell.generation(), Some(2));
}

#[test]
fn limits_of_settings_stand() {
    assert_eq!((SHARDS_MAX, TTL_SECONDS_MAX), (64, 316_224_000));
    let ttl = Ttl {
        seconds: u64::MAX,
        mode: TtlMode::Fixed,
        set_at_ms: i64::MAX,
    };
    assert_eq!(ttl.expires_at_ms(0), i64::MAX, "no sum wraps");
}
