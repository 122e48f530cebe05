//! SHA-1, by which Redis names scripts. Source: RFC 3174.

use tally_core::sha_blocks::{BLOCK_BYTES, padded, read_words};

/// The digest as 40 hexadecimal digits. It names texts; it protects nothing.
pub fn hex(text: &str) -> String {
    let mut state = [
        0x6745_2301_u32,
        0xefcd_ab89,
        0x98ba_dcfe,
        0x1032_5476,
        0xc3d2_e1f0,
    ];
    for block in padded(text.as_bytes()).chunks_exact(BLOCK_BYTES) {
        absorb(&mut state, block);
    }
    state.iter().map(|word| format!("{word:08x}")).collect()
}

fn absorb(state: &mut [u32; 5], block: &[u8]) {
    let mut words = [0_u32; 80];
    read_words(block, &mut words);
    for round in 16..80 {
        words[round] =
            (words[round - 3] ^ words[round - 8] ^ words[round - 14] ^ words[round - 16])
                .rotate_left(1);
    }
    let [mut a, mut b, mut c, mut d, mut e] = *state;
    for (round, word) in words.iter().enumerate() {
        let (mixed, constant) = match round {
            0..20 => ((b & c) | (!b & d), 0x5a82_7999),
            20..40 => (b ^ c ^ d, 0x6ed9_eba1),
            40..60 => ((b & c) | (b & d) | (c & d), 0x8f1b_bcdc),
            _ => (b ^ c ^ d, 0xca62_c1d6_u32),
        };
        let next = a
            .rotate_left(5)
            .wrapping_add(mixed)
            .wrapping_add(e)
            .wrapping_add(constant)
            .wrapping_add(*word);
        (e, d, c, b, a) = (d, c, b.rotate_left(30), a, next);
    }
    for (word, added) in state.iter_mut().zip([a, b, c, d, e]) {
        *word = word.wrapping_add(added);
    }
}
