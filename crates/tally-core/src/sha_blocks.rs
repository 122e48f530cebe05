//! How SHA-1 and SHA-256 cut a message into blocks of 64 bytes. Sources: RFC 3174, FIPS 180-4.

/// Bytes that are hashed at once.
pub const BLOCK_BYTES: usize = 64;

/// A message in whole blocks: behind it a bit, zeros, and how many bits it has.
pub fn padded(message: &[u8]) -> Vec<u8> {
    let mut blocks = message.to_vec();
    let bits = u64::try_from(message.len()).unwrap_or(0) << 3;
    blocks.push(0x80);
    while blocks.len() % BLOCK_BYTES != BLOCK_BYTES - 8 {
        blocks.push(0);
    }
    blocks.extend(bits.to_be_bytes());
    blocks
}

/// Reads the 16 words of a block into the first of those that follow from them.
pub fn read_words(block: &[u8], words: &mut [u32]) {
    for (word, bytes) in words.iter_mut().zip(block.chunks_exact(4)) {
        *word = bytes
            .iter()
            .fold(0, |word, byte| (word << 8) | u32::from(*byte));
    }
}
