//! Which writes of a counter a queue of the platform may hold. The queue cannot be asked. So its senders report what
//! they sent, and the counter's leads report what was counted.
//!
//! Invariants: a sender is an isolate. It gives numbers to writes of a counter only in an open *session*, and the root
//! knows of the session before its first number. A session is closed when no client can get the answer any more that a
//! write of it was accepted. The root then gets the accepted numbers. It holds them until leads have counted all of
//! them. So while a write that was accepted may still be counted, the root knows of an open session or of its number.
//!
//! Messages may be lost, repeated and late. A sender repeats the close of a session until the root has answered.
//! Sessions of a lane are numbered, so the root recognizes a late copy of the message that opened a closed session. A
//! sender that ends without closing its session leaves it open: [`crate::counter::queue`] says for how long it counts.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::counter::id::CounterId;
use crate::counter::lane::IN_FLIGHT_MS_MAX;
use crate::counter::ledger::WriteKey;
use crate::counter::numbered_writes::{Decision, Numbers, lane_and_number};

/// How long after its last write a session is closed, milliseconds. Twice the time that a batch may be in flight is
/// longer than any request waits for one. 2 s are added, because a write may join a message of the second before, which
/// has the number of an earlier session.
pub const IDLE_MS: i64 = 2 * IN_FLIGHT_MS_MAX + 2_000;

/// How long after an unanswered close the session is closed again, milliseconds: a call takes 5 s at most.
pub const RETRY_MS: i64 = 6_000;

/// The most sessions in the memory of a sender, about 200 bytes each. Beyond it all are forgotten, and stay open at
/// their roots.
const SESSIONS_MAX: usize = 10_000;

/// One session of a sender.
#[derive(Clone, Debug)]
pub struct Session {
    /// Its number; the numbers of a sender's sessions rise.
    pub number: u64,
    /// The lane of its writes.
    pub lane: WriteKey,
    /// The numbers of its writes that the queue has accepted.
    pub accepted: Numbers,
    /// The last number of the lane before it.
    after: u64,
    /// The generation of its writes; 0 until the root has answered.
    generation: u64,
    used_ms: i64,
}

impl Session {
    /// Whether a write of it may still be answered as accepted, or be joined by another.
    fn is_used(&self, now_ms: i64) -> bool {
        now_ms.saturating_sub(self.used_ms) <= IDLE_MS
    }
}

/// The sessions of a sender.
#[derive(Debug, Default)]
pub struct Sessions {
    last: u64,
    open: BTreeMap<CounterId, Session>,
    /// Sessions without further numbers that their roots have not closed yet.
    left: Vec<(CounterId, Session)>,
}

impl Sessions {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty() && self.left.is_empty()
    }

    /// The session for the next write of a counter, with the generation that its root has answered; 0 before the
    /// answer. A new session begins if the present one is of another lane, or was not used for long. `lane` is the lane
    /// and the last number in it.
    pub fn of_next(
        &mut self,
        counter: &CounterId,
        lane: (WriteKey, u64),
        now_ms: i64,
    ) -> (u64, u64) {
        if let Some(session) = self.open.get_mut(counter) {
            let fits = session.lane == lane.0 && session.accepted.has_room();
            if fits && session.is_used(now_ms) {
                session.used_ms = now_ms;
                return (session.number, session.generation);
            }
        }
        if self.open.len() + self.left.len() >= SESSIONS_MAX {
            self.open.clear();
            self.left.clear();
        }
        if let Some(before) = self.open.remove(counter) {
            self.left.push((counter.clone(), before));
        }
        self.last += 1;
        let session = Session {
            number: self.last,
            lane: lane.0,
            accepted: Numbers::default(),
            after: lane.1,
            generation: 0,
            used_ms: now_ms,
        };
        self.open.insert(counter.clone(), session);
        (self.last, 0)
    }

    /// Records the answer of a root: the living generation, or that the session is closed. Returns whether the session
    /// may be used: it is of one generation.
    pub fn record_answer(
        &mut self,
        counter: &CounterId,
        number: u64,
        generation: Option<u64>,
    ) -> bool {
        let open = self.open.get_mut(counter);
        let Some(session) = open.filter(|session| session.number == number) else {
            return false;
        };
        match generation {
            Some(living) if session.generation == 0 || session.generation == living => {
                session.generation = living;
                true
            }
            _ => {
                self.open.remove(counter);
                false
            }
        }
    }

    /// Records that the queue has accepted a write.
    pub fn accept(&mut self, counter: &CounterId, key: WriteKey) {
        let (lane, number) = lane_and_number(key);
        let left = self.left.iter_mut();
        let left = left.filter_map(|(of, session)| (of == counter).then_some(session));
        let all = left.chain(self.open.get_mut(counter));
        let of_lane = all.filter(|session| session.lane == lane && session.after < number);
        if let Some(session) = of_lane.max_by_key(|session| session.after) {
            session.accepted.put(number, Decision::Counted);
        }
    }

    /// Sessions that are to be closed now, at most `limit`. Each is returned again after [`RETRY_MS`], until it is
    /// [`Sessions::closed`].
    pub fn idle(&mut self, now_ms: i64, limit: usize) -> Vec<(CounterId, Session)> {
        let idle = |(counter, session): (&CounterId, &Session)| {
            (!session.is_used(now_ms)).then(|| counter.clone())
        };
        let idle: Vec<CounterId> = self.open.iter().filter_map(idle).take(limit).collect();
        for counter in idle {
            self.left.extend(self.open.remove_entry(&counter));
        }
        let left = self.left.iter_mut();
        let idle = left.filter(|(_, session)| !session.is_used(now_ms));
        let sessions = idle.take(limit).map(|(counter, session)| {
            session.used_ms = now_ms + RETRY_MS - IDLE_MS;
            (counter.clone(), session.clone())
        });
        sessions.collect()
    }

    /// Records that a root has closed a session.
    pub fn closed(&mut self, number: u64) {
        self.left.retain(|(_, session)| session.number != number);
    }
}

/// The root's record of one sender's lane for a counter. A stored format.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SenderLane {
    /// The generation of all its sessions and numbers.
    generation: u64,
    /// The newest session.
    newest: u64,
    /// Sessions that are not closed.
    open: Vec<u64>,
    /// Numbers that the queue has accepted and that may not be counted yet.
    accepted: Numbers,
}

impl SenderLane {
    /// Whether this session was closed, or is older than one that was begun since.
    pub fn is_closed(&self, session: u64) -> bool {
        session <= self.newest && !self.open.contains(&session)
    }

    /// Opens a session of a generation, if it is not closed. Returns whether anything has changed.
    pub fn open(&mut self, generation: u64, session: u64) -> bool {
        if self.generation != generation {
            // Waiting writes of an ended generation are never counted.
            *self = Self {
                generation,
                newest: self.newest,
                ..Self::default()
            };
        }
        let is_new = session > self.newest;
        if is_new {
            self.newest = session;
            self.open.push(session);
        }
        is_new
    }

    /// Closes a session; the queue has accepted these of its writes.
    pub fn close(&mut self, session: u64, accepted: &Numbers) {
        let open = self.open.len();
        self.open.retain(|known| *known != session);
        // Else the message is a copy, and its content is known.
        if self.open.len() < open {
            self.accepted.add_all(accepted);
        }
        self.newest = self.newest.max(session);
    }

    /// Forgets the numbers if leads have counted all of them. Returns whether it did.
    pub fn expire_accepted(&mut self, by: &[&Numbers]) -> bool {
        let are_counted = !self.accepted.is_empty() && self.accepted.are_counted(by);
        if are_counted {
            self.accepted = Numbers::default();
        }
        are_counted
    }

    /// Whether the queue may be given more writes of this generation.
    pub fn is_open(&self, generation: u64) -> bool {
        self.generation == generation && !self.open.is_empty()
    }

    /// Whether writes of its generation may wait in the queue, or may still be sent to it.
    pub fn holds(&self) -> bool {
        !(self.open.is_empty() && self.accepted.is_empty())
    }

    /// Like [`Self::holds`], for this generation.
    pub fn may_hold(&self, generation: u64) -> bool {
        self.generation == generation && self.holds()
    }
}
