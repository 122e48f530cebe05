//! The state of a hub: who watches which counters, and the newest snapshots. From these follows what to send to whom.
//!
//! Invariant: a watcher that reads its updates ends with the hub's newest state, even if it was too slow for many
//! updates. Each counter records the turn of its last change, and each watcher the turn of its last update. The watcher
//! lacks what changed after that turn. So nothing is stored for a missed update.

mod visitors;

use std::collections::BTreeMap;
use std::rc::Rc;

use super::{ADDED_TOPIC_MS, ADDED_TOPICS_MAX, COUNTERS_MAX, LOST_MS, PING_MS};
use tally_core::limit::budgets::{Budget, BudgetSpent, Budgets};
use tally_core::order::in_order;
use tally_wire::live::snapshot::{CounterSnapshot, Shown, Tag, UNKNOWN, UNKNOWN_BOARD};
use tally_wire::live::topic::Topic;

/// A watcher, by a number that the hub gives it.
pub type WatcherId = u64;

/// The counters of a watcher, in order, each once; watchers of the same counters share them.
pub type Ids = Rc<[Topic]>;

#[derive(Debug)]
struct Counter {
    snapshot: CounterSnapshot,
    tag: u64,
    /// When it was last read or was first watched, unix milliseconds.
    read_ms: i64,
    changed_turn: u64,
    watchers: u32,
}

#[derive(Debug)]
struct Watcher {
    ids: Ids,
    /// Whether numbers that JavaScript cannot hold exactly are sent to it as strings.
    as_strings: bool,
    /// It has all changes up to this turn.
    sent_turn: u64,
    /// The part of a second in which it was last sent an update, see [`part_of`](super::part_of).
    sent_part: Option<i64>,
    /// When it was last sent anything.
    sent_ms: i64,
    /// The state that it has from an earlier stream.
    resumes: Option<u64>,
    /// A hash of its address, where it has no key.
    visitor: Option<u64>,
    /// When its stream ends, unix milliseconds.
    ends_ms: Option<i64>,
}

/// An update. Watchers that lack the same changes share it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Update {
    /// Its JSON, one line.
    pub text: Rc<str>,
    /// Identifies the state after it: equal for the same counters in the same state, on any hub.
    pub id: u64,
}

/// The updates made in one flush, by the counters and by the turn after which their watchers lack changes.
#[derive(Debug, Default)]
pub struct UpdatesMade(BTreeMap<(usize, bool, u64), Option<Update>>);

/// The refusal of a watcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JoinRefusal;

/// Why a watcher does not get other counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeRefusal {
    /// There would be too many counters.
    Full,
    /// It has added too many lately. It may add them after so many milliseconds.
    Spent(u64),
}

impl From<JoinRefusal> for ChangeRefusal {
    fn from(JoinRefusal: JoinRefusal) -> Self {
        Self::Full
    }
}

impl From<BudgetSpent> for ChangeRefusal {
    fn from(spent: BudgetSpent) -> Self {
        Self::Spent(spent.wait_ms)
    }
}

/// What a watcher, or all watchers of a visitor together, may add.
const ADDED_TOPICS: Budget = Budget {
    burst: ADDED_TOPICS_MAX,
    interval_ms: ADDED_TOPIC_MS,
};

/// 2^10 cells a row, of 8 bytes: 32 KB of a hub. If 128 watchers use up their budgets, a further watcher shares all
/// four of its cells with them with a probability of (1 - e^(-1/8))^4 = 0.00019.
const ADDED_CELLS_BITS: u32 = 10;

/// Spreads the numbers of watchers over the cells: 2^64 divided by the golden ratio.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// The state of a hub.
#[derive(Debug)]
pub struct HubState {
    watchers_max: usize,
    counters: BTreeMap<Topic, Counter>,
    watchers: BTreeMap<WatcherId, Watcher>,
    /// Sets of counters, with how many watchers each has.
    sets: BTreeMap<Ids, u32>,
    /// What watchers and visitors may add.
    added: Budgets,
    turn: u64,
    /// Whether an update of this turn was sent to somebody, so that the next change begins another turn.
    is_sent: bool,
    last_watcher: WatcherId,
}

impl HubState {
    /// A hub without watchers, for at most so many.
    pub fn new(watchers_max: usize) -> Self {
        Self {
            watchers_max,
            counters: BTreeMap::new(),
            watchers: BTreeMap::new(),
            sets: BTreeMap::new(),
            added: Budgets::new(ADDED_TOPICS, ADDED_CELLS_BITS),
            turn: 1,
            is_sent: false,
            last_watcher: 0,
        }
    }

    /// How many watchers there are.
    pub fn watchers(&self) -> usize {
        self.watchers.len()
    }

    /// All watchers.
    pub fn all(&self) -> Vec<WatcherId> {
        self.watchers.keys().copied().collect()
    }

    /// Adds a watcher of these counters, which may have state from an earlier stream.
    ///
    /// # Errors
    /// [`JoinRefusal`] where there are too many watchers, or would be too many counters.
    pub fn join(
        &mut self,
        now_ms: i64,
        ids: Vec<Topic>,
        as_strings: bool,
        resumes: Option<u64>,
    ) -> Result<WatcherId, JoinRefusal> {
        if self.watchers.len() >= self.watchers_max {
            return Err(JoinRefusal);
        }
        let ids = self.hold(now_ms, ids)?;
        self.last_watcher += 1;
        self.insert(self.last_watcher, now_ms, ids, as_strings, resumes);
        Ok(self.last_watcher)
    }

    /// Adds a watcher that a hub had before it lost its memory. It is sent all of its counters again.
    ///
    /// # Errors
    /// [`JoinRefusal`] where there would be too many counters; its number is not given again.
    pub fn restore(
        &mut self,
        id: WatcherId,
        now_ms: i64,
        ids: Vec<Topic>,
        as_strings: bool,
    ) -> Result<(), JoinRefusal> {
        self.last_watcher = self.last_watcher.max(id);
        let ids = self.hold(now_ms, ids)?;
        self.insert(id, now_ms, ids, as_strings, None);
        Ok(())
    }

    fn insert(
        &mut self,
        id: WatcherId,
        now_ms: i64,
        ids: Ids,
        as_strings: bool,
        resumes: Option<u64>,
    ) {
        let watcher = Watcher {
            ids,
            as_strings,
            sent_turn: 0,
            sent_part: None,
            sent_ms: now_ms,
            resumes,
            visitor: None,
            ends_ms: None,
        };
        self.watchers.insert(id, watcher);
    }

    /// Replaces the counters of a watcher. It is sent all of them again.
    ///
    /// # Errors
    /// Where all watchers, or those of its visitor, would have too many counters, or where it or its visitor adds too
    /// many too fast. Its counters then stay as they were, and nothing of its budget is used.
    pub fn change(
        &mut self,
        id: WatcherId,
        now_ms: i64,
        ids: Vec<Topic>,
    ) -> Result<(), ChangeRefusal> {
        let Some(watcher) = self.watchers.get(&id) else {
            return Ok(());
        };
        let is_much = |visitor| !self.has_room(visitor, ids.len(), Some(id));
        if watcher.visitor.is_some_and(is_much) {
            return Err(ChangeRefusal::Full);
        }
        let added = ids.iter().filter(|id| !watcher.ids.contains(id)).count();
        let added = u64::try_from(added).unwrap_or(u64::MAX);
        let whose = watcher.visitor.unwrap_or(id.wrapping_mul(SPREAD));
        self.added.peek(whose, added, now_ms)?;
        let ids = self.hold(now_ms, ids)?;
        self.added.charge(whose, added, now_ms);
        if let Some(watcher) = self.watchers.get_mut(&id) {
            watcher.sent_turn = 0;
            watcher.resumes = None;
            let before = std::mem::replace(&mut watcher.ids, ids);
            self.release(&before);
        }
        Ok(())
    }

    /// Removes a watcher.
    pub fn leave(&mut self, id: WatcherId) {
        if let Some(watcher) = self.watchers.remove(&id) {
            self.release(&watcher.ids);
        }
    }

    /// The counters of a watcher.
    pub fn ids_of(&self, id: WatcherId) -> Option<Ids> {
        Some(self.watchers.get(&id)?.ids.clone())
    }

    fn hold(&mut self, now_ms: i64, mut ids: Vec<Topic>) -> Result<Ids, JoinRefusal> {
        ids = in_order(ids, Ord::cmp);
        ids.dedup();
        if let Some((known, watchers)) = self.sets.get_key_value(ids.as_slice()) {
            let (known, watchers) = (known.clone(), watchers + 1);
            self.sets.insert(known.clone(), watchers);
            return Ok(known);
        }
        let new = |id: &&Topic| !self.counters.contains_key(*id);
        if self.counters.len() + ids.iter().filter(new).count() > COUNTERS_MAX {
            return Err(JoinRefusal);
        }
        let ids: Ids = ids.into();
        for id in ids.iter() {
            let counter = self.counters.entry(id.clone()).or_insert_with(|| Counter {
                snapshot: CounterSnapshot::default(),
                tag: 0,
                read_ms: now_ms,
                changed_turn: 0,
                watchers: 0,
            });
            counter.watchers += 1;
        }
        self.sets.insert(ids.clone(), 1);
        Ok(ids)
    }

    fn release(&mut self, ids: &Ids) {
        let Some(watchers) = self.sets.get_mut(ids) else {
            return;
        };
        *watchers -= 1;
        if *watchers > 0 {
            return;
        }
        self.sets.remove(ids);
        for id in ids.iter() {
            let Some(counter) = self.counters.get_mut(id) else {
                continue;
            };
            counter.watchers -= 1;
            if counter.watchers == 0 {
                self.counters.remove(id);
            }
        }
    }

    /// All watched counters.
    pub fn watched(&self) -> Vec<Topic> {
        self.counters.keys().cloned().collect()
    }

    /// Those without a snapshot yet.
    pub fn unread(&self) -> Vec<Topic> {
        let unread =
            |(id, counter): (&Topic, &Counter)| (counter.changed_turn == 0).then(|| id.clone());
        self.counters.iter().filter_map(unread).collect()
    }

    /// Stores a live reader's snapshot of a counter.
    pub fn receive(&mut self, id: &Topic, snapshot: CounterSnapshot, now_ms: i64) {
        if std::mem::take(&mut self.is_sent) {
            self.turn += 1;
        }
        let turn = self.turn;
        let Some(counter) = self.counters.get_mut(id) else {
            return;
        };
        if snapshot.shown == Shown::Pending
            && now_ms.abs_diff(counter.read_ms) < LOST_MS.unsigned_abs()
        {
            return;
        }
        // If a live reader that has just begun cannot read, the former content is kept.
        let shown = match (snapshot.shown, &counter.snapshot.shown) {
            (Shown::Pending | Shown::Unknown, Shown::Pending) => Shown::Unknown,
            (Shown::Pending | Shown::Unknown, known) => known.clone(),
            (shown, _) => shown,
        };
        if snapshot.is_read {
            counter.read_ms = now_ms;
        }
        counter.snapshot = CounterSnapshot { shown, ..snapshot };
        let tag = counter.snapshot.tag();
        if counter.tag != tag || counter.changed_turn == 0 {
            counter.tag = tag;
            counter.changed_turn = turn;
        }
    }

    /// Records that the live reader of a counter does not answer. The counter's watchers are told once this has lasted.
    pub fn lose(&mut self, id: &Topic, now_ms: i64) {
        self.receive(id, CounterSnapshot::default(), now_ms);
    }

    /// The update for a watcher in this part of a second. `None` if nothing has changed, if the watcher was already
    /// sent an update in this part, or while a new watcher's counters have no snapshot.
    ///
    /// The part decides, not the time since the last update: otherwise a slow second would cost the next one its
    /// update.
    pub fn update_for(
        &mut self,
        id: WatcherId,
        now_ms: i64,
        part: i64,
        made: &mut UpdatesMade,
    ) -> Option<Update> {
        let watcher = self.watchers.get(&id)?;
        if watcher.sent_part == Some(part) {
            return None;
        }
        let (ids, strings, turn) = (&watcher.ids, watcher.as_strings, watcher.sent_turn);
        let key = (Rc::as_ptr(ids).addr(), strings, turn);
        let counters = &self.counters;
        let update = made
            .0
            .entry(key)
            .or_insert_with(|| compose(counters, ids, strings, turn, now_ms))
            .clone()?;
        if watcher.resumes == Some(update.id) {
            // It has this state from an earlier stream.
            self.mark_current(id);
            return None;
        }
        Some(update)
    }

    /// Records that a watcher was sent its update, with the time and the part of a second.
    pub fn sent(&mut self, id: WatcherId, now_ms: i64, part: i64) {
        self.mark_current(id);
        if let Some(watcher) = self.watchers.get_mut(&id) {
            watcher.sent_part = Some(part);
            watcher.sent_ms = now_ms;
        }
    }

    /// Marks that a watcher has the newest state.
    fn mark_current(&mut self, id: WatcherId) {
        self.is_sent = true;
        if let Some(watcher) = self.watchers.get_mut(&id) {
            watcher.sent_turn = self.turn;
            watcher.resumes = None;
        }
    }

    /// Whether a watcher was sent nothing for so long that it needs a ping. If so, the ping counts as sent now.
    pub fn pings(&mut self, id: WatcherId, now_ms: i64) -> bool {
        let Some(watcher) = self.watchers.get_mut(&id) else {
            return false;
        };
        let is_due = now_ms.abs_diff(watcher.sent_ms) >= PING_MS.unsigned_abs();
        if is_due {
            watcher.sent_ms = now_ms;
        }
        is_due
    }
}

/// The update for watchers of these counters that have all changes up to that turn.
fn compose(
    counters: &BTreeMap<Topic, Counter>,
    ids: &[Topic],
    as_strings: bool,
    sent_turn: u64,
    now_ms: i64,
) -> Option<Update> {
    let mut tag = Tag::default();
    let (mut of_counters, mut of_boards) = (String::new(), String::new());
    for id in ids {
        let counter = counters.get(id)?;
        if counter.changed_turn == 0 {
            return None;
        }
        tag = tag.with(id.name().as_str().as_bytes());
        if let Topic::Board(watched) = id {
            let member = watched.member.as_ref().map_or("", |member| member.as_str());
            tag = tag.with(&watched.top.to_le_bytes()).with(member.as_bytes());
        }
        tag = tag.with(&counter.tag.to_le_bytes());
        if counter.changed_turn <= sent_turn {
            continue;
        }
        let (text, unknown) = match id {
            Topic::Counter(_) => (&mut of_counters, UNKNOWN),
            Topic::Board(_) => (&mut of_boards, UNKNOWN_BOARD),
        };
        let comma = if text.is_empty() { "" } else { "," };
        let name = serde_json::to_string(id.name().as_str()).unwrap_or_default();
        text.extend([comma, &name, ":"]);
        counter.snapshot.write(now_ms, as_strings, unknown, text);
    }
    if of_counters.is_empty() && of_boards.is_empty() {
        return None;
    }
    let at = now_ms.to_string();
    let mut text = [
        r#"{"type":"update","sent_at":"#,
        &at,
        r#","counters":{"#,
        &of_counters,
    ]
    .concat();
    if !of_boards.is_empty() {
        text.extend([r#"},"boards":{"#, &of_boards]);
    }
    text.push_str("}}");
    Some(Update {
        text: text.into(),
        id: tag.value(),
    })
}
