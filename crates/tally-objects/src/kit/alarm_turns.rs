//! The order in which alarms of tablets run, where one process runs all tablets.
//!
//! Invariant: alarms of tablets in an isolate run one after the other, and between two of them other work is served: a
//! process that is never idle reads no socket.

use std::cell::RefCell;
use std::collections::BTreeMap;

use tally_host::{Host, State};
use tally_shared::open_objects;

/// The approximate duration of one alarm, milliseconds. A waiting tablet checks again after that time for each tablet
/// before it.
const RINGS_MS: u64 = 5;

/// A waiting tablet that has not checked for so long is skipped: a directory does not answer it, or its object has
/// ended.
const SILENT_MS: u64 = 1_000;

/// Waiting tablets by their numbers, with the time of their last check; the first one's alarm runs.
#[derive(Default)]
struct Line {
    next: u64,
    looked_ms: BTreeMap<u64, i64>,
}

/// The queue of this isolate.
struct AlarmQueue(RefCell<Line>);

impl State for AlarmQueue {
    fn begin(_host: &Host) -> Self {
        Self(RefCell::default())
    }
}

/// A tablet's turn to run its alarm, until it is dropped.
pub(crate) struct AlarmTurn {
    host: Host,
    number: u64,
}

impl Drop for AlarmTurn {
    fn drop(&mut self) {
        let ringing = self.host.state::<AlarmQueue>();
        ringing.0.borrow_mut().looked_ms.remove(&self.number);
    }
}

impl Line {
    /// How many are before this one.
    fn before(&mut self, number: u64, now_ms: i64) -> usize {
        let is_there = |looked_ms: &mut i64| now_ms.abs_diff(*looked_ms) < SILENT_MS;
        self.looked_ms.retain(|_, looked_ms| is_there(looked_ms));
        self.looked_ms.insert(number, now_ms);
        self.looked_ms.range(..number).count()
    }
}

/// Waits for a turn; `None` where tablets run in many processes.
pub(crate) async fn turn(host: &Host) -> Option<AlarmTurn> {
    if !open_objects::are_bounded(host) {
        return None;
    }
    let ringing = host.state::<AlarmQueue>();
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
