//! An object that reports its size, and its isolate's counts, when a call or an alarm ends and a report is due.

use std::cell::Cell;
use std::rc::Rc;

use futures_util::future::LocalBoxFuture;

use super::object_sizes::{differs, sampled};
use tally_host::Host;
use tally_host::object::{IncomingCall, Object, Reply, Shell, Socket};
use tally_shared::fleet;
use tally_wire::fleet::Size;
use tally_wire::messages::{Call, Fault, RepairObject};

/// How often the size is read: after the 1st, 2nd, 4th, … call of an incarnation, at most after so many calls, and
/// after each alarm.
const LOOK_EVERY: u32 = 256;

/// A hash is below 2^52, which a JavaScript number holds exactly.
const OBJECT_BITS: u32 = 52;

/// Answers a [`RepairObject`]; the flag says whether storage has changed.
type RepairAnswer = fn(&str, &Object, &IncomingCall) -> (Reply, bool);

/// An object, as the platform sees it.
pub struct MeasuredObject {
    /// Its name in metrics.
    kind: &'static str,
    shell: Box<dyn Shell>,
    object: Object,
    host: Host,
    repair: RepairAnswer,
    calls: Cell<u32>,
    reported_bytes: Cell<u64>,
}

impl MeasuredObject {
    /// An object that has started.
    pub fn new(
        kind: &'static str,
        shell: Box<dyn Shell>,
        object: Object,
        host: Host,
        repair: RepairAnswer,
    ) -> Self {
        Self {
            kind,
            shell,
            object,
            host,
            repair,
            calls: Cell::default(),
            reported_bytes: Cell::default(),
        }
    }

    /// Reads the size from time to time, and reports it if it has changed.
    fn measure(&self) {
        let calls = self.calls.get().wrapping_add(1);
        self.calls.set(calls);
        if calls.is_power_of_two() || calls.is_multiple_of(LOOK_EVERY) {
            self.measure_now();
        }
    }

    fn measure_now(&self) {
        let bytes = self.object.platform().database_bytes();
        if !differs(bytes, self.reported_bytes.get()) {
            return;
        }
        self.reported_bytes.set(bytes);
        let kind = self.kind;
        let object = hash(kind, &self.object.platform().id());
        if object.is_multiple_of(sampled(kind)) {
            let kind = kind.to_owned();
            fleet::size(
                &self.host,
                Size {
                    object,
                    kind,
                    bytes,
                },
            );
        }
    }

    fn report(&self) {
        if fleet::is_due(&self.host) {
            let host = self.host.clone();
            self.object
                .wait_until(async move { fleet::report(&host, None).await });
        }
    }
}

/// A number for an object (FNV-1a, and its halves together).
fn hash(kind: &str, id: &str) -> u64 {
    let bytes = kind.bytes().chain([0]).chain(id.bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    (hash ^ (hash >> 32)) & ((1 << OBJECT_BITS) - 1)
}

impl Shell for MeasuredObject {
    fn answer(&self, arrived: IncomingCall) -> LocalBoxFuture<'_, Reply> {
        Box::pin(async move {
            // A repair is answered even while the storage of the object cannot be read.
            if arrived.path == RepairObject::PATH {
                let kind = self.kind;
                let (reply, has_changed) = (self.repair)(kind, &self.object, &arrived);
                if has_changed {
                    self.shell.reload();
                }
                return reply;
            }
            let reply = self.shell.answer(arrived).await;
            self.measure();
            self.report();
            reply
        })
    }

    fn alarm(&self) -> LocalBoxFuture<'_, Result<(), Fault>> {
        Box::pin(async move {
            // Where it cannot be put off it rings too early, which harms nothing.
            if self.object.put_off_alarm(self.host.now_ms()).await == Ok(true) {
                return Ok(());
            }
            let rung = self.shell.alarm().await;
            self.measure_now();
            self.report();
            rung
        })
    }

    fn before_stop(&self) -> LocalBoxFuture<'_, ()> {
        self.shell.before_stop()
    }

    fn on_message(&self, socket: Rc<dyn Socket>, text: Option<String>) {
        self.shell.on_message(socket, text);
    }

    fn on_close(&self, socket: Rc<dyn Socket>, code_and_reason: Option<(u16, String)>) {
        self.shell.on_close(socket, code_and_reason);
    }

    fn on_error(&self, socket: Rc<dyn Socket>) {
        self.shell.on_error(socket);
    }
}
