//! What clients sent and were told.

use std::collections::{BTreeMap, BTreeSet};

use super::digits::{Held, SLOTS};

/// When something was: its place in the order of all that clients did and saw, and true unix milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment {
    pub order: u64,
    pub at_ms: i64,
}

/// What is known of a write or an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nobody knows yet, or ever.
    Unknown,
    /// It was acknowledged then.
    Acknowledged(Moment),
    /// It changed nothing and never will.
    Refused,
    /// What it was counted in, if it was, had ended by then.
    Ended(Moment),
}

/// How a write got in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Direct,
    /// Acknowledged once durable, and counted later.
    Queued,
}

#[derive(Clone, Debug)]
pub struct Write {
    pub slot: usize,
    pub adds: bool,
    pub way: Way,
    pub begun: Moment,
    /// The time that it counts at, unix milliseconds: when it began, or the time in its line of a log.
    pub dated_ms: i64,
    pub outcome: Outcome,
    /// When the first view that has it had ended.
    pub seen: Option<Moment>,
    /// The unique element that it brings.
    pub element: Option<String>,
    pub has_sample: bool,
    /// What it says of itself: one of three values.
    pub dimension: Option<usize>,
    /// Writes that share its key: one of them is counted at most.
    pub rivals: Vec<usize>,
}

/// What takes away what was counted before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clear {
    /// The set of this number; a reset is one of number 0.
    Set(usize),
    Delete,
    /// A time to live, milliseconds, and whether it begins anew with each write.
    Expiry(i64, bool),
}

#[derive(Clone, Debug)]
pub struct Clearing {
    pub clear: Clear,
    pub begun: Moment,
    pub outcome: Outcome,
    /// Whether a datacenter did not answer: it tells later what it counted since, by whole seconds of its own clock.
    pub is_loose: bool,
}

/// Settings that were put.
#[derive(Clone, Debug)]
pub struct Put {
    pub floor: Option<i128>,
    pub begun: Moment,
    pub outcome: Outcome,
}

/// Unique elements that an import brings: these at least, and these at most.
#[derive(Debug)]
pub struct Import {
    least: BTreeSet<String>,
    most: BTreeSet<String>,
    outcome: Outcome,
}

/// One counter.
#[derive(Debug, Default)]
pub struct Counter {
    pub writes: Vec<Write>,
    pub clearings: Vec<Clearing>,
    pub puts: Vec<Put>,
    sets: usize,
    pub imports: Vec<Import>,
    /// Conditional writes that were done, by what they had seen.
    conditions: BTreeMap<String, usize>,
    /// How far clocks may be apart, milliseconds.
    pub clocks_ms: i64,
}

impl Counter {
    /// A counter that nobody has written; clocks may be so far apart, milliseconds.
    pub fn new(clocks_ms: i64) -> Self {
        Self {
            clocks_ms,
            ..Self::default()
        }
    }

    /// A write begins. None where all slots are taken.
    pub fn begin(&mut self, adds: bool, way: Way, now: Moment) -> Option<usize> {
        let slot = self.writes.len();
        if slot >= SLOTS {
            return None;
        }
        self.writes.push(Write {
            slot,
            adds,
            way,
            begun: now,
            dated_ms: now.at_ms,
            outcome: Outcome::Unknown,
            seen: None,
            element: None,
            has_sample: false,
            dimension: None,
            rivals: Vec::new(),
        });
        Some(slot)
    }

    /// Two writes share a key.
    pub fn rival(&mut self, one: usize, other: usize) {
        self.writes[one].rivals.push(other);
        self.writes[other].rivals.push(one);
    }

    /// The client of a write was told.
    pub fn record_outcome(&mut self, slot: usize, outcome: Outcome, what: &str) {
        let rivals = self.writes[slot].rivals.clone();
        let write = &mut self.writes[slot];
        match (write.outcome, outcome) {
            (Outcome::Refused, Outcome::Acknowledged(_)) => {
                panic!("{what}: {slot} was refused, and is acknowledged")
            }
            (Outcome::Acknowledged(_), Outcome::Refused) => {
                panic!("{what}: {slot} was acknowledged, and is refused")
            }
            (Outcome::Acknowledged(_), Outcome::Acknowledged(_) | Outcome::Unknown) => return,
            (_, Outcome::Refused) => assert_eq!(write.seen, None, "{what}: {slot} is refused"),
            _ => {}
        }
        if outcome != Outcome::Unknown {
            write.outcome = outcome;
        }
        if matches!(outcome, Outcome::Acknowledged(_)) {
            for rival in rivals {
                self.record_outcome(rival, Outcome::Refused, what);
            }
        }
    }

    /// An operation begins. Returns its place.
    pub fn clear(&mut self, clear: Clear, now: Moment) -> usize {
        self.clearings.push(Clearing {
            clear,
            begun: now,
            outcome: Outcome::Unknown,
            is_loose: false,
        });
        self.clearings.len() - 1
    }

    /// The number of the next set.
    pub fn next_set(&mut self) -> usize {
        self.sets += 1;
        self.sets
    }

    /// Settings are put. Returns their place.
    pub fn put(&mut self, floor: Option<i128>, now: Moment) -> usize {
        self.puts.push(Put {
            floor,
            begun: now,
            outcome: Outcome::Unknown,
        });
        self.puts.len() - 1
    }

    /// What became of settings.
    pub fn was_put(&mut self, place: usize, outcome: Outcome) {
        self.puts[place].outcome = outcome;
    }

    /// A write that depended on a version was done.
    pub fn matched(&mut self, version: &str, held: &Held, slot: usize, what: &str) {
        let others = self.conditions.insert(version.to_owned(), slot);
        assert!(
            others.is_none_or(|other| other == slot),
            "{what}: {others:?} and {slot} were done if {version}"
        );
        let begun = self.writes[slot].begun;
        for write in &self.writes {
            let is_counted = matches!(write.outcome, Outcome::Acknowledged(at) if at < begun);
            let is_missed = is_counted && write.way == Way::Direct;
            assert!(
                !is_missed || held.slots.contains(&write.slot) || self.may_be_cleared(write, begun),
                "{what}: {slot} was done if {version}, which lacks {write:?}"
            );
        }
    }

    /// Whether what a generation holds may have ended.
    pub fn may_have_ended(&self) -> bool {
        let ends = |clear| !matches!(clear, Clear::Set(_));
        let mut clearings = self.clearings.iter();
        clearings.any(|one| ends(one.clear) && one.outcome != Outcome::Refused)
    }

    /// Writes that were counted, and those that may have been; sets leave them.
    pub fn counted(&self, held: &Held) -> (Vec<&Write>, Vec<&Write>) {
        let may_have_ended = self.may_have_ended();
        let is_counted = |write: &&Write| {
            let is_known =
                matches!(write.outcome, Outcome::Acknowledged(_)) || write.seen.is_some();
            held.slots.contains(&write.slot) || is_known && !may_have_ended
        };
        let least = self.writes.iter().filter(is_counted).collect();
        let is_possible = |write: &&Write| write.outcome != Outcome::Refused;
        let most = self.writes.iter().filter(is_possible).collect();
        (least, most)
    }

    /// Elements that every exact view has from now on, where no generation ends.
    pub fn surely_seen(&self) -> BTreeSet<String> {
        let is_counted = |write: &&Write| matches!(write.outcome, Outcome::Acknowledged(_));
        let own = self.writes.iter().filter(is_counted);
        let own = own.filter_map(|write| write.element.clone());
        let imports = self.imports.iter();
        let imports = imports.filter(|import| matches!(import.outcome, Outcome::Acknowledged(_)));
        let imported = imports.flat_map(|import| import.least.iter().cloned());
        own.chain(imported).collect()
    }

    /// Elements that a view may have.
    pub fn maybe_seen(&self) -> BTreeSet<String> {
        let own = self.writes.iter();
        let own = own.filter(|write| write.outcome != Outcome::Refused);
        let own = own.filter_map(|write| write.element.clone());
        let imported = self.imports.iter();
        let imported = imported.flat_map(|import| import.most.iter().cloned());
        own.chain(imported).collect()
    }

    /// An import begins. Returns its place.
    pub fn import(&mut self, least: BTreeSet<String>, most: BTreeSet<String>) -> usize {
        self.imports.push(Import {
            least,
            most,
            outcome: Outcome::Unknown,
        });
        self.imports.len() - 1
    }

    /// What became of an import.
    pub fn imported(&mut self, place: usize, outcome: Outcome) {
        self.imports[place].outcome = outcome;
    }

    /// Which slots add.
    pub fn signs(&self) -> Vec<bool> {
        self.writes.iter().map(|write| write.adds).collect()
    }
}
