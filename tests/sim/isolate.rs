//! An isolate: what it does for each counter, and its queue of events. All of it goes in a crash.

use std::cell::Cell;
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
}

impl Isolate {
    /// The isolate of a lot; `life` tells it from those before it.
    pub fn new(airs: &Airs, lot: u8, life: u64, skew_ms: Rc<Cell<i64>>) -> Self {
        let edge = |air| Edge::new(air, lot, life, skew_ms.clone());
        Self {
            edges: airs.iter().map(edge).collect(),
            queue: Queue::new(airs, lot, life, skew_ms.clone()),
            skew_ms,
        }
    }

    /// What runs on after its request was answered.
    pub fn spawned(&self) -> Vec<Task> {
        let edges = self.edges.iter().flat_map(|edge| edge.spawned());
        edges.chain(self.queue.spawned()).collect()
    }
}
