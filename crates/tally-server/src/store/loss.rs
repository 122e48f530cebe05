//! What an operator accepts as lost, by `--accept-loss`.

use std::path::Path;

use super::database::is_there;
use super::registry::{DatabaseEntry, Registry};

/// How many objects are read from the registry at once.
const PAGE: u32 = 1_000;

/// Forgets databases that are missing or empty, and logs that are missing or damaged. Returns a sentence for each.
///
/// # Errors
/// If the registry cannot be read, or written.
pub(crate) fn accept(registry: &Registry, objects: &Path) -> Result<Vec<String>, String> {
    let mut accepted = Vec::new();
    let mut last = String::new();
    loop {
        let page = registry.after(&last, PAGE)?;
        let Some(end) = page.last() else {
            return Ok(accepted);
        };
        last.clone_from(&end.id);
        for known in &page {
            let file = objects
                .join(&known.folder)
                .join(format!("{}.sqlite", known.id));
            let id = known.id.as_str();
            let lost = match registry.entry(id)? {
                _ if is_there(&file, DatabaseEntry::Closed).is_err() => {
                    registry.forget(id)?;
                    "the counts of"
                }
                entry if is_there(&file, entry).is_err() => {
                    registry.note([(id, known.folder.as_str())], false)?;
                    "the last counts of"
                }
                _ => continue,
            };
            accepted.push(format!("{lost} {} are accepted as lost", file.display()));
        }
    }
}
