//! Law: a colo has one hint, one that the platform knows, and it is near.

use std::collections::BTreeSet;

use tally_core::cluster::region::{colos, location_hint, region_of};
use tally_core::counter::id::Datacenter;

const HINTS: [&str; 9] = [
    "wnam", "enam", "sam", "weur", "eeur", "apac", "oc", "afr", "me",
];

fn hint(name: &str) -> Option<&'static str> {
    location_hint(&Datacenter::parse(name).expect("a datacenter name"))
}

#[test]
fn known_colos_have_the_hint_of_their_region() {
    let golden = [
        ("wnam", "SJC SEA LAX DEN DFW YVR HNL ANC MEX PPT"),
        ("enam", "IAD EWR ORD ATL MIA YYZ YUL MSP PTY SJU"),
        ("sam", "GRU GIG EZE SCL BOG LIM UIO"),
        ("weur", "LHR AMS CDG FRA MAD LIS DUB ZRH CPH"),
        ("eeur", "WAW PRG VIE OTP ATH IST KBP DME HEL ALA"),
        ("apac", "NRT SIN HKG ICN BOM DEL TPE CGK SHA ULN"),
        ("oc", "SYD MEL PER AKL WLG SUV"),
        ("afr", "JNB CPT LOS NBO CAI ALG RUN WDH"),
        ("me", "DXB DOH TLV RUH BGW AMM ZDM"),
    ];
    for (expected, names) in golden {
        for name in names.split(' ') {
            assert_eq!(hint(name), Some(expected), "{name}");
        }
    }
}

#[test]
fn what_is_no_known_colo_has_no_hint() {
    assert_eq!(location_hint(&Datacenter::local()), None);
    for name in [
        "XXX", "AAA", "ZZZ", "FR", "FRAA", "F", "EU-WEST", "WEU", "AB-", "000",
    ] {
        assert_eq!(hint(name), None, "{name}");
    }
}

#[test]
fn a_region_is_a_datacenter_with_its_own_hint_and_no_colo_has_its_name() {
    for expected in HINTS {
        assert_eq!(hint(expected), Some(expected), "{expected}");
        assert!(
            colos().all(|(colo, _)| !colo.eq_ignore_ascii_case(expected)),
            "{expected} is a colo too"
        );
    }
    for (colo, expected) in colos() {
        let region = region_of(Datacenter::parse(colo).expect("a colo"));
        assert_eq!(region.as_str(), expected.to_ascii_uppercase(), "{colo}");
        assert_eq!(region_of(region.clone()), region, "a region of a region");
    }
    let unknown = Datacenter::parse("XXX").expect("a name");
    assert_eq!(region_of(unknown.clone()), unknown);
    assert_eq!(region_of(Datacenter::local()), Datacenter::local());
}

#[test]
fn every_colo_of_the_table_is_found_under_its_own_hint() {
    for (colo, expected) in colos() {
        assert_eq!(hint(colo), Some(expected), "{colo}");
        assert_eq!(
            hint(&colo.to_ascii_lowercase()),
            Some(expected),
            "{colo} in lower case"
        );
    }
}

#[test]
fn the_table_is_sorted_by_row_without_duplicates_and_knows_nine_hints() {
    let all: Vec<_> = colos().collect();
    for pair in all.windows(2) {
        let ((before, before_hint), (after, after_hint)) = (pair[0], pair[1]);
        assert!(
            before_hint != after_hint || before < after,
            "{before} {after} in {after_hint}"
        );
    }
    let distinct: BTreeSet<&str> = all.iter().map(|&(colo, _)| colo).collect();
    assert_eq!(distinct.len(), all.len(), "a colo is in two rows");
    assert_eq!(all.len(), 367, "the arithmetic of the table's size");
    assert!(
        all.iter()
            .all(|(colo, _)| colo.len() == 3 && colo.bytes().all(|byte| byte.is_ascii_uppercase()))
    );
    let hints: BTreeSet<&str> = all.iter().map(|&(_, hint)| hint).collect();
    assert_eq!(hints, BTreeSet::from(HINTS));
}
