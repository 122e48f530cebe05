//! Whether the storage of a partition works: what it says of itself, and what is written to show it.

use super::super::values::DeploymentValues;
use crate::kit::store::Store;
use tally_host::Host;
use tally_shared::unreadable;
use tally_wire::health::Ailment;
use tally_wire::messages::Fault;

/// The row and the file that are written to show that storage takes writes.
const PROOF: &str = "proof";

/// The length of that file: a block of most file systems.
const PROOF_BYTES: usize = 4_096;

/// Writes a row here, and a file where the deployment has a place for files: a database that has room of its own
/// takes rows also on a disk that is full.
pub(super) async fn write_proof(host: &Host, store: &Store) -> Result<(), Fault> {
    let now_ms = host.now_ms();
    DeploymentValues::new(store).put(PROOF, now_ms.to_le_bytes().to_vec())?;
    match host.platform().files() {
        Some(files) => {
            let written = files.put(PROOF, vec![0; PROOF_BYTES]).await;
            written.map_err(Fault::Unavailable)
        }
        None => Ok(()),
    }
}

/// A fault that only the operator can mend, if any.
pub(super) fn ailment(host: &Host, readable: Result<(), Fault>) -> Option<Ailment> {
    let why = match readable {
        Ok(()) => {
            return match host.check_settings() {
                Ok(()) => unreadable::ailment(host),
                Err(wrong) => Some(Ailment::NotConfigured(wrong.detail().to_owned())),
            };
        }
        Err(Fault::Unavailable(why) | Fault::Broken(why) | Fault::Unreadable(why)) => why,
        Err(fault) => fault.to_string(),
    };
    Some(Ailment::Unreadable(why))
}
