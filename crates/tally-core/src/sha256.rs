//! SHA-256, and HMAC by it. Source of HMAC: RFC 2104; the tests hold both against their vectors.

use sha2::{Digest, Sha256};

/// Bytes of a digest.
pub const DIGEST_BYTES: usize = 32;

/// Bytes that are hashed at once.
const BLOCK_BYTES: usize = 64;

/// What HMAC's two keys are the secret with.
const INNER: u8 = 0x36;
const OUTER: u8 = 0x5c;

/// The digest of bytes.
pub fn digest(bytes: &[u8]) -> [u8; DIGEST_BYTES] {
    Sha256::digest(bytes).into()
}

/// HMAC-SHA256 of a message under a secret of any length.
pub fn hmac(secret: &[u8], message: &[u8]) -> [u8; DIGEST_BYTES] {
    let hashed = digest(secret);
    let short = match secret.len() > BLOCK_BYTES {
        true => &hashed,
        false => secret,
    };
    let mut key = [0; BLOCK_BYTES];
    key[..short.len()].copy_from_slice(short);
    let keyed = |pad: u8| Sha256::new_with_prefix(key.map(|byte| byte ^ pad));
    let inner = keyed(INNER).chain_update(message).finalize();
    keyed(OUTER).chain_update(inner).finalize().into()
}

/// Bytes as lower-case hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
