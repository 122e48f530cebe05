//! The dense form: for each of 16,384 registers the highest rank seen.
//!
//! Invariant: every register is at most 51, and registers only grow. Those of a [`super::Sketch`] are
//! never all 0; those of a [`super::Hll`] may be.
//!
//! In memory a register takes a byte. So merging is a plain maximum over bytes, which vector instructions compute for
//! sixteen at a time. At rest a register takes 6 bits.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::token::{PRECISION, RANK_MAX, Token};
use super::vectors;

/// Registers of a sketch: 2^14.
pub(super) const REGISTERS: usize = 1 << PRECISION;

#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
const _: () = assert!(
    REGISTERS.is_multiple_of(vectors::STEP * vectors::REGISTERS_OF_VECTOR),
    "no step is left out"
);

/// Ranks a register can have: 0 for "nothing seen", then 1 to 51.
pub(super) const RANKS: usize = 52;
const _: () = assert!(RANK_MAX == 51, "unpacking refuses what is above 51");

/// Bytes of all registers at rest: 16,384 · 6 / 8 = 12,288.
pub(super) const PACKED_BYTES: usize = REGISTERS / 4 * 3;

/// 16,384 registers.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Registers(Box<[u8; REGISTERS]>);

impl Registers {
    /// The registers of no elements: all 0.
    pub(super) fn blank() -> Self {
        Self(Box::new([0; REGISTERS]))
    }

    /// True if all registers are 0.
    pub(super) fn is_blank(&self) -> bool {
        self.0.iter().all(|rank| *rank == 0)
    }

    /// The registers of `first` and `tokens`: of at least one token, so that one is above 0.
    pub(super) fn of(first: Token, tokens: &[Token]) -> Self {
        let mut registers = Self::blank();
        registers.insert(first);
        registers.insert_all(tokens);
        registers
    }

    /// The registers of these ranks (each 1 to 51) and tokens; `None` where there are no ranks.
    pub(super) fn of_ranks(ranks: &[(u16, u8)], tokens: &[Token]) -> Option<Self> {
        let mut registers = Self::blank();
        registers.insert_all(tokens);
        for (register, rank) in ranks {
            registers.raise(*register, *rank);
        }
        (!ranks.is_empty()).then_some(registers)
    }

    /// The rank of each register in turn.
    pub(super) fn ranks(&self) -> &[u8; REGISTERS] {
        &self.0
    }

    /// The rank of a register; `None` where there is no such register.
    pub(super) fn rank(&self, register: u16) -> Option<u8> {
        self.0.get(usize::from(register)).copied()
    }

    /// True if a register grew.
    #[inline(always)]
    pub(super) fn insert(&mut self, token: Token) -> bool {
        self.raise(token.register(), token.rank())
    }

    /// True if the register grew to this rank, which must be at most 51.
    #[inline(always)]
    pub(super) fn raise(&mut self, register: u16, rank: u8) -> bool {
        // A register's number has 14 bits, so it is always there.
        let Some(held) = self.0.get_mut(usize::from(register)) else {
            return false;
        };
        let grows = rank > *held;
        if grows {
            *held = rank;
        }
        grows
    }

    /// True if a register grew.
    pub(super) fn insert_all(&mut self, tokens: &[Token]) -> bool {
        // `|`, not `||`: every token has its effect.
        tokens
            .iter()
            .fold(false, |grown, token| self.insert(*token) | grown)
    }

    /// True if a register grew.
    pub(super) fn merge(&mut self, other: &Self) -> bool {
        let (mine, _) = self.0.as_chunks_mut();
        let (theirs, _) = other.0.as_chunks();
        vectors::raise_all(mine, theirs)
    }

    /// How many registers have each rank; all together 16,384.
    pub(super) fn histogram(&self) -> [u32; RANKS] {
        let mut counts = [0; RANKS];
        for register in self.0.iter() {
            if let Some(count) = counts.get_mut(usize::from(*register)) {
                *count += 1;
            }
        }
        counts
    }

    /// Appends 12,288 bytes: eight registers in six bytes, least significant bit first.
    pub(super) fn pack_into(&self, bytes: &mut Vec<u8>) {
        let mut packed = [0; PACKED_BYTES];
        let (sixes, _) = packed.as_chunks_mut();
        let (groups, _) = self.0.as_chunks();
        for (six, group) in sixes.iter_mut().zip(groups) {
            *six = vectors::pack(*group);
        }
        bytes.extend_from_slice(&packed);
    }

    /// The registers that [`Self::pack_into`] wrote; `None` where one of them is above 51.
    pub(super) fn unpack(bytes: &[u8; PACKED_BYTES]) -> Option<Self> {
        let mut registers = Self::blank();
        let (groups, _) = registers.0.as_chunks_mut();
        let (packed, _) = bytes.as_chunks();
        let mut is_too_high = false;
        for (group, six) in groups.iter_mut().zip(packed) {
            *group = vectors::unpack(*six);
            is_too_high |= vectors::is_too_high(*group);
        }
        (!is_too_high).then_some(registers)
    }
}
