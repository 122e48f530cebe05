//! The commits of a tick: all that the tasks of one tick wrote to an object is one transaction.

use std::cell::RefCell;
use std::rc::Rc;
use std::task::{Poll, Waker};

use super::clock::{TurnClock, Turns};
use super::place::Place;

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

    /// Commits what is planned, and what these commits plan.
    pub(crate) fn run_now(&self) {
        loop {
            let planned = self.planned.take();
            if planned.is_empty() {
                return;
            }
            planned.iter().for_each(Place::commit);
        }
    }
}

/// Commits, as long as the node lives.
pub(crate) fn run(clock: &Rc<TurnClock>, commits: &Rc<Commits>) {
    let commits = commits.clone();
    let work = std::future::poll_fn(move |context| {
        commits.run_now();
        *commits.waker.borrow_mut() = Some(context.waker().clone());
        Poll::<()>::Pending
    });
    tokio::task::spawn_local(Turns::new(clock, work));
}
