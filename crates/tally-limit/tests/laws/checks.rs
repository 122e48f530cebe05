//! What tests of tables of limits share: checks of a policy that is called "p".

use tally_limit::policy::Policy;
use tally_limit::table::{Check, Table};

pub fn check<'a>(policy: &'a Policy, key: &'a str, cost: u64) -> Check<'a> {
    Check::of("p", policy, key, cost)
}

/// How much is left of a key.
pub fn left(table: &Table, policy: &Policy, key: &str, now_ms: i64) -> u64 {
    table.peek(&check(policy, key, 1), now_ms).remaining
}
