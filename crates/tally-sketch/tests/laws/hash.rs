//! The keyed hash is SipHash-1-3, and its key stays secret.

use std::hash::Hasher;
use tally_sketch::{HashId, HashKey, hash};

/// The message of `length` bytes that the SipHash paper uses: 0, 1, 2, …
fn message(length: u8) -> Vec<u8> {
    (0..length).collect()
}

#[test]
fn under_the_zero_key_it_is_the_hash_of_the_standard_library() {
    let key = HashKey::from([0; 16]);
    for length in 0..=255 {
        let bytes = message(length);
        // SipHash-1-3 under the zero key; `write` adds nothing to the bytes.
        let mut theirs = std::collections::hash_map::DefaultHasher::new();
        theirs.write(&bytes);
        assert_eq!(hash(&key, &bytes), theirs.finish(), "{length} bytes");
    }
    let long = [message(255), message(255)].concat();
    let mut theirs = std::collections::hash_map::DefaultHasher::new();
    theirs.write(&long);
    assert_eq!(hash(&key, &long), theirs.finish(), "more than 256 bytes");
}

/// Checked against another implementation: `hash(bytes(range(n)))` of CPython 3.11, whose key is
/// this one with `PYTHONHASHSEED=1`.
#[test]
fn under_a_key_it_never_changes() {
    let key = HashKey::from([
        41, 35, 190, 132, 225, 108, 214, 174, 82, 144, 73, 241, 241, 187, 233, 235,
    ]);
    for (length, golden) in [
        (1, 0xecd3_e5af_cecd_a4b9),
        (7, 0xfd15_e780_52a6_9ddf),
        (8, 0xc0b5_739e_7e28_dd01),
        (15, 0xfa87_985f_39e9_7a53),
        (16, 0x12e9_d283_f9f3_7002),
        (63, 0x5420_5234_5bc6_8274),
    ] {
        let found = hash(&key, &message(length));
        assert_eq!(found, golden, "{length} bytes: {found:#018x}");
    }
}

#[test]
fn every_byte_of_the_key_counts() {
    let plain = hash(&HashKey::from([7; 16]), b"203.0.113.9");
    for index in 0..16 {
        let mut bytes = [7; 16];
        bytes[index] ^= 0x80;
        assert_ne!(
            hash(&HashKey::from(bytes), b"203.0.113.9"),
            plain,
            "byte {index}"
        );
    }
}

#[test]
fn a_printed_key_shows_none_of_its_bytes() {
    let key = HashKey::from([0xab; 16]);
    assert_eq!(
        format!("{key:?} {key:#?}"),
        "HashKey(secret) HashKey(secret)"
    );
}

#[test]
fn the_identity_of_a_key_never_changes_and_is_no_reserved_one() {
    let counted: [u8; 16] = std::array::from_fn(|index| u8::try_from(index).unwrap());
    assert_eq!(HashKey::from(counted).id().number(), 2398720437);
    assert_ne!(HashKey::from(counted).id(), HashKey::from([0; 16]).id());
    assert!(HashId::REDIS < HashKey::from(counted).id());
}
