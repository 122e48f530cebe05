//! Rate limits as clients see them: names, bodies, headers, answers.
//!
//! | module | holds |
//! |---|---|
//! | `body` | policies and checks as clients send them |
//! | `hold` | ids of holds, and their part of answers |
//! | `overrides` | patterns of overrides, their bodies and answers |
//! | `answer` | verdicts, policies and refusals in answers |
//! | [`batch`] | how checks of one isolate join into one message |
//!
//! The decisions are made by [`tally_core::limit`].

mod answer;
pub mod batch;
mod body;
mod hold;
mod overrides;

/// The most policies of a deployment: at most 100 bytes each, so 1 MB in one partition of the directory.
pub const POLICIES_MAX: u64 = 10_000;

pub use answer::{
    CheckResult, LIMIT_HEADER, OverriddenBy, POLICY_HEADER, check_cost, check_takes, deleted_json,
    is_allowed, list_json, many_json, policy_json, policy_line, refused_many_json,
};
pub use body::{
    CHECKS_MAX, CheckLine, CheckRequest, HoldRequest, parse_check, parse_checks, parse_hold,
    parse_policy, parse_settlement,
};
pub use hold::{HoldId, call_problem, held_keys_json, held_members, hold_member, settled_json};
pub use overrides::{
    OVERRIDES_MAX, OVERRIDES_OF_ALL_MAX, OVERRIDES_TOGETHER_MAX, override_deleted_json,
    override_json, override_line, overrides_json, parse_override,
};
