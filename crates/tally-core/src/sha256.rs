//! SHA-256, and HMAC by it. Sources: FIPS 180-4, RFC 2104; the tests hold it against their vectors.
//!
//! Cost: 64 rounds for each 64 bytes.

use super::sha_blocks::{BLOCK_BYTES, padded, read_words};

/// Bytes of a digest.
pub const DIGEST_BYTES: usize = 32;

/// What HMAC's two keys are the secret with. Source: RFC 2104.
const INNER: u8 = 0x36;
const OUTER: u8 = 0x5c;

const BEGIN: [u32; 8] = [
    0x6a09_e667,
    0xbb67_ae85,
    0x3c6e_f372,
    0xa54f_f53a,
    0x510e_527f,
    0x9b05_688c,
    0x1f83_d9ab,
    0x5be0_cd19,
];

const ROUNDS: [u32; 64] = [
    0x428a_2f98,
    0x7137_4491,
    0xb5c0_fbcf,
    0xe9b5_dba5,
    0x3956_c25b,
    0x59f1_11f1,
    0x923f_82a4,
    0xab1c_5ed5,
    0xd807_aa98,
    0x1283_5b01,
    0x2431_85be,
    0x550c_7dc3,
    0x72be_5d74,
    0x80de_b1fe,
    0x9bdc_06a7,
    0xc19b_f174,
    0xe49b_69c1,
    0xefbe_4786,
    0x0fc1_9dc6,
    0x240c_a1cc,
    0x2de9_2c6f,
    0x4a74_84aa,
    0x5cb0_a9dc,
    0x76f9_88da,
    0x983e_5152,
    0xa831_c66d,
    0xb003_27c8,
    0xbf59_7fc7,
    0xc6e0_0bf3,
    0xd5a7_9147,
    0x06ca_6351,
    0x1429_2967,
    0x27b7_0a85,
    0x2e1b_2138,
    0x4d2c_6dfc,
    0x5338_0d13,
    0x650a_7354,
    0x766a_0abb,
    0x81c2_c92e,
    0x9272_2c85,
    0xa2bf_e8a1,
    0xa81a_664b,
    0xc24b_8b70,
    0xc76c_51a3,
    0xd192_e819,
    0xd699_0624,
    0xf40e_3585,
    0x106a_a070,
    0x19a4_c116,
    0x1e37_6c08,
    0x2748_774c,
    0x34b0_bcb5,
    0x391c_0cb3,
    0x4ed8_aa4a,
    0x5b9c_ca4f,
    0x682e_6ff3,
    0x748f_82ee,
    0x78a5_636f,
    0x84c8_7814,
    0x8cc7_0208,
    0x90be_fffa,
    0xa450_6ceb,
    0xbef9_a3f7,
    0xc671_78f2,
];

/// The digest of bytes.
pub fn digest(bytes: &[u8]) -> [u8; DIGEST_BYTES] {
    let mut state = BEGIN;
    for block in padded(bytes).chunks_exact(BLOCK_BYTES) {
        absorb(&mut state, block);
    }
    let mut digest = [0; DIGEST_BYTES];
    let words = state.iter().flat_map(|word| word.to_be_bytes());
    for (to, from) in digest.iter_mut().zip(words) {
        *to = from;
    }
    digest
}

/// HMAC-SHA256 of a message under a secret of any length.
pub fn hmac(secret: &[u8], message: &[u8]) -> [u8; DIGEST_BYTES] {
    let mut key = [0; BLOCK_BYTES];
    let short = if secret.len() > BLOCK_BYTES {
        digest(secret).to_vec()
    } else {
        secret.to_vec()
    };
    for (to, from) in key.iter_mut().zip(short) {
        *to = from;
    }
    let key_with = |pad: u8| key.map(|byte| byte ^ pad).to_vec();
    let inner = digest(&[&key_with(INNER), message].concat());
    digest(&[key_with(OUTER), inner.to_vec()].concat())
}

fn absorb(state: &mut [u32; 8], block: &[u8]) {
    let mut words = [0_u32; 64];
    read_words(block, &mut words);
    for index in 16..64 {
        let (old, new) = (words[index - 15], words[index - 2]);
        let low = old.rotate_right(7) ^ old.rotate_right(18) ^ (old >> 3);
        let high = new.rotate_right(17) ^ new.rotate_right(19) ^ (new >> 10);
        words[index] = words[index - 16]
            .wrapping_add(low)
            .wrapping_add(words[index - 7])
            .wrapping_add(high);
    }
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = *state;
    for (word, constant) in words.iter().zip(ROUNDS) {
        let mixed = e.rotate_right(6) ^ e.rotate_right(11) ^ e.rotate_right(25);
        let chosen = (e & f) ^ (!e & g);
        let first = h
            .wrapping_add(mixed)
            .wrapping_add(chosen)
            .wrapping_add(constant)
            .wrapping_add(*word);
        let mixed = a.rotate_right(2) ^ a.rotate_right(13) ^ a.rotate_right(22);
        let majority = (a & b) ^ (a & c) ^ (b & c);
        let second = mixed.wrapping_add(majority);
        (h, g, f, e) = (g, f, e, d.wrapping_add(first));
        (d, c, b, a) = (c, b, a, first.wrapping_add(second));
    }
    for (word, added) in state.iter_mut().zip([a, b, c, d, e, f, g, h]) {
        *word = word.wrapping_add(added);
    }
}

/// Bytes as lower-case hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
