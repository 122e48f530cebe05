//! What the keyed writes of the world are compared with.
//!
//! Invariants: a key is counted at most once, ever, and never once it was refused for good; all answers to it are equal, until its generation has
//! ended; whoever is told that its generation has ended will never see it counted.

use std::collections::BTreeMap;

use tally::core::counter::id::Datacenter;
use tally::core::counter::ledger::{KeyedOutcome, Recorded, WriteKey};
use tally::protocol::messages::Fault;
use tally::protocol::version::Version;

use super::oracle::{Oracle, Totals};

#[derive(Debug, Default)]
struct Key {
    /// What its clients ask for, by fingerprint: one of them is counted.
    wanted: BTreeMap<u64, Totals>,
    counted: Option<Recorded>,
    /// What was answered first, and for which datacenter's lead.
    answered: Option<(Datacenter, Recorded)>,
    is_over: bool,
    /// Whether an event under it was given up, since its generation had ended.
    is_dead: bool,
    /// What home has refused for good, since it would take the value below the floor, by fingerprint.
    refused: Option<u64>,
    /// What its client had seen, which must not have changed.
    condition: Option<Version>,
    /// Whether a client was told that it had.
    is_changed: bool,
    /// Whether an operation was done under it.
    is_operation: bool,
}

impl Key {
    /// The fingerprint of what was counted, or refused for good.
    fn used_for(&self) -> Option<u64> {
        let counted = self.counted.map(|recorded| recorded.fingerprint);
        counted.or(self.refused)
    }

    /// Whether its clients need not send it any more; whoever depends on what the counter was may give up besides.
    fn is_settled(&self) -> bool {
        let may_give_up = self.condition.is_some();
        let is_used = self.used_for().is_some() || self.is_operation;
        is_used || self.is_over || self.is_dead || may_give_up
    }
}

impl Oracle {
    /// A client of a key got an answer. Returns whether it is a last one.
    pub fn answers(
        &mut self,
        name: WriteKey,
        fingerprint: u64,
        lead: &Datacenter,
        outcome: &Result<KeyedOutcome, Fault>,
    ) -> bool {
        let ended = self.ended_generations();
        let has_ended = |generation: Option<u64>| {
            generation.map_or(!ended.is_empty(), |one| ended.contains(&one))
        };
        let keys = &mut self.keys;
        keys.answered(name, fingerprint, lead, outcome, has_ended)
    }
}

/// All keys, and how many were drawn.
#[derive(Debug, Default)]
pub struct Keys(BTreeMap<WriteKey, Key>, u64);

impl Keys {
    /// A client asks for this under a key.
    pub fn wants(&mut self, key: WriteKey, fingerprint: u64, delta: Totals) {
        let key = self.0.entry(key).or_default();
        key.wanted.insert(fingerprint, delta);
    }

    /// The root has done an operation under a key.
    pub fn operates(&mut self, name: WriteKey) {
        let key = self.0.entry(name).or_default();
        assert_eq!(key.used_for(), None, "{name:?} names a write");
        key.is_operation = true;
    }

    /// Whether a write was sent under a key.
    pub fn is_sent(&self, name: WriteKey) -> bool {
        self.0.get(&name).is_some_and(|key| !key.wanted.is_empty())
    }

    /// What a client of a key was told that was counted, and where.
    pub fn told(&self, name: WriteKey) -> Option<&(Datacenter, Recorded)> {
        self.0[&name].answered.as_ref()
    }

    /// A key that nobody else has.
    pub fn draw(&mut self) -> WriteKey {
        self.1 += 1;
        self.drawn()
    }

    /// Whether the key that was drawn last was counted, or refused by the floor.
    pub fn is_drawn_used(&self) -> bool {
        let key = self.0.get(&self.drawn());
        key.is_some_and(|key| key.used_for().is_some())
    }

    fn drawn(&self) -> WriteKey {
        let mut name = [4; 16];
        name[8..].copy_from_slice(&self.1.to_be_bytes());
        WriteKey(name)
    }

    /// A write is counted only while the counter is what this version saw. Its client may give it up.
    pub fn only_if(&mut self, name: WriteKey, version: &Version) {
        let key = self.0.get_mut(&name).expect("a key that was sent");
        key.condition = Some(version.clone());
    }

    /// What the client of a key had seen, if the write depends on that.
    pub fn condition(&self, name: WriteKey) -> Option<&Version> {
        self.0.get(&name)?.condition.as_ref()
    }

    /// A lead has counted a key. Returns how much.
    pub fn counted(&mut self, name: WriteKey, recorded: &Recorded) -> Totals {
        let key = self.0.get_mut(&name).expect("a key that was sent");
        assert!(
            !key.is_over,
            "{name:?} is counted after it was called ended"
        );
        assert!(!key.is_operation, "{name:?} names an operation");
        let is_refused = key.refused.is_some() || key.is_changed;
        assert!(!is_refused, "{name:?} is counted after it was refused");
        let before = key.counted.replace(*recorded);
        assert_eq!(before, None, "{name:?} was counted twice");
        key.wanted[&recorded.fingerprint]
    }

    /// Home has refused a key for good.
    pub fn refused(&mut self, name: WriteKey, fingerprint: u64) {
        let key = self.0.get_mut(&name).expect("a key that was sent");
        assert_eq!(
            key.counted, None,
            "{name:?} is refused after it was counted"
        );
        let before = key.refused.replace(fingerprint);
        assert_eq!(before, None, "{name:?} is refused twice");
    }

    /// A client got an answer. Returns whether it is a last one.
    fn answered(
        &mut self,
        name: WriteKey,
        fingerprint: u64,
        lead: &Datacenter,
        outcome: &Result<KeyedOutcome, Fault>,
        has_ended: impl Fn(Option<u64>) -> bool,
    ) -> bool {
        let key = self.0.get_mut(&name).expect("a key that was sent");
        match outcome {
            Ok(KeyedOutcome::Counted(recorded) | KeyedOutcome::Replayed(recorded)) => {
                assert_eq!(
                    key.counted,
                    Some(*recorded),
                    "{name:?} is not what was counted"
                );
                assert_eq!(
                    recorded.fingerprint, fingerprint,
                    "{name:?} had another payload"
                );
                let told = (lead.clone(), *recorded);
                let first = key.answered.get_or_insert(told.clone());
                assert_eq!(*first, told, "{name:?} is answered in two ways");
                true
            }
            Ok(KeyedOutcome::Reused) if key.is_operation => true,
            Ok(KeyedOutcome::Reused) => {
                let used = key.used_for().expect("a key that was used");
                assert_ne!(used, fingerprint, "{name:?} was used for this");
                true
            }
            Ok(KeyedOutcome::Ended) => {
                let generation = key.counted.map(|recorded| recorded.generation);
                assert!(has_ended(generation), "{name:?} is called ended and is not");
                key.is_over = true;
                true
            }
            Ok(KeyedOutcome::Full | KeyedOutcome::CountedBefore | KeyedOutcome::Expired) => {
                panic!("{name:?}: {outcome:?}")
            }
            Ok(KeyedOutcome::BelowFloor | KeyedOutcome::BelowFloorBefore) => {
                assert_eq!(key.refused, Some(fingerprint), "{name:?} was not refused");
                true
            }
            Ok(KeyedOutcome::NeedsView | KeyedOutcome::NeedsHome)
            | Ok(KeyedOutcome::NotWhole | KeyedOutcome::Struck)
            | Err(_) => false,
            Ok(KeyedOutcome::Changed) => {
                assert!(key.condition.is_some(), "{name:?} has no condition");
                key.is_changed = true;
                true
            }
            Ok(KeyedOutcome::Unknown) => panic!("{name:?} asked to be counted"),
        }
    }

    /// An event under a key is given up.
    pub fn dies(&mut self, name: WriteKey) {
        self.0.get_mut(&name).expect("a key that was sent").is_dead = true;
    }

    /// Whether a key was counted, or an event under it was given up.
    pub fn is_settled(&self, name: WriteKey) -> bool {
        let key = &self.0[&name];
        key.counted.is_some() || key.is_dead
    }

    /// Another write than this one was counted under a key.
    pub fn check_reused(&self, name: WriteKey, fingerprint: u64) {
        let used = self.0[&name].used_for().expect("a key that was used");
        assert_ne!(used, fingerprint, "{name:?} was used for this");
    }

    /// Sums what was counted in a generation; every key must have been counted or have ended.
    pub fn check_rest(&self, generation: u64) -> Totals {
        let mut plain = (0, 0);
        for (name, key) in &self.0 {
            assert!(key.is_settled(), "{name:?} was never counted");
            let counted = key
                .counted
                .filter(|recorded| recorded.generation == generation);
            if let Some(recorded) = counted {
                let delta = key.wanted[&recorded.fingerprint];
                plain = (plain.0 + delta.0, plain.1 + delta.1);
            }
        }
        plain
    }
}
