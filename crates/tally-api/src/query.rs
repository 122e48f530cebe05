//! Query strings, read strictly. An unknown parameter of an API call is refused: if a misspelt `consistency` were
//! ignored, the answer would be to another question. Calls whose URLs other programs complete ignore unknown
//! parameters: the [table of routes](crate::routes) names these calls.
//!
//! | module | holds |
//! |---|---|
//! | `parse` | the parameters of a query string |
//! | `breakdown`, `list_page`, `top`, `verdicts` | those of some calls |
//! | `window` | windows, and the ranges of samples |
//! | `pairs` | pairs of names and values |

mod breakdown;
mod list_page;
mod pairs;
mod parse;
mod top;
mod verdicts;
mod window;

pub use breakdown::{BREAKDOWN_LIMIT, BreakdownQuery, kept_only};
pub use list_page::{ListPage, PagedList, WRONG_CURSOR, newest_first, wrong_cursor};
pub use pairs::has_parameter;
pub use parse::{
    HISTORY_TOP_MAX, HistoryFormat, LIST_LIMIT, POINTS_MAX, Query, SECOND_POINTS_MAX, UNION_MAX,
    WINDOW_SECONDS_MAX,
};
pub use top::TopQuery;
pub use window::{SamplesWindow, WINDOW_UNIQUES_SECONDS_MAX, Window};
