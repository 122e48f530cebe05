//! The laws of a lane, over random schedules beside a plain model: every write gets the outcome of
//! its own batch, at most one batch is in flight, and they are sent in the order in which they were opened.

use crate::common;

use std::collections::BTreeMap;

use common::config;
use proptest::collection::vec;
use proptest::prelude::*;
use tally_core::counter::autoscale::LINGER_MS_MAX;
use tally_core::counter::flush::Load;
use tally_core::counter::lane::{
    Arrival, BATCHES_MAX, IN_FLIGHT_MS_MAX, Lane, OUTCOMES_MAX, Ticket, UNSENT_MS_MAX,
};

const LANE: u64 = 99;
/// Two of these are more than a batch holds.
const WIDE: u128 = 1 << 127;

/// How long a batch with a sender, or one in flight, stays before it is given up.
const STALE_MS: i64 = IN_FLIGHT_MS_MAX + IN_FLIGHT_MS_MAX / 2;

/// What a batch ends with: the cell's total after it, or that it failed.
type End = Result<u128, &'static str>;

#[derive(Clone, Debug)]
enum Event {
    Join {
        delta: u128,
        watched: bool,
    },
    /// Tries a batch so many places behind the first.
    Take(u64),
    Land {
        ok: bool,
    },
    /// An outcome of a batch that is none.
    LandStray(u64),
    Linger(u32),
    Tick(i64),
    GiveUp,
}

fn event() -> impl Strategy<Value = Event> {
    let delta = prop_oneof![
        6 => 1..1_000_u128,
        1 => Just(WIDE - 1),
        1 => Just(WIDE),
    ];
    prop_oneof![
        8 => (delta, any::<bool>()).prop_map(|(delta, watched)| Event::Join { delta, watched }),
        5 => prop_oneof![5 => Just(0), 1 => 1..4_u64].prop_map(Event::Take),
        4 => prop::bool::weighted(0.8).prop_map(|ok| Event::Land { ok }),
        1 => (0..20_u64).prop_map(Event::LandStray),
        1 => (0..40_u32).prop_map(Event::Linger),
        4 => prop_oneof![6 => 0..30_i64, 1 => -20..0_i64, 1 => 3_000..9_000_i64, 1 => 30_000..70_000_i64]
            .prop_map(Event::Tick),
        1 => Just(Event::GiveUp),
    ]
}

#[derive(Clone, Debug, Default)]
struct Batch {
    /// (ticket, delta) in order of arrival.
    writes: Vec<(Ticket, u128)>,
    watchers: Vec<u64>,
    opened_ms: i64,
    sender_since_ms: Option<i64>,
}

impl Batch {
    fn sum(&self) -> u128 {
        self.writes.iter().map(|(_, delta)| delta).sum()
    }
}

/// The lane, and what should be in it.
struct Both {
    lane: Lane<End, u64>,
    now_ms: i64,
    waiting: BTreeMap<u64, Batch>,
    in_flight: Option<(u64, Batch, i64)>,
    settled: Vec<(u64, Batch, End)>,
    taken_ms: Option<i64>,
    linger_ms: u32,
    cell_total: u128,
    watchers: u64,
}

impl Both {
    fn new() -> Self {
        Self {
            lane: Lane::new(LANE),
            now_ms: 1_000_000,
            waiting: BTreeMap::new(),
            in_flight: None,
            settled: Vec::new(),
            taken_ms: None,
            linger_ms: 0,
            cell_total: 0,
            watchers: 0,
        }
    }

    fn join(&mut self, delta: u128, watched: bool) -> Result<(), TestCaseError> {
        let watcher = watched.then_some(self.watchers);
        self.watchers += 1;
        let load = Load {
            added: delta,
            live: vec![(self.now_ms / 1_000, delta)],
            ..Load::default()
        };
        let joins = self.waiting.last_key_value();
        let joins = joins.is_some_and(|(_, youngest)| youngest.sum().checked_add(delta).is_some());
        let ticket = self.lane.join(load, self.now_ms, watcher);
        if !joins && self.waiting.len() == BATCHES_MAX {
            prop_assert_eq!(ticket, None);
            return Ok(());
        }
        let Some(ticket) = ticket else {
            return Err(TestCaseError::fail("a lane with room refused a write"));
        };
        prop_assert_eq!(ticket.opens, !joins);
        let known = self.waiting.contains_key(&ticket.batch);
        prop_assert_eq!(known, joins, "the youngest, or a new one");
        let now_ms = self.now_ms;
        let batch = self.waiting.entry(ticket.batch).or_insert_with(|| Batch {
            opened_ms: now_ms,
            ..Batch::default()
        });
        let sends = !watched && batch.sender_since_ms.is_none();
        prop_assert_eq!(ticket.sends, sends, "one sends, if anybody offers to");
        if sends {
            batch.sender_since_ms = Some(now_ms);
        }
        batch.watchers.extend(watcher);
        batch.writes.push((ticket, delta));
        prop_assert_eq!(self.waiting.keys().next_back(), Some(&ticket.batch));
        Ok(())
    }

    fn take(&mut self, behind: u64) -> Result<(), TestCaseError> {
        let first = self.waiting.keys().next().copied();
        let number = first.unwrap_or(1) + behind;
        let taken = self.lane.take(number, self.now_ms);
        let linger_ms = i64::from(self.linger_ms);
        let gathered = self
            .taken_ms
            .is_none_or(|taken_ms| taken_ms + linger_ms <= self.now_ms || self.now_ms < taken_ms);
        let may_fly = first == Some(number) && self.in_flight.is_none() && gathered;
        prop_assert_eq!(taken.is_some(), may_fly);
        if let Some((nonce, load)) = taken {
            let batch = self.waiting.remove(&number).unwrap_or_default();
            prop_assert_eq!((nonce.lane, nonce.number), (LANE, number));
            prop_assert_eq!((load.added, load.removed), (batch.sum(), 0));
            let stamped: u128 = load.live.iter().map(|(_, amount)| amount).sum();
            prop_assert_eq!(stamped, batch.sum());
            self.in_flight = Some((number, batch, self.now_ms));
            self.taken_ms = Some(self.now_ms);
        }
        Ok(())
    }

    fn complete(&mut self, ok: bool) -> Result<(), TestCaseError> {
        let Some((number, batch, _)) = self.in_flight.take() else {
            return Ok(());
        };
        if ok {
            self.cell_total = self.cell_total.wrapping_add(batch.sum());
        }
        let end = if ok {
            Ok(self.cell_total)
        } else {
            Err("failed")
        };
        let watchers = self.lane.complete(number, end, self.now_ms);
        prop_assert_eq!(&watchers, &batch.watchers);
        self.settled.push((number, batch, end));
        Ok(())
    }

    fn give_up(&mut self) -> Result<(), TestCaseError> {
        let notified_watchers = self.lane.give_up_stale(self.now_ms, &Err("lost"));
        let now_ms = self.now_ms;
        let mut watchers = Vec::new();
        let mut lose = |number: u64, batch: Batch| {
            watchers.extend(batch.watchers.clone());
            self.settled.push((number, batch, Err("lost")));
        };
        if let Some((number, batch, _)) = self
            .in_flight
            .take_if(|(_, _, since_ms)| now_ms - *since_ms > STALE_MS)
        {
            lose(number, batch);
        }
        while let Some(first) = self.waiting.first_entry() {
            let batch = first.get();
            let is_stale = match batch.sender_since_ms {
                Some(since_ms) => now_ms - since_ms > STALE_MS,
                None => now_ms - batch.opened_ms > UNSENT_MS_MAX,
            };
            if !is_stale {
                break;
            }
            let (number, batch) = first.remove_entry();
            lose(number, batch);
        }
        prop_assert_eq!(notified_watchers, watchers);
        Ok(())
    }

    fn play(&mut self, event: Event) -> Result<(), TestCaseError> {
        match event {
            Event::Join { delta, watched } => self.join(delta, watched)?,
            Event::Take(behind) => self.take(behind)?,
            Event::Land { ok } => self.complete(ok)?,
            Event::LandStray(number) => {
                let in_flight = self.in_flight.as_ref().map(|(in_flight, _, _)| *in_flight);
                if in_flight != Some(number) {
                    let notified_watchers = self.lane.complete(number, Ok(12_345), self.now_ms);
                    prop_assert_eq!(notified_watchers, Vec::<u64>::new());
                }
            }
            Event::Linger(milliseconds) => {
                self.lane.linger(milliseconds);
                self.linger_ms = milliseconds.min(LINGER_MS_MAX);
            }
            Event::Tick(milliseconds) => self.now_ms += milliseconds,
            Event::GiveUp => self.give_up()?,
        }
        self.check()
    }

    fn check(&self) -> Result<(), TestCaseError> {
        let is_idle = self.waiting.is_empty() && self.in_flight.is_none();
        // At the end of time nobody looks any more; until then what waits or is in flight keeps a lane.
        prop_assert_eq!(self.lane.is_idle(i64::MAX), is_idle);
        prop_assert!(is_idle || !self.lane.is_idle(self.now_ms));
        let in_flight = self.in_flight.iter().map(|(_, batch, _)| (batch, false));
        let waiting = self.waiting.values().map(|batch| (batch, true));
        for (batch, is_waiting) in in_flight.chain(waiting) {
            for (ticket, _) in &batch.writes {
                prop_assert_eq!(self.lane.arrival(ticket), None, "it has not settled");
                prop_assert_eq!(self.lane.is_waiting(ticket), is_waiting);
                let look_in_ms = self.lane.look_in_ms(ticket, self.now_ms);
                prop_assert!((1..=50).contains(&look_in_ms));
            }
        }
        let settled = self.settled.iter().rev();
        let (awaited, watched): (Vec<_>, Vec<_>) =
            settled.partition(|(_, batch, _)| batch.watchers.len() < batch.writes.len());
        for (ticket, _) in watched.iter().flat_map(|(_, batch, _)| &batch.writes) {
            prop_assert_eq!(self.lane.arrival(ticket), None, "its watcher was told");
        }
        for (_, batch, end) in awaited.into_iter().take(OUTCOMES_MAX) {
            let mut later = batch.sum();
            for (ticket, delta) in &batch.writes {
                later -= delta;
                let expected = Arrival {
                    outcome: *end,
                    later: (later, 0),
                };
                prop_assert_eq!(self.lane.arrival(ticket), Some(expected));
            }
        }
        Ok(())
    }

    /// Each counted write's value is the sum of all that were counted up to it, in order of arrival.
    fn check_values(&self) -> Result<(), TestCaseError> {
        let mut total = 0_u128;
        for (_, batch, end) in &self.settled {
            let Ok(after) = end else { continue };
            let mut later = batch.sum();
            for (_, delta) in &batch.writes {
                later -= delta;
                total = total.wrapping_add(*delta);
                prop_assert_eq!(after.wrapping_sub(later), total);
            }
        }
        prop_assert_eq!(total, self.cell_total);
        Ok(())
    }
}

proptest! {
    #![proptest_config(config(81, 400))]

    #[test]
    fn every_write_gets_its_own_batchs_outcome(events in vec(event(), 0..120)) {
        let mut both = Both::new();
        for event in events {
            both.play(event)?;
        }
        both.check_values()?;
        let counted = both.settled.iter().filter(|(_, _, end)| end.is_ok());
        let numbers: Vec<u64> = counted.map(|(number, _, _)| *number).collect();
        prop_assert!(numbers.is_sorted(), "batches are sent in the order in which they were opened");
    }
}
