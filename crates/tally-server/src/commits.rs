//! The commits of a tick: all that the tasks of one tick wrote to an object is one transaction.

use std::cell::RefCell;
use std::rc::Rc;
use std::task::{Poll, Waker};

use super::clock::Turns;
use super::ground::Ground;
use super::place::Place;
use super::store::registry::Registry;

/// The places that have something to commit.
#[derive(Default)]
pub(crate) struct Commits {
    planned: RefCell<Vec<Rc<Place>>>,
    waker: RefCell<Option<Waker>>,
}

impl Commits {
    /// Plans the commit of a place. It follows the tasks that are ready now, so their writes are in it too.
    pub(crate) fn plan(&self, place: Rc<Place>) {
        self.planned.borrow_mut().push(place);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// Commits what is planned, and what these commits plan. The registry notes all new ones of a tick together.
    pub(crate) fn run_now(&self, registry: &Registry) {
        loop {
            let mut committed = self.planned.take();
            if committed.is_empty() {
                return;
            }
            committed.retain(Place::commit);
            let (unregistered, registered): (Vec<_>, Vec<_>) = committed
                .into_iter()
                .partition(|place| place.database.is_unregistered());
            registered.iter().for_each(|place| place.let_out());
            if unregistered.is_empty() {
                continue;
            }
            let entries = unregistered.iter();
            let entries = entries.map(|place| (&*place.id, place.key.class.folder()));
            match registry.note(entries, true) {
                Ok(()) => unregistered.iter().for_each(|place| {
                    place.database.registered();
                    place.let_out();
                }),
                Err(why) => unregistered.iter().for_each(|place| place.refuse(&why)),
            }
        }
    }
}

/// Commits, as long as the node lives.
pub(crate) fn run(ground: &Ground, commits: &Rc<Commits>) {
    let (commits, registry) = (commits.clone(), ground.registry.clone());
    let work = std::future::poll_fn(move |context| {
        commits.run_now(&registry);
        *commits.waker.borrow_mut() = Some(context.waker().clone());
        Poll::<()>::Pending
    });
    tokio::task::spawn_local(Turns::new(&ground.clock, work));
}
