//! Law: a body is a policy or a check with every value in its range, or a refusal that names the field.

use serde_json::{Value, json};
use tally_api::limits::{
    CHECKS_MAX, HoldId, check_cost, check_takes, parse_check, parse_checks, parse_hold,
    parse_policy, parse_settlement, policy_json,
};
use tally_core::callers::refused_key::kept_of_key;
use tally_core::limit::policy::{Algorithm, Durability, OnError, Policy, Scope};
use tally_wire::names::policy::{POLICY_NAME_BYTES_MAX, PolicyName};
use tally_wire::problem::Code;

fn name(text: &str) -> PolicyName {
    PolicyName::parse(text).expect("a policy's name")
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}

#[test]
fn no_address_of_a_refused_key_is_kept() {
    for (key, kept) in [
        ("bob", "bob"),
        ("user:42", "user:42"),
        ("203.0.113.9", "203.0.113.0/24"),
        ("ip:203.0.113.9", "ip:203.0.113.0/24"),
        ("login/203.0.113.9:8080", "login/203.0.113.0/24:8080"),
        ("203.0.113.9,198.51.100.7", "203.0.113.0/24,198.51.100.0/24"),
        ("::ffff:203.0.113.9", "203.0.113.0/24"),
        ("2001:db8:1:2::3", "2001:db8:1::/48"),
        ("user:2001:DB8:1:2::3", "user:2001:db8:1::/48"),
        ("[2001:db8:1:2::3]:443", "[2001:db8:1::/48]:443"),
        ("::1", "::/48"),
        ("1.2.3", "1.2.3"),
        ("é:::", "é:::"),
        // What stands before or after may look like a part of the address.
        ("login.203.0.113.9", "login.203.0.113.0/24"),
        ("node203.0.113.9edge", "node203.0.113.0/24edge"),
        ("203.0.113.9.", "203.0.113.0/24."),
        ("203.0.113.9.example", "203.0.113.0/24.example"),
        ("v1.203.0.113.9", "v1.203.0.0/24"),
        (
            "page:2a02:8109:9a40:1b2c:3d4e:5f60:7a8b:9c0d",
            "page:2a02:8109::/48",
        ),
        (
            "user-7:2a02:8109:9a40:1b2c:3d4e:5f60:7a8b:9c0d",
            "user-7:2a02:8109::/48",
        ),
        (
            "42:2a02:8109:9a40:1b2c:3d4e:5f60:7a8b:9c0d/x",
            "42:2a02:8109::/48/x",
        ),
        (
            "2a02:8109:9a40:1b2c:3d4e:5f60:7a8b:9c0d:443",
            "2a02:8109:9a40::/48",
        ),
    ] {
        assert_eq!(kept_of_key(key), kept);
    }
    let long = format!("{}é", "k".repeat(255));
    assert_eq!(kept_of_key(&long), "k".repeat(255));
}

/// The last half of an address is in no text that is kept, whatever stands beside it.
#[test]
fn an_address_beside_anything_is_not_kept() {
    let beside = [
        "", ":", ".", "::", "a", "f:", "7:", "42.", "x", "1::", "::1", "443", ":443", "a1:b2:",
        "0.",
    ];
    let addresses = [
        ("198.51.100.217", "100.217"),
        ("2a02:8109:9a40:1b2c:3d4e:5f60:7a8b:9c0d", "1b2c"),
        ("2a02:8109:9a40:1b2c:3d4e:5f60:7a8b:9c0d", "7a8b"),
        ("2a02:8109::1b2c:9c0d", "1b2c"),
        ("64:ff9b::198.51.100.217", "100.217"),
    ];
    for (before, after) in beside
        .iter()
        .flat_map(|before| beside.map(|after| (before, after)))
    {
        for (address, secret) in addresses {
            let key = format!("{before}{address}{after}");
            let kept = kept_of_key(&key);
            assert!(!kept.contains(secret), "{key} is kept as {kept}");
        }
    }
}

#[test]
fn a_policy_has_the_defaults_that_the_description_names() {
    let policy = parse_policy(br#"{"limit":100,"window_seconds":60}"#).expect("a policy");
    assert_eq!(policy, Policy::sliding(100, 60));
    let expected = json!({
        "policy": "login", "limit": 100, "window_seconds": 60, "algorithm": "sliding-window",
        "scope": "datacenter", "on_error": "open", "shadow": false, "precise": false,
        "durability": "memory",
    });
    assert_eq!(parsed(&policy_json(&name("login"), &policy)), expected);
}

#[test]
fn a_check_that_brings_its_policy_is_counted_by_a_name_that_no_client_can_say() {
    let named = name("login");
    let kinds = [
        Policy::sliding(7, 60),
        Policy::sliding(7, 2_592_000),
        Policy {
            is_precise: true,
            ..Policy::sliding(7, 60)
        },
        Policy {
            algorithm: Algorithm::FixedWindow,
            ..Policy::sliding(7, 60)
        },
        Policy {
            algorithm: Algorithm::TokenBucket,
            ..Policy::sliding(7, 60)
        },
    ];
    let mut names = vec![named.clone()];
    for (policy, has_key) in kinds.iter().flat_map(|kind| [(kind, true), (kind, false)]) {
        let counted = named.counted_inline(policy, has_key);
        assert!(PolicyName::parse(counted.as_str()).is_err());
        assert!(!names.contains(&counted), "{counted}");
        // A message may hold it.
        let sent = serde_json::to_string(&counted).expect("JSON");
        assert_eq!(
            serde_json::from_str::<PolicyName>(&sent).expect("a name"),
            counted
        );
        let other = Policy {
            limit: 9,
            ..policy.clone()
        };
        assert_eq!(
            named.counted_inline(&other, has_key),
            counted,
            "another limit"
        );
        names.push(counted);
    }
    for text in ["~s60", "a~s25920000", "a~s~6", "a b~s6"] {
        assert!(
            serde_json::from_value::<PolicyName>(json!(text)).is_err(),
            "{text}"
        );
    }
}

#[test]
fn a_policy_that_is_told_can_be_sent_again() {
    let sent =
        br#"{"limit":7,"window_seconds":2592000,"algorithm":"token-bucket","burst":1000000000,
        "scope":"global","on_error":"closed","shadow":true,"durability":"commit"}"#;
    let policy = parse_policy(sent).expect("a policy");
    let expected = Policy {
        limit: 7,
        window_ms: 2_592_000_000,
        algorithm: Algorithm::TokenBucket,
        burst: 1_000_000_000,
        scope: Scope::Global,
        on_error: OnError::Closed,
        is_shadow: true,
        is_precise: false,
        durability: Durability::Commit,
    };
    assert_eq!(policy, expected);
    let mut json = parsed(&policy_json(&name("p"), &policy));
    json.as_object_mut().expect("an object").remove("policy");
    let again = parse_policy(json.to_string().as_bytes()).expect("a policy");
    assert_eq!(again, policy);
}

/// Bodies that are no policy, the code of their refusal, and what it names.
const WRONG: &[(&str, Code, &str)] = &[
    ("", Code::InvalidPolicy, "limit"),
    ("{}", Code::InvalidPolicy, "limit"),
    (r#"{"limit":1}"#, Code::InvalidPolicy, "window_seconds"),
    (
        r#"{"limit":0,"window_seconds":1}"#,
        Code::InvalidPolicy,
        "limit",
    ),
    (
        r#"{"limit":1000000001,"window_seconds":1}"#,
        Code::InvalidPolicy,
        "1000000000",
    ),
    (
        r#"{"limit":1,"window_seconds":0}"#,
        Code::InvalidPolicy,
        "window_seconds",
    ),
    (
        r#"{"limit":1,"window_seconds":2592001}"#,
        Code::InvalidPolicy,
        "2592000",
    ),
    (
        r#"{"limit":1,"window_seconds":18446744073709551615}"#,
        Code::InvalidPolicy,
        "2592000",
    ),
    (
        r#"{"limit":-1,"window_seconds":1}"#,
        Code::InvalidBody,
        "-1",
    ),
    (
        r#"{"limit":1.5,"window_seconds":1}"#,
        Code::InvalidBody,
        "1.5",
    ),
    (
        r#"{"limit":"1","window_seconds":1}"#,
        Code::InvalidBody,
        "string",
    ),
    (
        r#"{"limit":1,"window_seconds":1,"burst":2}"#,
        Code::InvalidPolicy,
        "token-bucket",
    ),
    (
        r#"{"limit":1,"window_seconds":1,"algorithm":"token-bucket","burst":0}"#,
        Code::InvalidPolicy,
        "burst",
    ),
    (
        r#"{"limit":1001,"window_seconds":1,"precise":true}"#,
        Code::InvalidPolicy,
        "1000",
    ),
    (
        r#"{"limit":1,"window_seconds":1,"precise":true,"algorithm":"fixed-window"}"#,
        Code::InvalidPolicy,
        "precise",
    ),
    (
        r#"{"limit":1,"window_seconds":1,"algorithm":"leaky"}"#,
        Code::InvalidPolicy,
        "sliding-window",
    ),
    (
        r#"{"limit":1,"window_seconds":1,"scope":"world"}"#,
        Code::InvalidPolicy,
        "global",
    ),
    (
        r#"{"limit":1,"window_seconds":1,"cost":1}"#,
        Code::UnknownField,
        "cost",
    ),
    (
        r#"{"limit":1,"window_seconds":1,"key":"a"}"#,
        Code::UnknownField,
        "key",
    ),
    (
        r#"{"limit":1,"window_seconds":1,"windw":1}"#,
        Code::UnknownField,
        "windw",
    ),
    (r#"{"limit":1,"#, Code::InvalidJson, "EOF"),
    ("[]", Code::InvalidBody, "object"),
];

#[test]
fn what_is_wrong_with_a_policy_is_named() {
    for (sent, code, reason) in WRONG {
        let problem = parse_policy(sent.as_bytes()).expect_err(sent);
        assert_eq!(problem.code(), *code, "{sent}: {problem}");
        assert!(problem.detail().contains(reason), "{sent}: {problem}");
    }
}

#[test]
fn a_check_costs_one_unless_it_says_more() {
    for sent in ["", " ", "{}", r#"{"cost":1}"#] {
        let check = parse_check(sent.as_bytes()).expect("a check");
        assert_eq!((check.cost, check.policy), (1, None), "{sent}");
    }
    let check = parse_check(br#"{"cost":3,"limit":5,"window_seconds":1}"#).expect("a check");
    assert_eq!((check.cost, check.policy), (3, Some(Policy::sliding(5, 1))));
    for (sent, code) in [
        (r#"{"cost":0}"#, Code::InvalidCost),
        (r#"{"cost":-1}"#, Code::InvalidBody),
        (r#"{"cost":null}"#, Code::InvalidBody),
        (r#"{"cost":1,"policy":"a"}"#, Code::UnknownField),
        (r#"{"checks":[]}"#, Code::UnknownField),
        (r#"{"cost":1,"limit":5}"#, Code::InvalidPolicy),
    ] {
        let problem = parse_check(sent.as_bytes()).expect_err(sent);
        assert_eq!(problem.code(), code, "{sent}: {problem}");
    }
}

#[test]
fn a_cost_is_at_most_what_a_policy_holds() {
    let policy = Policy::sliding(10, 60);
    assert!(check_cost(&name("p"), &policy, 10).is_ok());
    let problem = check_cost(&name("p"), &policy, 11).expect_err("too much");
    assert_eq!(problem.code(), Code::CostExceedsLimit);
    let bucket = Policy {
        algorithm: Algorithm::TokenBucket,
        burst: 3,
        ..policy
    };
    assert!(check_cost(&name("p"), &bucket, 4).is_err());
}

#[test]
fn several_checks_are_read_whole_or_refused_by_number() {
    let many = |count: usize| {
        let one = json!({"policy": "p", "key": "a"});
        json!({ "checks": vec![one; count] }).to_string()
    };
    assert_eq!(
        parse_checks(many(CHECKS_MAX).as_bytes())
            .map(|(lines, _)| lines)
            .expect("checks")
            .len(),
        CHECKS_MAX
    );
    for (sent, code, reason) in [
        (many(0), Code::InvalidBody, "1 to 100"),
        (many(CHECKS_MAX + 1), Code::InvalidBody, "1 to 100"),
        (
            r#"{"checks":[{"policy":"p","key":"a"},{"policy":"p"}]}"#.to_owned(),
            Code::InvalidBody,
            "check 2: key",
        ),
        (
            r#"{"checks":[{"policy":"a b","key":"a"}]}"#.to_owned(),
            Code::InvalidPolicy,
            "check 1",
        ),
        (
            r#"{"checks":[{"policy":"p","key":"a","cost":0}]}"#.to_owned(),
            Code::InvalidCost,
            "check 1",
        ),
        (
            r#"{"checks":[{"policy":"p","key":"a","checks":[]}]}"#.to_owned(),
            Code::UnknownField,
            "checks",
        ),
    ] {
        let problem = parse_checks(sent.as_bytes()).expect_err(&sent);
        assert_eq!(problem.code(), code, "{sent}: {problem}");
        assert!(problem.detail().contains(reason), "{sent}: {problem}");
    }
}

#[test]
fn a_policys_name_may_stand_in_a_path_and_in_a_header() {
    for good in ["a", "Login-2_b.c:d", &"x".repeat(POLICY_NAME_BYTES_MAX)] {
        assert_eq!(name(good).as_str(), good);
    }
    let long = "x".repeat(POLICY_NAME_BYTES_MAX + 1);
    for bad in [
        "",
        ".",
        "..",
        "a b",
        "a\"b",
        "ä",
        "a/b",
        "a\n",
        long.as_str(),
    ] {
        let problem = PolicyName::parse(bad).expect_err(bad);
        assert_eq!(problem.code(), Code::InvalidPolicy, "{bad:?}");
    }
}

#[test]
fn a_hold_has_its_values_in_range_or_is_refused() {
    let sliding = Policy::sliding(10, 60);
    let concurrency = parse_policy(br#"{"algorithm":"concurrency","limit":3,"ttl_seconds":30}"#)
        .expect("a policy");
    for (sent, amount, length_ms, of_concurrency_ms, is_returned) in [
        ("", 1, 60_000, 30_000, false),
        (
            r#"{"amount":7,"ttl_seconds":86400}"#,
            7,
            86_400_000,
            86_400_000,
            false,
        ),
        (r#"{"on_expiry":"release"}"#, 1, 60_000, 30_000, true),
    ] {
        let hold = parse_hold(sent.as_bytes()).expect(sent);
        assert_eq!(
            (hold.amount, hold.is_returned),
            (amount, is_returned),
            "{sent}"
        );
        let lengths = (hold.length_ms(&sliding), hold.length_ms(&concurrency));
        assert_eq!(lengths, (length_ms, of_concurrency_ms), "{sent}");
    }
    for (sent, code) in [
        (r#"{"amount":0}"#, Code::InvalidCost),
        (r#"{"ttl_seconds":0}"#, Code::InvalidBody),
        (r#"{"ttl_seconds":86401}"#, Code::InvalidBody),
        (r#"{"on_expiry":"never"}"#, Code::InvalidBody),
        (r#"{"amount":-1}"#, Code::InvalidBody),
        (r#"{"amount":null}"#, Code::InvalidBody),
        (r#"{"cost":1}"#, Code::UnknownField),
        (r#"{"limit":1}"#, Code::UnknownField),
        (r#"{"hold":{}}"#, Code::UnknownField),
    ] {
        assert_eq!(
            parse_hold(sent.as_bytes()).expect_err(sent).code(),
            code,
            "{sent}"
        );
    }
    assert_eq!(parse_settlement(b""), Ok(None));
    assert_eq!(parse_settlement(br#"{"amount":0}"#), Ok(Some(0)));
    for sent in [
        r#"{"amount":1000000001}"#,
        r#"{"ttl_seconds":1}"#,
        r#"{"amount":-1}"#,
    ] {
        assert!(parse_settlement(sent.as_bytes()).is_err(), "{sent}");
    }
}

#[test]
fn a_policy_of_concurrency_has_a_time_and_no_window() {
    let concurrency = parse_policy(br#"{"algorithm":"concurrency","limit":3,"ttl_seconds":30}"#)
        .expect("a policy");
    assert_eq!(
        (concurrency.algorithm, concurrency.window_ms),
        (Algorithm::Concurrency, 30_000)
    );
    let json = policy_json(&name("p"), &concurrency);
    assert!(
        json.contains(r#""ttl_seconds":30"#) && !json.contains("window_seconds"),
        "{json}"
    );
    let refused = check_takes(&name("p"), &concurrency).expect_err("it takes holds");
    assert_eq!(refused.code(), Code::NeedsHold);
    // A hold takes no policy with it.
    let calls = "PUT /limits/p if it is not stored, then POST /limits/p/{key}/holds";
    assert!(refused.detail().contains(calls), "{}", refused.detail());
    assert_eq!(check_takes(&name("p"), &Policy::sliding(1, 1)), Ok(()));
    for sent in [
        r#"{"algorithm":"concurrency","limit":3}"#,
        r#"{"algorithm":"concurrency","limit":3,"ttl_seconds":0}"#,
        r#"{"algorithm":"concurrency","limit":3,"ttl_seconds":1,"window_seconds":1}"#,
        r#"{"algorithm":"concurrency","limit":3,"ttl_seconds":1,"burst":1}"#,
        r#"{"limit":3,"window_seconds":1,"ttl_seconds":1}"#,
    ] {
        assert!(parse_policy(sent.as_bytes()).is_err(), "{sent}");
    }
}

#[test]
fn an_id_of_a_hold_is_32_digits() {
    let id = HoldId([0x0f; 16]);
    assert_eq!(HoldId::parse(&id.to_string()), Some(id));
    let zeros = "0".repeat(32);
    assert_eq!(HoldId::parse(&zeros).map(|id| id.to_string()), Some(zeros));
    for text in [
        "",
        "0f",
        &"F".repeat(32),
        &"g".repeat(32),
        &"0".repeat(33),
        &format!("+{}", "0".repeat(31)),
    ] {
        assert_eq!(HoldId::parse(text), None, "{text}");
    }
}
