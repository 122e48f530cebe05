//! Law: a key is one text however it is quoted, and what is kept of it tells apart all that differs.

use crate::common;

use std::cell::RefCell;
use std::collections::BTreeSet;

use common::config;
use proptest::collection::vec;
use proptest::prelude::*;
use tally_api::access::{Caller, Sender};
use tally_api::batch::ingest::Ingest;
use tally_api::idempotency_keys::{
    BodyHash, KEY_BYTES_MAX, KeyKind, fingerprint, parse_key, write_key,
};
use tally_core::sketch::{HashKey, hash};
use tally_wire::problem::Code;

const KINDS: [KeyKind; 3] = [KeyKind::Write, KeyKind::Batch, KeyKind::Event];

/// The sender without a key.
fn public() -> Sender {
    Caller::nobody().sender()
}

fn keyed_hash(bytes: &[u8]) -> u64 {
    hash(&HashKey::from([7; 16]), bytes)
}

/// The bytes that a fingerprint is the hash of.
fn hashed_of(parts: &[Vec<u8>]) -> Vec<u8> {
    let seen = RefCell::new(Vec::new());
    let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
    fingerprint(
        &|bytes: &[u8]| {
            seen.replace(bytes.to_vec());
            0
        },
        &parts,
    );
    seen.take()
}

fn refused(header: &str) -> bool {
    match parse_key(header) {
        Ok(_) => false,
        Err(problem) => {
            assert_eq!(problem.code(), Code::InvalidIdempotencyKey, "{header:?}");
            true
        }
    }
}

#[test]
fn a_key_is_the_same_in_quotes_and_bare() {
    for (header, key) in [
        ("abc", "abc"),
        ("\"abc\"", "abc"),
        (" abc ", "abc"),
        ("\t\"abc\" ", "abc"),
        ("\" abc \"", " abc "),
        ("a b", "a b"),
        ("a,b", "a,b"),
        ("a ,b", "a ,b"),
        ("~!", "~!"),
        // Quotes that are no pair belong to the key.
        ("\"abc", "\"abc"),
        ("abc\"", "abc\""),
        ("\"", "\""),
        ("\"\"abc\"\"", "\"abc\""),
    ] {
        assert_eq!(parse_key(header).ok(), Some(key), "{header:?}");
    }
    for empty in ["", " ", "\t", "\"\"", " \"\" "] {
        assert!(refused(empty), "{empty:?}");
    }
}

#[test]
fn a_header_that_was_sent_twice_is_no_key() {
    for lines in [
        ["k", "k"],
        ["\"k\"", "\"k\""],
        ["k", ""],
        ["", "k"],
        ["k", "other"],
    ] {
        let joined = lines.join(", ");
        assert!(refused(&joined), "{joined:?}");
    }
}

#[test]
fn a_key_has_at_most_255_bytes() {
    let longest = "k".repeat(KEY_BYTES_MAX);
    assert_eq!(longest.len(), 255);
    assert_eq!(parse_key(&longest).ok(), Some(longest.as_str()));
    let quoted = format!("\"{longest}\"");
    assert_eq!(parse_key(&quoted).ok(), Some(longest.as_str()));
    assert!(refused(&format!("{longest}k")));
    assert!(refused(&format!("\"{longest}k\"")));
}

proptest! {
    #![proptest_config(config(81, 512))]

    #[test]
    fn every_visible_character_is_taken_and_no_other(
        before in "[!-~]{0,5}", odd in any::<char>(), after in "[!-~]{0,5}", is_quoted in any::<bool>(),
    ) {
        let key = format!("{before}{odd}{after}");
        let header = if is_quoted { format!("\"{key}\"") } else { key.clone() };
        let trimmed = if is_quoted { key.as_str() } else { key.trim_matches([' ', '\t']) };
        let is_visible = trimmed.chars().all(|char| (' '..='~').contains(&char));
        let is_twice = header.contains(", ");
        prop_assert_eq!(refused(&header), !is_visible || trimmed.is_empty() || is_twice, "{:?}", header);
    }

    #[test]
    fn keys_of_another_text_or_kind_are_other_keys(texts in prop::collection::btree_set("[ -~]{1,40}", 1..20)) {
        let keys: BTreeSet<_> = texts
            .iter()
            .flat_map(|text| KINDS.map(|kind| write_key(&keyed_hash, public(), kind, text)))
            .collect();
        prop_assert_eq!(keys.len(), texts.len() * KINDS.len());
    }

    #[test]
    fn fingerprints_are_of_the_parts_not_of_their_sum(
        one in vec(vec(0..3_u8, 0..4), 0..5), other in vec(vec(0..3_u8, 0..4), 0..5),
        cut in any::<prop::sample::Index>(),
    ) {
        prop_assert_eq!(hashed_of(&one) == hashed_of(&other), one == other);
        // The same bytes, parted elsewhere.
        let whole = one.concat();
        let (left, right) = whole.split_at(cut.index(whole.len() + 1));
        let parted = [left.to_vec(), right.to_vec()];
        prop_assert_eq!(hashed_of(&one) == hashed_of(&parted), one.as_slice() == parted.as_slice());
    }
}

#[test]
fn parts_are_told_apart_by_their_lengths() {
    let of = |parts: &[&[u8]]| fingerprint(&keyed_hash, parts);
    assert_ne!(of(&[b"ab", b"c"]), of(&[b"a", b"bc"]));
    assert_ne!(of(&[b"abc"]), of(&[b"abc", b""]));
    assert_ne!(of(&[b"", b"a"]), of(&[b"a", b""]));
    assert_ne!(of(&[]), of(&[b""]));
    assert_eq!(of(&[b"ab", b"c"]), of(&[b"ab", b"c"]));
}

#[test]
fn no_half_of_a_key_says_the_other() {
    for text in ["a", "b", "order-4711"] {
        let name = write_key(&keyed_hash, public(), KeyKind::Write, text).0;
        assert_ne!(name[..8], name[8..], "{text}");
    }
    // Both halves are of the text, so that 64 bits of luck are not enough.
    let (one, other) = (
        write_key(&keyed_hash, public(), KeyKind::Write, "a").0,
        write_key(&keyed_hash, public(), KeyKind::Write, "b").0,
    );
    assert_ne!(one[..8], other[..8]);
    assert_ne!(one[8..], other[8..]);
}

/// Golden: records are looked up by these for as long as they are kept, whichever build runs.
#[test]
fn names_of_keys_do_not_change() {
    let hex = |bytes: &[u8]| -> String { bytes.iter().map(|byte| format!("{byte:02x}")).collect() };
    let names = KINDS.map(|kind| hex(&write_key(&keyed_hash, public(), kind, "order-4711").0));
    assert_eq!(
        names,
        [
            "d6857f118d1c6c92b76fcedc249f3b38",
            "7943ddb38b835e4b2537c19d625388af",
            "2c29c75e66861b674d372a66894f96bb",
        ]
    );
    let parts: [&[u8]; 4] = [b"increment", &1_u128.to_le_bytes(), b"", b""];
    assert_eq!(fingerprint(&keyed_hash, &parts), 3_999_602_336_840_117_727);
}

/// The hash of a body that comes in pieces of these lengths, and a last one.
fn body_hash(call: &[&[u8]], body: &[u8], cuts: &[usize]) -> u64 {
    let mut hash = BodyHash::new(&keyed_hash, call);
    let mut left = body;
    for cut in cuts {
        let (piece, later) = left.split_at((*cut).min(left.len()));
        hash.push(&keyed_hash, piece);
        left = later;
    }
    hash.push(&keyed_hash, left);
    hash.finish(&keyed_hash)
}

/// `length` bytes that do not repeat soon.
fn bytes(length: usize) -> Vec<u8> {
    (0..251).cycle().take(length).collect()
}

proptest! {
    #![proptest_config(config(112, 64))]

    #[test]
    fn a_body_has_one_hash_however_it_is_cut(
        length in prop_oneof![0..200_usize, 65_530..65_540_usize, 131_066..200_000_usize],
        cuts in vec(prop_oneof![0..70_usize, 65_530..65_540_usize], 0..8),
    ) {
        let body = bytes(length);
        prop_assert_eq!(body_hash(&[b"events"], &body, &cuts), body_hash(&[b"events"], &body, &[]));
    }
}

#[test]
fn a_body_that_asks_for_anything_else_has_another_hash() {
    let mut seen = BTreeSet::new();
    let queries = [
        ("clf", None),
        ("clf", Some("ip")),
        ("ndjson", None),
        ("ndjson", Some("ip")),
        ("logpush", None),
    ];
    let ingests =
        queries.map(|(format, unique)| Ingest::from_query(Some(format), None, unique).unwrap());
    let mut calls = vec![vec!["events"]];
    for ingest in &ingests {
        calls.push([&["ingest"][..], &ingest.query_values()].concat());
    }
    for call in calls {
        let call: Vec<&[u8]> = call.iter().map(|text| text.as_bytes()).collect();
        for length in [0, 1, 65_535, 65_536, 65_537, 131_072] {
            let mut body = bytes(length);
            assert!(seen.insert(body_hash(&call, &body, &[])), "{length}");
            if let Some(last) = body.last_mut() {
                *last ^= 1;
                assert!(seen.insert(body_hash(&call, &body, &[])), "{length}");
            }
        }
    }
    // What is the same by default is the same: it asks for the same.
    let named = Ingest::from_query(Some("clf"), Some("path"), Some("none")).unwrap();
    let bare = Ingest::from_query(Some("clf"), None, None).unwrap();
    assert_eq!(named.query_values(), bare.query_values());
}

#[test]
fn hashes_of_bodies_stay_as_they_are() {
    // They are kept with their keys, for longer than a deploy takes.
    assert_eq!(body_hash(&[b"events"], b"", &[]), 941_120_880_051_158_514);
    assert_eq!(
        body_hash(&[b"events"], &bytes(100_000), &[]),
        5_215_247_647_122_997_517
    );
}
