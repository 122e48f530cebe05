//! Golden: names by which data is found, and the arguments that objects are created with. A change
//! here loses data: a new name is a new object.

use tally_core::counter::id::{COUNTER_ID_BYTES_MAX, CounterId, Datacenter, IdError};
use tally_core::counter::queue::{INBOXES_PER_DATACENTER, InboxId};
use tally_wire::names;
use tally_wire::names::{CellAddress, LimiterAddress, Placement};

fn id(text: &str) -> CounterId {
    CounterId::parse(text).expect("a counter id")
}

fn address(counter: &str, datacenter: &str, shard: u8) -> CellAddress {
    CellAddress {
        counter: id(counter),
        datacenter: Datacenter::parse(datacenter).expect("a datacenter"),
        shard,
    }
}

fn at(binding: &'static str, name: &str, location_hint: Option<&'static str>) -> Placement {
    Placement {
        binding,
        name: name.to_owned(),
        location_hint,
    }
}

#[test]
fn cells_are_found_by_datacenter_shard_and_counter_and_created_near_their_datacenter() {
    let golden = [
        (address("home", "FRA", 0), "c1/FRA/0/home", Some("weur")),
        (address("home", "fra", 63), "c1/FRA/63/home", Some("weur")),
        (address("a/b/c", "IAD", 1), "c1/IAD/1/a/b/c", Some("enam")),
        (address("0/x", "SJC", 0), "c1/SJC/0/0/x", Some("wnam")),
        (
            address("ключ ?#%", "SIN", 2),
            "c1/SIN/2/ключ ?#%",
            Some("apac"),
        ),
        (address("x", "GRU", 0), "c1/GRU/0/x", Some("sam")),
        (address("x", "WAW", 0), "c1/WAW/0/x", Some("eeur")),
        (address("x", "SYD", 0), "c1/SYD/0/x", Some("oc")),
        (address("x", "JNB", 0), "c1/JNB/0/x", Some("afr")),
        (address("x", "DXB", 0), "c1/DXB/0/x", Some("me")),
        (address("x", "LOCAL", 0), "c1/LOCAL/0/x", None),
        (address("x", "EU-WEST", 0), "c1/EU-WEST/0/x", None),
    ];
    for (address, name, location_hint) in golden {
        assert_eq!(names::cell(&address), at("CELLS", name, location_hint));
    }
}

#[test]
fn partitions_of_the_directory_have_numbers_and_no_hint() {
    for (partition, name) in [(0, "d1/0"), (7, "d1/7"), (15, "d1/15")] {
        let placement = names::directory(partition);
        assert_eq!(placement, at("DIRECTORY", name, None));
    }
    assert_eq!(names::DIRECTORY_PARTITIONS, 16);
}

#[test]
fn inboxes_are_found_by_datacenter_and_number_and_created_near_their_datacenter() {
    for (datacenter, number, name, location_hint) in [
        ("FRA", 0, "i1/FRA/0", Some("weur")),
        ("iad", 3, "i1/IAD/3", Some("enam")),
        ("LOCAL", 1, "i1/LOCAL/1", None),
    ] {
        let inbox = InboxId {
            datacenter: Datacenter::parse(datacenter).expect("a datacenter"),
            number,
        };
        assert_eq!(names::inbox(&inbox), at("INBOXES", name, location_hint));
    }
    assert_eq!(INBOXES_PER_DATACENTER, 4);
}

#[test]
fn limiters_are_found_by_datacenter_and_partition_and_those_of_the_world_by_partition() {
    for (datacenter, partition, name, location_hint) in [
        (Some("FRA"), 0, "l1/FRA/0", Some("weur")),
        (Some("LOCAL"), 7, "l1/LOCAL/7", None),
        (None, 3, "g1/3", None),
    ] {
        let limiter = LimiterAddress {
            datacenter: datacenter.and_then(Datacenter::parse),
            partition,
        };
        let expected = at("LIMITERS", name, location_hint);
        assert_eq!(names::limiter(&limiter), expected);
    }
    assert_eq!(names::LIMITER_PARTITIONS, 8);
}

#[test]
fn hubs_are_found_by_region_and_number_and_lookouts_by_partition() {
    for (region, number, name) in [
        (Some("weur"), 0, "h1/weur/0"),
        (Some("oc"), 12, "h1/oc/12"),
        (None, 3, "h1/any/3"),
    ] {
        assert_eq!(names::hub(region, number), at("WATCHERS", name, region));
    }
    assert_eq!(names::live_reader(15), at("WATCHERS", "w1/15", None));
}

#[test]
fn two_cells_never_share_an_object() {
    // The counter stands last, so no counter can pretend to be another's shard or datacenter.
    let tricky = ["x", "0/x", "FRA/0/x", "1", "c1/FRA/0/x", "/x", "x/"];
    let mut seen = std::collections::BTreeSet::new();
    for counter in tricky {
        for datacenter in ["FRA", "C1", "0"] {
            for shard in [0, 1, 10] {
                let placement = names::cell(&address(counter, datacenter, shard));
                assert!(seen.insert(placement.name.clone()), "{}", placement.name);
            }
        }
    }
}

#[test]
fn bindings_and_variables_are_as_deployed() {
    let golden = [
        (names::CELLS, "CELLS"),
        (names::DIRECTORY, "DIRECTORY"),
        (names::INBOXES, "INBOXES"),
        (names::LIMITERS, "LIMITERS"),
        (names::WATCHERS, "WATCHERS"),
        (names::TABLETS, "TABLETS"),
        (names::KEYSPACES, "KEYSPACES"),
        (names::BOARDS, "BOARDS"),
        (names::AGGREGATOR, "AGGREGATOR"),
        (names::QUEUE, "TALLY_QUEUE"),
        (names::ROLE, "TALLY_ROLE"),
        (names::ROLE_AGGREGATOR, "aggregator"),
        (names::ACCESS, "TALLY_ACCESS"),
        (names::ACCESS_OPEN, "open"),
        (names::KEYS, "TALLY_KEYS"),
        (names::HASH_KEY, "TALLY_HASH_KEY"),
        (names::CLIENT_ADDRESS_HEADER, "TALLY_CLIENT_ADDRESS_HEADER"),
        (names::UNIQUES_ROUNDING, "TALLY_UNIQUES_ROUNDING"),
    ];
    for (name, deployed) in golden {
        assert_eq!(name, deployed);
    }
    let edge = include_str!("../../wrangler.jsonc");
    let aggregator = include_str!("../../wrangler.aggregator.jsonc");
    for binding in [
        names::CELLS,
        names::DIRECTORY,
        names::INBOXES,
        names::LIMITERS,
        names::BOARDS,
        names::TABLETS,
        names::KEYSPACES,
        names::WATCHERS,
    ] {
        let quoted = format!("\"{binding}\"");
        assert!(
            edge.contains(&quoted) && aggregator.contains(&quoted),
            "{binding}"
        );
    }
    for binding in [names::AGGREGATOR, names::QUEUE] {
        assert!(edge.contains(&format!("\"{binding}\"")), "{binding}");
    }
    assert!(aggregator.contains(names::ROLE) && aggregator.contains(names::ROLE_AGGREGATOR));
}

#[test]
fn leads_are_shard_0() {
    let lead = CellAddress::lead(&id("x"), &Datacenter::local());
    assert_eq!(lead, address("x", "LOCAL", 0));
    assert!(lead.is_lead() && !lead.sibling(1).is_lead());
    assert_eq!(lead.sibling(5), address("x", "LOCAL", 5));
    assert_eq!(lead.sibling(5).sibling(0), lead);
}

#[test]
fn counter_ids_are_1_to_512_bytes_without_control_characters() {
    let longest = "é".repeat(COUNTER_ID_BYTES_MAX / 2);
    for text in [
        "a", " ", "...", ".a", "a/../b", "%", "ключ", "\u{a0}", &longest,
    ] {
        assert_eq!(
            CounterId::parse(text).map(String::from),
            Ok(text.to_owned())
        );
    }
    let too_long = format!("{longest}a");
    for (text, error) in [
        ("", IdError::Empty),
        (".", IdError::Dots),
        ("..", IdError::Dots),
        ("a\nb", IdError::Control),
        ("\0", IdError::Control),
        ("\u{7f}", IdError::Control),
        ("\u{85}", IdError::Control),
        (&too_long, IdError::TooLong(513)),
    ] {
        assert_eq!(CounterId::parse(text), Err(error), "{text:?}");
    }
}
