//! The sender of idempotency keys.
//!
//! Invariant: only a [`Caller`](super::caller::Caller) makes one. So no key is named without the kind and the identity
//! of its sender, and no caller reaches the keys of another.

use tally_core::sha256;

use tally_wire::rights::KeyId;

/// Who sends an idempotency key: its kind, and its identity within the kind. It is a part of the name of the key, which
/// is stored.
///
/// | caller | identity |
/// |---|---|
/// | everybody, where the deployment is open | none: all are one sender |
/// | a key made by a call | its id, which stays when its secret is rotated |
/// | a configured key | the name of its entry; for an entry without a name a hash of the key |
/// | the public | none: a visitor that changes its address repeats a write under the same key |
/// | a share | none: it cannot write |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sender {
    kind: u8,
    identity: [u8; IDENTITY_BYTES],
}

/// 128 bits: two names do not collide by chance.
const IDENTITY_BYTES: usize = 16;

impl Sender {
    pub(super) const ANYONE: Self = Self::without_identity(0);
    pub(super) const PUBLIC: Self = Self::without_identity(1);
    pub(super) const SHARE: Self = Self::without_identity(2);

    const fn without_identity(kind: u8) -> Self {
        Self {
            kind,
            identity: [0; IDENTITY_BYTES],
        }
    }

    pub(super) fn of_made_key(id: KeyId) -> Self {
        let mut identity = [0; IDENTITY_BYTES];
        identity[..8].copy_from_slice(&id.0.to_le_bytes());
        Self { kind: 3, identity }
    }

    /// A configured key by the name of its entry.
    pub(super) fn of_name(name: &str) -> Self {
        Self::hashed(4, b"tally/sender/name/", name)
    }

    /// A configured key whose entry has no name.
    pub(super) fn of_nameless_key(key: &str) -> Self {
        Self::hashed(5, b"tally/sender/key/", key)
    }

    fn hashed(kind: u8, purpose: &[u8], text: &str) -> Self {
        let digest = sha256::digest(&[purpose, text.as_bytes()].concat());
        let mut identity = [0; IDENTITY_BYTES];
        identity.copy_from_slice(&digest[..IDENTITY_BYTES]);
        Self { kind, identity }
    }

    /// Its stored form.
    pub fn to_bytes(self) -> [u8; 1 + IDENTITY_BYTES] {
        let mut bytes = [self.kind; 1 + IDENTITY_BYTES];
        bytes[1..].copy_from_slice(&self.identity);
        bytes
    }
}
