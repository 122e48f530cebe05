//! Who makes a request: the holder of a share, or of a key that a call has made.

use super::{api_keys, shares};
use crate::kit::request_context::RequestContext;
use tally_wire::problem::Problem;

/// Identifies the caller, if that takes more than the configuration.
///
/// # Errors
/// As [`shares::identify`] and [`api_keys::identify`].
pub(crate) async fn identify(context: &RequestContext, authorization: &str) -> Result<(), Problem> {
    if shares::identify(context, authorization).await? {
        return Ok(());
    }
    api_keys::identify(context, authorization).await
}
