//! Streams between an object and a client: WebSockets, and server-sent events.
//!
//! Invariant: what one end sends reaches the other in order. A cut between the two sites breaks the connection at the next text: the client
//! is told by code [`BROKEN`], the object of a close without a code, or of an error. A socket outlives the object's memory; it breaks where the object crashes, and
//! so does a stream of events.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::task::Waker;

use tally::host::Stream;
use tally::host::object::{Events, Readiness, Socket};

use crate::core::Core;
use crate::executor::Owner;
use crate::network::Site;
use crate::place::Place;

/// Close code of a connection that broke. Source: RFC 6455 section 7.4.1.
pub const BROKEN: u16 = 1_006;

/// Close code of a close that names none. Source: as [`BROKEN`].
const NO_CODE: u16 = 1_005;

/// Bytes of what a socket keeps. Source: <https://developers.cloudflare.com/durable-objects/best-practices/websockets/>.
const KEPT_BYTES_MAX: usize = 16_384;

/// A text that a client has received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// When, true unix milliseconds.
    pub at_ms: i64,
    /// What.
    pub text: String,
}

/// What has reached a client.
#[derive(Default)]
pub(crate) struct Arrivals {
    pub(crate) received: RefCell<Vec<Received>>,
    pub(crate) taken: Cell<usize>,
    pub(crate) closed: RefCell<Option<(u16, String)>>,
    pub(crate) waker: RefCell<Option<Waker>>,
    /// Nothing sent later arrives before this.
    last_us: Cell<u64>,
}

impl Arrivals {
    fn wake(&self) {
        let waker = self.waker.take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn close(&self, code: u16, reason: &str) {
        let mut closed = self.closed.borrow_mut();
        if closed.is_none() {
            *closed = Some((code, reason.to_owned()));
            drop(closed);
            self.wake();
        }
    }

    fn take(&self, core: &Core, text: String) {
        if self.closed.borrow().is_some() {
            return;
        }
        core.journal.count(|figures| figures.texts += 1);
        let at_ms = core.now_ms();
        self.received.borrow_mut().push(Received { at_ms, text });
        self.wake();
    }
}

/// Draws when something arrives that may not overtake what was sent before.
fn arrival_us(core: &Core, from: Site, to: Site, last_us: &Cell<u64>) -> u64 {
    let delay_us = core.network.delay_us(from, to, &core.chance);
    let at_us = (core.executor.now_us() + delay_us).max(last_us.get() + 1);
    last_us.set(at_us);
    at_us
}

/// How far a socket is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Open,
    /// The client has closed, and waits for the object's answer.
    ClientClosed,
    /// The object has closed, and the client has not answered yet.
    ObjectClosed,
    Closed,
}

/// A socket, as the platform holds it.
pub(crate) struct Wire {
    place: Weak<Place>,
    client: Cell<Site>,
    name: String,
    kept: RefCell<String>,
    phase: Cell<Phase>,
    arrivals: Rc<Arrivals>,
    /// As in [`Arrivals`], the other way.
    last_us: Cell<u64>,
}

impl Wire {
    fn core(&self) -> Option<(Rc<Place>, Rc<Core>)> {
        let place = self.place.upgrade()?;
        let core = place.core.clone();
        (!core.is_closing()).then_some((place, core))
    }

    /// The connection is gone, for the client too.
    pub(crate) fn break_off(&self) {
        self.phase.set(Phase::Closed);
        if let Some((place, core)) = self.core() {
            let arrivals = self.arrivals.clone();
            let delay_us = core
                .network
                .delay_us(place.site, self.client.get(), &core.chance);
            core.after(delay_us, move || arrivals.close(BROKEN, ""));
        }
    }

    fn is_cut(&self, place: &Place, core: &Core) -> bool {
        let now_us = core.executor.now_us();
        core.network.is_cut(place.site, self.client.get(), now_us)
    }

    /// Whether the object is still told of it.
    fn is_known(&self) -> bool {
        self.phase.get() != Phase::Closed
    }

    /// To the client: a text, or the close.
    fn transmit(self: &Rc<Self>, text: Result<String, (u16, String)>) {
        let Some((place, core)) = self.core() else {
            return;
        };
        if self.is_cut(&place, &core) {
            return self.lose();
        }
        let at_us = arrival_us(&core, place.site, self.client.get(), &self.arrivals.last_us);
        let (wire, known) = (self.clone(), core.clone());
        let arrive = move || match text {
            Ok(text) => wire.arrivals.take(&known, text),
            Err((code, reason)) => {
                let was_first = wire.phase.get() == Phase::ObjectClosed;
                wire.arrivals.close(code, &reason);
                if was_first {
                    // A client answers a close by itself.
                    wire.to_object(ToObject::Closed(Some((code, reason))));
                }
            }
        };
        core.executor.at(at_us, Box::new(arrive));
    }

    /// The connection breaks: each end is told.
    fn lose(self: &Rc<Self>) {
        self.arrivals.close(BROKEN, "");
        self.to_object(ToObject::Closed(None));
    }

    /// To the object: a text or the close.
    fn to_object(self: &Rc<Self>, what: ToObject) {
        let Some((place, core)) = self.core() else {
            return;
        };
        let at_us = arrival_us(&core, self.client.get(), place.site, &self.last_us);
        let wire = self.clone();
        let arrive = move || wire.reach(&place, what);
        core.executor.at(at_us, Box::new(arrive));
    }

    fn reach(self: &Rc<Self>, place: &Rc<Place>, what: ToObject) {
        if !self.is_known() {
            return;
        }
        let core = place.core.clone();
        if matches!(what, ToObject::Text(_)) && self.is_cut(place, &core) {
            return self.lose();
        }
        let (life, wire) = (place.life(), self.clone());
        let end: Rc<dyn Socket> = Rc::new(End {
            wire: self.clone(),
            owner: life.owner,
        });
        match what {
            ToObject::Text(text) => {
                core.note(|| format!("socket   {} hears {text:?}", place.label()));
                life.shell().on_message(end, text);
            }
            ToObject::Closed(said) => {
                core.note(|| format!("socket   {} hears close {said:?}", place.label()));
                let answers = self.phase.get() == Phase::Open && said.is_some();
                let next = if answers {
                    Phase::ClientClosed
                } else {
                    Phase::Closed
                };
                self.phase.set(next);
                place
                    .wires
                    .borrow_mut()
                    .retain(|known| !Rc::ptr_eq(known, &wire));
                match said.is_none() && core.chance.once_in(2) {
                    true => life.shell().on_error(end),
                    false => life.shell().on_close(end, said),
                }
            }
        }
    }
}

enum ToObject {
    Text(Option<String>),
    Closed(Option<(u16, String)>),
}

/// An object's end of a socket.
struct End {
    wire: Rc<Wire>,
    owner: Owner,
}

impl End {
    fn release(&self, text: Result<String, (u16, String)>) {
        if let Some((place, _)) = self.wire.core() {
            let wire = self.wire.clone();
            place.release(self.owner, move || wire.transmit(text));
        }
    }
}

impl Socket for End {
    fn name(&self) -> Option<String> {
        Some(self.wire.name.clone())
    }

    fn kept(&self) -> Option<String> {
        Some(self.wire.kept.borrow().clone())
    }

    fn keep(&self, text: String) -> Result<(), String> {
        check_kept(&text)?;
        *self.wire.kept.borrow_mut() = text;
        Ok(())
    }

    fn send(&self, text: &str) -> bool {
        let is_open = self.wire.phase.get() == Phase::Open;
        if is_open {
            self.release(Ok(text.to_owned()));
        }
        is_open
    }

    fn close(&self, code: Option<u16>, reason: Option<&str>) {
        let next = match self.wire.phase.get() {
            Phase::Open => Phase::ObjectClosed,
            Phase::ClientClosed => Phase::Closed,
            Phase::ObjectClosed | Phase::Closed => return,
        };
        self.wire.phase.set(next);
        let said = (
            code.unwrap_or(NO_CODE),
            reason.unwrap_or_default().to_owned(),
        );
        self.release(Err(said));
    }
}

fn check_kept(text: &str) -> Result<(), String> {
    match text.len() > KEPT_BYTES_MAX {
        true => Err(format!("a socket keeps at most {KEPT_BYTES_MAX} bytes")),
        false => Ok(()),
    }
}

/// The sockets of a place that are open.
pub(crate) fn sockets(place: &Place, owner: Owner) -> Vec<Rc<dyn Socket>> {
    let wires = place.wires.borrow();
    let open = wires.iter().filter(|wire| wire.phase.get() == Phase::Open);
    open.map(|wire| -> Rc<dyn Socket> {
        Rc::new(End {
            wire: wire.clone(),
            owner,
        })
    })
    .collect()
}

/// Makes a socket.
///
/// # Errors
/// Where it cannot keep the text.
pub(crate) fn accept(
    place: &Rc<Place>,
    owner: Owner,
    name: &str,
    kept: String,
) -> Result<(Rc<dyn Socket>, Stream), String> {
    check_kept(&kept)?;
    if place.core.intervention.keeps_nothing.get() {
        return Err("nothing can be kept".to_owned());
    }
    let wire = Rc::new(Wire {
        place: Rc::downgrade(place),
        client: Cell::new(place.site),
        name: name.to_owned(),
        kept: RefCell::new(kept),
        phase: Cell::new(Phase::Open),
        arrivals: Rc::default(),
        last_us: Cell::default(),
    });
    place.wires.borrow_mut().push(wire.clone());
    let end = Rc::new(End {
        wire: wire.clone(),
        owner,
    });
    let carrier = Rc::new(Carrier::Socket(wire));
    Ok((
        end,
        Stream {
            status: 101,
            carrier,
        },
    ))
}

/// A stream of server-sent events, as the platform holds it.
pub(crate) struct Chunks {
    place: Weak<Place>,
    client: Cell<Site>,
    /// Chunks that the client has not taken.
    waiting: Cell<usize>,
    is_paused: Cell<bool>,
    is_gone: Cell<bool>,
    arrivals: Rc<Arrivals>,
}

impl Chunks {
    /// Whether the client still reads it.
    pub(crate) fn is_open(&self) -> bool {
        !self.is_gone.get()
    }

    /// It ends with the object's memory.
    pub(crate) fn end(&self) {
        self.is_gone.set(true);
        self.arrivals.close(BROKEN, "");
    }

    fn transmit(self: &Rc<Self>, text: String) {
        let Some(place) = self.place.upgrade() else {
            return;
        };
        let core = place.core.clone();
        if core
            .network
            .is_cut(place.site, self.client.get(), core.executor.now_us())
        {
            return self.end();
        }
        let at_us = arrival_us(&core, place.site, self.client.get(), &self.arrivals.last_us);
        let (chunks, known) = (self.clone(), core.clone());
        let arrive = move || {
            chunks.arrivals.take(&known, text);
            if !chunks.is_paused.get() {
                chunks.waiting.set(chunks.waiting.get().saturating_sub(1));
            }
        };
        core.executor.at(at_us, Box::new(arrive));
    }
}

struct Sender {
    chunks: Rc<Chunks>,
    owner: Owner,
}

impl Events for Sender {
    fn readiness(&self) -> Readiness {
        match (self.chunks.is_gone.get(), self.chunks.waiting.get()) {
            (true, _) => Readiness::Gone,
            (false, 0) => Readiness::Ready,
            (false, _) => Readiness::Slow,
        }
    }

    fn send(&self, text: &str) {
        self.chunks.waiting.set(self.chunks.waiting.get() + 1);
        if let Some(place) = self.chunks.place.upgrade() {
            let (chunks, text) = (self.chunks.clone(), text.to_owned());
            place.release(self.owner, move || chunks.transmit(text));
        }
    }
}

/// Makes a stream of server-sent events.
pub(crate) fn events(place: &Rc<Place>, owner: Owner) -> (Rc<dyn Events>, Stream) {
    let chunks = Rc::new(Chunks {
        place: Rc::downgrade(place),
        client: Cell::new(place.site),
        waiting: Cell::default(),
        is_paused: Cell::default(),
        is_gone: Cell::default(),
        arrivals: Rc::default(),
    });
    place.chunks.borrow_mut().push(chunks.clone());
    let sender = Rc::new(Sender {
        chunks: chunks.clone(),
        owner,
    });
    let carrier = Rc::new(Carrier::Events(chunks));
    (
        sender,
        Stream {
            status: 200,
            carrier,
        },
    )
}

/// A client's end, on its way and at the client. Whoever drops it hangs up.
pub(crate) enum Carrier {
    Socket(Rc<Wire>),
    Events(Rc<Chunks>),
    /// No stream: why.
    Refusal(String),
}

impl Carrier {
    pub(crate) fn arrivals(&self) -> Option<&Rc<Arrivals>> {
        match self {
            Self::Socket(wire) => Some(&wire.arrivals),
            Self::Events(chunks) => Some(&chunks.arrivals),
            Self::Refusal(_) => None,
        }
    }

    /// The client is there.
    pub(crate) fn settle(&self, client: Site) {
        match self {
            Self::Socket(wire) => wire.client.set(client),
            Self::Events(chunks) => chunks.client.set(client),
            Self::Refusal(_) => {}
        }
    }

    /// The client says something.
    pub(crate) fn send(&self, text: Option<String>) {
        if let Self::Socket(wire) = self
            && wire.arrivals.closed.borrow().is_none()
        {
            wire.to_object(ToObject::Text(text));
        }
    }

    /// The client closes a socket, and waits for the answer.
    pub(crate) fn close(&self, code: u16, reason: &str) {
        if let Self::Socket(wire) = self {
            wire.to_object(ToObject::Closed(Some((code, reason.to_owned()))));
        }
    }

    /// The client takes no more chunks for now, or takes all.
    pub(crate) fn pause(&self, is_paused: bool) {
        if let Self::Events(chunks) = self {
            chunks.is_paused.set(is_paused);
            if !is_paused {
                chunks.waiting.set(0);
            }
        }
    }
}

impl Drop for Carrier {
    fn drop(&mut self) {
        match self {
            Self::Socket(wire) if wire.phase.get() == Phase::Open => wire.lose(),
            Self::Events(chunks) => {
                let chunks = chunks.clone();
                let place = chunks.place.upgrade();
                if let Some(place) = place.filter(|place| !place.core.is_closing()) {
                    let core = place.core.clone();
                    let delay_us =
                        core.network
                            .delay_us(chunks.client.get(), place.site, &core.chance);
                    core.after(delay_us, move || chunks.is_gone.set(true));
                }
            }
            _ => {}
        }
    }
}
