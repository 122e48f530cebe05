//! The object's end of a stream of server-sent events.

use std::rc::Rc;

use tally_host::Stream;
use tally_host::object::{Events, Readiness};

use super::event_stream::{EventCarrier, EventChannel, EventReader};
use super::place::Place;

/// An object's end of a stream.
struct EventWriter {
    channel: Rc<EventChannel>,
    place: Rc<Place>,
    number: u64,
}

impl Events for EventWriter {
    fn readiness(&self) -> Readiness {
        match self.place.is_alive(self.number) {
            true => self.channel.readiness(),
            false => Readiness::Gone,
        }
    }

    fn send(&self, text: &str) {
        let (channel, text) = (self.channel.clone(), text.as_bytes().to_vec());
        channel.hold();
        self.place.release(self.number, move || channel.send(text));
    }

    fn close(&self) {
        let channel = self.channel.clone();
        self.place.release(self.number, move || channel.end());
    }
}

/// A stream, and the answer that carries its other end.
pub(crate) fn begin(place: &Rc<Place>, number: u64) -> (Rc<dyn Events>, Stream) {
    let channel = Rc::<EventChannel>::default();
    place.streams.borrow_mut().push(channel.clone());
    let carrier = Rc::new(EventCarrier::from(EventReader::of(&channel)));
    let writer = EventWriter {
        channel,
        place: place.clone(),
        number,
    };
    (
        Rc::new(writer),
        Stream {
            status: 200,
            carrier,
        },
    )
}
