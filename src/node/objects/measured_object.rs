//! An object that reports its size, and its isolate's counts, when a call or an alarm ends and a report is due.

use std::cell::Cell;
use std::rc::Rc;

#[cfg(feature = "boards")]
use super::board;
#[cfg(feature = "queue")]
use super::inbox;
#[cfg(feature = "redis")]
use super::keyspace;
#[cfg(feature = "limits")]
use super::limiter;
use super::sizes::differs;
#[cfg(feature = "live")]
use super::watcher;
use super::{cell, directory, object_repair, tablet};
use crate::host::Host;
use crate::host::object::{IncomingCall, Object, Reply, Shell, Socket};
use crate::node::shared::fleet;
use crate::protocol::fleet::{CELLS_SAMPLED, Size};
use crate::protocol::messages::{Call, Fault, RepairObject};

/// How often the size is read: after the 1st, 2nd, 4th, … call of an incarnation, at most after so many calls, and
/// after each alarm.
const LOOK_EVERY: u32 = 256;

/// A hash is below 2^52, which a JavaScript number holds exactly.
const OBJECT_BITS: u32 = 52;

/// The name of a shell's objects in metrics.
pub trait ObjectKind {
    /// The name.
    const KIND: &'static str;
    /// One object in so many reports its size.
    const SAMPLED: u64 = 1;
}

macro_rules! kinds {
    ($($(#[$when:meta])? $shell:ty => $kind:expr),+ $(,)?) => {
        $($(#[$when])?
        impl ObjectKind for $shell {
            const KIND: &'static str = $kind;
        })+
    };
}

kinds! {
    directory::Directory => "directory",
    tablet::Tablet => "tablet",
    #[cfg(feature = "boards")]
    board::Board => "board",
    #[cfg(feature = "queue")]
    inbox::Inbox => "inbox",
    #[cfg(feature = "redis")]
    keyspace::Keyspace => "keyspace",
    #[cfg(feature = "limits")]
    limiter::Limiter => "limiter",
    #[cfg(feature = "live")]
    watcher::Watcher => "watcher",
}

impl ObjectKind for cell::Cell {
    const KIND: &'static str = cell::KIND;
    const SAMPLED: u64 = CELLS_SAMPLED;
}

/// An object, as the platform sees it.
pub struct MeasuredObject<S> {
    shell: S,
    object: Object,
    host: Host,
    calls: Cell<u32>,
    reported_bytes: Cell<u64>,
}

impl<S: ObjectKind> MeasuredObject<S> {
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
        let object = hash(S::KIND, &self.object.platform().id());
        if object.is_multiple_of(S::SAMPLED) {
            let kind = S::KIND.to_owned();
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

impl<S: Shell + ObjectKind> Shell for MeasuredObject<S> {
    fn start(object: Object, host: Host) -> Self {
        Self {
            shell: S::start(object.clone(), host.clone()),
            object,
            host,
            calls: Cell::default(),
            reported_bytes: Cell::default(),
        }
    }

    async fn answer(&self, arrived: IncomingCall) -> Reply {
        // A repair is answered even while the storage of the object cannot be read.
        if arrived.path == RepairObject::PATH {
            let (reply, has_changed) = object_repair::answer(S::KIND, &self.object, &arrived);
            if has_changed {
                self.shell.reload();
            }
            return reply;
        }
        let reply = self.shell.answer(arrived).await;
        self.measure();
        self.report();
        reply
    }

    async fn alarm(&self) -> Result<(), Fault> {
        // Where it cannot be put off it rings too early, which harms nothing.
        if self.object.put_off_alarm(self.host.now_ms()).await == Ok(true) {
            return Ok(());
        }
        let rung = self.shell.alarm().await;
        self.measure_now();
        self.report();
        rung
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
