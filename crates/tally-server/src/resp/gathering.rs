//! Commands that connections send in the same turns of a thread run as one batch: one request, one message to the owner
//! of the keys, and its commits.
//!
//! Invariants: only clients at one address with one key share a batch, so it has the rights of each of them. A batch
//! begins after the tasks that are ready, so it has all that has arrived, and waits for nothing else.

use std::cell::RefCell;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;

use futures_channel::oneshot;
use tally_host::{Host, Memory};
use tally_redis::together::{BatchKind, SharedBatch};
use tally_wire::messages::Arguments;
use tally_wire::redis::{Reply, UNAVAILABLE};

use super::request::ConnectionRequest;
use crate::ground::Ground;
use crate::guest::Guest;

/// What a client's commands came to.
pub(super) type Outcome = Result<Vec<Reply>, String>;

/// Whose commands of which kind share a batch.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Sharers {
    address: IpAddr,
    key: Option<String>,
    kind: BatchKind,
}

/// A batch that is about to begin, and who waits for it, in the order of its parts.
#[derive(Default)]
struct Gathered {
    batch: SharedBatch,
    waiting: Vec<oneshot::Sender<Outcome>>,
}

/// The batches that are about to begin. Each of them has a task that begins it.
pub(super) struct Gathering {
    ground: Rc<Ground>,
    guest: Rc<Guest>,
    memory: Rc<Memory>,
    gathered: RefCell<HashMap<Sharers, Gathered>>,
}

impl Gathering {
    pub(super) fn new(ground: Rc<Ground>, guest: Rc<Guest>) -> Rc<Self> {
        Rc::new(Self {
            ground,
            guest,
            memory: Rc::default(),
            gathered: RefCell::default(),
        })
    }

    /// The platform, with the memory of an edge.
    pub(super) fn host(&self) -> Host {
        Host::new(self.guest.clone(), self.memory.clone())
    }

    /// Runs commands of one kind, together with those that other connections of this client send now.
    pub(super) async fn run(
        self: &Rc<Self>,
        peer: SocketAddr,
        key: Option<String>,
        kind: BatchKind,
        commands: Vec<Arguments>,
    ) -> Outcome {
        let sharers = Sharers {
            address: peer.ip(),
            key,
            kind,
        };
        let (sender, receiver) = oneshot::channel();
        self.add(sharers, peer, commands, sender);
        let lost = |_| {
            Err(format!(
                "{UNAVAILABLE} the batch has ended; commands may or may not have been carried out"
            ))
        };
        receiver.await.unwrap_or_else(lost)
    }

    /// Adds commands to the batch that is about to begin. If they do not fit into it, it begins without them.
    fn add(
        self: &Rc<Self>,
        sharers: Sharers,
        peer: SocketAddr,
        commands: Vec<Arguments>,
        sender: oneshot::Sender<Outcome>,
    ) {
        let mut gathered = self.gathered.borrow_mut();
        let next = match gathered.get_mut(&sharers) {
            Some(next) => next,
            None => {
                self.begin_later(sharers.clone(), peer);
                gathered.entry(sharers.clone()).or_default()
            }
        };
        if !next.batch.has_room(&commands) {
            let (gathering, full) = (self.clone(), std::mem::take(next));
            let work = async move { gathering.run_all(peer, sharers.key, full).await };
            self.ground.spawn(work);
        }
        next.batch.add(commands);
        next.waiting.push(sender);
    }

    /// Begins a batch once the tasks that are ready now have run.
    fn begin_later(self: &Rc<Self>, sharers: Sharers, peer: SocketAddr) {
        let gathering = self.clone();
        self.ground.spawn(async move {
            let gathered = gathering.gathered.borrow_mut().remove(&sharers);
            if let Some(gathered) = gathered {
                gathering.run_all(peer, sharers.key, gathered).await;
            }
        });
    }

    async fn run_all(&self, peer: SocketAddr, key: Option<String>, gathered: Gathered) {
        let request = Box::new(ConnectionRequest::new(peer, key));
        let parts = gathered.batch.into_parts();
        let context = self.ground.context();
        let outcomes = tally_edge::run_parts(request, self.host(), context, parts).await;
        for (sender, outcome) in gathered.waiting.into_iter().zip(outcomes) {
            // There is no receiver if the connection has ended.
            let _ = sender.send(outcome);
        }
    }
}
