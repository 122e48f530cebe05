//! What a world admitted and refused, and what is to be said of it: by brute force, from the times alone.

use std::collections::VecDeque;

use crate::policy_kinds::window_begins_ms;
use tally_limit::policy::{Algorithm, Policy};

/// What is said of a world.
#[derive(Debug)]
pub struct Figures {
    pub checks: u64,
    pub requests: u64,
    pub waited: u64,
    pub admitted: u64,
    pub refused_for_nothing: u64,
    /// By how much a limit was exceeded at the worst moment.
    pub over: u64,
}

impl Figures {
    /// A part of the checks, in percent.
    pub fn percent(&self, part: u64) -> f64 {
        part as f64 * 100.0 / self.checks as f64
    }
}

#[derive(Default)]
pub struct Judge {
    pub checks: u64,
    pub requests: u64,
    pub waited: u64,
    admitted: Vec<(i64, u64)>,
    /// What was admitted within the last window, and its sum.
    recent: VecDeque<(i64, u64)>,
    sum: u64,
    refused_for_nothing: u64,
    debt: Debt,
}

/// What a token bucket owed when something was last asked of it, and how many of the admitted are in that.
#[derive(Default)]
struct Debt {
    owed: i128,
    at_ms: i64,
    folded: usize,
}

impl Debt {
    /// What it owes now.
    fn of(&mut self, policy: &Policy, admitted: &[(i64, u64)], now_ms: i64) -> i128 {
        for (then_ms, cost) in &admitted[self.folded..] {
            self.pass(policy, *then_ms);
            self.owed += i128::from(*cost) * i128::from(policy.window_ms);
        }
        self.folded = admitted.len();
        self.pass(policy, now_ms);
        self.owed
    }

    fn pass(&mut self, policy: &Policy, now_ms: i64) {
        let paid = i128::from(now_ms - self.at_ms) * i128::from(policy.limit);
        self.owed = (self.owed - paid).max(0);
        self.at_ms = now_ms;
    }
}

impl Judge {
    pub fn admit(&mut self, at_ms: i64, cost: u64) {
        self.admitted.push((at_ms, cost));
        self.recent.push_back((at_ms, cost));
        self.sum += cost;
    }

    /// Whether a perfect limiter would have admitted it.
    pub fn refuse(&mut self, policy: &Policy, at_ms: i64, cost: u64) {
        let is_budget = match window_begins_ms(policy, at_ms) {
            None => {
                let debt = self.debt.of(policy, &self.admitted, at_ms);
                debt + i128::from(cost) * i128::from(policy.window_ms)
                    <= i128::from(policy.burst) * i128::from(policy.window_ms)
            }
            Some(from_ms) => {
                while self
                    .recent
                    .front()
                    .is_some_and(|(first, _)| *first < from_ms)
                {
                    self.sum -= self.recent.pop_front().map_or(0, |(_, cost)| cost);
                }
                self.sum + cost <= policy.limit
            }
        };
        self.refused_for_nothing += u64::from(is_budget);
    }

    pub fn figures(&self, policy: &Policy) -> Figures {
        Figures {
            checks: self.checks,
            requests: self.requests,
            waited: self.waited,
            admitted: self.admitted.iter().map(|(_, cost)| cost).sum(),
            refused_for_nothing: self.refused_for_nothing,
            over: over(policy, &self.admitted),
        }
    }
}

/// The most above the limit in any window. Ticks of a sliding window count a millisecond longer than it.
fn over(policy: &Policy, admitted: &[(i64, u64)]) -> u64 {
    let more_ms = i64::from(policy.algorithm == Algorithm::SlidingWindow && !policy.is_precise);
    let window = i128::from(policy.window_ms);
    let (mut debt, mut at_ms) = (0_i128, 0);
    let (mut first, mut sum, mut worst) = (0, 0, 0);
    for (now_ms, cost) in admitted {
        sum += cost;
        let above = match window_begins_ms(policy, *now_ms) {
            None => {
                debt = (debt - i128::from(now_ms - at_ms) * i128::from(policy.limit)).max(0);
                at_ms = *now_ms;
                debt += i128::from(*cost) * window;
                let above = debt - i128::from(policy.burst) * window;
                u64::try_from(above.max(0))
                    .unwrap()
                    .div_ceil(policy.window_ms as u64)
            }
            Some(from_ms) => {
                while admitted[first].0 < from_ms - more_ms {
                    sum -= admitted[first].1;
                    first += 1;
                }
                sum.saturating_sub(policy.limit)
            }
        };
        worst = worst.max(above);
    }
    worst
}
