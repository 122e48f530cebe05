//! The mark of structs that have their length before them.

/// The end of the serialized name of a struct whose length precedes it: `#[serde(rename = "Summary+")]`.
pub const COUNTED: char = '+';
