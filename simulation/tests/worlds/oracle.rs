//! What clients sent and were told, and what may be read then: the laws that `main.rs` lists.

use std::collections::{BTreeMap, BTreeSet};

use super::digits::{self, Held, SLOTS};

/// When something was: its place in the order of all that clients did and saw, and true unix milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment {
    pub order: u64,
    pub at_ms: i64,
}

/// What is known of a write or an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
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
    pub fate: Fate,
    /// When the first view that has it had ended.
    pub seen: Option<Moment>,
    /// The unique element that it brings.
    pub element: Option<String>,
    pub has_sample: bool,
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
    pub fate: Fate,
    /// Whether a datacenter did not answer: it tells later what it counted since, by whole seconds of its own clock.
    pub is_loose: bool,
}

/// What a view says of a counter.
#[derive(Clone, Debug)]
pub struct View<'a> {
    pub value: i128,
    pub is_exact: bool,
    pub as_of_ms: Option<i64>,
    pub begun: Moment,
    pub ended: Moment,
    /// What its reader has seen before, and asked to see again.
    pub held: Option<&'a Held>,
    /// Who looks, for a failure.
    pub what: &'a str,
}

/// Settings that were put.
#[derive(Clone, Debug)]
struct Put {
    floor: Option<i128>,
    begun: Moment,
    fate: Fate,
}

/// Unique elements that an import brings: these at least, and these at most.
#[derive(Debug)]
struct Import {
    least: BTreeSet<String>,
    most: BTreeSet<String>,
    fate: Fate,
}

/// One counter.
#[derive(Debug, Default)]
pub struct Counter {
    pub writes: Vec<Write>,
    pub clearings: Vec<Clearing>,
    puts: Vec<Put>,
    sets: usize,
    imports: Vec<Import>,
    /// Conditional writes that were done, by what they had seen.
    conditions: BTreeMap<String, usize>,
    /// How far clocks may be apart, milliseconds.
    clocks_ms: i64,
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
            fate: Fate::Unknown,
            seen: None,
            element: None,
            has_sample: false,
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
    pub fn told(&mut self, slot: usize, fate: Fate, what: &str) {
        let rivals = self.writes[slot].rivals.clone();
        let write = &mut self.writes[slot];
        match (write.fate, fate) {
            (Fate::Refused, Fate::Acknowledged(_)) => {
                panic!("{what}: {slot} was refused, and is acknowledged")
            }
            (Fate::Acknowledged(_), Fate::Refused) => {
                panic!("{what}: {slot} was acknowledged, and is refused")
            }
            (Fate::Acknowledged(_), Fate::Acknowledged(_) | Fate::Unknown) => return,
            (_, Fate::Refused) => assert_eq!(write.seen, None, "{what}: {slot} is refused"),
            _ => {}
        }
        if fate != Fate::Unknown {
            write.fate = fate;
        }
        if matches!(fate, Fate::Acknowledged(_)) {
            for rival in rivals {
                self.told(rival, Fate::Refused, what);
            }
        }
    }

    /// An operation begins. Returns its place.
    pub fn clear(&mut self, clear: Clear, now: Moment) -> usize {
        self.clearings.push(Clearing {
            clear,
            begun: now,
            fate: Fate::Unknown,
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
            fate: Fate::Unknown,
        });
        self.puts.len() - 1
    }

    /// What became of settings.
    pub fn was_put(&mut self, place: usize, fate: Fate) {
        self.puts[place].fate = fate;
    }

    /// Whether something may have taken a write away between its beginning and a moment.
    fn may_be_cleared(&self, write: &Write, by: Moment) -> bool {
        let slack_ms = |clearing: &Clearing| match clearing.is_loose {
            true => self.clocks_ms + 2_000,
            false => 0,
        };
        self.clearings.iter().any(|clearing| {
            let is_after = match clearing.fate {
                Fate::Refused => return false,
                // Decrements of that time are not kept.
                _ if clearing.is_loose && !write.adds => true,
                Fate::Acknowledged(done) => {
                    done > write.begun
                        || done.at_ms + slack_ms(clearing) > write.begun.at_ms && clearing.is_loose
                }
                Fate::Unknown | Fate::Ended(_) => true,
            };
            let is_due = match clearing.clear {
                Clear::Expiry(ttl_ms, true) => {
                    by.at_ms + self.clocks_ms + 1_000 >= write.begun.at_ms + ttl_ms
                }
                _ => true,
            };
            clearing.begun < by && is_after && is_due
        })
    }

    /// Whether a write may have been taken away by a moment.
    pub fn is_maybe_gone(&self, slot: usize, by: Moment) -> bool {
        self.may_be_cleared(&self.writes[slot], by)
    }

    /// Whether something has surely taken a write away between two moments.
    fn is_cleared(&self, counted: Moment, by: Moment) -> bool {
        self.clearings.iter().any(|clearing| {
            let is_done = matches!(clearing.fate, Fate::Acknowledged(done) if done < by);
            is_done && !clearing.is_loose && counted < clearing.begun
        })
    }

    /// The sets that a value may have been put to last.
    fn possible_sets(&self, view: &View) -> BTreeSet<usize> {
        let done = |clearing: &Clearing| match clearing.fate {
            Fate::Acknowledged(done) => Some(done),
            _ => None,
        };
        let surely = || {
            let ended = |clearing: &&Clearing| done(clearing).is_some_and(|at| at < view.begun);
            self.clearings.iter().filter(ended)
        };
        let may_be_last = |clearing: &&Clearing| {
            let is_over = |at: Moment| surely().any(|later| later.begun > at);
            let is_void = clearing.fate == Fate::Refused || clearing.begun > view.ended;
            let is_endless = matches!(clearing.clear, Clear::Expiry(..));
            !is_void && (is_endless || !done(clearing).is_some_and(is_over))
        };
        let number = |clearing: &Clearing| match clearing.clear {
            Clear::Set(number) => number,
            Clear::Delete | Clear::Expiry(..) => 0,
        };
        let last = self.clearings.iter().filter(may_be_last).map(number);
        let none = surely().next().is_none().then_some(0);
        last.chain(none).collect()
    }

    /// Holds a view against the laws. Returns what it holds.
    pub fn check(&mut self, view: &View) -> Held {
        let what = view.what;
        let held = match digits::decode(view.value, &self.signs()) {
            Ok(held) => held,
            // What a set is counted from may be newer than what a datacenter was known to hold.
            Err(_) if !view.is_exact && self.may_be_set(view.ended) => return Held::default(),
            Err(error) => panic!("{what}, exact: {}: {error}", view.is_exact),
        };
        self.check_set(view, &held);
        for slot in 0..self.writes.len() {
            let write = &self.writes[slot];
            if held.slots.contains(&slot) {
                self.check_has(view, write, &held);
                self.writes[slot].seen.get_or_insert(view.ended);
            } else {
                self.check_lacks(view, write);
            }
        }
        if view.is_exact
            && let Some(floor) = self.floor_of(view)
        {
            assert!(
                view.value >= floor,
                "{what}: {} is below the floor {floor}",
                view.value
            );
        }
        held
    }

    fn may_be_set(&self, by: Moment) -> bool {
        self.clearings.iter().any(|one| {
            matches!(one.clear, Clear::Set(_)) && one.begun < by && one.fate != Fate::Refused
        })
    }

    fn check_set(&self, view: &View, held: &Held) {
        let (what, set) = (view.what, held.set);
        if view.is_exact {
            let possible = self.possible_sets(view);
            assert!(
                possible.contains(&set),
                "{what}: it was put to set {set}, and may be of {possible:?}"
            );
        }
        let mut clearings = self.clearings.iter();
        let is_it = |one: &Clearing| one.clear == Clear::Set(set) && one.begun < view.ended;
        let is_known = set == 0 || clearings.any(|one| is_it(one) && one.fate != Fate::Refused);
        assert!(is_known, "{what}: set {set} was never done");
    }

    fn check_has(&self, view: &View, write: &Write, held: &Held) {
        let what = view.what;
        assert!(
            write.begun < view.ended,
            "{what}: before it was sent: {write:?}"
        );
        assert!(
            write.fate != Fate::Refused,
            "{what}: it was refused: {write:?}"
        );
        let both = write.rivals.iter().find(|rival| held.slots.contains(rival));
        assert_eq!(both, None, "{what}: both under one key: {write:?}");
        if !view.is_exact {
            return;
        }
        if let Fate::Ended(at) = write.fate {
            assert!(at > view.begun, "{what}: it had ended: {write:?}");
        }
        let acknowledged = match (write.way, write.fate) {
            (Way::Direct, Fate::Acknowledged(at)) => Some(at),
            _ => None,
        };
        let counted = acknowledged.into_iter().chain(write.seen).min();
        if let Some(counted) = counted {
            let is_cleared = self.is_cleared(counted, view.begun);
            assert!(!is_cleared, "{what}: it was taken away: {write:?}");
        }
    }

    fn check_lacks(&self, view: &View, write: &Write) {
        let acknowledged = match write.fate {
            Fate::Acknowledged(at) => Some(at),
            _ => None,
        };
        let is_before = |at: Moment| at < view.begun;
        let as_of_ms = view.as_of_ms.unwrap_or(i64::MIN);
        let is_older = |at: Moment| at.at_ms + self.clocks_ms < as_of_ms;
        let why = if view
            .held
            .is_some_and(|held| held.slots.contains(&write.slot))
        {
            "its reader had it"
        } else if view.is_exact && acknowledged.is_some_and(is_before) {
            "it was acknowledged before"
        } else if view.is_exact && write.seen.is_some_and(is_before) {
            "it was seen before"
        } else if write.way == Way::Direct && acknowledged.is_some_and(is_older) {
            "it is older than as_of"
        } else {
            return;
        };
        let is_gone = self.may_be_cleared(write, view.ended);
        assert!(
            is_gone,
            "{}: {why}, and is not in it: {write:?} {view:?}",
            view.what
        );
    }

    /// The floor that surely holds during a view.
    fn floor_of(&self, view: &View) -> Option<i128> {
        let is_settled = |put: &&Put| put.fate != Fate::Refused;
        let last = self.puts.iter().rfind(is_settled)?;
        let alone = self.puts.iter().filter(is_settled).all(|put| {
            matches!(put.fate, Fate::Acknowledged(at) if at < last.begun) || put.begun == last.begun
        });
        let is_done = matches!(last.fate, Fate::Acknowledged(at) if at < view.begun);
        let is_cleared = self.clearings.iter().any(|clearing| {
            !matches!(clearing.clear, Clear::Set(_)) && clearing.fate != Fate::Refused
        });
        last.floor.filter(|_| alone && is_done && !is_cleared)
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
            let is_counted = matches!(write.fate, Fate::Acknowledged(at) if at < begun);
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
        clearings.any(|one| ends(one.clear) && one.fate != Fate::Refused)
    }

    /// Writes that were counted, and those that may have been; sets leave them.
    pub fn counted(&self, held: &Held) -> (Vec<&Write>, Vec<&Write>) {
        let may_have_ended = self.may_have_ended();
        let is_counted = |write: &&Write| {
            let is_known = matches!(write.fate, Fate::Acknowledged(_)) || write.seen.is_some();
            held.slots.contains(&write.slot) || is_known && !may_have_ended
        };
        let least = self.writes.iter().filter(is_counted).collect();
        let is_possible = |write: &&Write| write.fate != Fate::Refused;
        let most = self.writes.iter().filter(is_possible).collect();
        (least, most)
    }

    /// Elements that every exact view has from now on, where no generation ends.
    pub fn surely_seen(&self) -> BTreeSet<String> {
        let is_counted = |write: &&Write| matches!(write.fate, Fate::Acknowledged(_));
        let own = self.writes.iter().filter(is_counted);
        let own = own.filter_map(|write| write.element.clone());
        let imports = self.imports.iter();
        let imports = imports.filter(|import| matches!(import.fate, Fate::Acknowledged(_)));
        let imported = imports.flat_map(|import| import.least.iter().cloned());
        own.chain(imported).collect()
    }

    /// Elements that a view may have.
    pub fn maybe_seen(&self) -> BTreeSet<String> {
        let own = self.writes.iter();
        let own = own.filter(|write| write.fate != Fate::Refused);
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
            fate: Fate::Unknown,
        });
        self.imports.len() - 1
    }

    /// What became of an import.
    pub fn imported(&mut self, place: usize, fate: Fate) {
        self.imports[place].fate = fate;
    }

    /// Which slots add.
    pub fn signs(&self) -> Vec<bool> {
        self.writes.iter().map(|write| write.adds).collect()
    }
}
