//! A cell and its rows, to which all happens that changes them, beside the plain list of what was counted.

use proptest::collection::vec;
use proptest::prelude::*;
use tally_core::counter::cell::CellState;
use tally_core::counter::flush::{Changes, Element, Load};
use tally_core::counter::grant::{Grant, GrantOutcome};
use tally_core::counter::history::Resolution;
use tally_core::counter::merge::{Question, Range};
use tally_core::counter::nonces::Nonce;
use tally_core::counter::settings::Settings;
use tally_core::counter::uniques_retention::{BY_DAYS_SECONDS, widened_window};
use tally_core::sketch::{HashKey, Source, Token, Uniques, hash};

use super::rows::Rows;

/// 1 May 2026, 00:00:30 UTC.
pub const BEGIN: i64 = 1_777_593_630;

/// A token, where it comes from, and when it was stamped.
pub type Stamped = (i64, Source, Token);

pub fn key(number: u8) -> HashKey {
    HashKey::from([number; 16])
}

pub fn element(by: u8, element: u8) -> Element {
    Element::of(hash(&key(by), &[element]))
}

pub fn uniques(tokens: impl IntoIterator<Item = (Source, Token)>) -> Uniques {
    let mut uniques = Uniques::new();
    for (source, token) in tokens {
        uniques.insert(source, token);
    }
    uniques
}

pub fn grant(generation: u64) -> Grant {
    Grant {
        generation,
        settings: Settings::default(),
        last_write_ms: 0,
        alone: true,
        spread: 0,
        ..Grant::default()
    }
}

/// What happens to a cell; times are seconds from its clock.
#[derive(Clone, Debug)]
pub enum Event {
    Tick(i64),
    Flush {
        live: Vec<(i64, u8)>,
        past: Vec<(i64, u8)>,
        tokens: Vec<(i64, u8)>,
        /// Which key hashed them.
        by: u8,
        /// Whether it is written only with the next flush, in one commit.
        is_joined: bool,
    },
    Repeat,
    Crash,
    Renew,
    Spread(u8),
    Admit(u8),
    KeepSealed(u8),
    NewGeneration,
}

pub fn event() -> impl Strategy<Value = Event> {
    let live = vec((-8..8_i64, 1..9_u8), 0..4);
    let ago = prop_oneof![
        3 => -5..=0_i64,
        2 => -130..-5_i64,
        2 => -4_000..-130_i64,
        2 => -90_000..-4_000_i64,
        1 => -400_000_000..-90_000_i64,
    ];
    let past = vec((ago.clone(), 1..9_u8), 0..3);
    let tokens = vec((prop_oneof![3 => -6..6_i64, 2 => ago], any::<u8>()), 0..5);
    // Seven keys, so that some are folded.
    let by = 0..7_u8;
    let flush = (live, past, tokens, by, any::<bool>());
    prop_oneof![
        8 => flush.prop_map(|(live, past, tokens, by, is_joined)| Event::Flush { live, past, tokens, by, is_joined }),
        4 => prop_oneof![
            4 => 0..4_i64, 3 => 10..130_i64, 1 => -20..0_i64, 2 => 900..8_000_i64, 1 => 86_000..400_000_i64,
            1 => 400_000..9_000_000_i64,
        ].prop_map(Event::Tick),
        1 => Just(Event::Repeat),
        2 => Just(Event::Crash),
        1 => Just(Event::Renew),
        1 => prop_oneof![Just(1), Just(2), Just(4), Just(64)].prop_map(Event::Spread),
        1 => (1..4_u8).prop_map(Event::Admit),
        1 => (1..4_u8).prop_map(Event::KeepSealed),
        1 => Just(Event::NewGeneration),
    ]
}

/// A cell with its rows, and the plain list of the elements that it counted.
#[derive(Default)]
pub struct Shell {
    pub cell: CellState,
    pub rows: Rows,
    pub now: i64,
    pub generation: u64,
    pub number: u64,
    pub last: Option<(Nonce, Load)>,
    pub tokens: Vec<Stamped>,
    /// What flushes changed that are to be written with the next.
    pub together: Changes,
}

impl Shell {
    pub fn new() -> Self {
        let mut shell = Self {
            now: BEGIN,
            ..Self::default()
        };
        shell.begin_generation();
        shell
    }

    pub fn begin_generation(&mut self) {
        self.generation += 1;
        let taken = self
            .cell
            .take_grant(grant(self.generation), self.now * 1_000);
        assert_ne!(taken, GrantOutcome::Outdated);
        self.rows.clear();
        self.rows.write_hot(&self.cell);
        self.tokens.clear();
        self.last = None;
    }

    pub fn apply(&mut self, nonce: Nonce, load: &Load) {
        let now_ms = self.now * 1_000;
        let counted = (self.cell).apply_in(nonce, load, now_ms, &mut self.together);
        counted.expect("nothing refuses these flushes");
    }

    pub fn commit(&mut self) {
        let together = std::mem::take(&mut self.together);
        self.rows.write(&self.cell, &together, self.now);
    }

    pub fn take(&mut self, event: Event) {
        // What joins is decided in one stretch, at one time.
        let joins_on = matches!(event, Event::Flush { .. } | Event::Repeat);
        if !joins_on {
            self.commit();
        }
        let is_joined = matches!(
            event,
            Event::Flush {
                is_joined: true,
                ..
            }
        );
        self.happen(event);
        if !is_joined {
            self.commit();
        }
    }

    fn flush(
        &mut self,
        live: Vec<(i64, u8)>,
        past: Vec<(i64, u8)>,
        tokens: Vec<(i64, u8)>,
        by: u8,
    ) {
        let now = self.now;
        let stamped = |list: Vec<(i64, u8)>| -> Vec<(i64, u128)> {
            list.into_iter()
                .map(|(offset, amount)| (now + offset, amount.into()))
                .collect()
        };
        let tokens: Vec<(i64, Element)> = tokens
            .into_iter()
            .map(|(offset, seen)| (now + offset, element(by, seen)))
            .collect();
        let (hash, shards) = (key(by).id(), self.cell.spread());
        let stamp = |&(second, element): &(i64, Element)| {
            (second, element.source(hash, shards), element.token)
        };
        self.tokens.extend(tokens.iter().map(stamp));
        let is_live = |(second, _): &(i64, Element)| second.abs_diff(now) < 10;
        let (tokens, past_tokens) = tokens.into_iter().partition(is_live);
        let (live, past) = (stamped(live), stamped(past));
        let load = Load {
            ttl_if_new: None,
            added: live.iter().chain(&past).map(|(_, amount)| amount).sum(),
            removed: 1,
            live,
            past,
            tokens,
            past_tokens,
            hash,
            writes: 1,
            newest: 0,
            samples: Vec::new(),
            dimensions: Default::default(),
            imported: Uniques::new(),
        };
        self.number += 1;
        let nonce = Nonce {
            lane: self.number % 3,
            number: self.number,
        };
        self.apply(nonce, &load);
        self.last = Some((nonce, load));
    }

    pub fn happen(&mut self, event: Event) {
        let now = self.now;
        match event {
            Event::Tick(seconds) => self.now += seconds,
            Event::Flush {
                live,
                past,
                tokens,
                by,
                ..
            } => self.flush(live, past, tokens, by),
            Event::Repeat => {
                if let Some((nonce, load)) = self.last.clone() {
                    self.apply(nonce, &load);
                }
            }
            Event::Crash => self.cell = self.rows.load(),
            Event::Renew => {
                let grant = Grant {
                    settings: Settings {
                        number: self.number,
                        shards: None,
                        ttl: None,
                        ..Settings::default()
                    },
                    last_write_ms: now * 1_000,
                    ..grant(self.generation)
                };
                let taken = self.cell.take_grant(grant, now * 1_000);
                assert_eq!(taken, GrantOutcome::Renewed);
                self.rows.write_hot(&self.cell);
            }
            Event::Spread(shards) => {
                self.cell.spread_over(shards);
                self.rows.write_hot(&self.cell);
            }
            Event::Admit(shard) => {
                self.cell.spread_over(shard.saturating_add(1));
                self.cell.admit(shard).expect("within the spread");
                self.rows.write_sealed(&self.cell, shard);
            }
            Event::KeepSealed(shard) => {
                self.cell.spread_over(1);
                self.rows.write_hot(&self.cell);
                let part = self.cell.answer(&Question::plain(self.generation));
                for (beyond, admissions) in self.cell.to_seal() {
                    if beyond == shard {
                        self.cell.keep_sealed(shard, part.clone(), admissions);
                        self.rows.write_sealed(&self.cell, shard);
                    }
                }
            }
            Event::NewGeneration => self.begin_generation(),
        }
    }

    pub fn check(&self) -> Result<(), TestCaseError> {
        let restored = self.rows.load();
        prop_assert_eq!(restored.hot_row(), self.cell.hot_row());
        prop_assert_eq!(restored.elsewhere(), self.cell.elsewhere());
        prop_assert_eq!(restored.spread(), self.cell.spread());
        for shard in 0..8 {
            prop_assert_eq!(restored.sealed_part(shard), self.cell.sealed_part(shard));
        }
        prop_assert!(
            restored.uniques() == self.cell.uniques(),
            "elements of all time are lost"
        );
        let all = uniques(
            self.tokens
                .iter()
                .map(|&(_, source, token)| (source, token)),
        );
        prop_assert!(self.cell.uniques() == all, "elements were not counted");
        let windows = [1, 60, 61, 900, 5_000, 90_000, 1_000_000, 150_000_000]
            .map(|seconds| (self.now - seconds + 1, self.now));
        for (from, to) in windows {
            for step in Resolution::ALL {
                let question = Question {
                    generation: self.generation,
                    window: Some((from, to)),
                    uniques: None,
                    history: Some(Range { step, from, to }),
                    totals_only: false,
                    samples: None,
                    breakdown: None,
                    storage: false,
                    step: None,
                };
                let (mut restored_part, mut held) =
                    (restored.answer(&question), self.cell.answer(&question));
                for part in [&mut restored_part, &mut held].into_iter().flatten() {
                    // Before it nothing is claimed.
                    let kept_from = part.kept_from.unwrap_or(i64::MIN);
                    part.points.retain(|start, _| *start >= kept_from);
                }
                prop_assert_eq!(restored_part, held, "{:?} {:?}", from..to, step);
            }
        }
        Ok(())
    }

    /// What was stamped within a stretch is told of it, and nothing else. Stamps are up to 6 s ahead of the clock here,
    /// and what comes just after its minute joins the next: both ends are a minute and 6 s wide.
    pub fn check_windows_of_uniques(&self, at: i64) -> Result<(), TestCaseError> {
        const BLUR: i64 = 66;
        let day = 86_400;
        for seconds in [
            300,
            3_600,
            day,
            2 * day,
            7 * day,
            8 * day,
            40 * day,
            399 * day,
        ] {
            let to = self.now - at;
            let window = (to - seconds + 1, to);
            if window.0 <= self.now - BY_DAYS_SECONDS {
                continue;
            }
            let (first, last) = widened_window(window, self.now);
            let of = |range: std::ops::RangeInclusive<i64>| {
                let inside = self.tokens.iter().filter(move |one| range.contains(&one.0));
                uniques(inside.map(|&(_, source, token)| (source, token)))
            };
            let mut sketch = self.rows.range_uniques((first, last));
            let mut most = of(first - BLUR..=last + BLUR);
            prop_assert!(!most.merge(&sketch), "{seconds} s tell what is not of them");
            let least = of(first + BLUR..=last.min(self.now) - BLUR);
            prop_assert!(
                !sketch.merge(&least),
                "an element of {seconds} s is missing"
            );
            if last >= self.now {
                let newest = of(first + BLUR..=self.now);
                prop_assert!(!sketch.merge(&newest), "an element of just now is missing");
            }
        }
        Ok(())
    }
}
