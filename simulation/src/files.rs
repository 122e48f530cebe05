//! The files that a build serves, as they stand in the repository.

use std::path::Path;

use tally_host::File;

/// Where they are, from this crate: the name that is asked for, and the folder or file.
const PLACES: [(&str, &str); 3] = [
    ("openapi.json", "crates/tally-api/openapi.json"),
    ("tally.js", "crates/tally-edge/tally.js"),
    ("dashboard/", "dashboard/"),
];

/// A file by its name.
pub fn find(name: &str) -> Option<File> {
    let is_plain = name
        .chars()
        .all(|letter| letter.is_ascii_alphanumeric() || "./-_".contains(letter));
    if !is_plain || name.contains("..") {
        return None;
    }
    let (known, place) = PLACES.iter().find(|(known, _)| name.starts_with(known))?;
    let rest = name.strip_prefix(known)?;
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent()?;
    let text = std::fs::read_to_string(root.join(format!("{place}{rest}"))).ok()?;
    let etag = format!("\"{:016x}\"", crate::core::digest(0, text.as_bytes()));
    Some(File { text, etag })
}
