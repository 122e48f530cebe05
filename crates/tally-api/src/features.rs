//! The features of Cargo.toml that this build has.
//!
//! Invariant: a call of a missing feature is unknown, and a body that uses it is refused with its name; nothing of it
//! is counted.

use tally_wire::problem::{Code, Problem};

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

/// The refusal of a field whose feature is not in this build.
pub fn left_out(feature: &str) -> Problem {
    let detail = format!(
        "this build was made without {feature}: leave it out, or deploy a build that has it"
    );
    Problem::new(Code::InvalidBody, detail)
}

/// Names the features that are not in this build, for a refusal of an unknown call; empty where all are there.
pub fn all_left_out() -> String {
    let left_out = FEATURES.iter().filter(|(_, is_built)| !is_built);
    let names: Vec<&str> = left_out.map(|(name, _)| *name).collect();
    if names.is_empty() {
        return String::new();
    }
    format!("; this build was made without {}", names.join(", "))
}
