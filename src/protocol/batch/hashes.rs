//! The two hashes of a batch: of elements, whose key may be rotated, and of names, whose key may not.

/// What a batch is hashed with.
pub trait Hashes {
    /// Returns the hash of an element.
    fn element(&self, bytes: &[u8]) -> u64;

    /// Returns the hash of an idempotency key, or of what it stands for. Its key outlives that of elements.
    fn name(&self, bytes: &[u8]) -> u64;
}

/// One hash for both.
impl<F: Fn(&[u8]) -> u64> Hashes for F {
    fn element(&self, bytes: &[u8]) -> u64 {
        self(bytes)
    }

    fn name(&self, bytes: &[u8]) -> u64 {
        self(bytes)
    }
}
