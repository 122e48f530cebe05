//! Alerts as clients send them, and deliveries as receivers get them.

use serde_json::{Value, json};
use tally_api::alerts::body::{parse_alert, parse_silence};
use tally_api::alerts::request::{body_of, request_of};
use tally_core::alert::condition::{Bound, Measure, Reading};
use tally_wire::alerts::webhook::{Allowed, Reach};
use tally_wire::alerts::{AlertEvent, AlertPut, Delivery, EventKind, Secret, refusal_of};
use tally_wire::names::alert::AlertName;
use tally_wire::problem::{Code, Problem};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

fn whole() -> Value {
    json!({
        "counter": "orders", "when": {"value": {"above": 10}}, "webhook": "https://hooks.example.com/", "secret": SECRET
    })
}

fn parse(body: &Value) -> Result<AlertPut, Problem> {
    parse_alert(body.to_string().as_bytes(), &Allowed::default())
}

#[test]
fn everything_that_can_be_watched_is_read() {
    let table = [
        ("counter", json!({"value": {"above": 10, "below": -5}})),
        ("counter", json!({"rate_per_minute": {"below": 10}})),
        ("counter", json!({"count_in": {"seconds": 90, "above": 10}})),
        (
            "counter",
            json!({"uniques_in": {"seconds": 2_592_000, "above": 10}}),
        ),
        ("counter", json!({"silent_for": {"seconds": 60}})),
        ("prefix", json!({"value": {"above": 10}})),
        ("prefix", json!({"rate_per_minute": {"above": 10}})),
        (
            "prefix",
            json!({"count_in": {"seconds": 7_200, "above": 10}}),
        ),
        ("prefix", json!({"silent_for": {"seconds": 600}})),
        (
            "policy",
            json!({"refused_in": {"seconds": 600, "above": 0}}),
        ),
        (
            "policy",
            json!({"allowed_percent_in": {"seconds": 600, "below": 90}}),
        ),
        ("policy", json!({"count_in": {"seconds": 600, "below": 90}})),
        ("policy", json!({"rate_per_minute": {"below": 90}})),
        ("policy", json!({"silent_for": {"seconds": 600}})),
        ("counter", json!({"digest": {"every": "day"}})),
        ("prefix", json!({"digest": {"every": "week"}})),
        ("policy", json!({"digest": {"every": "day"}})),
    ];
    for (watched, when) in table {
        let mut body = whole();
        body.as_object_mut().expect("an object").remove("counter");
        body[watched] = "x".into();
        body["when"] = when.clone();
        let read = parse(&body).unwrap_or_else(|problem| panic!("{body}: {problem}"));
        // The body of a delivery has the condition and the subject of the alert.
        let event = AlertEvent {
            kind: EventKind::Test,
            incident: 1,
            since_ms: 2,
            alert: read.alert,
            reading: Reading::unknown(""),
            digest: None,
        };
        let name = AlertName::parse("a").expect("a name");
        let payload: Value =
            serde_json::from_str(&body_of(&Delivery::new(name, event, 3), 4)).expect("JSON");
        assert_eq!((&payload["when"], &payload[watched]), (&when, &"x".into()));
    }
}

#[test]
fn whole_numbers_are_read_in_any_form_that_json_allows() {
    let read = |when: &str, for_seconds: &str| {
        let body = format!(
            r#"{{"counter":"a","when":{when},"for_seconds":{for_seconds},"webhook":"https://hooks.example.com/","secret":"{SECRET}"}}"#
        );
        parse_alert(body.as_bytes(), &Allowed::default()).expect(&body)
    };
    let plain = read(
        r#"{"count_in":{"seconds":60,"above":100,"below":-20}}"#,
        "60",
    );
    let others = read(
        r#"{"count_in":{"seconds":6e1,"above":1e2,"below":-20.0}}"#,
        "60.0",
    );
    assert_eq!(others, plain);
    let most = read(r#"{"value":{"above":9007199254740991}}"#, "0");
    assert_eq!(most.alert.condition.above, Some(9_007_199_254_740_991));
    assert_eq!(parse_silence(br#"{"for_seconds":6e1}"#), Ok(60));
}

/// What makes an alert invalid where it is changed by it, and the code of its refusal.
const WRONG: &[(&str, Code)] = &[
    (r#"{"counter":null}"#, Code::InvalidBody),
    (r#"{"prefix":"a"}"#, Code::InvalidBody),
    (r#"{"policy":"a"}"#, Code::InvalidBody),
    (r#"{"counter":".."}"#, Code::InvalidId),
    (r#"{"when":{}}"#, Code::InvalidBody),
    (r#"{"when":{"value":{}}}"#, Code::InvalidBody),
    (r#"{"when":{"value":{"above":1.5}}}"#, Code::InvalidBody),
    (
        r#"{"when":{"value":{"above":5,"below":6}}}"#,
        Code::InvalidBody,
    ),
    (r#"{"when":{"value":{"above":null}}}"#, Code::InvalidBody),
    (
        r#"{"when":{"value":{"above":9007199254740992}}}"#,
        Code::InvalidBody,
    ),
    (
        r#"{"when":{"value":{"above":1,"seconds":60}}}"#,
        Code::InvalidBody,
    ),
    (r#"{"when":{"value":{"over":1}}}"#, Code::UnknownField),
    (r#"{"when":{"mean":{"above":1}}}"#, Code::UnknownField),
    (
        r#"{"when":{"value":{"above":1},"count_in":{"seconds":60,"above":1}}}"#,
        Code::InvalidBody,
    ),
    (r#"{"when":{"count_in":{"above":1}}}"#, Code::InvalidBody),
    (
        r#"{"when":{"count_in":{"seconds":59,"above":1}}}"#,
        Code::InvalidBody,
    ),
    (
        r#"{"when":{"count_in":{"seconds":2592001,"above":1}}}"#,
        Code::InvalidBody,
    ),
    (
        r#"{"when":{"silent_for":{"seconds":60,"above":1}}}"#,
        Code::InvalidBody,
    ),
    (r#"{"when":{"silent_for":{}}}"#, Code::InvalidBody),
    (
        r#"{"when":{"refused_in":{"seconds":60,"above":1}}}"#,
        Code::InvalidBody,
    ),
    (r#"{"for_seconds":86401}"#, Code::InvalidBody),
    (r#"{"for_seconds":-1}"#, Code::InvalidBody),
    (
        r#"{"webhook":"http://hooks.example.com/"}"#,
        Code::WebhookNotAllowed,
    ),
    (
        r#"{"webhook":"https://127.0.0.1/"}"#,
        Code::WebhookNotAllowed,
    ),
    (r#"{"secret":"abc"}"#, Code::InvalidBody),
    (r#"{"secret":"whsec_AAAA"}"#, Code::InvalidBody),
    (
        r#"{"secret":"whsec_!fKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}"#,
        Code::InvalidBody,
    ),
    (r#"{"colour":1}"#, Code::UnknownField),
];

#[test]
fn what_is_no_alert_is_refused() {
    for (change, code) in WRONG {
        let change: Value = serde_json::from_str(change).expect("JSON");
        let mut body = whole();
        for (name, value) in change.as_object().expect("an object") {
            body[name] = value.clone();
        }
        let refused = parse(&body).expect_err(&body.to_string());
        assert_eq!(refused.code(), *code, "{body}: {refused}");
        assert!(!refused.detail().contains("whsec_M"), "{refused}");
    }
    for (watched, when) in [
        ("prefix", json!({"uniques_in": {"seconds": 60, "above": 1}})),
        (
            "prefix",
            json!({"count_in": {"seconds": 5_000, "above": 1}}),
        ),
        (
            "prefix",
            json!({"count_in": {"seconds": 90_000, "above": 1}}),
        ),
        ("policy", json!({"value": {"above": 1}})),
        ("policy", json!({"uniques_in": {"seconds": 60, "above": 1}})),
    ] {
        let webhook = "https://hooks.example.com/";
        let body = json!({watched: "x", "when": when, "webhook": webhook, "secret": SECRET});
        assert!(parse(&body).is_err(), "{body}");
    }
}

#[test]
fn a_refusal_says_what_to_send_and_names_no_type_of_the_source() {
    let why = |when: Value| {
        let mut body = whole();
        body["when"] = when;
        parse(&body).expect_err("no alert").detail().to_owned()
    };
    for (when, says) in [
        (json!({"value": 10}), r#"such as {"above":1000}"#),
        (json!("value"), r#"such as {"value":{"above":1000}}"#),
        (
            json!({"silent_for": {"seconds": -1}}),
            "expected a whole number from 0 to 2^64 - 1 (column",
        ),
        (
            json!({"value": {"above": 1.5}}),
            "a threshold is a whole number of at most",
        ),
    ] {
        let detail = why(when.clone());
        assert!(detail.contains(says), "{when}: {detail}");
    }
}

#[test]
fn a_silence_has_its_length_and_is_30_days_at_most() {
    let refused = parse_silence(b"").expect_err("nothing");
    assert_eq!(refused.detail(), "there is none: send an object: `{…}`");
    assert!(parse_silence(br#"{"for_seconds":2592001}"#).is_err());
    assert_eq!(parse_silence(br#"{"for_seconds":0}"#), Ok(0));
}

#[test]
fn names_are_those_of_paths() {
    for name in ["a", "A-b_c.d:e", "1", &"x".repeat(64)] {
        assert!(AlertName::parse(name).is_ok(), "{name}");
    }
    for name in ["", ".", "..", "a b", "a/b", "é", &"x".repeat(65)] {
        assert!(AlertName::parse(name).is_err(), "{name}");
    }
}

/// The signature was made with Python's hmac.
#[test]
fn deliveries_are_signed_as_standard_webhooks_says() {
    let put = parse(&whole()).expect("an alert");
    let secret = Secret::parse(SECRET).expect("a secret");
    assert_eq!(format!("{secret:?} {put:?}").matches("MfKQ").count(), 0);
    let event = AlertEvent {
        kind: EventKind::Firing,
        incident: 255,
        since_ms: 1_000,
        alert: put.alert.clone(),
        reading: Reading {
            value: Some(11),
            bound: Bound::Whole,
            as_of_ms: Some(2_000),
            is_exact: true,
            missing: String::new(),
        },
        digest: None,
    };
    assert_eq!(put.alert.condition.measure, Measure::Value);
    let delivery = Delivery::new(AlertName::parse("many").expect("a name"), event, 3_000);
    let request = request_of(
        &delivery,
        ("https://hooks.example.com/", Reach::Public),
        &secret,
        1_614_265_330_999,
    );
    let body = r#"{"type":"alert.firing","alert":"many","state":"firing","id":"alert_00000000000000ff_firing","incident":"00000000000000ff","counter":"orders","when":{"value":{"above":10}},"value":11,"threshold":10,"as_of":2000,"exact":true,"changed_at":1000,"sent_at":1614265330999}"#;
    assert_eq!(String::from_utf8(request.body).expect("text"), body);
    let header = |name: &str| {
        let mut headers = request.headers.iter();
        headers
            .find(|(known, _)| *known == name)
            .map(|(_, value)| value.as_str())
    };
    assert_eq!(header("webhook-id"), Some("alert_00000000000000ff_firing"));
    assert_eq!(header("webhook-timestamp"), Some("1614265330"));
    assert_eq!(
        header("webhook-signature"),
        Some("v1,3O1vflP5glMNL/XsOZCjZ+6oURI3mwpXyMCM9mOaweM=")
    );
    assert_eq!(header("content-type"), Some("application/json"));
}

#[test]
fn only_2xx_acknowledges_and_redirects_are_named() {
    for status in [200, 201, 202, 204, 299] {
        assert_eq!(refusal_of(status), None);
    }
    for status in [0, 300, 301, 302, 307, 308, 399] {
        assert!(
            refusal_of(status)
                .expect("refused")
                .contains("not followed")
        );
    }
    for status in [100, 400, 401, 404, 410, 429, 500, 503] {
        assert!(
            refusal_of(status)
                .expect("refused")
                .contains(&status.to_string())
        );
    }
}
