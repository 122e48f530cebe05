//! The objects that this isolate has in use, where the deployment says how many may be open at once.
//!
//! Invariant: a call to a cell whose object may have to be opened is admitted here first; what bulk bodies call rests between
//! groups, so that others are served.

use std::cell::RefCell;
use std::hash::{DefaultHasher, Hash, Hasher};

use worker::Env;

use crate::platform::clock::{now_ms, sleep_ms};
use crate::platform::setting::number;
use crate::protocol::names::{CellAddress, OPEN_OBJECTS_MAX};
use crate::protocol::openings::{Begun, Openings, User};
use crate::protocol::problem::{Code, Problem};

/// How often a call that must wait for its turn looks whether it has come.
const LOOK_EVERY_MS: u64 = 2;

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

fn name_of(to: &CellAddress) -> u64 {
    let mut hasher = DefaultHasher::new();
    to.hash(&mut hasher);
    hasher.finish()
}

/// Nothing where a cell's object is in use or may be opened.
///
/// # Errors
/// `overloaded`, with how long to wait.
pub fn admit(env: &Env, to: &CellAddress, user: User) -> Result<(), Problem> {
    let admitted = with(env, |openings| openings.admit(name_of(to), user, now_ms()));
    admitted.unwrap_or(Ok(())).map_err(|wait_ms| {
        let seconds = u32::try_from(wait_ms.div_ceil(1_000)).unwrap_or(u32::MAX);
        let detail = "too many counters are open here at once; nothing was counted, try again";
        Problem::new(Code::Overloaded, detail).with_retry_after(seconds)
    })
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

/// The turn of a bulk body's call to a cell; `None` while it must wait.
pub fn begin(env: &Env, to: &CellAddress) -> Option<Turn> {
    let begun = match with(env, |openings| openings.begin(name_of(to), now_ms())) {
        Some(begun) => Some((env.clone(), begun?)),
        None => None,
    };
    let was_made = true;
    Some(Turn { begun, was_made })
}

/// Waits for the turn of a bulk body's call to a cell.
pub async fn turn(env: &Env, to: &CellAddress) -> Turn {
    loop {
        if let Some(turn) = begin(env, to) {
            return turn;
        }
        sleep_ms(LOOK_EVERY_MS).await;
    }
}
