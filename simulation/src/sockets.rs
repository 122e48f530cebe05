//! WebSockets: they outlive the memory of their object.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

use tally_host::Stream;
use tally_host::object::Socket;

use crate::core::Core;
use crate::executor::Owner;
use crate::network::Site;
use crate::place::Place;
use crate::streams::{Arrivals, BROKEN, Carrier, arrival_us};

/// Close code of a close that names none. Source: as [`BROKEN`].
const NO_CODE: u16 = 1_005;

/// Bytes of what a socket keeps. Source:
/// <https://developers.cloudflare.com/durable-objects/best-practices/websockets/>.
const KEPT_BYTES_MAX: usize = 16_384;

/// The state of a socket.
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
pub(crate) struct WebSocket {
    place: Weak<Place>,
    client: Cell<Site>,
    name: String,
    kept: RefCell<String>,
    phase: Cell<Phase>,
    arrivals: Rc<Arrivals>,
    /// As in [`Arrivals`], the other way.
    last_us: Cell<u64>,
}

impl WebSocket {
    pub(crate) fn arrivals(&self) -> &Rc<Arrivals> {
        &self.arrivals
    }

    /// The client is there.
    pub(crate) fn set_client(&self, client: Site) {
        self.client.set(client);
    }

    /// The client says something.
    pub(crate) fn receive(self: &Rc<Self>, text: Option<String>) {
        if self.arrivals.closed.borrow().is_none() {
            self.to_object(ToObject::Text(text));
        }
    }

    /// The client closes it, and waits for the answer.
    pub(crate) fn close_by_client(self: &Rc<Self>, code: u16, reason: &str) {
        self.to_object(ToObject::Closed(Some((code, reason.to_owned()))));
    }

    /// The client is gone without a word.
    pub(crate) fn hang_up(self: &Rc<Self>) {
        if self.phase.get() == Phase::Open {
            self.lose();
        }
    }

    fn core(&self) -> Option<(Rc<Place>, Rc<Core>)> {
        let place = self.place.upgrade()?;
        let core = place.core.clone();
        (!core.is_closing()).then_some((place, core))
    }

    /// Breaks the connection, for the client too.
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
        let (socket, known) = (self.clone(), core.clone());
        let arrive = move || match text {
            Ok(text) => socket.arrivals.take(&known, text),
            Err((code, reason)) => {
                let was_first = socket.phase.get() == Phase::ObjectClosed;
                socket.arrivals.close(code, &reason);
                if was_first {
                    // A client answers a close by itself.
                    socket.to_object(ToObject::Closed(Some((code, reason))));
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
        let socket = self.clone();
        let arrive = move || socket.reach(&place, what);
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
        let (incarnation, socket) = (place.incarnation(), self.clone());
        let end: Rc<dyn Socket> = Rc::new(End {
            socket: self.clone(),
            owner: incarnation.owner,
        });
        match what {
            ToObject::Text(text) => {
                core.record(|| format!("socket   {} hears {text:?}", place.label()));
                incarnation.shell().on_message(end, text);
            }
            ToObject::Closed(close_reason) => {
                core.record(|| format!("socket   {} hears close {close_reason:?}", place.label()));
                let answers = self.phase.get() == Phase::Open && close_reason.is_some();
                let next = if answers {
                    Phase::ClientClosed
                } else {
                    Phase::Closed
                };
                self.phase.set(next);
                place
                    .web_sockets
                    .borrow_mut()
                    .retain(|known| !Rc::ptr_eq(known, &socket));
                match close_reason.is_none() && core.chance.once_in(2) {
                    true => incarnation.shell().on_error(end),
                    false => incarnation.shell().on_close(end, close_reason),
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
    socket: Rc<WebSocket>,
    owner: Owner,
}

impl End {
    fn release(&self, text: Result<String, (u16, String)>) {
        if let Some((place, _)) = self.socket.core() {
            let socket = self.socket.clone();
            place.release(self.owner, move || socket.transmit(text));
        }
    }
}

impl Socket for End {
    fn name(&self) -> Option<String> {
        Some(self.socket.name.clone())
    }

    fn kept(&self) -> Option<String> {
        Some(self.socket.kept.borrow().clone())
    }

    fn keep(&self, text: String) -> Result<(), String> {
        check_kept(&text)?;
        *self.socket.kept.borrow_mut() = text;
        Ok(())
    }

    fn send(&self, text: &str) -> bool {
        let is_open = self.socket.phase.get() == Phase::Open;
        if is_open {
            self.release(Ok(text.to_owned()));
        }
        is_open
    }

    fn close(&self, code: Option<u16>, reason: Option<&str>) {
        let next = match self.socket.phase.get() {
            Phase::Open => Phase::ObjectClosed,
            Phase::ClientClosed => Phase::Closed,
            Phase::ObjectClosed | Phase::Closed => return,
        };
        self.socket.phase.set(next);
        let close_reason = (
            code.unwrap_or(NO_CODE),
            reason.unwrap_or_default().to_owned(),
        );
        self.release(Err(close_reason));
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
    let sockets = place.web_sockets.borrow();
    let open = sockets
        .iter()
        .filter(|socket| socket.phase.get() == Phase::Open);
    open.map(|socket| -> Rc<dyn Socket> {
        Rc::new(End {
            socket: socket.clone(),
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
    let socket = Rc::new(WebSocket {
        place: Rc::downgrade(place),
        client: Cell::new(place.site),
        name: name.to_owned(),
        kept: RefCell::new(kept),
        phase: Cell::new(Phase::Open),
        arrivals: Rc::default(),
        last_us: Cell::default(),
    });
    place.web_sockets.borrow_mut().push(socket.clone());
    let end = Rc::new(End {
        socket: socket.clone(),
        owner,
    });
    let carrier = Rc::new(Carrier::Socket(socket));
    Ok((
        end,
        Stream {
            status: 101,
            carrier,
        },
    ))
}
