//! Where a cell's object lives: its rows outlive its memory.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

use super::Air;
use super::cell::Core;
use super::network::{Request, unavailable};
use super::store::Store;

/// What runs until it ends or its object crashes.
pub type Task = Pin<Box<dyn Future<Output = ()>>>;

/// A place where an object lives, crash after crash.
pub struct Place {
    rows: Rc<RefCell<Store>>,
    pub core: Rc<Core>,
    pub skew_ms: Rc<Cell<i64>>,
    /// What runs there, with the call that it answers.
    tasks: Vec<(Option<u64>, Task)>,
}

impl Place {
    pub fn new(number: usize, air: &Rc<Air>) -> Self {
        let rows = Rc::new(RefCell::new(Store::default()));
        let skew_ms = Rc::new(Cell::default());
        Self {
            core: Core::new(number, air.clone(), rows.clone(), skew_ms.clone()),
            rows,
            skew_ms,
            tasks: Vec::new(),
        }
    }

    pub fn deliver(&mut self, request: Request) {
        let (core, air, call) = (self.core.clone(), self.core.air.clone(), request.call);
        let task = async move {
            let reply = core.work(request.message).await;
            air.network.borrow_mut().answers.push((call, reply));
        };
        self.tasks.push((Some(call), Box::pin(task)));
    }

    /// Memory is gone, and with it whatever was under way here; its callers hear so.
    pub fn crash(&mut self) {
        let (air, place) = (self.core.air.clone(), self.core.place);
        for (call, _) in self.tasks.drain(..) {
            let mut network = air.network.borrow_mut();
            network
                .answers
                .extend(call.map(|call| (call, Err(unavailable()))));
        }
        self.core.waited_for.borrow_mut().clear();
        self.core = Core::new(place, air, self.rows.clone(), self.skew_ms.clone());
    }

    /// Runs everything here until it waits. True if something ended.
    pub fn run(&mut self) -> bool {
        if self.tasks.is_empty() && self.core.waited_for.borrow().is_empty() {
            return false;
        }
        let spawned = std::mem::take(&mut *self.core.waited_for.borrow_mut());
        self.tasks
            .extend(spawned.into_iter().map(|task| (None, task)));
        let before = self.tasks.len();
        self.tasks.retain_mut(|(_, task)| !is_over(task));
        self.tasks.len() != before || !self.core.waited_for.borrow().is_empty()
    }

    pub fn is_at_rest(&self) -> bool {
        self.tasks.is_empty()
    }
}

/// Polls a task once. True if it has ended.
pub fn is_over(task: &mut Task) -> bool {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    task.as_mut().poll(&mut context).is_ready()
}
