//! Where an object lives: its rows outlive its memory. And the root, which needs neither here.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

use tally::counter::grant::Grant;
use tally::counter::settings::Settings;

use super::network::{Answer, Request, unavailable};
use super::rows::Rows;
use super::{Air, Core, GENERATION};

/// What runs until it ends or its object crashes.
pub type Task = Pin<Box<dyn Future<Output = ()>>>;

/// A place where an object lives, crash after crash.
pub struct Place {
    rows: Rc<RefCell<Rows>>,
    pub core: Rc<Core>,
    /// What runs there, with the call that it answers.
    tasks: Vec<(Option<u64>, Task)>,
}

impl Place {
    pub fn new(shard: u8, air: &Rc<Air>) -> Self {
        let rows = Rc::new(RefCell::new(Rows::default()));
        Self {
            core: Core::new(shard, air.clone(), rows.clone()),
            rows,
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
        let (air, shard) = (self.core.air.clone(), self.core.shard);
        for (call, _) in self.tasks.drain(..) {
            let mut network = air.network.borrow_mut();
            network
                .answers
                .extend(call.map(|call| (call, Err(unavailable()))));
        }
        self.core.waited_for.borrow_mut().clear();
        self.core = Core::new(shard, air, self.rows.clone());
    }

    /// Runs everything here until it waits. True if something ended.
    pub fn run(&mut self) -> bool {
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

/// The root's answer to a lead that registers: once it does not end the counter any more.
pub async fn on_register(air: Rc<Air>, call: u64) {
    poll_fn(|_| {
        if air.is_ending.get() {
            Poll::Pending
        } else {
            Poll::Ready(())
        }
    })
    .await;
    let grant = Grant {
        generation: GENERATION,
        settings: Settings::default(),
        last_write_ms: 0,
        alone: true,
        spread: 0,
    };
    let mut network = air.network.borrow_mut();
    network.answers.push((call, Ok(Answer::Grant(grant))));
}
