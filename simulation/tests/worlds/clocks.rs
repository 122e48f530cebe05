//! How far the clocks of limiters have stepped.
//!
//! Law: the time of a limiter never goes back. A step back of its clock does not count, and a step forward looks like
//! time that passed. So a limiter that moves between isolates gains with each move to a faster clock, and loses nothing
//! with moves to slower ones: what it gains has no bound. Quota comes back as much earlier.

use tally_simulation::NotedStep;
use tally_wire::names;

use super::service::Service;

/// The steps forward of limiters' clocks.
#[derive(Clone, Debug)]
pub struct Clocks {
    steps: Vec<NotedStep>,
    /// When limiters moved.
    moved_ms: Option<i64>,
}

impl Clocks {
    /// How much more may have passed by limiters' times than truly has within an interval, milliseconds. A limiter that
    /// takes a hold over may have gained before.
    pub fn gained_ms(&self, from_ms: i64, upto_ms: i64) -> i64 {
        let are_moved = self.moved_ms.is_some_and(|moved_ms| moved_ms <= upto_ms);
        let from_ms = if are_moved { i64::MIN } else { from_ms };
        let within = from_ms..=upto_ms;
        let steps = self.steps.iter();
        let steps = steps.filter(|step| within.contains(&step.at_ms));
        steps.map(|step| step.forward_ms).sum()
    }
}

impl Service {
    /// How far the clocks of limiters have stepped so far.
    pub fn limiter_clocks(&self) -> Clocks {
        let mut steps = self.world.clock_steps();
        steps.retain(|step| step.binding == names::LIMITERS);
        Clocks {
            steps,
            moved_ms: self.holds.moved_ms.get(),
        }
    }
}
