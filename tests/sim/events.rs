//! What the queued events of a counter are compared with.
//!
//! Invariants: an event that was refused is never logged, and one without a key is logged at most once; one
//! that is logged belongs to a generation that lives then; it leaves its batch counted, or with a reason that
//! is true. That none is counted twice follows from its write's key, which `keys` looks at.
//!
//! An event without a key is known by its amount, which no other has; one with a key by that.

use std::collections::BTreeMap;

use tally::core::counter::ledger::WriteKey;
use tally::core::counter::queue::{Death, Due, Event, Verdict};

use super::oracle::{End, Oracle};

/// What an event is known by.
pub type Name = (u128, Option<WriteKey>);

#[derive(Debug, Default)]
struct Sent {
    /// How often it is logged and has not left its batch, by generation.
    waiting: BTreeMap<u64, u64>,
    times_logged: u64,
    is_refused: bool,
    /// The generations in which it was acknowledged.
    acknowledged: Vec<u64>,
    /// The generation in which it was logged last.
    logged: Option<u64>,
}

/// All queued events of a counter.
#[derive(Debug, Default)]
pub struct Events {
    sent: BTreeMap<Name, Sent>,
    /// What the writes are of that inboxes have made, by their keys.
    sums: BTreeMap<WriteKey, Vec<Event>>,
    next: u128,
}

fn name_of(event: &Event) -> Name {
    (event.delta, event.key.map(|(key, _)| key))
}

impl Events {
    /// An amount that no other event has.
    pub fn new_amount(&mut self) -> u128 {
        self.next += 1;
        self.next
    }

    /// A client got its answer.
    pub fn answered(&mut self, event: &Event, end: End) {
        let sent = self.sent.get_mut(&name_of(event)).expect("sent");
        match end {
            End::Counted => {
                let logged = sent.logged.expect("acknowledged, and was never logged");
                sent.acknowledged.push(logged);
            }
            End::Refused if event.key.is_none() => {
                assert_eq!(sent.times_logged, 0, "refused, and logged: {event:?}");
                sent.is_refused = true;
            }
            End::Refused | End::Unknown => {}
        }
    }

    /// An inbox has durably logged an event.
    fn logged(&mut self, event: &Event, generation: u64) {
        let sent = self.sent.get_mut(&name_of(event)).expect("sent");
        assert!(!sent.is_refused, "logged, and was refused: {event:?}");
        sent.times_logged += 1;
        let is_once = event.key.is_some() || sent.times_logged == 1;
        assert!(is_once, "logged twice: {event:?}");
        *sent.waiting.entry(generation).or_default() += 1;
        sent.logged = Some(generation);
    }

    /// An event's write has left its batch.
    fn left(&mut self, event: &Event, generation: u64) {
        let sent = self.sent.get_mut(&name_of(event)).expect("sent");
        let waiting = sent.waiting.get_mut(&generation).expect("it waited");
        *waiting = waiting.checked_sub(1).expect("it left its batch twice");
    }

    /// Whether events of a generation are logged and not settled.
    pub fn has_waiting(&self, generation: u64) -> bool {
        let mut sent = self.sent.values();
        sent.any(|sent| sent.waiting.get(&generation).is_some_and(|left| *left > 0))
    }

    /// Every event has left its batch.
    pub fn check_rest(&self) {
        for (name, sent) in &self.sent {
            let left: u64 = sent.waiting.values().sum();
            assert_eq!(left, 0, "{name:?} waits for ever");
        }
    }
}

impl Oracle {
    /// A client sends an event.
    pub fn sends(&mut self, event: &Event) {
        self.events.sent.entry(name_of(event)).or_default();
        if let Some((key, fingerprint)) = event.key {
            self.keys.wants(key, fingerprint, (event.delta, 0));
        }
    }

    /// An inbox has durably logged an event.
    pub fn logs(&mut self, event: &Event, generation: u64) {
        assert!(
            self.is_living(generation),
            "logged for a generation that does not live: {event:?}"
        );
        self.events.logged(event, generation);
    }

    /// A write is in a batch; `events` are those without a key of its counter and generation in that batch.
    pub fn batches(&mut self, due: &Due, events: Vec<Event>) {
        let write = &due.write;
        let seconds: u128 = write.past.iter().map(|(_, amount)| amount).sum();
        assert_eq!(seconds, write.added, "the seconds of a write");
        if due.is_clients {
            return;
        }
        let sum: u128 = events.iter().map(|event| event.delta).sum();
        assert_eq!(write.added, sum, "a batch does not add up");
        self.keys.wants(write.key, write.fingerprint, (sum, 0));
        let before = self.events.sums.insert(write.key, events);
        assert_eq!(before, None, "a key is drawn once");
    }

    /// A write waits until others of its counter are settled, and these events are new in it.
    pub fn waits(&mut self, due: &Due, events: Vec<Event>) {
        if due.is_clients {
            return;
        }
        let (write, known) = (&due.write, self.events.sums.entry(due.write.key));
        let all = known.or_default();
        all.extend(events);
        let sum: u128 = all.iter().map(|event| event.delta).sum();
        assert_eq!(write.added, sum, "what waits does not add up");
        self.keys.wants(write.key, write.fingerprint, (sum, 0));
    }

    /// A write has left its batch, at that time by the latest clock there may be.
    pub fn settles(&mut self, due: &Due, verdict: Verdict, now_ms: i64) {
        let write = &due.write;
        let ended = self.ended_generations();
        let has_ended = !self.is_living(write.generation) || self.is_over(write.generation, now_ms);
        match verdict {
            Verdict::Later => return,
            Verdict::Done => assert!(
                self.keys.is_settled(write.key),
                "done, not counted: {due:?}"
            ),
            Verdict::Dead(Death::Ended) => {
                // A client's key may have been claimed for an older one.
                let may_be = has_ended || (due.is_clients && !ended.is_empty());
                assert!(may_be, "called ended and is not: {due:?}");
                self.keys.dies(write.key);
            }
            Verdict::Dead(Death::Reused) => {
                self.keys.check_reused(write.key, write.fingerprint);
            }
            Verdict::Dead(death) => panic!("{death:?}: {due:?}"),
        }
        let events = match due.is_clients {
            true => vec![Event {
                counter: due.counter.clone(),
                delta: write.added,
                second: 0,
                key: Some((write.key, write.fingerprint)),
            }],
            false => self.events.sums[&write.key].clone(),
        };
        for event in events {
            self.events.left(&event, write.generation);
        }
    }

    /// The events that were acknowledged in generations that live: what a strong read must wait for.
    pub fn acknowledged(&self) -> Vec<(Name, u64)> {
        let sent = self.events.sent.iter();
        let of = |(name, sent): (&Name, &Sent)| {
            let generations = sent.acknowledged.clone().into_iter();
            let name = *name;
            generations.map(move |generation| (name, generation))
        };
        let living = |(_, generation): &(Name, u64)| self.is_living(*generation);
        sent.flat_map(of).filter(living).collect()
    }

    /// Inboxes say that what was acknowledged before is counted.
    pub fn check_drained(&self, generation: u64, acknowledged: &[(Name, u64)]) {
        let current = |(_, of): &&(Name, u64)| *of == generation;
        for ((amount, key), _) in acknowledged.iter().filter(current) {
            let is_counted = match key {
                Some(key) => self.keys.is_settled(*key),
                None => self.events.sent[&(*amount, None)].waiting[&generation] == 0,
            };
            let is_over = is_counted || !self.is_living(generation);
            assert!(is_over, "drained, and {amount} waits, {key:?}");
        }
    }
}
