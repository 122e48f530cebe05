//! How a table is stored.

/// The largest body of a row; the platform's rows are 2 MB at most.
pub const BODY_BYTES_MAX: usize = 1_000_000;

/// A stored row that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken;
