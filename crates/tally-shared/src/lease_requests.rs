//! Sends the requests of borrowers to the limiters that lend.

use futures_util::future::LocalBoxFuture;

use super::{call, call_within};
use tally_core::counter::id::{CounterId, Datacenter};
use tally_core::limit::borrowers::DueRequest;
use tally_core::limit::lease::LeaseAnswer;
use tally_host::Host;
use tally_wire::messages::{Fault, LeaseReport};
use tally_wire::names::policy::PolicyName;

/// Sends a borrower's request to the limiter of a datacenter, or to the global one.
///
/// # Errors
/// The limiter's, or `Unavailable`.
pub fn lend<'a>(
    host: &'a Host,
    datacenter: Option<&'a Datacenter>,
    due_request: &'a DueRequest,
    milliseconds: u64,
) -> LocalBoxFuture<'a, Result<LeaseAnswer, Fault>> {
    Box::pin(async move {
        let broken = || Fault::Broken("a lease of no valid name or key".to_owned());
        let name = PolicyName::try_from(due_request.name.clone()).map_err(|_| broken())?;
        let key = CounterId::parse(&due_request.key).map_err(|_| broken())?;
        let lease = LeaseReport {
            to: call::limiter_of(host, datacenter, &name, &key),
            name,
            policy: due_request.policy.clone(),
            key,
            request: due_request.request.clone(),
            forwarded: None,
            owner: due_request.owner,
        };
        call_within(host, &lease, milliseconds).await
    })
}
