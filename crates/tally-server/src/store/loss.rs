//! What an operator accepts as lost, by `--accept-loss`.

use std::path::Path;

use super::files::{has_content, is_there};
use super::registry::Registry;

/// How many objects are read from the registry at once.
const PAGE: u32 = 1_000;

/// Forgets databases that are missing or empty, and logs that are missing or damaged. A database with content stays
/// known, whatever is wrong with it: an operator moves it away first. Returns a sentence for each.
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
            let entry = registry.entry(id)?;
            let lost = match has_content(&file, entry) {
                Ok(false) => {
                    registry.forget(id)?;
                    "the counts of"
                }
                Ok(true) if is_there(&file, entry).is_err() => {
                    registry.note([(id, known.folder.as_str())], false)?;
                    "the last counts of"
                }
                Ok(true) => continue,
                Err(why) => {
                    accepted.push(format!(
                        "{} is not accepted as lost, since it has content: {why}",
                        file.display()
                    ));
                    continue;
                }
            };
            accepted.push(format!("{lost} {} are accepted as lost", file.display()));
        }
    }
}
