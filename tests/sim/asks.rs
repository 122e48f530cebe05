//! What clients of the world ask for, each through an isolate or of the root.

use tally::core::counter::ledger::WriteKey;
use tally::core::counter::settings::TtlMode;

use super::body::{self, Body};
use super::chance::Chance;
use super::client::{self, Wish};
use super::edge;
use super::network::Message;
use super::queue::Wanted;
use super::reader;
use super::world::{Asked, World};

/// What a client asks for under the key of this number; or the other thing.
fn wish_of(key: u8, is_other: bool) -> Wish {
    let amount = u128::from(key) + 1;
    let mut name = [key; 16];
    name[0] = 0;
    Wish {
        key: WriteKey(name),
        fingerprint: is_other.into(),
        delta: if is_other {
            (0, amount * 500)
        } else {
            (amount * 1_000, 0)
        },
    }
}

impl World {
    /// Asks once what became of a keyed write.
    pub(super) fn recall(&mut self, counter: usize, number: u8, key: u8) {
        let wish = wish_of(key, false);
        let edge = self.edge(counter, number);
        if edge.air.oracle.borrow().keys.is_sent(wish.key) {
            self.begin(Some(number), client::recall(edge, wish));
        }
    }

    /// Sends a keyed write or event once.
    pub(super) fn send_keyed(&mut self, number: u8, asked: Asked) {
        let (counter, key, is_other, is_queued) = asked;
        let wishes = self.wishes.clone();
        wishes.borrow_mut().entry(asked).or_default();
        if is_queued {
            let mut name = [key; 16];
            name[0] = 1;
            let key = WriteKey(name);
            let event = Wanted {
                counter,
                increment: (u128::from(key.0[1]) + 1) * 1_000_000_000 + u128::from(is_other),
                key: Some((key, is_other.into())),
            };
            let queue = self.isolates[usize::from(number)].queue.clone();
            self.begin(Some(number), async move {
                if queue.event(event).await {
                    wishes.borrow_mut().insert(asked, true);
                }
            });
            return;
        }
        let wish = wish_of(key, is_other);
        let edge = self.edge(counter, number);
        self.begin(Some(number), async move {
            if client::send(edge, wish).await {
                wishes.borrow_mut().insert(asked, true);
            }
        });
    }

    /// Sends a bulk body once.
    pub(super) fn send_body(&mut self, number: u8, body: Body) {
        let edges = self.isolates[usize::from(number)].edges.clone();
        let (bodies, written) = (self.bodies.clone(), self.written.clone());
        if body.has_key {
            bodies.borrow_mut().entry(body).or_default();
        }
        self.begin(Some(number), async move {
            if body::send(edges, body, written).await && body.has_key {
                bodies.borrow_mut().insert(body, true);
            }
        });
    }

    pub(super) fn send_event(&mut self, counter: usize, number: u8) {
        let mut oracle = self.airs[counter].oracle.borrow_mut();
        let increment = oracle.events.new_amount();
        drop(oracle);
        let queue = self.isolates[usize::from(number)].queue.clone();
        let event = Wanted {
            counter,
            increment,
            key: None,
        };
        self.begin(Some(number), async move {
            queue.event(event).await;
        });
    }

    pub(super) fn write(
        &mut self,
        counter: usize,
        number: u8,
        delta: (u128, u128),
        element: Option<u8>,
    ) {
        // A keyed hash, to all that see it.
        let element = element.map(|element| Chance::new(element.into()).below(u64::MAX));
        let edge = self.edge(counter, number);
        let write = edge::write(edge, delta, element, self.written[counter].clone());
        self.begin(Some(number), write);
    }

    pub(super) fn read_as(&mut self, counter: usize, number: u8, reader: u8, write: Option<usize>) {
        let written = self.written[counter].borrow();
        let write = write.and_then(|pick| written.get(pick % written.len().max(1)).cloned());
        drop(written);
        let edge = self.edge(counter, number);
        let reader = self.readers[counter][usize::from(reader)].clone();
        self.begin(Some(number), reader::read_as(edge, reader, write));
    }

    /// Asks the root to end a counter.
    pub(super) fn end(&mut self, counter: usize) {
        let air = &self.airs[counter];
        let end = air.call(air.root(), Message::End);
        self.begin(None, async move {
            let _ = end.await;
        });
    }

    pub(super) fn put(&mut self, counter: usize, shards: Option<u8>, ttl: Option<(u8, bool)>) {
        let mode = |is_sliding| match is_sliding {
            true => TtlMode::Sliding,
            false => TtlMode::Fixed,
        };
        let ttl = ttl.map(|(seconds, is_sliding)| (u64::from(seconds), mode(is_sliding)));
        let air = &self.airs[counter];
        let put = air.call(air.root(), Message::Put(shards, ttl));
        self.begin(None, async move {
            let _ = put.await;
        });
    }
}
