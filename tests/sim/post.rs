//! What happens on the way: requests and answers arrive, or do not.

use super::network::{Answer, unavailable};
use super::world::World;

impl World {
    pub(super) fn deliver(&mut self, pick: usize) {
        let mut network = self.network.borrow_mut();
        if network.requests.is_empty() {
            return;
        }
        let pick = pick % network.requests.len();
        let request = network.requests.remove(pick);
        let (counter, local) = self.layout.of_address(request.to);
        if local == self.layout.disk() {
            let durable = (request.call, Ok(Answer::Done));
            network.answers.push(durable);
            return;
        }
        drop(network);
        if self.is_told {
            eprintln!("    {request:?}");
        }
        if counter >= self.layout.counters {
            let inbox = request.to - self.layout.inbox(0);
            self.inboxes[inbox].deliver(request);
        } else if local == self.layout.root() {
            self.homes[counter].deliver(request);
        } else {
            let cell = counter * self.layout.cells() + local;
            self.places[cell].deliver(request);
        }
    }

    pub(super) fn answer(&mut self, pick: usize) {
        let mut network = self.network.borrow_mut();
        if !network.answers.is_empty() {
            let pick = pick % network.answers.len();
            let (call, reply) = network.answers.remove(pick);
            if self.is_told {
                eprintln!("    {call}: {reply:?}");
            }
            network.end(call, reply);
        }
    }

    pub(super) fn lose_request(&mut self, pick: usize) {
        let mut network = self.network.borrow_mut();
        if !network.requests.is_empty() {
            let pick = pick % network.requests.len();
            let call = network.requests.remove(pick).call;
            network.end(call, Err(unavailable()));
        }
    }

    pub(super) fn lose_answer(&mut self, pick: usize) {
        let mut network = self.network.borrow_mut();
        if !network.answers.is_empty() {
            let pick = pick % network.answers.len();
            let (call, _) = network.answers.remove(pick);
            network.end(call, Err(unavailable()));
        }
    }
}
