//! What one sketch has that another lacks, in few bytes: 4 for a new token of a sparse sketch, about 2.5 or less for a
//! changed register of a dense one.
//!
//! Invariant: packed bytes are state, not an operation. To add them is to merge a sketch that saw a part of what the
//! sender saw. So lost, repeated and reordered bytes do no harm, and only the sender must know what is still missing.
//!
//! A sketch is made of *items*: tokens while it is sparse, registers once it is dense. An item is
//! named by 32 bits: the token's own, or the register's number. Names live as long as the form.
//!
//! If nobody knows what is missing, digests find it. The registers are divided into 64 blocks of 256. The digest of a
//! block is the exclusive or of a mixed 64-bit word for each item in it. Two blocks that differ have the same digest
//! with probability 2^-64, because nobody who lacks the key of the hash can choose items. 64 digests take 512 bytes, a
//! twenty-fourth of all registers.

use alloc::vec;
use alloc::vec::Vec;

use super::hyperloglog::{Form, Sketch};
use super::registers::Registers;
use super::rice;
use super::token::{RANK_MAX, Token};

/// Blocks of registers that have a digest each.
pub const BLOCKS: usize = 64;

/// Registers of a block, as bits of their number: 2^14 / 64 = 2^8.
const BLOCK_BITS: u32 = 8;

/// Bits of a rank, which is at most 51.
const RANK_BITS: u32 = 6;

/// The first byte of packed items: it says whether they are tokens or registers.
const TOKENS: u8 = 0;
const REGISTERS: u8 = 1;

/// A digest of each block of a sketch, [`BLOCKS`] of them.
pub type Digests = Vec<[u8; 8]>;

/// What a merge has changed in a sketch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NewItems {
    /// These items are new or larger, ascending; none if the sketch had all of them.
    Items(Vec<u32>),
    /// The sketch has become dense, so its items have other names now.
    Form,
}

impl Sketch {
    /// Returns the names of all items, ascending: at most 3,072 tokens or 16,384 registers.
    pub fn items(&self) -> Vec<u32> {
        match &self.0 {
            Form::Sparse(tokens) => tokens.iter().map(|token| token.bits()).collect(),
            Form::Dense(registers) => {
                let ranks = (0_u32..).zip(registers.ranks());
                let seen = ranks.filter(|(_, rank)| **rank > 0);
                seen.map(|(register, _)| register).collect()
            }
        }
    }

    /// Adds all that `other` saw, and returns what was new. Cost: as [`Sketch::merge`].
    pub fn merge_new(&mut self, other: &Sketch) -> NewItems {
        match (&mut self.0, &other.0) {
            (Form::Dense(mine), Form::Dense(theirs)) => {
                let ranks = (0_u16..).zip(theirs.ranks());
                let grown = ranks.filter(|(register, rank)| mine.raise(*register, **rank));
                NewItems::Items(grown.map(|(register, _)| register.into()).collect())
            }
            (_, Form::Sparse(tokens)) => self.merge_tokens(tokens),
            (Form::Sparse(_), Form::Dense(_)) => {
                self.merge(other);
                NewItems::Form
            }
        }
    }

    /// Returns the items of these names packed, in the bytes that [`Sketch::merge_packed`] reads; no bytes for no
    /// items. Names may repeat and be in any order. A name that no item has is left out.
    pub fn pack(&self, mut names: Vec<u32>) -> Vec<u8> {
        names.sort_unstable();
        names.dedup();
        let (kind, width, items): (u8, u32, Vec<(u32, u8)>) = match &self.0 {
            Form::Sparse(tokens) => {
                let is_held = |name: &u32| {
                    let held = tokens.binary_search_by_key(name, |token| token.bits());
                    held.is_ok()
                };
                let held = names.into_iter().filter(is_held);
                (TOKENS, 0, held.map(|name| (name, 0)).collect())
            }
            Form::Dense(registers) => {
                let ranks = names.into_iter().filter_map(|name| {
                    let rank = registers.rank(u16::try_from(name).ok()?)?;
                    (rank > 0).then_some((name, rank))
                });
                (REGISTERS, RANK_BITS, ranks.collect())
            }
        };
        if items.is_empty() {
            return Vec::new();
        }
        let mut bytes = vec![kind];
        bytes.extend(rice::pack(&items, width));
        bytes
    }

    /// Adds packed items, and returns what was new. If [`Sketch::pack`] cannot have written the bytes, returns `None`
    /// and changes nothing.
    pub fn merge_packed(&mut self, bytes: &[u8]) -> Option<NewItems> {
        match bytes {
            [] => Some(NewItems::Items(Vec::new())),
            [TOKENS, packed @ ..] => {
                let names = rice::unpack(packed, 0)?;
                let tokens = names.iter().map(|(name, _)| Token::from_bits(*name));
                let tokens: Vec<Token> = tokens.collect::<Option<_>>()?;
                Some(self.merge_tokens(&tokens))
            }
            [REGISTERS, packed @ ..] => {
                let items = rice::unpack(packed, RANK_BITS)?;
                let ranks = items.iter().map(|&(name, rank)| {
                    let register = u16::try_from(name).ok()?;
                    let is_register = register >> 14 == 0 && (1..=RANK_MAX).contains(&rank);
                    is_register.then_some((register, rank))
                });
                let ranks: Vec<(u16, u8)> = ranks.collect::<Option<_>>()?;
                self.merge_ranks(&ranks)
            }
            _ => None,
        }
    }

    fn merge_tokens(&mut self, tokens: &[Token]) -> NewItems {
        let is_new = |mine: &mut Form, token: &Token| match mine {
            Form::Sparse(held) => held.binary_search(token).is_err().then(|| token.bits()),
            Form::Dense(registers) => registers
                .insert(*token)
                .then(|| u32::from(token.register())),
        };
        let was_dense = matches!(self.0, Form::Dense(_));
        let mut new: Vec<u32> = tokens
            .iter()
            .filter_map(|token| is_new(&mut self.0, token))
            .collect();
        if was_dense {
            // Tokens ascend by their registers, and a register may have grown twice.
            new.dedup();
            return NewItems::Items(new);
        }
        self.insert_many(tokens);
        match self.0 {
            Form::Sparse(_) => NewItems::Items(new),
            Form::Dense(_) => NewItems::Form,
        }
    }

    fn merge_ranks(&mut self, ranks: &[(u16, u8)]) -> Option<NewItems> {
        match &mut self.0 {
            Form::Dense(registers) => {
                let grown = ranks
                    .iter()
                    .filter(|(register, rank)| registers.raise(*register, *rank));
                Some(NewItems::Items(
                    grown.map(|(register, _)| (*register).into()).collect(),
                ))
            }
            Form::Sparse(_) if ranks.is_empty() => None,
            Form::Sparse(tokens) => {
                self.0 = Form::Dense(Registers::of_ranks(ranks, tokens)?);
                Some(NewItems::Form)
            }
        }
    }

    /// Returns a digest of each block. Cost: a pass over the items, a few ns each.
    pub fn digests(&self) -> Digests {
        self.block_words().map(u64::to_le_bytes).to_vec()
    }

    /// Returns the names of the items in blocks whose digests differ from these; all names if there are not [`BLOCKS`]
    /// digests.
    pub fn items_unlike(&self, theirs: &[[u8; 8]]) -> Vec<u32> {
        let mine = self.block_words();
        let differs = |block: usize| {
            let theirs = theirs.get(block).map(|digest| u64::from_le_bytes(*digest));
            theirs != mine.get(block).copied()
        };
        let mut names = self.items();
        names.retain(|name| differs(self.block_of(*name)));
        names
    }

    fn block_words(&self) -> [u64; BLOCKS] {
        let mut words = [0; BLOCKS];
        for name in self.items() {
            let rank = match &self.0 {
                Form::Sparse(_) => 0,
                Form::Dense(registers) => {
                    let register = u16::try_from(name).unwrap_or(u16::MAX);
                    registers.rank(register).unwrap_or(0)
                }
            };
            if let Some(word) = words.get_mut(self.block_of(name)) {
                *word ^= mixed((u64::from(name) << u8::BITS) | u64::from(rank));
            }
        }
        words
    }

    fn block_of(&self, name: u32) -> usize {
        let block = match &self.0 {
            // The top 14 bits of a token name its register.
            Form::Sparse(_) => name >> (u32::BITS - BLOCKS.ilog2()),
            Form::Dense(_) => name >> BLOCK_BITS,
        };
        usize::try_from(block).unwrap_or(usize::MAX)
    }
}

/// Spreads a word over 64 bits, one to one.
///
/// **Source**: the finalizer of SplitMix64: Steele, Lea and Flood 2014.
fn mixed(word: u64) -> u64 {
    let word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}
