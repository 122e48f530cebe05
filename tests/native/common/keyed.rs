//! A lead with its rows that takes keyed writes, beside a model that is too plain to be wrong.

use super::rows::Rows;
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::BTreeMap;
use tally_core::counter::cell::CellState;
use tally_core::counter::flush::{Changes, Load, Refusal};
use tally_core::counter::grant::Grant;
use tally_core::counter::history::Resolution;
use tally_core::counter::ledger::{
    KeySource, KeyedOutcome, KeyedWrite, Record, Recorded, SeenValue, WriteKey,
};
use tally_core::counter::ledgers::LedgerLimits;
use tally_core::counter::merge::{Question, Range};
use tally_core::counter::nonces::Nonce;
use tally_core::counter::settings::Settings;
use tally_core::counter::total::{CellTotal, DELTA_MAX, Value};
use tally_wire::messages::{decode, encode};

/// 1 May 2026, 00:00:30 UTC.
pub const BEGIN_MS: i64 = 1_777_593_630_000;

/// A day, as where nothing is set.
pub const KEPT_MS: i64 = 86_400_000;

pub const GENERATION: u64 = 7;

pub fn grant(generation: u64, alone: bool) -> Grant {
    Grant {
        generation,
        settings: Settings::default(),
        last_write_ms: 0,
        alone,
        spread: 1,
        ..Grant::default()
    }
}

pub fn limits(records_max: u64) -> LedgerLimits {
    LedgerLimits {
        keys: KeySource::Clients,
        kept_ms: KEPT_MS,
        records_max,
    }
}

pub fn key(number: u8) -> WriteKey {
    WriteKey([number; 16])
}

/// What a keyed write asks for; its fingerprint is as unlike others as it is itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demand {
    pub added: u128,
    pub removed: u128,
    /// How far from now its stamp is, seconds.
    pub ago: i64,
}

pub fn write(number: u8, demand: Demand, now_ms: i64) -> KeyedWrite {
    let second = now_ms.div_euclid(1_000) - demand.ago;
    let (live, past) = if demand.ago > 3 {
        (Vec::new(), vec![(second, demand.added)])
    } else {
        (vec![(second, demand.added)], Vec::new())
    };
    let fingerprint =
        demand.added ^ demand.removed.rotate_left(7) ^ u128::from(demand.ago.unsigned_abs());
    KeyedWrite {
        added: demand.added,
        removed: demand.removed,
        live,
        past,
        ..KeyedWrite::new(
            key(number),
            u64::try_from(fingerprint % 1_000_003).expect("below 2^64"),
        )
    }
}

/// A cell with its rows, and what plain numbers say of it.
pub struct Shell {
    pub cell: CellState,
    pub rows: Rows,
    pub now_ms: i64,
    pub is_alone: bool,
    pub records_max: u64,
    pub flushes: u64,
    pub model: Model,
}

/// What was counted and written.
#[derive(Clone, Debug, Default)]
pub struct Model {
    pub added: CellTotal,
    pub removed: CellTotal,
    /// Flushes and keyed writes.
    pub counted: u64,
    /// The first answers.
    pub answers: BTreeMap<WriteKey, Recorded>,
}

impl Shell {
    pub fn new(records_max: u64) -> Self {
        let mut cell = CellState::default();
        cell.take_grant(grant(GENERATION, true), BEGIN_MS);
        let rows = Rows::default();
        rows.write_hot(&cell);
        Self {
            cell,
            rows,
            now_ms: BEGIN_MS,
            is_alone: true,
            records_max,
            flushes: 0,
            model: Model::default(),
        }
    }

    pub fn apply(
        &self,
        cell: &mut CellState,
        writes: &[KeyedWrite],
        changes: &mut Changes,
    ) -> Result<Vec<KeyedOutcome>, Refusal> {
        let ledger = cell.record_slots(KeySource::Clients);
        let known = |key: WriteKey| self.rows.record(&ledger, key);
        cell.apply_keyed(
            writes,
            Some(0),
            limits(self.records_max),
            self.now_ms,
            &known,
            changes,
        )
    }

    /// What plain numbers say must become of a write, where it is new: all but its record.
    pub fn refusal(&self, model: &Model, write: &KeyedWrite) -> Option<KeyedOutcome> {
        let records = u64::try_from(model.answers.len()).expect("few");
        if write.generation != 0 && write.generation != GENERATION {
            Some(KeyedOutcome::Ended)
        } else if !self.is_alone && write.seen.is_none() {
            Some(KeyedOutcome::NeedsView)
        } else if records >= self.records_max {
            Some(KeyedOutcome::Full)
        } else {
            None
        }
    }

    /// Notes a new write and says how it must be answered.
    pub fn record(&self, model: &mut Model, write: &KeyedWrite) -> Recorded {
        model.added = model.added.plus(write.added);
        model.removed = model.removed.plus(write.removed);
        model.counted += 1;
        let own = Value::new(model.added, model.removed);
        let value = if self.is_alone {
            own
        } else {
            let seen = write.seen.unwrap_or_default();
            let after = seen.value.plus(Value::new(write.added, write.removed));
            if seen.is_set {
                after
            } else {
                after.or_more(own)
            }
        };
        let recorded = Recorded {
            fingerprint: write.fingerprint,
            generation: GENERATION,
            sequence: model.counted,
            totals: value.totals(),
            is_exact: self.is_alone,
            at_ms: self.now_ms,
            operations: 0,
        };
        model.answers.insert(write.key, recorded);
        recorded
    }

    /// One commit of several keyed writes. One that is lost was decided and never written.
    pub fn count(&mut self, writes: &[KeyedWrite], is_lost: bool) -> Result<(), TestCaseError> {
        if let Some(newest) = self.cell.expire_records(self.now_ms) {
            self.rows.delete_records(newest, &self.cell);
        }
        let mut model = self.model.clone();
        let mut cell = self.cell.clone();
        let mut changes = Changes::default();
        let mut outcomes = Vec::new();
        for write in writes {
            let expected = match model.answers.get(&write.key) {
                Some(first) if first.fingerprint == write.fingerprint => {
                    KeyedOutcome::Replayed(*first)
                }
                Some(_) => KeyedOutcome::Reused,
                None => match self.refusal(&model, write) {
                    Some(refusal) => refusal,
                    None => KeyedOutcome::Counted(self.record(&mut model, write)),
                },
            };
            let before = (cell.clone(), changes.clone());
            let outcome = self.apply(&mut cell, std::slice::from_ref(write), &mut changes);
            prop_assert_eq!(outcome, Ok(vec![expected]));
            if !matches!(expected, KeyedOutcome::Counted(_)) {
                prop_assert!(
                    before == (cell.clone(), changes.clone()),
                    "{expected:?} changed something"
                );
            }
            outcomes.push(expected);
        }
        // Together they are what they are one by one.
        let mut together = Changes::default();
        let mut state = std::mem::take(&mut self.cell);
        prop_assert_eq!(self.apply(&mut state, writes, &mut together), Ok(outcomes));
        prop_assert!(
            state == cell && together == changes,
            "the commit is not its writes"
        );
        self.cell = state;
        if is_lost {
            self.cell.adopt(self.rows.load());
        } else {
            self.rows
                .write(&self.cell, &together, self.now_ms.div_euclid(1_000));
            self.model = model;
        }
        Ok(())
    }

    pub fn flush(&mut self, demand: Demand) {
        self.flushes += 1;
        let nonce = Nonce {
            lane: self.flushes % 3,
            number: self.flushes,
        };
        let load = Load {
            added: demand.added,
            removed: demand.removed,
            live: vec![(self.now_ms.div_euclid(1_000), demand.added)],
            writes: 1,
            newest: 0,
            ..Load::default()
        };
        let (_, changes) = (self.cell.apply(nonce, &load, self.now_ms)).expect("counted");
        self.rows
            .write(&self.cell, &changes, self.now_ms.div_euclid(1_000));
        self.model.added = self.model.added.plus(demand.added);
        self.model.removed = self.model.removed.plus(demand.removed);
        self.model.counted += 1;
    }

    /// Others count besides from now on.
    pub fn have_company(&mut self) {
        self.cell.take_grant(grant(GENERATION, false), self.now_ms);
        self.rows.write_hot(&self.cell);
        self.is_alone = false;
    }

    pub fn happen(&mut self, event: Event) -> Result<(), TestCaseError> {
        match event {
            Event::Tick(milliseconds) => self.now_ms += milliseconds,
            Event::Flush(demand) => self.flush(demand),
            Event::Crash => self.cell = self.rows.load(),
            Event::Company => self.have_company(),
            Event::Count { writes, is_lost } => {
                let keyed = |sent: Sent| {
                    let mut keyed = write(sent.key, sent.demand, self.now_ms);
                    keyed.generation = sent.generation;
                    keyed.seen = sent.seen.map(|(added, removed)| SeenValue {
                        value: Value::new(added, removed),
                        is_set: false,
                    });
                    keyed
                };
                let writes: Vec<KeyedWrite> = writes.into_iter().map(keyed).collect();
                self.count(&writes, is_lost)?;
            }
        }
        Ok(())
    }

    /// Memory, rows and plain numbers say the same.
    pub fn check(&self) -> Result<(), TestCaseError> {
        let restored = self.rows.load();
        prop_assert_eq!(restored.hot_row(), self.cell.hot_row());
        prop_assert_eq!(
            restored.ledger(KeySource::Clients),
            self.cell.ledger(KeySource::Clients)
        );
        let counts: Vec<(i64, u64)> =
            decode(&encode(restored.ledger(KeySource::Clients)).expect("a ledger"))
                .expect("its counts");
        prop_assert_eq!(counts, self.rows.records());
        for (key, first) in &self.model.answers {
            let kept = self
                .rows
                .record(&restored.record_slots(KeySource::Clients), *key);
            let record = kept.map(|kept| kept.record);
            prop_assert_eq!(record, Some(Record::Counted(*first)));
        }
        let question = Question {
            history: Some(Range {
                step: Resolution::Day,
                from: i64::MIN,
                to: i64::MAX,
            }),
            ..Question::plain(GENERATION)
        };
        let part = self.cell.answer(&question).expect("it counts");
        let totals = part.cells[0].1;
        prop_assert_eq!(totals.added, self.model.added);
        prop_assert_eq!(totals.removed, self.model.removed);
        prop_assert_eq!(totals.sequence, self.model.counted);
        let stamped: u128 = part.points.values().sum();
        prop_assert_eq!(self.model.added, stamped, "what was added has its time");
        Ok(())
    }
}

#[derive(Clone, Debug)]
pub struct Sent {
    pub key: u8,
    pub demand: Demand,
    pub generation: u64,
    pub seen: Option<(u128, u128)>,
}

#[derive(Clone, Debug)]
pub enum Event {
    Count { writes: Vec<Sent>, is_lost: bool },
    Flush(Demand),
    Crash,
    Company,
    Tick(i64),
}

/// Few amounts, so that a key comes again with the same payload; some the largest.
pub fn demand() -> impl Strategy<Value = Demand> {
    let amount = prop_oneof![8 => 0..3_u128, 2 => Just(DELTA_MAX)];
    let ago = prop_oneof![6 => Just(0_i64), 1 => Just(2), 1 => Just(100_000)];
    (amount.clone(), prop_oneof![3 => Just(0), 1 => amount], ago).prop_map(
        |(added, removed, ago)| Demand {
            added,
            removed,
            ago,
        },
    )
}

pub fn event() -> impl Strategy<Value = Event> {
    let generation = prop_oneof![4 => Just(0), 3 => Just(GENERATION), 1 => 1..GENERATION];
    let seen = prop::option::of((0..u128::MAX, 0..1_000_u128));
    let sent =
        (0..12_u8, demand(), generation, seen).prop_map(|(key, demand, generation, seen)| Sent {
            key,
            demand,
            generation,
            seen,
        });
    prop_oneof![
        8 => (vec(sent, 1..6), prop::bool::weighted(0.2))
            .prop_map(|(writes, is_lost)| Event::Count { writes, is_lost }),
        3 => demand().prop_map(Event::Flush),
        2 => Just(Event::Crash),
        1 => Just(Event::Company),
        // 40 events of at most half an hour stay within the day that records are kept for.
        2 => (-600_000..1_800_000_i64).prop_map(Event::Tick),
    ]
}
