//! Requests and answers about snapshots.
//!
//! | module | holds |
//! |---|---|
//! | `days` | days in requests |
//! | `restore` | restores |
//! | `answer` | the public JSON |

mod answer;
mod days;
mod restore;

pub use answer::{days_json, lacking, list_on_json, on_json, snapshot_json, snapshots_json};
pub use days::{Days, parse_date};
pub use restore::{
    CHANGES_TOLD_MAX, RESTORE_LIMIT, Restore, RestoreAction, RestoreResult, action_of,
    has_settings, has_value, line_of, refusal_of,
};
