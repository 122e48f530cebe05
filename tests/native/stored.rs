//! Laws of bodies at rest: what was written is read, a changed bit never becomes another value, and what earlier builds
//! wrote is read as it is.

use proptest::collection::vec;
use proptest::prelude::*;
use tally_protocol::stored::{
    Damage, FIRST, FRAME_BYTES, StoredBody, begin, checksum, finish, framed,
};

use crate::common::config;

/// Source: the reference implementation, `xxhsum -H32` and `XXH32` of xxHash 0.8.
#[test]
fn the_checksum_is_xxh32() {
    let known: [(&[u8], u32, u32); 5] = [
        (b"", 0, 0x02CC_5D05),
        (b"", 2_654_435_761, 0x36B7_8AE7),
        (b"a", 0, 0x550D_7456),
        (b"abc", 0, 0x32D1_53FF),
        (b"Nobody inspects the spammish repetition", 0, 0xE229_3B2F),
    ];
    for (bytes, seed, sum) in known {
        assert_eq!(checksum(seed, bytes), sum, "{bytes:?}");
    }
}

#[test]
fn golden_bytes_of_a_body() {
    assert_eq!(
        framed(b"tally", FIRST),
        [
            0x81, 0, 0x7b, 0x99, 0x6b, 0xb4, b't', b'a', b'l', b'l', b'y'
        ]
    );
    let mut written = begin();
    written.extend_from_slice(b"tally");
    assert_eq!(finish(written, FIRST), framed(b"tally", FIRST));
}

#[test]
fn a_body_of_a_newer_build_is_refused_by_its_name() {
    let newer = framed(b"a form of tomorrow", FIRST + 1);
    for may_be_bare in [false, true] {
        let refused = Err(Damage::Newer(FIRST + 1, FIRST));
        assert_eq!(StoredBody::read(&newer, FIRST, may_be_bare), refused);
    }
    let read = StoredBody::read(&newer, FIRST + 1, false).expect("that build reads it");
    assert_eq!(
        (read.version, read.bytes),
        (FIRST + 1, &b"a form of tomorrow"[..])
    );
}

proptest! {
    #![proptest_config(config(71, 300))]

    #[test]
    fn what_was_written_is_read(body in vec(any::<u8>(), 0..300), version in 1_u8..=127) {
        let framed = framed(&body, version);
        prop_assert_eq!(framed.len(), body.len() + FRAME_BYTES);
        let read = StoredBody::read(&framed, version, false);
        prop_assert_eq!(read, Ok(StoredBody { version, bytes: &body }));
    }

    #[test]
    fn every_changed_bit_is_found(body in vec(any::<u8>(), 0..80), version in 1_u8..=3, may_be_bare: bool) {
        let framed = framed(&body, version);
        for bit in 0..framed.len() * 8 {
            let mut changed = framed.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(StoredBody::read(&changed, 3, may_be_bare).is_err(), "bit {}", bit);
        }
        for length in 0..framed.len() {
            let read = StoredBody::read(&framed[..length], 3, false);
            prop_assert!(read.is_err(), "{} bytes", length);
        }
    }

    /// Nothing that postcard writes first begins like a frame: numbers, lengths and names of variants are numbers as
    /// short as can be.
    #[test]
    fn no_number_of_postcard_begins_like_a_frame(number: u128, bits in 0_u32..128, rest in vec(any::<u8>(), 0..9)) {
        let mut bare = postcard::to_allocvec(&(number >> bits)).expect("a number");
        bare.extend(rest);
        let is_frame = bare[0] >= 0x80 && bare.get(1) == Some(&0);
        prop_assert!(!is_frame, "{:?}", bare);
        prop_assert_eq!(StoredBody::read(&bare, FIRST, true), Ok(StoredBody { version: 0, bytes: &bare }));
        prop_assert_eq!(StoredBody::read(&bare, FIRST, false), Err(Damage::Changed));
    }
}
