//! An isolate: what it does for each counter, and its queue of events. All of it goes in a crash.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use super::Airs;
use super::edge::Edge;
use super::place::Task;
use super::queue::Queue;

/// One isolate.
pub struct Isolate {
    /// One for each counter.
    pub edges: Vec<Rc<Edge>>,
    pub queue: Rc<Queue>,
    /// How far its clock is off, milliseconds.
    pub skew_ms: Rc<Cell<i64>>,
    spawned: Spawned,
}

/// What runs on after its request was answered.
pub type Spawned = Rc<RefCell<Vec<Task>>>;

impl Isolate {
    /// The isolate of a lot; `life` tells it from those before it.
    pub fn new(airs: &Airs, lot: u8, life: u64, skew_ms: Rc<Cell<i64>>) -> Self {
        let spawned = Spawned::default();
        let edge = |air| Edge::new(air, lot, life, skew_ms.clone(), spawned.clone());
        Self {
            edges: airs.iter().map(edge).collect(),
            queue: Queue::new(airs, lot, life, skew_ms.clone(), spawned.clone()),
            spawned,
            skew_ms,
        }
    }

    /// Hands over what runs on after its request was answered.
    pub fn hand_over(&self, tasks: &mut Vec<(Option<u8>, Task)>, number: u8) {
        let mut spawned = self.spawned.borrow_mut();
        if !spawned.is_empty() {
            tasks.extend(spawned.drain(..).map(|task| (Some(number), task)));
        }
    }
}
