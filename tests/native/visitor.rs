//! Laws of visitors: the same for the same address, user agent and day, another otherwise; salts are gone in time; and
//! neither addresses nor salts can be printed.

use std::collections::HashSet;

use tally_wire::visitor::USER_AGENT_BYTES_MAX;
use tally_wire::visitor::{
    ClientAddress, SALT_KEPT_MS, Salt, day_of, forgotten_ms, may_make, visitor,
};

const AGENT: &str = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0";
const HOUR_MS: i64 = 3_600_000;

fn at(text: &str) -> ClientAddress {
    ClientAddress::parse(text).expect(text)
}

#[test]
fn addresses_are_read_as_platforms_and_proxies_write_them() {
    let v4 = ClientAddress::V4([203, 0, 113, 9]);
    for text in [
        "203.0.113.9",
        " 203.0.113.9 ",
        "203.0.113.9:46402",
        "::ffff:203.0.113.9",
        "[::ffff:203.0.113.9]:80",
        "64:ff9b::203.0.113.9",
        "[64:ff9b::cb00:7109]:80",
    ] {
        assert_eq!(at(text), v4, "{text}");
    }
    let v6 = ClientAddress::V6([0x20, 0x01, 0x0d, 0xb8, 0, 1, 0, 2]);
    for text in [
        "2001:db8:1:2::1",
        "2001:DB8:1:2:3:4:5:6",
        "[2001:db8:1:2::1]",
        "[2001:db8:1:2::1]:46402",
        "2001:db8:1:2::1%eth0",
    ] {
        assert_eq!(at(text), v6, "{text}");
    }
    for text in [
        "",
        "unknown",
        "203.0.113",
        "203.0.113.999",
        "[::1",
        "::g",
        "_hidden",
        "1",
    ] {
        assert_eq!(ClientAddress::parse(text), None, "{text}");
    }
}

#[test]
fn a_proxy_beside_the_server_is_told_from_a_client() {
    for text in [
        "127.0.0.1:46402",
        "127.8.8.8",
        "[::1]:46402",
        "::ffff:127.0.0.1",
    ] {
        assert!(at(text).is_loopback(), "{text}");
    }
    for text in [
        "203.0.113.9",
        "2001:db8::1",
        "10.0.0.1",
        "fe80::1",
        "1:127::",
    ] {
        assert!(!at(text).is_loopback(), "{text}");
    }
}

#[test]
fn of_a_list_only_what_the_last_proxy_wrote_counts() {
    let of = ClientAddress::of_header;
    assert_eq!(of("6.6.6.6, 203.0.113.9"), Some(at("203.0.113.9")));
    assert_eq!(of("203.0.113.9"), Some(at("203.0.113.9")));
    for nobodys in [
        "203.0.113.9, ",
        "",
        "unknown",
        "203.0.113.9, for=6.6.6.6",
        "\"203.0.113.9\"",
        "0x6.6.6.6",
        "127.1",
        "6.6.6.6.",
        "[::1",
    ] {
        assert_eq!(of(nobodys), None, "{nobodys}");
    }
}

#[test]
fn a_visitor_is_one_by_address_and_user_agent_and_day() {
    let [today, tomorrow] = [[1; 16], [2; 16]].map(Salt::from);
    let addresses = [
        "203.0.113.9",
        "203.0.113.10",
        "2001:db8:1:2::1",
        "2001:db8:1:3::1",
    ];
    let agents = [AGENT, "Mozilla/5.0", ""];
    let mut seen = HashSet::new();
    for salt in [today, tomorrow] {
        for address in addresses {
            for agent in agents {
                assert!(
                    seen.insert(visitor(salt, at(address), agent)),
                    "{address} {agent}"
                );
                assert_eq!(
                    visitor(salt, at(address), agent),
                    visitor(salt, at(address), agent)
                );
            }
        }
    }
    // Devices change the lower half of their IPv6 address all day.
    let one = visitor(today, at("2001:db8:1:2:aaaa::1"), AGENT);
    assert_eq!(one, visitor(today, at("2001:db8:1:2:bbbb::2"), AGENT));
    // The border between address and user agent is not a border of what is hashed.
    let shorter = visitor(today, ClientAddress::V4([1, 2, 3, 4]), "5678x");
    assert_ne!(
        shorter,
        visitor(today, ClientAddress::V6(*b"\x01\x02\x03\x045678"), "x")
    );
}

#[test]
fn only_the_beginning_of_a_user_agent_counts() {
    let salt = Salt::from([3; 16]);
    let long = "a".repeat(USER_AGENT_BYTES_MAX);
    let of = |agent: &str| visitor(salt, at("203.0.113.9"), agent);
    assert_eq!(of(&long), of(&format!("{long}b")));
    assert_ne!(of(&long), of(&long[1..]));
}

#[test]
fn the_element_of_a_visitor_never_changes_within_a_day() {
    // Isolates of two builds serve one day.
    let salt = Salt::from([7; 16]);
    let hex = |bytes: [u8; 16]| {
        bytes
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>()
    };
    assert_eq!(
        hex(visitor(salt, at("203.0.113.9"), AGENT)),
        "a1028fcf9230dddbfb5c0d3e6e68b922"
    );
    assert_eq!(
        hex(visitor(salt, at("2001:db8:1:2::1"), AGENT)),
        "1f543a549be07e8dfc0e460f940c7d74"
    );
}

#[test]
fn a_salt_is_forgotten_48_hours_after_its_day_and_made_for_no_day_but_about_now() {
    let midnight_ms = 1_777_593_600_000;
    let day = day_of(midnight_ms);
    assert_eq!(day_of(midnight_ms - 1), day - 1);
    assert_eq!(SALT_KEPT_MS, 48 * HOUR_MS);
    assert_eq!(forgotten_ms(day), midnight_ms + 72 * HOUR_MS);
    for (made_for, may) in [
        (day - 2, false),
        (day - 1, true),
        (day, true),
        (day + 1, true),
        (day + 2, false),
    ] {
        assert_eq!(may_make(made_for, midnight_ms), may);
        assert_eq!(may_make(made_for, midnight_ms + 24 * HOUR_MS - 1), may);
    }
    for day in [i64::MIN, i64::MAX] {
        assert!(!may_make(day, midnight_ms));
        let _ = forgotten_ms(day);
    }
}

#[test]
fn nothing_of_a_visitor_can_be_printed() {
    let printed = format!(
        "{:?} {:?} {:?}",
        at("203.0.113.9"),
        at("2001:db8::1"),
        Salt::from([42; 16])
    );
    assert_eq!(
        printed,
        "Address(not shown) Address(not shown) Salt(secret)"
    );
    let body = br#"{"unique":"auto","ip":"203.0.113.9","user_agent":"Secret/1.0"}"#;
    let body = tally_api::batch::event::parse_increment(body).unwrap();
    let printed = format!("{body:?}");
    assert!(
        !printed.contains("113") && !printed.contains("Secret"),
        "{printed}"
    );
}
