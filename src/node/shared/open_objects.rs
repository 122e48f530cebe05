//! The objects that this isolate has in use, where the deployment says how many may be open at once.
//!
//! Invariant: a call to a cell whose object may have to be opened for a write, a read, a change of a counter or what
//! was queued is admitted here first; what calls many rests between groups, so that others are served. Each edge counts
//! what its writes use, the aggregator, which has the objects, all else: each has a share of its own. Only a shard
//! calls its lead unasked, so there are at most as many more as edges use. A cell that a tablet hosts opens nothing:
//! its tablet is in use as long as anything is.

use std::cell::RefCell;
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::host::{Host, State};

use super::call::{CALL_MS_MAX, call_within, tablet_of_cell};
use crate::protocol::messages::{Call, Fault, Receiver, batch};
use crate::protocol::names::{Address, CellAddress, OPEN_OBJECTS_MAX};
use crate::protocol::open_slots::{ObjectUser, Openings, REST_MS, SlotUse};
use crate::protocol::problem::{Code, Problem};

/// How often a call that must wait for its turn looks whether it has come.
const LOOK_EVERY_MS: u64 = 2;

/// How long a call that must wait for room sleeps at least: those that were let go are looked for every 100 ms.
const ROOM_EVERY_MS: u64 = 50;

/// The objects in use; `None` where nothing bounds them.
struct InUse(RefCell<Option<Openings>>);

impl State for InUse {
    fn begin(host: &Host) -> Self {
        Self(RefCell::new(
            host.number(OPEN_OBJECTS_MAX).map(Openings::new),
        ))
    }
}

/// Works with them; `None` where nothing bounds them.
fn with<T>(host: &Host, work: impl FnOnce(&mut Openings) -> T) -> Option<T> {
    host.state::<InUse>().0.borrow_mut().as_mut().map(work)
}

/// Whether they are bounded: one process has all objects then.
pub fn are_bounded(host: &Host) -> bool {
    with(host, |_| ()).is_some()
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
pub fn admit(host: &Host, to: &CellAddress, user: ObjectUser) -> Result<(), u64> {
    if !are_bounded(host) || tablet_of_cell(host, to).is_some() {
        return Ok(());
    }
    admit_own(host, to, user)
}

/// As [`admit`], where the cell is looked for in an object of its own.
fn admit_own(host: &Host, to: &CellAddress, user: ObjectUser) -> Result<(), u64> {
    let admitted = with(host, |openings| {
        openings.admit(name_of(to), user, host.now_ms())
    });
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
pub async fn room(
    host: &Host,
    to: &CellAddress,
    user: ObjectUser,
    until_ms: i64,
) -> Result<(), Fault> {
    wait_for_room(host, || admit(host, to, user), until_ms).await
}

/// As [`room`], where the cell is looked for in an object of its own, whether or not tablets host others.
///
/// # Errors
/// As [`room`].
pub async fn room_of_own(host: &Host, to: &CellAddress, until_ms: i64) -> Result<(), Fault> {
    wait_for_room(host, || admit_own(host, to, ObjectUser::Change), until_ms).await
}

async fn wait_for_room(
    host: &Host,
    admit: impl Fn() -> Result<(), u64>,
    until_ms: i64,
) -> Result<(), Fault> {
    while let Err(wait_ms) = admit() {
        let wait_ms = wait_ms.max(ROOM_EVERY_MS);
        if host.now_ms().saturating_add_unsigned(wait_ms) > until_ms {
            let what = "too many counters are open here at once";
            return Err(Fault::Unavailable(what.to_owned()));
        }
        host.sleep_ms(wait_ms).await;
    }
    Ok(())
}

/// Sends a message to a cell, if its object may be open.
///
/// # Errors
/// `Unavailable` where it may not; as [`call_within`].
pub async fn call_admitted<C: Call>(
    host: &Host,
    message: &C,
    user: ObjectUser,
    milliseconds: u64,
) -> Result<C::Answer, Fault> {
    if let Address::Cell(to) = message.to() {
        room(host, to, user, host.now_ms()).await?;
    }
    call_within(host, message, milliseconds).await
}

/// Tells a cell what changes its counter, if its object may be open.
///
/// # Errors
/// As [`call_admitted`].
pub async fn tell<C: Call>(host: &Host, message: &C) -> Result<C::Answer, Fault> {
    call_admitted(host, message, ObjectUser::Change, CALL_MS_MAX).await
}

/// Lets others be served, where they would wait for all that is begun here.
pub async fn rest(host: &Host) {
    if are_bounded(host) {
        host.sleep_ms(REST_MS.unsigned_abs()).await;
    }
}

/// How long it takes until so many objects have had room, milliseconds.
pub fn time_for(host: &Host, objects: usize) -> i64 {
    with(host, |openings| openings.time_for(objects)).unwrap_or(0)
}

/// A call's turn, until it is dropped.
pub struct Turn {
    begun: Option<(Host, SlotUse)>,
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
        if let Some((host, begun)) = self.begun.take() {
            with(&host, |openings| {
                openings.end(begun, self.was_made, host.now_ms())
            });
        }
    }
}

/// The turn of a call to a cell by what calls many; `None` while it must wait. A cell that a tablet hosts has its turn
/// with its batch.
pub fn begin(host: &Host, to: &CellAddress) -> Option<Turn> {
    if !are_bounded(host) || tablet_of_cell(host, to).is_some() {
        let begun = None;
        let was_made = true;
        return Some(Turn { begun, was_made });
    }
    turn_of(host, |openings| openings.begin(name_of(to), host.now_ms()))
}

fn turn_of(host: &Host, begin: impl FnOnce(&mut Openings) -> Option<SlotUse>) -> Option<Turn> {
    let begun = match with(host, begin) {
        Some(begun) => Some((host.clone(), begun?)),
        None => None,
    };
    let was_made = true;
    Some(Turn { begun, was_made })
}

/// Waits for the turn of a call to a cell by what calls many.
pub async fn turn(host: &Host, to: &CellAddress) -> Turn {
    loop {
        if let Some(turn) = begin(host, to) {
            return turn;
        }
        host.sleep_ms(LOOK_EVERY_MS).await;
    }
}

/// How many calls one batch should have: where one process has all objects, as many as take a moment.
pub fn batch_max(host: &Host) -> usize {
    let bounded = with(host, |openings| openings.batch_max());
    bounded.map_or(batch::CALLS_MAX, |most| most.clamp(1, batch::CALLS_MAX))
}

/// Waits for the turn of a batch of so many calls.
pub async fn turn_of_batch(host: &Host, to: &Receiver, calls: usize) -> Turn {
    let calls = u32::try_from(calls).unwrap_or(u32::MAX);
    let begin = |openings: &mut Openings| openings.begin_batch(name_of(to), calls, host.now_ms());
    loop {
        if let Some(turn) = turn_of(host, begin) {
            return turn;
        }
        host.sleep_ms(LOOK_EVERY_MS).await;
    }
}
