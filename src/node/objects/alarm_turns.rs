//! Whose alarm rings, where one process has all tablets.
//!
//! Invariant: tablets of an isolate ring one after the other there, and between two of them whoever waits is served: such a process
//! looks at no socket as long as it has something left to do.

use std::cell::RefCell;
use std::collections::BTreeMap;

use crate::host::{Host, State};
use crate::node::shared::open_objects;

/// About how long a tablet rings, milliseconds: so long for each that is before it a tablet waits until it looks again.
const RINGS_MS: u64 = 5;

/// One that has not looked for so long holds up nobody: a directory does not answer it, or its object has ended.
const SILENT_MS: u64 = 1_000;

/// Those that wait, by their numbers, with when they last looked; the first rings.
#[derive(Default)]
struct Line {
    next: u64,
    looked_ms: BTreeMap<u64, i64>,
}

/// That of this isolate.
struct Ringing(RefCell<Line>);

impl State for Ringing {
    fn begin(_host: &Host) -> Self {
        Self(RefCell::default())
    }
}

/// A tablet's turn to ring, until it is dropped.
pub(super) struct AlarmTurn {
    host: Host,
    number: u64,
}

impl Drop for AlarmTurn {
    fn drop(&mut self) {
        let ringing = self.host.state::<Ringing>();
        ringing.0.borrow_mut().looked_ms.remove(&self.number);
    }
}

impl Line {
    /// How many are before one.
    fn before(&mut self, number: u64, now_ms: i64) -> usize {
        let is_there = |looked_ms: &mut i64| now_ms.abs_diff(*looked_ms) < SILENT_MS;
        self.looked_ms.retain(|_, looked_ms| is_there(looked_ms));
        self.looked_ms.insert(number, now_ms);
        self.looked_ms.range(..number).count()
    }
}

/// Waits for a turn to ring; `None` where tablets are in many processes.
pub(super) async fn turn(host: &Host) -> Option<AlarmTurn> {
    if !open_objects::are_bounded(host) {
        return None;
    }
    let ringing = host.state::<Ringing>();
    let number = {
        let mut line = ringing.0.borrow_mut();
        line.next += 1;
        line.next
    };
    let turn = AlarmTurn {
        host: host.clone(),
        number,
    };
    loop {
        let before = ringing.0.borrow_mut().before(number, host.now_ms());
        let Some(wait_ms) = u64::try_from(before).ok().filter(|before| *before > 0) else {
            return Some(turn);
        };
        let wait_ms = wait_ms * RINGS_MS;
        host.sleep_ms(wait_ms.min(SILENT_MS / 2)).await;
    }
}
