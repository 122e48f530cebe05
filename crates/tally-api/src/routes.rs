//! The routes of requests, and the decision whether a caller may make a call. Only the `table` holds paths.
//!
//! | module | holds |
//! |---|---|
//! | `table` | every fact about a call, once |
//! | `route` | the route of a request: method and path in, route or refusal out |
//! | `decision` | whether a caller may make a call |
//! | `precondition` | which writes read `If-Match` |
//! | `unknown_query` | parameters that a call does not know |

mod decision;
mod precondition;
mod route;
mod table;
mod unknown_query;

pub use decision::{Subject, not_shared};
pub use route::{NoRoute, ROUTES, Route, RouteName, RouteRow, allow_of, is_gate, name_of, resolve};
pub use table::route_table;
pub use unknown_query::UnknownQuery;
