//! A client has one address, however it is written; what is no address is none.

use tally_logs::address::parse;

#[test]
fn one_client_has_one_spelling() {
    for (text, expected) in [
        ("203.0.113.9", "203.0.113.9"),
        (" 203.0.113.9 ", "203.0.113.9"),
        ("203.0.113.9:42918", "203.0.113.9"),
        ("203.0.113.9, 10.0.0.5", "203.0.113.9"),
        ("203.0.113.9:80,10.0.0.5:90", "203.0.113.9"),
        ("::ffff:203.0.113.9", "203.0.113.9"),
        ("::FFFF:cb00:7109", "203.0.113.9"),
        ("[::ffff:203.0.113.9]:80", "203.0.113.9"),
        ("64:ff9b::203.0.113.9", "203.0.113.9"),
        ("2001:0DB8:0000:0000:0000:0000:0000:0001", "2001:db8::1"),
        ("2001:db8::1", "2001:db8::1"),
        ("[2001:db8::1]", "2001:db8::1"),
        ("[2001:db8::1]:5000", "2001:db8::1"),
        ("[2001:db8::1%eth0]:5000", "2001:db8::1"),
        ("2001:db8::1%25eth0", "2001:db8::1"),
        ("2001:db8:0:1:0:0:0:1", "2001:db8:0:1::1"),
        ("[2001:db8::1]:5000, 10.0.0.5", "2001:db8::1"),
    ] {
        assert_eq!(parse(text).expect(text).to_string(), expected, "{text}");
    }
}

#[test]
fn what_is_no_address_is_none() {
    for text in [
        "",
        "-",
        "unknown",
        "Nov",
        "www.example.com",
        "www.example.com:443",
        "203.0.113",
        "203.0.113.999",
        "203.0.113.9.",
        "203.0.113.9:",
        "203.0.113.9:http",
        "203.0.113.9:99999",
        "203.0.113.9 10.0.0.5",
        "[::1",
        "[::1]x",
        "::g",
        "1",
        "0x6.6.6.6",
        "unknown, 203.0.113.9",
        "\"203.0.113.9\"",
        "unix:",
    ] {
        assert_eq!(parse(text), None, "{text}");
    }
}

#[test]
fn addresses_are_those_of_the_clients_fixture() {
    let fixture = include_str!("../../../../tests/fixtures/addresses.json");
    let cases: Vec<serde_json::Value> = serde_json::from_str(fixture).unwrap();
    assert!(cases.len() > 20);
    for case in cases {
        let address = parse(case["input"].as_str().unwrap()).map(|address| address.to_string());
        assert_eq!(address.as_deref(), case["address"].as_str(), "{case}");
    }
}
