//! Sends the requests of borrowers to the limiters that lend.

use super::{call, call_within};
use crate::core::counter::id::{CounterId, Datacenter};
use crate::core::limit::borrowers::DueRequest;
use crate::core::limit::lease::LeaseAnswer;
use crate::host::Host;
use crate::protocol::limits::PolicyName;
use crate::protocol::messages::{Fault, LeaseReport};

/// Sends a borrower's request to the limiter of a datacenter, or to the global one.
///
/// # Errors
/// The limiter's, or `Unavailable`.
pub async fn lend(
    host: &Host,
    datacenter: Option<&Datacenter>,
    due_request: &DueRequest,
    milliseconds: u64,
) -> Result<LeaseAnswer, Fault> {
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
}
