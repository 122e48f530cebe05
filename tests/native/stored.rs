//! Laws of bodies at rest: what was written is read, a changed bit never becomes another value, and other schemas
//! are refused by name.

use proptest::collection::vec;
use proptest::prelude::*;
use tally_wire::stored::{
    Damage, FIRST, FRAME_BYTES, SCHEMA_VERSION, StoredBody, begin, checksum, finish, framed,
    schema_fault,
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
    let refused = Err(Damage::Newer(FIRST + 1, FIRST));
    assert_eq!(StoredBody::read(&newer, FIRST), refused);
    let read = StoredBody::read(&newer, FIRST + 1).expect("that build reads it");
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
        let read = StoredBody::read(&framed, version);
        prop_assert_eq!(read, Ok(StoredBody { version, bytes: &body }));
    }

    #[test]
    fn every_changed_bit_is_found(body in vec(any::<u8>(), 0..80), version in 1_u8..=3) {
        let framed = framed(&body, version);
        for bit in 0..framed.len() * 8 {
            let mut changed = framed.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(StoredBody::read(&changed, 3).is_err(), "bit {}", bit);
        }
        for length in 0..framed.len() {
            let read = StoredBody::read(&framed[..length], 3);
            prop_assert!(read.is_err(), "{} bytes", length);
        }
    }

    #[test]
    fn a_body_without_a_frame_is_refused(bare in vec(any::<u8>(), 0..80)) {
        let damaged = Err(Damage::Changed);
        prop_assert_eq!(StoredBody::read(&bare, FIRST), damaged);
    }
}

#[test]
fn schemas_that_this_build_does_not_know_are_refused_by_name() {
    assert_eq!(schema_fault(SCHEMA_VERSION, SCHEMA_VERSION), None);
    let newer = schema_fault(SCHEMA_VERSION, SCHEMA_VERSION + 1).expect("a refusal");
    assert!(newer.contains("has version 7") && newer.contains("deploy a newer build"));
    // An object that an earlier build has begun has rows that no build reads, also where a later one has written.
    for (first, last) in [(1, 1), (5, 5), (5, 6), (0, 6)] {
        let older = schema_fault(first, last).expect("a refusal");
        assert!(older.contains(&format!("has version {first}")), "{older}");
        assert!(older.contains("delete the data, or go back"), "{older}");
    }
}
