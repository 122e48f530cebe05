//! Laws of overrides as clients see them: a body is an override of its policy or a refusal that says what to send
//! instead, and an answer says what a key is promised.

use serde_json::{Value, json};
use tally_api::export::{Line, parse_line};
use tally_api::limits::{
    CheckResult, OverriddenBy, override_json, override_line, overrides_json, parse_override,
};
use tally_core::counter::id::{CounterId, Datacenter};
use tally_core::limit::meter::Verdict;
use tally_core::limit::policy::overrides::{Override, OverrideEffect};
use tally_core::limit::policy::{Algorithm, Policy};
use tally_wire::names::override_pattern::OverridePattern;
use tally_wire::names::policy::PolicyName;
use tally_wire::problem::Code;

const NOW_MS: i64 = 1_780_000_000_000;

fn name() -> PolicyName {
    PolicyName::parse("login").expect("a policy's name")
}

fn pattern(text: &str) -> OverridePattern {
    OverridePattern::parse(text).expect("a pattern")
}

fn policy(algorithm: Algorithm) -> Policy {
    Policy {
        algorithm,
        ..Policy::sliding(100, 60)
    }
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}

#[test]
fn a_pattern_is_a_key_or_the_beginning_of_keys_with_a_star_at_its_end() {
    for (text, parts) in [
        ("acme", ("acme", false)),
        ("acme-*", ("acme-", true)),
        ("*", ("", true)),
        ("é/ü*", ("é/ü", true)),
        (".*", (".", true)),
    ] {
        let pattern = pattern(text);
        assert_eq!((pattern.as_str(), pattern.parts()), (text, parts));
        assert_eq!(OverridePattern::of(parts.0, parts.1).as_ref(), Ok(&pattern));
        let read = serde_json::from_str::<OverridePattern>(&json!(text).to_string());
        assert_eq!(read.expect("a pattern of a message"), pattern);
    }
    let long = "a".repeat(512);
    assert!(OverridePattern::parse(long.as_str()).is_ok());
    for (text, why) in [
        ("a*b*", "several stars"),
        ("**", "several stars"),
        ("a*b", "not at its end"),
        ("*a", "not at its end"),
        ("", "no key"),
        (".", "no key"),
        ("a\u{7}", "no key"),
        ("a\u{7}*", "control characters"),
        (&format!("{long}a"), "no key"),
        (&format!("{long}*"), "512 bytes"),
    ] {
        let refused = OverridePattern::parse(text).expect_err("no pattern");
        assert_eq!(refused.code(), Code::InvalidPattern, "{text:?}");
        assert!(
            refused.detail().contains(why),
            "{text:?}: {}",
            refused.detail()
        );
        assert!(serde_json::from_str::<OverridePattern>(&json!(text).to_string()).is_err());
    }
    assert!(pattern("acme-*").matches("acme-7") && !pattern("acme-*").matches("acme"));
    assert!(pattern("acme").matches("acme") && !pattern("acme").matches("acme-7"));
}

#[test]
fn a_body_is_an_override() {
    let limited = |limit, window_ms, burst| OverrideEffect::Limited {
        limit,
        window_ms,
        burst,
    };
    for (algorithm, body, effect) in [
        (
            Algorithm::SlidingWindow,
            json!({"limit": 5}),
            limited(Some(5), None, None),
        ),
        (
            Algorithm::FixedWindow,
            json!({"limit": 5.0, "window_seconds": 6e1}),
            limited(Some(5), Some(60_000), None),
        ),
        (
            Algorithm::TokenBucket,
            json!({"burst": 7}),
            limited(None, None, Some(7)),
        ),
        (
            Algorithm::Concurrency,
            json!({"ttl_seconds": 9}),
            limited(None, Some(9_000), None),
        ),
        (
            Algorithm::SlidingWindow,
            json!({"unlimited": true}),
            OverrideEffect::Unlimited,
        ),
        (
            Algorithm::SlidingWindow,
            json!({"blocked": true, "unlimited": false}),
            OverrideEffect::Blocked,
        ),
    ] {
        let policy = policy(algorithm);
        let read = parse_override(body.to_string().as_bytes(), &policy, NOW_MS);
        let over = Override {
            effect,
            ends_ms: None,
        };
        assert_eq!(read, Ok(over), "{body}");
        let json = parsed(&override_json(&name(), &policy, &pattern("acme-*"), &over));
        for (field, value) in body.as_object().expect("an object") {
            let is_told = *value != json!(false);
            assert_eq!(json.get(field).is_some(), is_told, "{field} of {json}");
        }
        assert_eq!(
            (&json["policy"], &json["pattern"]),
            (&json!("login"), &json!("acme-*"))
        );
    }
    for (end, ends_ms) in [
        (json!(1_790_000_000), 1_790_000_000_000),
        (json!("2026-09-21T13:33:20.5Z"), 1_789_997_600_000),
        (json!("2999-01-01T00:00:00+01:00"), 32_472_140_400_000),
    ] {
        let body = json!({"blocked": true, "ends_at": end}).to_string();
        let read = parse_override(body.as_bytes(), &policy(Algorithm::SlidingWindow), NOW_MS);
        assert_eq!(read.map(|over| over.ends_ms), Ok(Some(ends_ms)), "{body}");
    }
}

/// Reads a body, which must be refused by this code, in words that have these.
fn refuses(policy: &Policy, body: &Value, code: Code, why: &str) {
    let refused = parse_override(body.to_string().as_bytes(), policy, NOW_MS);
    let refused = refused.expect_err("refused");
    let told = (refused.code(), refused.detail());
    assert_eq!(told.0, code, "{body}: {}", told.1);
    assert!(told.1.contains(why), "{body}: {}", told.1);
}

#[test]
fn a_value_that_the_policy_cannot_have_is_refused_with_what_it_can() {
    use Algorithm::{Concurrency, SlidingWindow, TokenBucket};
    let precise = Policy {
        is_precise: true,
        ..policy(SlidingWindow)
    };
    let [sliding, bucket, holds] = [SlidingWindow, TokenBucket, Concurrency].map(policy);
    for (policy, field, value, why) in [
        (&sliding, "limit", 0, "\"blocked\": true"),
        (&sliding, "limit", 1_000_000_001, "limit must be"),
        (&sliding, "window_seconds", 0, "window_seconds must be"),
        (&sliding, "window_seconds", u64::MAX, "window_seconds must"),
        (&precise, "limit", 1_001, "1 to 1000"),
        (&sliding, "burst", 5, "token-bucket"),
        (&bucket, "burst", 0, "burst must be"),
        (&sliding, "ttl_seconds", 5, "has window_seconds"),
        (&holds, "window_seconds", 5, "has ttl_seconds"),
        (&holds, "ttl_seconds", 86_401, "86400"),
    ] {
        refuses(policy, &json!({ field: value }), Code::InvalidOverride, why);
    }
}

#[test]
fn a_body_that_says_nothing_or_two_things_or_what_is_past_is_refused() {
    let sliding = policy(Algorithm::SlidingWindow);
    for (body, why) in [
        (json!({}), "an override needs"),
        (json!({"ends_at": 1_790_000_000}), "an override needs"),
        (json!({"unlimited": false}), "an override needs"),
        (json!({"unlimited": true, "limit": 5}), "unlimited or limit"),
        (json!({"blocked": true, "burst": 5}), "blocked or burst"),
        (json!({"blocked": true, "unlimited": true}), "not both"),
        (json!({"limit": 5, "ends_at": 1_780_000_000}), "is past"),
        (json!({"limit": 5, "ends_at": "2020-01-01"}), "is past"),
    ] {
        refuses(&sliding, &body, Code::InvalidOverride, why);
    }
    for (body, why) in [
        (json!({"limit": 5, "ends_at": "soon"}), "soon"),
        (json!({"limit": null}), "null"),
        (json!({"limit": -1}), "whole number"),
        (json!([5]), ""),
    ] {
        refuses(&sliding, &body, Code::InvalidBody, why);
    }
    for field in ["scope", "algorithm", "on_error", "shadow", "ends"] {
        let body = json!({"limit": 5, field: "global"});
        refuses(&sliding, &body, Code::UnknownField, field);
    }
    let refused = parse_override(b"", &sliding, NOW_MS).expect_err("nothing is not JSON");
    assert_eq!(refused.code(), Code::InvalidJson);
}

#[test]
fn a_line_of_an_export_is_read_as_the_same_override() {
    let limited = OverrideEffect::Limited {
        limit: Some(5),
        window_ms: Some(9_000),
        burst: None,
    };
    for algorithm in [Algorithm::SlidingWindow, Algorithm::Concurrency] {
        let policy = policy(algorithm);
        for effect in [limited, OverrideEffect::Unlimited, OverrideEffect::Blocked] {
            for ends_ms in [None, Some(NOW_MS + 1_000), Some(253_402_300_799_000)] {
                let over = Override { effect, ends_ms };
                let line = override_line(&name(), algorithm, &pattern("a\"*"), &over);
                let Ok(Line::Override(of, text, body)) = parse_line(line.as_bytes(), NOW_MS) else {
                    panic!("{line} is no override");
                };
                assert_eq!((of.as_str(), text.as_str()), ("login", "a\"*"));
                assert_eq!(
                    parse_override(body.as_bytes(), &policy, NOW_MS),
                    Ok(over),
                    "{line}"
                );
            }
        }
    }
    let other = br#"{"policy":"login","override":"a","body":{},"limit":5}"#;
    let refused = parse_line(other, NOW_MS).expect_err("a field that no line has");
    assert_eq!(refused.code(), Code::UnknownField);
}

#[test]
fn a_page_has_entries_and_a_cursor() {
    let over = Override {
        effect: OverrideEffect::Blocked,
        ends_ms: Some(NOW_MS),
    };
    let page = [(pattern("a"), over)];
    let json = overrides_json(&name(), &policy(Algorithm::FixedWindow), &page, Some("a"));
    let entry = json!({"policy": "login", "pattern": "a", "blocked": true, "ends_at": NOW_MS});
    assert_eq!(parsed(&json), json!({"entries": [entry], "cursor": "a"}));
}

#[test]
fn an_answer_says_what_its_key_is_promised() {
    let (name, here) = (name(), Datacenter::local());
    let (key, pattern) = (
        CounterId::parse("acme-7").expect("a key"),
        pattern("acme-*"),
    );
    let policy = policy(Algorithm::SlidingWindow);
    let result = |effect, is_allowed| CheckResult {
        name: &name,
        key: &key,
        policy: &policy,
        over: Some(OverriddenBy {
            pattern: &pattern,
            effect,
        }),
        datacenter: &here,
        verdict: Some(Verdict {
            is_allowed,
            limit: 100,
            remaining: 0,
            reset_after_ms: 2_500,
            retry_after_ms: if is_allowed { 0 } else { 2_500 },
        }),
    };
    let unlimited = result(OverrideEffect::Unlimited, true);
    let json = parsed(&unlimited.to_json());
    let told = ["limit", "remaining", "override"].map(|field| &json[field]);
    assert_eq!(told, [&json!(null), &json!(null), &json!("acme-*")]);
    assert_eq!(
        (unlimited.policy_item(), unlimited.limit_item()),
        (None, None)
    );
    let blocked = result(OverrideEffect::Blocked, false);
    let json = parsed(&blocked.refused_json());
    let told = ["limit", "remaining", "override", "retry_after_ms"].map(|field| &json[field]);
    assert_eq!(
        told,
        [&json!(0), &json!(0), &json!("acme-*"), &json!(2_500)]
    );
    let detail = json["detail"].as_str().expect("a detail");
    assert!(detail.contains("the override acme-* of policy login blocks this key"));
    assert_eq!(
        blocked.policy_item().as_deref(),
        Some(r#""login";q=0;w=60"#)
    );
    assert_eq!(blocked.retry_after_seconds(), Some(3));
    let limited = OverrideEffect::Limited {
        limit: Some(100),
        window_ms: None,
        burst: None,
    };
    let json = parsed(&result(limited, false).refused_json());
    assert_eq!(
        (&json["limit"], &json["override"]),
        (&json!(100), &json!("acme-*"))
    );
}
