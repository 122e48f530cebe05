//! Refusals of what a key makes: keys, shares, alerts, policies.

use tally_core::callers::account::account_max;
use tally_wire::problem::{Code, Problem};

/// The detail of a refusal where the caller's part of a table has no room.
pub(crate) fn part_full(what: &str, rows_max: u64, how: &str) -> String {
    format!(
        "a key that does not administer everything makes at most {} of the {rows_max} {what}, with all keys that it made; \
         end one that is not used any more: {how}",
        account_max(rows_max)
    )
}

/// The refusal of a gift of a key that was revoked a moment ago.
pub(super) fn giver_ended() -> Problem {
    Problem::new(Code::Unauthorized, "your key was revoked or has ended")
}
