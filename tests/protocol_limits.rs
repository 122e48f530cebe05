//! Law: a body is a policy or a check with every value in its range, or a refusal that names the field; what a verdict
//! says in JSON it says in headers; checks that share a message get their own verdicts, in order of arrival.
#![expect(
    clippy::expect_used,
    reason = "the helpers of a test fail it by panicking"
)]

use proptest::prelude::*;
use serde_json::{Value, json};
use tally::counter::cargo::Cargo;
use tally::counter::id::{CounterId, Datacenter};
use tally::counter::lane::BATCH_ENTRIES_MAX;
use tally::limit::meter::Verdict;
use tally::limit::policy::{Algorithm, Durability, OnError, Policy, Scope};
use tally::protocol::limits::batch::{Batch, DEMANDS_MAX};
use tally::protocol::limits::{
    CHECKS_MAX, Judgement, POLICY_NAME_BYTES_MAX, PolicyName, check_cost, many_json, parse_check,
    parse_checks, parse_policy, policy_json, refused_many_json,
};
use tally::protocol::messages::{Judged, Wish};
use tally::protocol::problem::Code;

fn name(text: &str) -> PolicyName {
    PolicyName::parse(text).expect("a policy's name")
}

fn key(text: &str) -> CounterId {
    CounterId::parse(text).expect("a key")
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}

#[test]
fn a_policy_has_the_defaults_that_the_description_names() {
    let policy = parse_policy(br#"{"limit":100,"window_seconds":60}"#).expect("a policy");
    assert_eq!(policy, Policy::sliding(100, 60));
    let said = json!({
        "policy": "login", "limit": 100, "window_seconds": 60, "algorithm": "sliding-window",
        "scope": "datacenter", "on_error": "open", "shadow": false, "precise": false,
        "durability": "memory",
    });
    assert_eq!(parsed(&policy_json(&name("login"), &policy)), said);
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
    let mut told = parsed(&policy_json(&name("p"), &policy));
    told.as_object_mut().expect("an object").remove("policy");
    let again = parse_policy(told.to_string().as_bytes()).expect("a policy");
    assert_eq!(again, policy);
}

#[test]
fn what_is_wrong_with_a_policy_is_named() {
    let cases = [
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
    for (sent, code, said) in cases {
        let problem = parse_policy(sent.as_bytes()).expect_err(sent);
        assert_eq!(problem.code(), code, "{sent}: {problem}");
        assert!(problem.detail().contains(said), "{sent}: {problem}");
    }
}

#[test]
fn a_check_costs_one_unless_it_says_more() {
    for sent in ["", " ", "{}", r#"{"cost":1}"#] {
        let asked = parse_check(sent.as_bytes()).expect("a check");
        assert_eq!((asked.cost, asked.policy), (1, None), "{sent}");
    }
    let asked = parse_check(br#"{"cost":3,"limit":5,"window_seconds":1}"#).expect("a check");
    assert_eq!((asked.cost, asked.policy), (3, Some(Policy::sliding(5, 1))));
    for (sent, code) in [
        (r#"{"cost":0}"#, Code::InvalidCost),
        (r#"{"cost":-1}"#, Code::InvalidBody),
        (r#"{"cost":null,"policy":"a"}"#, Code::UnknownField),
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
            .expect("checks")
            .len(),
        CHECKS_MAX
    );
    for (sent, code, said) in [
        (many(0), Code::InvalidBody, "1 to 100"),
        (many(CHECKS_MAX + 1), Code::InvalidBody, "1 to 100"),
        (
            r#"{"checks":[{"policy":"p","key":"a"},{"policy":"p"}]}"#.to_owned(),
            Code::InvalidBody,
            "check 2: key",
        ),
        (
            r#"{"checks":[{"policy":"a b","key":"a"}]}"#.to_owned(),
            Code::InvalidId,
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
        assert!(problem.detail().contains(said), "{sent}: {problem}");
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
        assert_eq!(problem.code(), Code::InvalidId, "{bad:?}");
    }
}

fn verdict(is_allowed: bool) -> Verdict {
    Verdict {
        is_allowed,
        limit: 100,
        remaining: 50,
        reset_ms: 29_001,
        retry_after_ms: if is_allowed { 0 } else { 30_500 },
    }
}

#[test]
fn json_and_headers_say_the_same() {
    let (login, user, here) = (name("login"), key("u"), Datacenter::local());
    let policy = Policy::sliding(100, 60);
    let judgement = |policy, verdict| Judgement {
        name: &login,
        key: &user,
        policy,
        datacenter: &here,
        verdict,
    };
    let admitted = judgement(&policy, Some(verdict(true)));
    assert!(admitted.is_allowed());
    assert_eq!(admitted.policy_item(), r#""login";q=100;w=60"#);
    assert_eq!(
        admitted.limit_item().as_deref(),
        Some(r#""login";r=50;t=30"#)
    );
    assert_eq!(admitted.retry_after_seconds(), None);
    let said = json!({
        "allowed": true, "limit": 100, "remaining": 50, "reset_ms": 29001, "retry_after_ms": 0,
        "policy": "login", "datacenter": "LOCAL",
    });
    assert_eq!(parsed(&admitted.to_json()), said);

    let refused = judgement(&policy, Some(verdict(false)));
    assert_eq!(refused.retry_after_seconds(), Some(31));
    let problem = parsed(&refused.refused_json());
    assert_eq!(
        problem["type"],
        "https://iana.org/assignments/http-problem-types#quota-exceeded"
    );
    assert_eq!(problem["violated-policies"], json!(["login"]));
    assert_eq!(
        (
            &problem["status"],
            &problem["code"],
            &problem["retry_after_ms"]
        ),
        (&json!(429), &json!("quota-exceeded"), &json!(30500))
    );

    let shadow = Policy {
        is_shadow: true,
        ..policy.clone()
    };
    let watched = judgement(&shadow, Some(verdict(false)));
    assert!(watched.is_allowed());
    assert_eq!(watched.retry_after_seconds(), None);
    assert_eq!(
        parsed(&watched.to_json())["shadow"],
        json!({"would_allow": false})
    );

    let closed = Policy {
        on_error: OnError::Closed,
        ..policy.clone()
    };
    assert!(!judgement(&closed, None).is_allowed());
    let open = judgement(&policy, None);
    assert!(open.is_allowed());
    assert_eq!(open.limit_item(), None);
    let told = parsed(&open.to_json());
    assert_eq!(
        (&told["degraded"], &told["remaining"]),
        (&json!(true), &Value::Null)
    );

    let both = [admitted, refused];
    assert_eq!(parsed(&many_json(&both))["allowed"], json!(false));
    let problem = parsed(&refused_many_json(&both));
    assert_eq!(problem["violated-policies"], json!(["login"]));
    assert_eq!(problem["checks"][1]["key"], "u");
}

#[test]
fn retry_after_is_never_before_quota_returns() {
    let (login, user, here) = (name("login"), key("u"), Datacenter::local());
    let policy = Policy::sliding(100, 60);
    for (reset_ms, retry_after_ms, seconds) in
        [(1, 1, 1), (1_000, 1, 1), (1_001, 1, 2), (1, 2_001, 3)]
    {
        let judgement = Judgement {
            name: &login,
            key: &user,
            policy: &policy,
            datacenter: &here,
            verdict: Some(Verdict {
                reset_ms,
                retry_after_ms,
                ..verdict(false)
            }),
        };
        assert_eq!(judgement.retry_after_seconds(), Some(seconds));
    }
}

/// Judges a batch as a limiter does, by one count for each key.
fn judged(batch: &Batch, limit: u64) -> Vec<Judged> {
    let mut used = std::collections::BTreeMap::new();
    let judge = |demand: &tally::protocol::messages::Demand| {
        let used: &mut u64 = used.entry(demand.key.clone()).or_default();
        let mut admitted = 0;
        let mut first = None;
        for _ in 0..demand.times {
            if *used + demand.cost > limit {
                break;
            }
            *used += demand.cost;
            admitted += 1;
            first = first.or(Some(Verdict {
                remaining: limit - *used,
                ..verdict(true)
            }));
        }
        Judged::Known {
            admitted,
            first,
            refused: (admitted < demand.times).then_some(verdict(false)),
        }
    };
    batch.demands.iter().map(judge).collect()
}

proptest! {
    #[test]
    fn each_check_of_a_message_gets_its_own_verdict(
        sent in prop::collection::vec((0u8..4, 1u64..4), 1..200),
        limit in 0u64..60,
    ) {
        let policy = Policy::sliding(1_000, 60);
        let mut batch: Option<Batch> = None;
        let mut places = Vec::new();
        for (number, cost) in &sent {
            let one = Batch::of(&name("p"), &policy, &key(&number.to_string()), *cost, Wish::Consume);
            match batch.as_mut() {
                Some(batch) => prop_assert!(batch.absorb(&one)),
                None => batch = Some(one),
            }
            places.push(batch.as_ref().map(Cargo::place).expect("a batch"));
        }
        let batch = batch.expect("a batch");
        prop_assert!(batch.demands.len() <= 12, "equal demands are counted, not repeated");
        let judged = judged(&batch, limit);
        let mut spent = [0u64; 4];
        let mut seen = std::collections::HashSet::new();
        for ((number, cost), place) in sent.iter().zip(places) {
            prop_assert!(seen.insert((place.ask, place.ordinal)), "two checks have one place");
            let verdict = judged[place.ask].verdict_of(place.ordinal, *cost).expect("a verdict");
            if verdict.is_allowed {
                spent[usize::from(*number)] += cost;
                prop_assert_eq!(verdict.remaining + cost <= limit, true);
            }
        }
        prop_assert!(spent.iter().all(|spent| *spent <= limit));
    }
}

#[test]
fn a_message_has_at_most_so_many_demands() {
    let policy = Policy::sliding(1, 1);
    let mut batch = Batch::of(&name("p"), &policy, &key("0"), 1, Wish::Consume);
    for number in 1..DEMANDS_MAX {
        assert!(batch.entries() < BATCH_ENTRIES_MAX, "{number}");
        let one = Batch::of(
            &name("p"),
            &policy,
            &key(&number.to_string()),
            1,
            Wish::Consume,
        );
        assert!(batch.absorb(&one));
    }
    assert!(batch.entries() >= BATCH_ENTRIES_MAX);
}
