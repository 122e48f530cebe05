//! How many tablets the leads of this data lie in. It cannot change yet: a lead would be looked for where it is not.
//!
//! Invariant: a partition answers nothing where the setting is not what its data was written with, so no counter begins anew beside
//! what it has counted.

use super::deployment_values::DeploymentValues;
use super::root_store::RootStore;
use crate::protocol::messages::{Fault, decode, encode};
use crate::protocol::names::TABLET_COUNT;

/// Name of the row of the deployment that says it. Data without it has none.
const NAME: &str = "tablets";

/// Refuses a setting that is not that of the data; notes it where there is no data yet.
///
/// # Errors
/// `Broken` saying what the setting must be; `Unavailable` where SQLite refuses.
pub(super) fn check_tablets(
    set: Option<u32>,
    values: &DeploymentValues,
    roots: &RootStore,
) -> Result<(), Fault> {
    let written: Option<u32> = match values.get(NAME)? {
        Some(body) => Some(decode(&body)?),
        None if roots.is_empty()? => {
            return match set {
                Some(tablets) => values.put(NAME, encode(&tablets)?),
                None => Ok(()),
            };
        }
        None => None,
    };
    if written == set {
        return Ok(());
    }
    let is = set.map_or_else(|| "not set".to_owned(), |tablets| tablets.to_string());
    Err(Fault::Broken(match written {
        Some(written) => format!(
            "{TABLET_COUNT} is {is}, but the counters of this data lie in {written} tablets: set it to {written} on both Workers"
        ),
        None => format!(
            "{TABLET_COUNT} is {is}, but each counter of this data has an object of its own: leave it out on both Workers"
        ),
    }))
}
