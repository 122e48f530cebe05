//! Law: a record is never let go before the time that was promised when it was made, and is gone a quarter
//! of that time later at most, counted from when it was made or last renewed; where the ledger is full,
//! nothing is let go for another record.

use crate::common;

use std::collections::BTreeMap;

use common::config;
use proptest::collection::vec;
use proptest::prelude::*;
use tally_core::counter::ledger::{EndedKeys, KeySource, Ledger, RecentKeys, WriteKey};
use tally_core::counter::ledgers::{LedgerLimits, Ledgers, PUBLIC_KEPT_SECONDS, is_marked, marked};
use tally_wire::messages::{decode, encode};

const BEGIN_MS: i64 = 1_777_593_630_000;

/// A day, as where nothing is set.
const DAY_MS: i64 = 86_400_000;

/// A record, as a row of the slot that it was made in.
#[derive(Clone, Copy, Debug)]
struct Row {
    slot: i64,
    made_ms: i64,
    kept_ms: i64,
}

/// A ledger with the rows that it counts.
#[derive(Default)]
struct Shell {
    ledger: Ledger,
    rows: Vec<Row>,
}

impl Shell {
    fn admit(&mut self, now_ms: i64, kept_ms: i64) {
        let slot = (self.ledger.admit(now_ms, kept_ms, u64::MAX)).expect("there is room");
        self.rows.push(Row {
            slot,
            made_ms: now_ms,
            kept_ms,
        });
    }

    /// Whether the row was moved. Its promise is made again either way.
    fn renew(&mut self, pick: usize, now_ms: i64, kept_ms: i64) -> bool {
        let number = pick % self.rows.len().max(1);
        let Some(row) = self.rows.get_mut(number) else {
            return false;
        };
        let moved = self.ledger.renew(row.slot, now_ms, kept_ms);
        *row = Row {
            slot: moved.unwrap_or(row.slot),
            made_ms: now_ms,
            kept_ms,
        };
        moved.is_some()
    }

    /// Deletes what the ledger lets go, and returns it.
    fn expire(&mut self, now_ms: i64) -> Vec<Row> {
        let newest = self.ledger.expire(now_ms).unwrap_or(i64::MIN);
        let all = std::mem::take(&mut self.rows);
        let (expired, left) = all.into_iter().partition(|row| row.slot <= newest);
        self.rows = left;
        expired
    }

    fn check_counts(&self) -> Result<(), TestCaseError> {
        let mut counts: BTreeMap<i64, u64> = BTreeMap::new();
        for row in &self.rows {
            *counts.entry(row.slot).or_default() += 1;
        }
        prop_assert_eq!(
            counts_of(&self.ledger),
            counts.into_iter().collect::<Vec<_>>()
        );
        Ok(())
    }
}

/// The ledger's stored form: (slot, records), oldest first.
fn counts_of(ledger: &Ledger) -> Vec<(i64, u64)> {
    decode(&encode(ledger).expect("a ledger")).expect("its counts")
}

#[derive(Clone, Debug)]
enum Event {
    Admit,
    /// One of the records is asked for again, as a claim is by a retry.
    Renew(usize),
    Expire,
    /// The clock goes on, or steps back: thousandths of the time that records are kept.
    Tick(i64),
    /// The deployment keeps records for so long from now on.
    Keep(i64),
}

fn event(ticks: std::ops::Range<i64>) -> impl Strategy<Value = Event> {
    prop_oneof![
        6 => Just(Event::Admit),
        4 => any::<usize>().prop_map(Event::Renew),
        2 => Just(Event::Expire),
        6 => ticks.prop_map(Event::Tick),
        1 => prop_oneof![Just(60_000), Just(61_007), Just(DAY_MS), Just(7 * DAY_MS)].prop_map(Event::Keep),
    ]
}

proptest! {
    #![proptest_config(config(71, 512))]

    #[test]
    fn no_record_goes_before_its_time_whatever_clock_and_settings_do(
        events in vec(event(-700..900), 1..120),
    ) {
        let mut shell = Shell::default();
        let (mut now_ms, mut kept_ms) = (BEGIN_MS, DAY_MS);
        for event in events {
            match event {
                Event::Admit => shell.admit(now_ms, kept_ms),
                Event::Renew(pick) => {
                    shell.renew(pick, now_ms, kept_ms);
                }
                Event::Tick(thousandths) => now_ms += kept_ms / 1_000 * thousandths,
                Event::Keep(milliseconds) => kept_ms = milliseconds,
                Event::Expire => {
                    for row in shell.expire(now_ms) {
                        prop_assert!(now_ms - row.made_ms >= row.kept_ms, "{row:?} at {now_ms}");
                    }
                }
            }
            shell.check_counts()?;
        }
    }

    #[test]
    fn while_the_clock_goes_on_records_are_gone_a_quarter_later_at_most(
        kept_ms in prop_oneof![60_000..70_000_i64, Just(DAY_MS), DAY_MS..8 * DAY_MS],
        events in vec(event(0..500), 1..120),
    ) {
        let mut shell = Shell::default();
        let mut now_ms = BEGIN_MS;
        for event in events {
            match event {
                // As the shell does: first what may go is let go.
                Event::Admit => {
                    shell.expire(now_ms);
                    shell.admit(now_ms, kept_ms);
                    prop_assert!(shell.ledger.slots().count() <= 6);
                }
                Event::Renew(pick) => {
                    shell.expire(now_ms);
                    shell.renew(pick, now_ms, kept_ms);
                    prop_assert!(shell.ledger.slots().count() <= 6);
                }
                Event::Tick(thousandths) => now_ms += kept_ms / 1_000 * thousandths,
                Event::Expire => {
                    shell.expire(now_ms);
                    let late = |row: &&Row| now_ms - row.made_ms >= kept_ms + kept_ms / 4;
                    let late = shell.rows.iter().find(late);
                    prop_assert!(late.is_none(), "{late:?} is there at {now_ms}");
                }
                Event::Keep(_) => {}
            }
        }
    }

    #[test]
    fn public_keys_fill_their_own_ledger_and_take_no_room_of_others(
        kept_s in prop_oneof![60..70_i64, Just(86_400), 86_400..604_800_i64],
        events in vec((any::<bool>(), event(0..500)), 1..120),
    ) {
        let clients = LedgerLimits { keys: KeySource::Clients, kept_ms: kept_s * 1_000, records_max: 40 };
        let public = LedgerLimits::public(clients.kept_ms, 0, 5);
        prop_assert!(public.kept_ms <= PUBLIC_KEPT_SECONDS * 1_000 + 1);
        let mut ledgers = Ledgers::default();
        // The slot of each record, and until when it was promised.
        let mut rows: Vec<(i64, i64)> = Vec::new();
        let mut now_ms = BEGIN_MS;
        for (is_public, event) in events {
            let limits = if is_public { public } else { clients };
            let counted = |keys: KeySource| ledgers.of(keys).records();
            let has_room = counted(limits.keys) < limits.records_max;
            match event {
                Event::Admit => {
                    let slot = ledgers.admit(limits, now_ms);
                    prop_assert_eq!(slot.is_some(), has_room, "what others hold takes no room");
                    rows.extend(slot.map(|slot| (slot, now_ms + limits.kept_ms)));
                }
                Event::Renew(pick) if !rows.is_empty() => {
                    let place = pick % rows.len();
                    let row = &mut rows[place];
                    // Only its own sender renews a record.
                    let limits = if row.0 % 2 != 0 { public } else { clients };
                    let slot = ledgers.renew(row.0, limits, now_ms);
                    *row = (slot, row.1.max(now_ms + limits.kept_ms));
                }
                Event::Tick(thousandths) => now_ms += clients.kept_ms / 1_000 * thousandths,
                _ => {
                    let newest = ledgers.expire(now_ms).unwrap_or(i64::MIN);
                    let early = rows.iter().find(|(slot, until)| *slot <= newest && *until > now_ms);
                    prop_assert!(early.is_none(), "{early:?} goes at {now_ms}");
                    rows.retain(|(slot, _)| *slot > newest);
                }
            }
            let found = ledgers.slots(KeySource::Clients);
            prop_assert!(rows.iter().all(|(slot, _)| found.contains(slot)), "each is found");
            let is_odd = |odd: bool| rows.iter().filter(|(slot, _)| (slot % 2 != 0) == odd).count() as u64;
            let counts = (ledgers.of(KeySource::Clients).records(), ledgers.of(KeySource::Public).records());
            prop_assert_eq!(counts, (is_odd(false), is_odd(true)));
        }
    }

    #[test]
    fn a_queued_write_says_whose_key_it_has(
        hash in any::<u64>(), other in any::<u64>(),
    ) {
        let own = |keys| marked(hash, keys);
        prop_assert!(is_marked(own(KeySource::Public)) && !is_marked(own(KeySource::Clients)));
        for keys in [KeySource::Public, KeySource::Clients] {
            prop_assert!(hash << 16 == other << 16 || own(keys) != marked(other, keys), "the marks hide no difference");
        }
    }

    #[test]
    fn it_says_when_something_may_go(
        admissions in vec((0..DAY_MS, prop_oneof![Just(60_000), Just(DAY_MS)]), 1..20),
    ) {
        let mut shell = Shell::default();
        prop_assert_eq!(shell.ledger.due_at_ms(), None);
        for (later_ms, kept_ms) in admissions {
            shell.admit(BEGIN_MS + later_ms, kept_ms);
        }
        while let Some(due_ms) = shell.ledger.due_at_ms() {
            prop_assert!(shell.expire(due_ms - 1).is_empty());
            prop_assert!(!shell.expire(due_ms).is_empty());
        }
        prop_assert!(shell.rows.is_empty());
    }
}

#[test]
fn a_record_of_a_slots_first_moment_is_kept_a_quarter_longer_and_one_of_its_last_just_as_promised()
{
    let quarter_ms = DAY_MS / 4;
    let start_ms = BEGIN_MS - BEGIN_MS.rem_euclid(quarter_ms);
    for (made_ms, kept_ms) in [
        (start_ms, DAY_MS + quarter_ms),
        (start_ms + quarter_ms - 1, DAY_MS + 1),
    ] {
        let mut ledger = Ledger::default();
        let slot = ledger.admit(made_ms, DAY_MS, 1);
        assert_eq!(ledger.expire(made_ms + kept_ms - 1), None);
        assert_eq!(ledger.expire(made_ms + kept_ms), slot);
        assert_eq!(ledger, Ledger::default());
    }
}

#[test]
fn a_shorter_setting_drops_nothing_and_a_longer_one_does_not_keep_for_ever() {
    let mut ledger = Ledger::default();
    let long = ledger.admit(BEGIN_MS, DAY_MS, 10);
    // Made shorter: what was promised for a day stays for a day, and what is new stays with it.
    let short = ledger.admit(BEGIN_MS + 1_000, 60_000, 10);
    assert_eq!(short, long);
    assert_eq!(ledger.expire(BEGIN_MS + DAY_MS - 1), None);
    assert_eq!(ledger.expire(BEGIN_MS + DAY_MS + DAY_MS / 4), long);

    let mut ledger = Ledger::default();
    let short = ledger.admit(BEGIN_MS, 60_000, 10);
    // Made longer: each goes at its own time.
    let long = ledger.admit(BEGIN_MS, DAY_MS, 10);
    assert_eq!(ledger.expire(BEGIN_MS + 75_000), short);
    assert_eq!(ledger.expire(BEGIN_MS + DAY_MS + DAY_MS / 4), long);
}

#[test]
fn a_claim_that_is_asked_for_again_late_outlives_the_record_that_is_counted_then() {
    // The count after the first claim was lost, and its client comes back just before the claim would go.
    let kept_ms = DAY_MS + 3_600_000;
    let mut shell = Shell::default();
    shell.admit(BEGIN_MS, kept_ms);
    let late_ms = shell.rows[0].slot - 1;
    assert!(shell.renew(0, late_ms, kept_ms));
    // Counted a moment later, by a clock that is up to an hour ahead, the record is kept for a day.
    let record_until_ms = late_ms + 3_600_000 + DAY_MS;
    assert!(shell.expire(record_until_ms - 1).is_empty());
    assert_eq!(shell.expire(record_until_ms + kept_ms / 4).len(), 1);
}

#[test]
fn however_often_it_is_asked_for_a_record_moves_once_a_quarter() {
    let minutes = 3 * 24 * 60;
    let mut shell = Shell::default();
    shell.admit(BEGIN_MS, DAY_MS);
    shell.admit(BEGIN_MS, DAY_MS);
    let moves = (0..=minutes).filter(|minute| shell.renew(0, BEGIN_MS + minute * 60_000, DAY_MS));
    assert_eq!(moves.count(), 3 * 4);
    // The other one has stayed where it was, and goes alone.
    assert_eq!(shell.ledger.slots().count(), 2);
    assert_eq!(shell.expire(BEGIN_MS + 2 * DAY_MS).len(), 1);
    assert_eq!(shell.rows.len(), 1);
}

#[test]
fn a_full_ledger_renews_what_it_has_and_nothing_that_it_has_not() {
    let mut ledger = Ledger::default();
    let slot = ledger.admit(BEGIN_MS, DAY_MS, 1).expect("there is room");
    let late_ms = BEGIN_MS + DAY_MS;
    assert_eq!(ledger.renew(slot - 1, late_ms, DAY_MS), None);
    let renewed = ledger.renew(slot, late_ms, DAY_MS).expect("a new slot");
    assert_eq!(counts_of(&ledger), [(renewed, 1)]);
    assert_eq!(ledger.renew(slot, late_ms, DAY_MS), None, "it has moved");
    assert_eq!(ledger.admit(late_ms, DAY_MS, 1), None);
}

#[test]
fn where_it_is_full_nothing_goes_for_another() {
    let mut ledger = Ledger::default();
    assert_eq!(ledger.admit(BEGIN_MS, DAY_MS, 0), None);
    for record in 0..3 {
        let slot = ledger.admit(BEGIN_MS + record * DAY_MS / 4, DAY_MS, 3);
        assert!(slot.is_some(), "record {record}");
    }
    let full = ledger.clone();
    assert_eq!(ledger.admit(BEGIN_MS + DAY_MS - 1, DAY_MS, 3), None);
    assert_eq!(ledger, full);
    // A bound that was made smaller drops nothing either.
    assert_eq!(ledger.admit(BEGIN_MS + DAY_MS - 1, DAY_MS, 1), None);
    assert_eq!(ledger, full);
    let late_ms = BEGIN_MS + DAY_MS + DAY_MS / 4;
    assert!(ledger.expire(late_ms).is_some());
    assert!(ledger.admit(late_ms, DAY_MS, 3).is_some());
    assert_eq!(ledger.admit(late_ms, DAY_MS, 3), None);
}

#[test]
fn clocks_at_the_ends_of_time_break_nothing() {
    for now_ms in [i64::MIN, -1, 0, i64::MAX] {
        for kept_ms in [1, 3, DAY_MS, i64::MAX] {
            let mut ledger = Ledger::default();
            let slot = ledger.admit(now_ms, kept_ms, 1).expect("there is room");
            assert!(slot == i64::MAX || slot > now_ms, "{now_ms} {kept_ms}");
            let expired = ledger.expire(now_ms);
            assert!(
                expired.is_none() || now_ms == i64::MAX,
                "{now_ms} {kept_ms}"
            );
        }
    }
}

#[test]
fn keys_of_ended_generations_are_found_in_any_order_and_the_newest_are_kept() {
    let key = |number: u32| {
        let mut bytes = [0; 16];
        // Their order is not that of their times.
        bytes[..4].copy_from_slice(&number.wrapping_mul(0x9E37_79B9).to_be_bytes());
        WriteKey(bytes)
    };
    let mut ended = EndedKeys::default();
    for generation in 0..5_u32 {
        let mut lately = RecentKeys::default();
        for number in generation * 1_000..(generation + 1) * 1_000 {
            lately.remember(key(number), i64::from(number));
        }
        ended = ended.with(lately);
    }
    // 4,096 of 5,000.
    for number in 0..6_000 {
        assert_eq!(
            ended.has(key(number)),
            (904..5_000).contains(&number),
            "{number}"
        );
    }
}
