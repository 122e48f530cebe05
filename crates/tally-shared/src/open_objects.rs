//! Counts the objects that this isolate has in use, if the deployment limits how many may be open at once.
//!
//! Invariant: a call to a cell is admitted here first, if it may open an object for a write, a read, a change of a
//! counter or queued writes. A caller of many cells pauses between groups, so that others are served. An edge counts
//! the objects of its writes. The aggregator, in whose process the objects are, counts all other uses. Each has a share
//! of its own. Only a shard calls its lead without being called, so there are at most as many more open objects as
//! edges use. A cell that a tablet hosts opens nothing: its tablet is in use as long as any of its cells is.

use std::cell::RefCell;
use std::hash::{DefaultHasher, Hash, Hasher};

use futures_util::future::LocalBoxFuture;

use tally_host::{Host, State};

use super::call::{CALL_MS_MAX, call_within, tablet_of_cell};
use tally_core::isolate::open_slots::{
    LET_GO_AT_NEED_MS, LET_GO_MS, ObjectUser, Openings, REST_MS, SlotUse,
};
use tally_wire::messages::{Call, Fault, Receiver, batch};
use tally_wire::names::{Address, CellAddress, OPEN_OBJECTS_MAX};
use tally_wire::problem::{Code, Problem};

/// How often a waiting call checks whether its turn has come, milliseconds.
const LOOK_EVERY_MS: u64 = 2;

/// How long a call that waits for room sleeps at least, milliseconds: objects are closed every 100 ms.
const ROOM_EVERY_MS: u64 = 50;

/// How long a call waits for room if idle objects are closed at need, milliseconds: one caller reads many counters
/// within the time that each of their objects counts as in use.
const ROOM_AT_NEED_MS: i64 = 10 * LET_GO_AT_NEED_MS;

/// The objects in use; `None` if they are not limited.
struct InUse(RefCell<Option<Openings>>);

impl State for InUse {
    fn begin(host: &Host) -> Self {
        let openings = |objects_max| Openings::new(objects_max, let_go_ms(host));
        Self(RefCell::new(host.number(OPEN_OBJECTS_MAX).map(openings)))
    }
}

/// How long an object is in use after its last call, milliseconds.
pub fn let_go_ms(host: &Host) -> i64 {
    match host.platform().closes_at_need() {
        true => LET_GO_AT_NEED_MS,
        false => LET_GO_MS,
    }
}

/// Accesses the objects in use; `None` if they are not limited.
fn with<T>(host: &Host, work: impl FnOnce(&mut Openings) -> T) -> Option<T> {
    host.state::<InUse>().0.borrow_mut().as_mut().map(work)
}

/// Whether the number of open objects is limited: then one process has all objects.
pub fn are_bounded(host: &Host) -> bool {
    with(host, |_| ()).is_some()
}

/// The name of an object, or of anything else that a map of an isolate knows by a number.
pub fn name_of(to: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    to.hash(&mut hasher);
    hasher.finish()
}

/// Returns `Ok` if a cell's object is in use or may be opened.
///
/// # Errors
/// How long to wait, milliseconds.
pub fn admit(host: &Host, to: &CellAddress, user: ObjectUser) -> Result<(), u64> {
    if !are_bounded(host) || tablet_of_cell(host, to).is_some() {
        return Ok(());
    }
    admit_own(host, to, user)
}

/// Like [`admit`], for a cell in an object of its own.
fn admit_own(host: &Host, to: &CellAddress, user: ObjectUser) -> Result<(), u64> {
    let admitted = with(host, |openings| {
        openings.admit(name_of(to), user, host.now_ms())
    });
    admitted.unwrap_or(Ok(()))
}

/// Admits a write, or waits [as long as a read](room_soon).
///
/// # Errors
/// `overloaded` where there is no room for its cell's object then. Nothing has begun.
pub async fn admit_write(host: &Host, to: &CellAddress) -> Result<(), Problem> {
    let user = ObjectUser::Single;
    if admit(host, to, user).is_ok() {
        return Ok(());
    }
    wait_for_room(host, || admit(host, to, user), soon_ms(host))
        .await
        .map_err(overloaded)
}

fn overloaded(wait_ms: u64) -> Problem {
    let seconds = u32::try_from(wait_ms.div_ceil(1_000)).unwrap_or(u32::MAX);
    let detail = "too many counters are open here at once; nothing was counted, try again";
    Problem::new(Code::Overloaded, detail).with_retry_after(seconds)
}

/// Waits until a cell's object may be opened.
///
/// # Errors
/// `Unavailable` where there will be no room for it until then.
pub fn room<'a>(
    host: &'a Host,
    to: &'a CellAddress,
    user: ObjectUser,
    until_ms: i64,
) -> LocalBoxFuture<'a, Result<(), Fault>> {
    let is_admitted = move || admit(host, to, user);
    Box::pin(async move {
        wait_for_room(host, is_admitted, until_ms)
            .await
            .map_err(no_room)
    })
}

/// The fault of a call that was not admitted, however long it would have to wait.
fn no_room(_wait_ms: u64) -> Fault {
    Fault::Unavailable("too many counters are open here at once".to_owned())
}

/// Until when [`room_soon`] waits, unix milliseconds.
fn soon_ms(host: &Host) -> i64 {
    let wait_ms = match host.platform().closes_at_need() {
        true => ROOM_AT_NEED_MS,
        false => 0,
    };
    host.now_ms().saturating_add(wait_ms)
}

/// Waits until a cell's object may be opened: up to [`ROOM_AT_NEED_MS`] if idle objects are closed at need, otherwise
/// not at all, because that would take [`LET_GO_MS`].
///
/// # Errors
/// `Unavailable` where there is no room for it then.
pub fn room_soon<'a>(
    host: &'a Host,
    to: &'a CellAddress,
    user: ObjectUser,
) -> LocalBoxFuture<'a, Result<(), Fault>> {
    room(host, to, user, soon_ms(host))
}

/// Like [`room`], for a cell in an object of its own, whether or not tablets host others.
///
/// # Errors
/// As [`room`].
pub fn room_of_own<'a>(
    host: &'a Host,
    to: &'a CellAddress,
    until_ms: i64,
) -> LocalBoxFuture<'a, Result<(), Fault>> {
    let is_admitted = move || admit_own(host, to, ObjectUser::Change);
    Box::pin(async move {
        wait_for_room(host, is_admitted, until_ms)
            .await
            .map_err(no_room)
    })
}

/// Waits until an object is admitted.
///
/// # Errors
/// Milliseconds until there may be room, where that is too late.
async fn wait_for_room(
    host: &Host,
    admit: impl Fn() -> Result<(), u64>,
    until_ms: i64,
) -> Result<(), u64> {
    while let Err(wait_ms) = admit() {
        let wait_ms = wait_ms.max(ROOM_EVERY_MS);
        if host.now_ms().saturating_add_unsigned(wait_ms) > until_ms {
            return Err(wait_ms);
        }
        host.sleep_ms(wait_ms).await;
    }
    Ok(())
}

/// Sends a message to a cell, if its object is open or may be [opened soon](room_soon).
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
        room_soon(host, to, user).await?;
    }
    call_within(host, message, milliseconds).await
}

/// Sends a cell a change of its counter, if its object is open or may be opened.
///
/// # Errors
/// As [`call_admitted`].
pub async fn call_open<C: Call>(host: &Host, message: &C) -> Result<C::Answer, Fault> {
    call_admitted(host, message, ObjectUser::Change, CALL_MS_MAX).await
}

/// Pauses so that others are served, if the number of open objects is limited.
pub fn rest(host: &Host) -> LocalBoxFuture<'_, ()> {
    Box::pin(async move {
        if are_bounded(host) {
            host.sleep_ms(REST_MS.unsigned_abs()).await;
        }
    })
}

/// How long it takes to open this many objects, milliseconds.
pub fn time_for(host: &Host, objects: usize) -> i64 {
    with(host, |openings| openings.time_for(objects)).unwrap_or(0)
}

/// The turn of a call, until it is dropped.
pub struct Turn {
    begun: Option<(Host, SlotUse)>,
    was_made: bool,
}

impl Turn {
    /// Returns the turn without a call.
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

/// The turn of a call by a caller of many cells; `None` while it must wait. A cell that a tablet hosts has its turn
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

/// Waits for the turn of a call by a caller of many cells.
pub fn turn<'a>(host: &'a Host, to: &'a CellAddress) -> LocalBoxFuture<'a, Turn> {
    Box::pin(async move {
        loop {
            if let Some(turn) = begin(host, to) {
                return turn;
            }
            host.sleep_ms(LOOK_EVERY_MS).await;
        }
    })
}

/// The number of calls that one batch should have. If one process has all objects, it is the number that one pause
/// allows.
pub fn batch_max(host: &Host) -> usize {
    let limit = with(host, |openings| openings.batch_max());
    limit.map_or(batch::CALLS_MAX, |limit| limit.clamp(1, batch::CALLS_MAX))
}

/// Waits for the turn of a batch of this many calls.
pub fn turn_of_batch<'a>(
    host: &'a Host,
    to: &'a Receiver,
    calls: usize,
) -> LocalBoxFuture<'a, Turn> {
    Box::pin(async move {
        let calls = u32::try_from(calls).unwrap_or(u32::MAX);
        let begin =
            |openings: &mut Openings| openings.begin_batch(name_of(to), calls, host.now_ms());
        loop {
            if let Some(turn) = turn_of(host, begin) {
                return turn;
            }
            host.sleep_ms(LOOK_EVERY_MS).await;
        }
    })
}
