//! The objects that this isolate has in use, where the deployment says how many may be open at once.
//!
//! Invariant: a call to a cell whose object may have to be opened for a write, a read or what was queued is admitted here first;
//! what calls many rests between groups, so that others are served. Each edge counts what its writes use, the aggregator what
//! reads, inboxes and the queue do: each has a share of its own.

use std::cell::RefCell;
use std::hash::{DefaultHasher, Hash, Hasher};

use worker::Env;

use super::clock::{now_ms, sleep_ms};
use super::setting::number;
use crate::protocol::messages::Fault;
use crate::protocol::names::{CellAddress, OPEN_OBJECTS_MAX};
use crate::protocol::openings::{Begun, Openings, REST_MS, User};
use crate::protocol::problem::{Code, Problem};

/// How often a call that must wait for its turn looks whether it has come.
const LOOK_EVERY_MS: u64 = 2;

/// How long a call that must wait for room sleeps at least: those that were let go are looked for every 100 ms.
const ROOM_EVERY_MS: u64 = 50;

thread_local! {
    /// `None` before the first look; then `None` within where nothing bounds them.
    static OPENINGS: RefCell<Option<Option<Openings>>> = const { RefCell::new(None) };
}

/// Works with them; `None` where nothing bounds them.
fn with<T>(env: &Env, work: impl FnOnce(&mut Openings) -> T) -> Option<T> {
    OPENINGS.with_borrow_mut(|openings| {
        let bounded = || number(env, OPEN_OBJECTS_MAX).map(Openings::new);
        openings.get_or_insert_with(bounded).as_mut().map(work)
    })
}

/// Whether they are bounded: one process has all objects then.
pub fn are_bounded(env: &Env) -> bool {
    with(env, |_| ()).is_some()
}

fn name_of(to: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    to.hash(&mut hasher);
    hasher.finish()
}

/// Nothing where a cell's object is in use or may be opened.
///
/// # Errors
/// How long to wait, milliseconds.
pub fn admit(env: &Env, to: &CellAddress, user: User) -> Result<(), u64> {
    let admitted = with(env, |openings| openings.admit(name_of(to), user, now_ms()));
    admitted.unwrap_or(Ok(()))
}

/// What the caller of a write is told that was not admitted.
pub fn overloaded(wait_ms: u64) -> Problem {
    let seconds = u32::try_from(wait_ms.div_ceil(1_000)).unwrap_or(u32::MAX);
    let detail = "too many counters are open here at once; nothing was counted, try again";
    Problem::new(Code::Overloaded, detail).with_retry_after(seconds)
}

/// Waits until a cell's object may be opened.
///
/// # Errors
/// `Unavailable` where there will be no room for it until then.
pub async fn room(env: &Env, to: &CellAddress, user: User, until_ms: i64) -> Result<(), Fault> {
    while let Err(wait_ms) = admit(env, to, user) {
        let wait_ms = wait_ms.max(ROOM_EVERY_MS);
        if now_ms().saturating_add_unsigned(wait_ms) > until_ms {
            let what = "too many counters are open here at once";
            return Err(Fault::Unavailable(what.to_owned()));
        }
        sleep_ms(wait_ms).await;
    }
    Ok(())
}

/// Lets others be served, where they would wait for all that is begun here.
pub async fn rest(env: &Env) {
    if are_bounded(env) {
        sleep_ms(REST_MS.unsigned_abs()).await;
    }
}

/// How long it takes until so many objects have had room, milliseconds.
pub fn time_for(env: &Env, objects: usize) -> i64 {
    with(env, |openings| openings.time_for(objects)).unwrap_or(0)
}

/// A call's turn, until it is dropped.
pub struct Turn {
    begun: Option<(Env, Begun)>,
    was_made: bool,
}

impl Turn {
    /// Gives it back: the call was not made.
    pub fn give_back(mut self) {
        self.was_made = false;
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some((env, begun)) = self.begun.take() {
            with(&env, |openings| {
                openings.end(begun, self.was_made, now_ms())
            });
        }
    }
}

/// The turn of a call to an object by what calls many; `None` while it must wait.
pub fn begin(env: &Env, to: &impl Hash) -> Option<Turn> {
    let begun = match with(env, |openings| openings.begin(name_of(to), now_ms())) {
        Some(begun) => Some((env.clone(), begun?)),
        None => None,
    };
    let was_made = true;
    Some(Turn { begun, was_made })
}

/// Waits for the turn of a call to an object by what calls many.
pub async fn turn(env: &Env, to: &impl Hash) -> Turn {
    loop {
        if let Some(turn) = begin(env, to) {
            return turn;
        }
        sleep_ms(LOOK_EVERY_MS).await;
    }
}
