//! Stored bodies: the bytes of a column, with the version of their form and a checksum.
//!
//! Invariant: bytes are read only if the version of their form is known, and a changed bit never yields another value:
//! [`StoredBody::read`] refuses it.
//!
//! | bytes | hold |
//! |---|---|
//! | 0 | the version, with its highest bit set |
//! | 1 | 0 |
//! | 2 to 5 | XXH32 of the body, seeded by the version, little-endian |
//! | 6.. | the body |

/// The first version of a form. A kind of body whose form has never changed has this version.
pub const FIRST: u8 = 1;

/// The schema of the objects of this build. It rises with a release that changes a table, or the meaning of a row, so
/// that earlier builds would misread it.
pub const SCHEMA_VERSION: i64 = 6;

/// The first schema that builds read: that of 0.2.0.
const SCHEMA_VERSION_MIN: i64 = 6;

/// Why an object with these schemas, the first and the last that it has had, cannot be read; `None` where it can.
pub fn schema_fault(first: i64, last: i64) -> Option<String> {
    if last > SCHEMA_VERSION {
        return Some(format!(
            "the stored schema has version {last}, this build knows up to {SCHEMA_VERSION}: deploy a newer build"
        ));
    }
    (first < SCHEMA_VERSION_MIN).then(|| {
        format!(
            "the stored schema has version {first}, this build reads from {SCHEMA_VERSION_MIN} on: delete the data, or go back to the build that wrote it"
        )
    })
}

/// Bytes before a body.
pub const FRAME_BYTES: usize = 6;

const VERSION_BIT: u8 = 0x80;

/// Why bytes cannot be read as a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// They are not the bytes that were written.
    #[error("a stored body is damaged")]
    Changed,
    /// A newer build wrote them, in the first version; this build reads up to the second.
    #[error("a stored body has version {0}, this build knows up to {1}: deploy a newer build")]
    Newer(u8, u8),
}

/// A body that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredBody<'a> {
    /// The version of its form.
    pub version: u8,
    /// The body.
    pub bytes: &'a [u8],
}

/// An empty frame; [`finish`] fills it once the body follows it.
pub fn begin() -> Vec<u8> {
    vec![0; FRAME_BYTES]
}

/// Fills the frame that [`begin`] made before a body.
pub fn finish(mut framed: Vec<u8>, version: u8) -> Vec<u8> {
    if let Some((frame, body)) = framed.split_at_mut_checked(FRAME_BYTES) {
        frame.copy_from_slice(&frame_of(version, body));
    }
    framed
}

/// A body in its frame.
pub fn framed(body: &[u8], version: u8) -> Vec<u8> {
    let mut framed = Vec::with_capacity(FRAME_BYTES + body.len());
    framed.extend_from_slice(&frame_of(version, body));
    framed.extend_from_slice(body);
    framed
}

fn frame_of(version: u8, body: &[u8]) -> [u8; FRAME_BYTES] {
    let [a, b, c, d] = checksum(version.into(), body).to_le_bytes();
    [VERSION_BIT | version, 0, a, b, c, d]
}

impl<'a> StoredBody<'a> {
    /// Reads a body whose form has at most the version `newest`.
    ///
    /// # Errors
    /// The damage of the bytes.
    pub fn read(bytes: &'a [u8], newest: u8) -> Result<Self, Damage> {
        let (frame, body) = bytes
            .split_first_chunk::<FRAME_BYTES>()
            .ok_or(Damage::Changed)?;
        let version = frame[0] & !VERSION_BIT;
        if *frame != frame_of(version, body) || version < FIRST {
            return Err(Damage::Changed);
        }
        match version > newest {
            true => Err(Damage::Newer(version, newest)),
            false => Ok(Self {
                version,
                bytes: body,
            }),
        }
    }
}

/// The beginning of a body whose end was not read: it is not checked.
pub fn beginning(bytes: &[u8]) -> &[u8] {
    bytes.get(FRAME_BYTES..).unwrap_or_default()
}

const PRIMES: [u32; 5] = [
    2_654_435_761,
    2_246_822_519,
    3_266_489_917,
    668_265_263,
    374_761_393,
];

const LANE_BYTES: usize = 4;
const STRIPE_BYTES: usize = 4 * LANE_BYTES;

/// XXH32. A change within four bytes always changes it.
///
/// **Source:** Y. Collet, "xxHash fast digest algorithm", 0.1.1, section "XXH32 algorithm description".
pub fn checksum(seed: u32, bytes: &[u8]) -> u32 {
    let [one, two, three, four, five] = PRIMES;
    let word = |bytes: &[u8]| bytes.try_into().map_or(0, u32::from_le_bytes);
    let mut hash = if bytes.len() >= STRIPE_BYTES {
        let mut lanes = [
            seed.wrapping_add(one).wrapping_add(two),
            seed.wrapping_add(two),
            seed,
            seed.wrapping_sub(one),
        ];
        for stripe in bytes.chunks_exact(STRIPE_BYTES) {
            for (lane, bytes) in lanes.iter_mut().zip(stripe.chunks_exact(LANE_BYTES)) {
                let mixed = lane.wrapping_add(word(bytes).wrapping_mul(two));
                *lane = mixed.rotate_left(13).wrapping_mul(one);
            }
        }
        let turned = lanes
            .iter()
            .zip([1, 7, 12, 18])
            .map(|(lane, by)| lane.rotate_left(by));
        turned.fold(0, u32::wrapping_add)
    } else {
        seed.wrapping_add(five)
    };
    // The length counts modulo 2^32.
    hash = hash.wrapping_add(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
    let words = bytes
        .chunks_exact(STRIPE_BYTES)
        .remainder()
        .chunks_exact(LANE_BYTES);
    let rest = words.remainder();
    for bytes in words {
        let mixed = hash.wrapping_add(word(bytes).wrapping_mul(three));
        hash = mixed.rotate_left(17).wrapping_mul(four);
    }
    for byte in rest {
        let mixed = hash.wrapping_add(u32::from(*byte).wrapping_mul(five));
        hash = mixed.rotate_left(11).wrapping_mul(one);
    }
    hash = (hash ^ (hash >> 15)).wrapping_mul(two);
    hash = (hash ^ (hash >> 13)).wrapping_mul(three);
    hash ^ (hash >> 16)
}
