//! What this build has and has not: the features of Cargo.toml.
//!
//! Invariant: a call of a feature that was left out is unknown, and what names it in a body is refused by name; nothing of it is counted.

use super::problem::{Code, Problem};

/// Features by name, and whether this build has them.
pub const FEATURES: [(&str, bool); 9] = [
    ("boards", cfg!(feature = "boards")),
    ("exports", cfg!(feature = "exports")),
    ("ingest", cfg!(feature = "ingest")),
    ("limits", cfg!(feature = "limits")),
    ("live", cfg!(feature = "live")),
    ("pages", cfg!(feature = "pages")),
    ("queue", cfg!(feature = "queue")),
    ("redis", cfg!(feature = "redis")),
    ("samples", cfg!(feature = "samples")),
];

/// Why a field is refused whose feature was left out of this build.
pub fn left_out(feature: &str) -> Problem {
    let detail = format!(
        "this build was made without {feature}: leave it out, or deploy a build that has it"
    );
    Problem::new(Code::InvalidBody, detail)
}

/// Names what was left out of this build, for who looks for a call; nothing where all is there.
pub fn all_left_out() -> String {
    let left_out = FEATURES.iter().filter(|(_, is_built)| !is_built);
    let names: Vec<&str> = left_out.map(|(name, _)| *name).collect();
    if names.is_empty() {
        return String::new();
    }
    format!("; this build was made without {}", names.join(", "))
}
