//! The handler of each route, from the table of routes in `tally-api`.

#[cfg(feature = "exports")]
use crate::archive::{export, import};
use crate::archive::{repair, restore, snapshots};
#[cfg(feature = "boards")]
use crate::boards::{calls as boards, merged as merged_boards, writes as scores};
use crate::bulk::calls as bulk;
use crate::deployment::{alerts, api_keys, audit, health, hot, metrics, shares};
use crate::kit::request_context::RequestContext;
use crate::kit::respond::Answer;
#[cfg(feature = "limits")]
use crate::limits::{
    calls as limits, checks as limit_checks, gate, holds, override_calls as overrides,
};
#[cfg(feature = "pages")]
use crate::pages::embeds;
use crate::pages::files;
#[cfg(feature = "queue")]
use crate::queue::calls as queue;
#[cfg(feature = "samples")]
use crate::read::distribution;
use crate::read::{aggregate, breakdown, counter as read, history, listing, top, uniques};
#[cfg(feature = "redis")]
use crate::redis::hll;
use crate::write::{administration, counter as write};
use tally_api::access::Caller;
#[cfg(feature = "boards")]
use tally_api::boards::MergedQuery;
use tally_api::query::has_parameter;
use tally_api::routes::{Route, route_table};
use tally_core::counter::id::CounterId;
use tally_wire::problem::Problem;
use tally_wire::rights::Scope;

/// Refuses shares, which read no boards and no registers.
#[cfg(feature = "boards")]
fn only_with_key(caller: &Caller) -> Result<(), Problem> {
    match caller.is_share() {
        true => Err(tally_api::routes::not_shared()),
        false => Ok(()),
    }
}

/// `GET /top`: of counters by what they have, of counters by how often they are written, or of several boards.
///
/// # Errors
/// Those of the three.
async fn top_of(context: &RequestContext, caller: &Caller) -> Result<Answer, Problem> {
    #[cfg(feature = "boards")]
    if MergedQuery::is_meant(context.query()) {
        only_with_key(caller)?;
        return merged_boards::top(context, caller).await;
    }
    if has_parameter(context.query(), "by", Some("rate")) {
        caller.may(Scope::Admin, "")?;
        return hot::hot(context).await;
    }
    top::top(context, caller).await
}

/// `GET /counters/{id}`: the state now, or on a day.
///
/// # Errors
/// Those of the two.
async fn counter_of(context: &RequestContext, id: CounterId) -> Result<Answer, Problem> {
    match has_parameter(context.query(), "on", None) {
        true => snapshots::counter_on(context, id).await,
        false => read::counter(context, id).await,
    }
}

/// `GET /counters`: the counters now, or on a day.
///
/// # Errors
/// Those of the two.
async fn list_of(context: &RequestContext, caller: &Caller) -> Result<Answer, Problem> {
    match has_parameter(context.query(), "on", None) {
        true => snapshots::list_on(context, caller).await,
        false => listing::list(context, caller).await,
    }
}

/// `GET /uniques`: an estimate, or the registers as Redis keeps them.
///
/// # Errors
/// Those of the two.
async fn uniques_of(context: &RequestContext, caller: &Caller) -> Result<Answer, Problem> {
    #[cfg(feature = "redis")]
    if has_parameter(context.query(), "format", Some("hll")) {
        only_with_key(caller)?;
        return hll::export(context, caller).await;
    }
    uniques::uniques(context, caller).await
}

// A box for each route: otherwise each request moves a future as large as that of the largest route. In Wasm, where a
// request costs ten times as much anyway, the boxes would take 13 KB gzipped.
#[cfg(not(target_arch = "wasm32"))]
macro_rules! of_route {
    ($handler:expr) => {
        Box::pin(async { $handler }).await
    };
}

#[cfg(target_arch = "wasm32")]
macro_rules! of_route {
    ($handler:expr) => {
        $handler
    };
}

macro_rules! handlers {
    (($context:ident, $caller:ident)
        $(#[$built:meta] {
            $($variant:ident $(($($parameter:ident: $type:ty),+))? $method:literal $template:literal
                $metric:literal $right:expr $(, $unknown:expr)? => $handler:expr;)*
        })*
    ) => {
        /// Answers a request whose route is known, if its caller may ask this.
        pub(crate) async fn handle($context: &RequestContext, route: Route) -> Result<Answer, Problem> {
            let $caller = $context.caller_with(&route)?;
            if route.name().is_write() && !route.name().takes_precondition() {
                $context.refuse_preconditions()?;
            }
            if audit::is_logged(&$caller, &route) {
                Box::pin(audit::begin($context, &$caller, &route)).await;
            }
            let answer = match route {
                $($(#[$built] Route::$variant $(($($parameter),+))? => of_route!($handler),)*)*
            };
            if $context.has_audit_entry() {
                Box::pin(audit::end($context, &answer)).await;
            }
            answer
        }
    };
}

route_table!(handlers);
