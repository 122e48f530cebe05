//! Law: a version comes back as it was written, and no other string is one.

use crate::common;

use std::collections::BTreeSet;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use common::config;
use proptest::collection::vec;
use proptest::prelude::*;
use tally_core::counter::id::{CounterId, Datacenter};
use tally_core::counter::nonces::FlushEffect;
use tally_wire::messages::Flushed;
use tally_wire::names::CellAddress;
use tally_wire::version::{SeenCell, VERSION_BYTES_MAX, Version, VersionError};

fn seen(datacenter: &str, shard: u8, generation: u64, sequence: u64) -> SeenCell {
    SeenCell {
        datacenter: Datacenter::parse(datacenter).expect("a datacenter"),
        shard,
        generation,
        sequence,
    }
}

fn cells() -> impl Strategy<Value = Vec<SeenCell>> {
    let cell = ("[A-Z0-9-]{1,16}", any::<u8>(), any::<u64>(), any::<u64>());
    let cell = cell
        .prop_map(|(name, shard, generation, sequence)| seen(&name, shard, generation, sequence));
    vec(cell, 0..20)
}

#[test]
fn the_string_never_changes() {
    let golden = [
        (vec![], "AQA"),
        (vec![seen("FRA", 0, 1, 1)], "AQEDRlJBAAEB"),
        (
            vec![
                seen("IAD", 3, 1_777_593_630_000, 300),
                seen("FRA", 63, 2, u64::MAX),
            ],
            "AQIDRlJBPwL___________8BA0lBRAOw-tiG3jOsAg",
        ),
    ];
    for (cells, text) in golden {
        let version = Version::of(cells);
        assert_eq!(version.encode(), text);
        assert_eq!(Version::decode(text), Ok(version));
    }
    let tag = Version::of([seen("FRA", 0, 1, 1)]).tag();
    assert_eq!(tag, "7f6b7e0d73b48676");
}

#[test]
fn a_writes_version_names_its_cell() {
    let cell = CellAddress {
        counter: CounterId::parse("x").expect("an id"),
        datacenter: Datacenter::local(),
        shard: 5,
    };
    let flushed = Flushed {
        generation: 7,
        outcome: FlushEffect {
            sequence: 9,
            added: 1.into(),
            removed: 2.into(),
        },
        elsewhere: None,
        shards: 8,
        linger_ms: 0,
        operations: 0,
        is_apart: false,
    };
    let version = Version::of_write(&cell, &flushed);
    assert_eq!(version.cells(), [seen("LOCAL", 5, 7, 9)]);
}

#[test]
fn foreign_strings_are_refused() {
    let ours = Version::of([seen("FRA", 0, 1, 1), seen("IAD", 1, 1, 200)]).encode();
    let bytes = URL_SAFE_NO_PAD.decode(&ours).expect("our own");
    let mut foreign = vec![
        String::new(),
        "0".to_owned(),
        "la test".to_owned(),
        format!("{ours}="),
        format!(" {ours}"),
        format!("{ours}\n"),
        ours.to_lowercase(),
        // More than one version says.
        URL_SAFE_NO_PAD.encode([&bytes[..], &[0]].concat()),
        // A name that is no datacenter's.
        URL_SAFE_NO_PAD.encode(b"\x01\x01\x01/\x00\x01\x01"),
        // A datacenter in lower case, which is never written.
        URL_SAFE_NO_PAD.encode(b"\x01\x01\x03fra\x00\x01\x01"),
        // Cells that are not in order.
        URL_SAFE_NO_PAD.encode(b"\x01\x02\x01B\x00\x01\x01\x01A\x00\x01\x01"),
        // As many cells as cannot follow.
        URL_SAFE_NO_PAD.encode(b"\x01\xff\xff\xff\xff\x0f"),
    ];
    for length in 1..bytes.len() {
        foreign.push(URL_SAFE_NO_PAD.encode(&bytes[..length]));
    }
    for text in foreign {
        let shown: String = text.chars().take(80).collect();
        let decoded = Version::decode(&text);
        assert_eq!(decoded, Err(VersionError::Foreign), "{shown:?}");
    }
    for format in [0, 3, 255] {
        let text = URL_SAFE_NO_PAD.encode([&[format], &bytes[1..]].concat());
        assert_eq!(Version::decode(&text), Err(VersionError::Format(format)));
    }
    let long = "A".repeat(VERSION_BYTES_MAX + 1);
    assert_eq!(Version::decode(&long), Err(VersionError::TooLong));
}

#[test]
fn what_is_no_version_is_said() {
    for (error, text) in [
        (VersionError::TooLong, "it is longer than 600000 bytes"),
        (
            VersionError::Foreign,
            "it is not a version of this service, or it is cut",
        ),
        (
            VersionError::Format(3),
            "its format is 3, this release reads 1 and 2",
        ),
    ] {
        assert_eq!(error.to_string(), text);
    }
}

#[test]
fn the_largest_version_is_read() {
    let all = (0..340_u64).flat_map(|place| {
        let name = format!("D{place:02}");
        (0..64).map(move |shard| seen(&name, shard, 1_777_593_630_000, 1 << 40))
    });
    let version = Version::of(all);
    let text = version.encode();
    assert!(text.len() <= VERSION_BYTES_MAX, "{} bytes", text.len());
    assert_eq!(Version::decode(&text), Ok(version));
}

proptest! {
    #![proptest_config(config(131, 256))]

    #[test]
    fn a_version_comes_back(cells in cells()) {
        let version = Version::of(cells.clone());
        let text = version.encode();
        prop_assert!(text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_'));
        prop_assert_eq!(Version::decode(&text), Ok(version.clone()));
        let mut sorted = cells;
        sorted.sort();
        prop_assert_eq!(version.cells(), sorted);
    }

    #[test]
    fn order_does_not_matter_and_content_does(
        shuffled in cells().prop_flat_map(|cells| (Just(cells.clone()), Just(cells).prop_shuffle())),
    ) {
        let (cells, shuffled) = shuffled;
        let (one, other) = (Version::of(cells.clone()), Version::of(shuffled));
        prop_assert_eq!(one.tag(), other.tag());
        prop_assert_eq!(one.encode(), other.encode());
        prop_assert_eq!(one.tag().len(), 16);
        let tags: BTreeSet<String> = (0..=cells.len())
            .map(|length| Version::of(cells[..length].iter().cloned()).tag())
            .collect();
        prop_assert_eq!(tags.len(), cells.len() + 1, "each version has its tag");
    }

    #[test]
    fn no_string_breaks_it(text in "[A-Za-z0-9_-]{0,60}") {
        if let Ok(version) = Version::decode(&text) {
            prop_assert_eq!(version.encode(), text, "one version, one string");
        }
    }
}
