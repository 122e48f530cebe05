//! Streams of server-sent events: they end with the memory of their object.

use std::cell::Cell;
use std::rc::{Rc, Weak};

use tally_host::Stream;
use tally_host::object::{Events, Readiness};

use crate::executor::Owner;
use crate::network::Site;
use crate::place::Place;
use crate::streams::{Arrivals, BROKEN, Carrier, ENDED, arrival_us};

/// A stream of server-sent events, as the platform holds it.
pub(crate) struct EventStream {
    place: Weak<Place>,
    client: Cell<Site>,
    /// The number of texts that the client has not taken.
    waiting: Cell<usize>,
    is_paused: Cell<bool>,
    is_gone: Cell<bool>,
    arrivals: Rc<Arrivals>,
}

impl EventStream {
    pub(crate) fn arrivals(&self) -> &Rc<Arrivals> {
        &self.arrivals
    }

    /// The client is there.
    pub(crate) fn set_client(&self, client: Site) {
        self.client.set(client);
    }

    /// The client takes no more stream for now, or takes all.
    pub(crate) fn pause(&self, is_paused: bool) {
        self.is_paused.set(is_paused);
        if !is_paused {
            self.waiting.set(0);
        }
    }

    /// The client is gone, which the object sees a little later.
    pub(crate) fn hang_up(self: &Rc<Self>) {
        let Some(place) = self.place.upgrade() else {
            return;
        };
        let core = place.core.clone();
        if !core.is_closing() {
            let delay_us = core
                .network
                .delay_us(self.client.get(), place.site, &core.chance);
            let stream = self.clone();
            core.after(delay_us, move || stream.is_gone.set(true));
        }
    }

    /// Whether the client still reads it.
    pub(crate) fn is_open(&self) -> bool {
        !self.is_gone.get()
    }

    /// It ends with the object's memory.
    pub(crate) fn end(&self) {
        self.is_gone.set(true);
        self.arrivals.close(BROKEN, "");
    }

    /// The object has ended it: the client sees that after all that it was sent.
    fn finish(self: &Rc<Self>) {
        self.is_gone.set(true);
        let Some(place) = self.place.upgrade() else {
            return;
        };
        let core = place.core.clone();
        let at_us = arrival_us(&core, place.site, self.client.get(), &self.arrivals.last_us);
        let stream = self.clone();
        let arrive = move || stream.arrivals.close(ENDED, "");
        core.executor.at(at_us, Box::new(arrive));
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
        let (stream, known) = (self.clone(), core.clone());
        let arrive = move || {
            stream.arrivals.take(&known, text);
            if !stream.is_paused.get() {
                stream.waiting.set(stream.waiting.get().saturating_sub(1));
            }
        };
        core.executor.at(at_us, Box::new(arrive));
    }
}

struct Sender {
    stream: Rc<EventStream>,
    owner: Owner,
}

impl Events for Sender {
    fn readiness(&self) -> Readiness {
        match (self.stream.is_gone.get(), self.stream.waiting.get()) {
            (true, _) => Readiness::Gone,
            (false, 0) => Readiness::Ready,
            (false, _) => Readiness::Slow,
        }
    }

    fn send(&self, text: &str) {
        self.stream.waiting.set(self.stream.waiting.get() + 1);
        if let Some(place) = self.stream.place.upgrade() {
            let (stream, text) = (self.stream.clone(), text.to_owned());
            place.release(self.owner, move || stream.transmit(text));
        }
    }

    fn close(&self) {
        if let Some(place) = self.stream.place.upgrade() {
            let stream = self.stream.clone();
            place.release(self.owner, move || stream.finish());
        }
    }
}

/// Makes a stream of server-sent events.
pub(crate) fn events(place: &Rc<Place>, owner: Owner) -> (Rc<dyn Events>, Stream) {
    let stream = Rc::new(EventStream {
        place: Rc::downgrade(place),
        client: Cell::new(place.site),
        waiting: Cell::default(),
        is_paused: Cell::default(),
        is_gone: Cell::default(),
        arrivals: Rc::default(),
    });
    place.event_streams.borrow_mut().push(stream.clone());
    let sender = Rc::new(Sender {
        stream: stream.clone(),
        owner,
    });
    let carrier = Rc::new(Carrier::Events(stream));
    (
        sender,
        Stream {
            status: 200,
            carrier,
        },
    )
}
