//! The string that Redis keeps a HyperLogLog in, "HYLL".
//!
//! Invariant: [`Hll::to_bytes`] depends on the registers and on whether something dense was read, and
//! [`Hll::from_bytes`] reads from it the same registers.
//!
//! | bytes | hold |
//! |---|---|
//! | 0..4 | `HYLL` |
//! | 4 | encoding: 0 dense, 1 sparse |
//! | 5..8 | 0, not looked at |
//! | 8..16 | a count that Redis has cached, little-endian; its highest bit says that it is stale |
//! | 16.. dense | 12,288 bytes: 16,384 registers of 6 bits, least significant bit first |
//! | 16.. sparse | opcodes, which cover 16,384 registers in turn |
//!
//! | opcode | covers |
//! |---|---|
//! | `00xxxxxx` | x + 1 registers of 0 |
//! | `01xxxxxx yyyyyyyy` | xy + 1 registers of 0 |
//! | `1vvvvvxx` | x + 1 registers of v + 1 |
//!
//! A count that is read with a string is not used. A string that is written says that its count is stale, so that Redis
//! computes it.
//!
//! The bytes that are written are exactly those that `PFMERGE` of Redis 7 leaves in a new key: it sets the registers in
//! ascending order. `PFADD` sets them in the order of the elements, and leaves the same bytes except in two cases. A
//! run of more than four equal registers may be cut into opcodes in other places. Within a few bytes of the sparse
//! limit, one string may be dense where the other is sparse, because the longest intermediate string decides (4 of 300
//! sets of elements near the limit). Redis reads either string to the same count.

use super::Hll;
use crate::registers::{PACKED_BYTES, REGISTERS, Registers};
use alloc::vec::Vec;
use core::fmt;

const MAGIC: &[u8; 4] = b"HYLL";
const ENCODING_DENSE: u8 = 0;
const ENCODING_SPARSE: u8 = 1;

/// Magic, encoding, three reserved bytes, cached count.
const HEADER_BYTES: usize = 16;

/// A cached count of 0 with its highest bit set: stale.
const STALE: [u8; 8] = [0, 0, 0, 0, 0, 0, 0, 0x80];

/// The longest sparse string, with its header: Redis's `hll-sparse-max-bytes` unless configured.
const SPARSE_BYTES_MAX: usize = 3_000;

/// The highest rank of an opcode: 5 bits, and one more.
const SPARSE_RANK_MAX: u8 = 32;

/// The first bit, or two bits, of opcodes.
const VALUE: u8 = 0b1000_0000;
const LONG_ZEROS: u8 = 0b0100_0000;

/// The most registers that a short opcode of zeros covers: 6 bits, and one more.
const SHORT_ZEROS_MAX: u16 = 64;

/// The most registers that an opcode of a value covers: 2 bits, and one more.
const RUN_MAX: u8 = 4;

/// [`REGISTERS`], which is 2^14, in the width of lengths of runs.
const ALL: u16 = 16_384;
const _: () = assert!(REGISTERS == 16_384);

impl Hll {
    /// Returns the string for Redis: sparse, 18 to 3,000 bytes; or dense, 12,304 bytes, where a rank is
    /// above 32, the sparse string would be longer, or something dense was read or merged.
    pub fn to_bytes(&self) -> Vec<u8> {
        let sparse = if self.is_dense {
            None
        } else {
            sparse(&self.registers)
        };
        sparse.unwrap_or_else(|| {
            let mut bytes = header(ENCODING_DENSE, HEADER_BYTES + PACKED_BYTES);
            self.registers.pack_into(&mut bytes);
            bytes
        })
    }

    /// Returns the registers of a string that Redis, or [`Hll::to_bytes`], has written. Opcodes may be
    /// cut in any way that covers all registers. Cost: a pass over the bytes, and never more than
    /// 16,384 bytes of memory.
    ///
    /// # Errors
    /// If it is not such a string. The sender must send another.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, HllError> {
        let magic = bytes.first_chunk();
        if magic != Some(MAGIC) {
            return Err(HllError(Kind::Magic));
        }
        let Some((header, body)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
            return Err(HllError(Kind::Header(bytes.len())));
        };
        match header[MAGIC.len()] {
            ENCODING_DENSE => {
                let length = HllError(Kind::Length(bytes.len()));
                let packed = body.try_into().map_err(|_| length)?;
                let registers = Registers::unpack(packed).ok_or(HllError(Kind::Rank))?;
                Ok(Self {
                    registers,
                    is_dense: true,
                })
            }
            ENCODING_SPARSE => Ok(Self {
                registers: read_sparse(body)?,
                is_dense: false,
            }),
            encoding => Err(HllError(Kind::Encoding(encoding))),
        }
    }
}

fn header(encoding: u8, capacity: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(capacity);
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&[encoding, 0, 0, 0]);
    bytes.extend_from_slice(&STALE);
    bytes
}

/// The sparse string as Redis builds it by setting registers in ascending order; `None` if Redis would switch to the
/// dense form.
fn sparse(registers: &Registers) -> Option<Vec<u8>> {
    let mut bytes = header(ENCODING_SPARSE, SPARSE_BYTES_MAX);
    // The opcodes so far cover the registers below `next`; all others are zeros at the end.
    let mut next = 0;
    let mut run = Run::default();
    for (register, rank) in (0_u16..).zip(registers.ranks()) {
        if *rank == 0 {
            continue;
        }
        if *rank > SPARSE_RANK_MAX {
            return None;
        }
        let (before, after) = (register - next, ALL - 1 - register);
        // Redis looks at the length before it joins the new opcode with the one to its left.
        let opcodes = zeros(before).len() + 1 + zeros(after).len();
        let grows = opcodes > zeros(ALL - next).len();
        if grows && bytes.len() + opcodes > SPARSE_BYTES_MAX {
            return None;
        }
        bytes.extend_from_slice(zeros(before).bytes());
        if before == 0 && run.rank == *rank && run.length < RUN_MAX {
            bytes.pop();
            run.length += 1;
        } else {
            run = Run {
                rank: *rank,
                length: 1,
            };
        }
        bytes.push(VALUE | ((run.rank - 1) << 2) | (run.length - 1));
        next = register + 1;
    }
    bytes.extend_from_slice(zeros(ALL - next).bytes());
    Some(bytes)
}

/// The registers of the last opcode, where it is one of a value.
#[derive(Default)]
struct Run {
    rank: u8,
    length: u8,
}

/// The opcode of a run of zeros, at most 2 bytes.
enum Zeros {
    None,
    Short([u8; 1]),
    Long([u8; 2]),
}

impl Zeros {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::None => &[],
            Self::Short(bytes) => bytes,
            Self::Long(bytes) => bytes,
        }
    }

    fn len(&self) -> usize {
        self.bytes().len()
    }
}

fn zeros(registers: u16) -> Zeros {
    let Some(less_one) = registers.checked_sub(1) else {
        return Zeros::None;
    };
    let [high, low] = less_one.to_be_bytes();
    if registers > SHORT_ZEROS_MAX {
        Zeros::Long([LONG_ZEROS | high, low])
    } else {
        Zeros::Short([low])
    }
}

fn read_sparse(mut opcodes: &[u8]) -> Result<Registers, HllError> {
    let mut registers = Registers::blank();
    let mut next: u16 = 0;
    while let Some((first, rest)) = opcodes.split_first() {
        opcodes = rest;
        let mut rank = 0;
        let less_one = if first & VALUE != 0 {
            rank = ((first & !VALUE) >> 2) + 1;
            u16::from(first & (RUN_MAX - 1))
        } else if first & LONG_ZEROS != 0 {
            let Some((second, rest)) = opcodes.split_first() else {
                return Err(HllError(Kind::Cut));
            };
            opcodes = rest;
            u16::from_be_bytes([first & !LONG_ZEROS, *second])
        } else {
            u16::from(*first)
        };
        // Both are at most 16,384: the sum fits.
        let end = next + less_one + 1;
        if end > ALL {
            return Err(HllError(Kind::Beyond));
        }
        if rank > 0 {
            for register in next..end {
                registers.raise(register, rank);
            }
        }
        next = end;
    }
    if next < ALL {
        return Err(HllError(Kind::Short(next)));
    }
    Ok(registers)
}

/// Why a string is not a HyperLogLog of Redis. The sender is at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HllError(Kind);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Magic,
    Header(usize),
    Encoding(u8),
    Length(usize),
    Rank,
    Cut,
    Beyond,
    Short(u16),
}

impl core::error::Error for HllError {}

impl fmt::Display for HllError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Kind::Magic => formatter.write_str("the string does not begin with HYLL"),
            Kind::Header(bytes) => {
                write!(
                    formatter,
                    "the string ends after {bytes} bytes, within its header of {HEADER_BYTES}"
                )
            }
            Kind::Encoding(encoding) => {
                write!(
                    formatter,
                    "encoding {encoding} is unknown; 0 is dense, 1 sparse"
                )
            }
            Kind::Length(bytes) => write!(
                formatter,
                "a dense string has {} bytes, this one {bytes}",
                HEADER_BYTES + PACKED_BYTES
            ),
            Kind::Rank => formatter.write_str("a register is above 51"),
            Kind::Cut => formatter.write_str("the string ends within an opcode"),
            Kind::Beyond => write!(formatter, "the opcodes cover more than {ALL} registers"),
            Kind::Short(covered) => {
                write!(formatter, "the opcodes cover {covered} of {ALL} registers")
            }
        }
    }
}
