//! The public JSON of reads and writes.
//!
//! | module | holds |
//! |---|---|
//! | `aggregate` | all counters with a common prefix |
//! | `distribution` | the distribution of samples |
//! | `breakdown` | the counts of a dimension's values |
//! | `explain`, `trace` | how a counter's sum was read |
//! | `storage` | what a cell stores |
//! | `hot` | the counters that are written most now |
//! | `hll` | unique elements in Redis's format |
//! | `listing` | counters by their names, with the totals that the directory knows |
//! | `live` | a counter, in updates to watchers |
//! | `outcome` | the answers to writes and to administrative calls |
//! | `rounding` | estimates for readers without a key |
//! | `top` | the counters that have most |
//! | `counter_view` | the sum of one counter |
//! | `verdicts` | the results of a policy's checks, and its refused keys |
//! | `union` | unique elements of several counters |

mod aggregate;
mod breakdown;
mod counter_view;
mod distribution;
mod explain;
mod hll;
mod hot;
mod listing;
mod live;
mod outcome;
mod rounding;
mod storage;
mod top;
mod trace;
mod union;
mod verdicts;

pub use aggregate::{
    add_counter, aggregate_json, prefix_breakdown_json, prefix_history_json, prefix_value_json,
};
pub use counter_view::{Freshness, HistoryPoints, SettingsView, SummedCounter, Truth};
pub use hll::{hll_of, imported_json, not_of_redis, parse_hll};
pub use hot::hot_json;
pub use listing::list_json;
pub use live::thousandths_json;
pub use outcome::{
    count_json, dead_letters_json, deleted_json, ignored_json, queued_json, revoked_json,
    revoked_key_json, rotated_json, write_json,
};
pub use rounding::{DIGITS_MAX, Rounding};
pub use storage::{CellStorage, HeldBuckets, HeldSketch, StoredRows};
pub use top::{TopPage, top_json};
pub use union::{intersection_json, union_json, union_of};
pub use verdicts::VerdictCounts;
