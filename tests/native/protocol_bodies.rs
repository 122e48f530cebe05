//! Law: settings are read whole or refused with the field's name; what is absent is the default.

use tally_api::bodies::{BODY_BYTES_MAX, BULK_BYTES_MAX, DRAIN_BYTES_MAX, parse_settings};
use tally_core::counter::settings::{TTL_SECONDS_MAX, TtlMode};
use tally_wire::messages::Put;
use tally_wire::problem::Code;

fn body(shards: Option<u8>, ttl: Option<(u64, TtlMode)>) -> Put {
    Put {
        shards,
        ttl,
        ..Put::default()
    }
}

#[test]
fn settings_are_read() {
    let fixed = TtlMode::Fixed;
    let most = format!(r#"{{"ttl_seconds":{TTL_SECONDS_MAX},"ttl_mode":"fixed"}}"#);
    for (json, expected) in [
        ("", body(None, None)),
        (" \n", body(None, None)),
        ("{}", body(None, None)),
        (
            r#"{"shards":null,"ttl_seconds":null,"ttl_mode":null}"#,
            body(None, None),
        ),
        (r#"{"shards":"auto"}"#, body(None, None)),
        (r#"{"shards":1}"#, body(Some(1), None)),
        (r#" { "shards" : 64 } "#, body(Some(64), None)),
        (r#"{"shards":4.0}"#, body(Some(4), None)),
        (r#"{"ttl_seconds":1}"#, body(None, Some((1, fixed)))),
        (&most, body(None, Some((TTL_SECONDS_MAX, fixed)))),
        (
            r#"{"shards":4,"ttl_seconds":60,"ttl_mode":"sliding"}"#,
            body(Some(4), Some((60, TtlMode::Sliding))),
        ),
    ] {
        assert_eq!(parse_settings(json.as_bytes()), Ok(expected), "{json}");
    }
}

#[test]
fn each_power_of_two_up_to_64_is_a_number_of_shards() {
    for shards in 0..=300_u16 {
        let json = format!(r#"{{"shards":{shards}}}"#);
        let expected = [1, 2, 4, 8, 16, 32, 64].contains(&shards);
        let read = parse_settings(json.as_bytes());
        assert_eq!(read.is_ok(), expected, "{shards}");
        if let Err(problem) = read {
            assert_eq!(problem.code(), Code::InvalidBody);
        }
    }
}

#[test]
fn what_does_not_fit_is_refused_with_its_code() {
    let too_long = format!(r#"{{"ttl_seconds":{}}}"#, TTL_SECONDS_MAX + 1);
    for (json, code) in [
        ("{", Code::InvalidJson),
        ("{}x", Code::InvalidJson),
        ("nonsense", Code::InvalidJson),
        (r#"{"shards":01}"#, Code::InvalidJson),
        ("[]", Code::InvalidBody),
        ("null", Code::InvalidBody),
        ("4", Code::InvalidBody),
        (r#"["auto",1,"fixed"]"#, Code::InvalidBody),
        (r#"{"shard":1}"#, Code::UnknownField),
        (r#"{"shards":1,"Shards":1}"#, Code::UnknownField),
        (r#"{"shards":1,"shards":1}"#, Code::InvalidBody),
        (r#"{"shards":"4"}"#, Code::InvalidBody),
        (r#"{"shards":"AUTO"}"#, Code::InvalidBody),
        (r#"{"shards":4.5}"#, Code::InvalidBody),
        (r#"{"shards":-4}"#, Code::InvalidBody),
        (r#"{"shards":true}"#, Code::InvalidBody),
        (r#"{"shards":[4]}"#, Code::InvalidBody),
        (r#"{"ttl_seconds":0}"#, Code::InvalidBody),
        (r#"{"ttl_seconds":-1}"#, Code::InvalidBody),
        (r#"{"ttl_seconds":1.5}"#, Code::InvalidBody),
        (r#"{"ttl_seconds":"60"}"#, Code::InvalidBody),
        (&too_long, Code::InvalidBody),
        (r#"{"ttl_mode":"fixed"}"#, Code::InvalidBody),
        (
            r#"{"ttl_seconds":60,"ttl_mode":"Fixed"}"#,
            Code::InvalidBody,
        ),
        (r#"{"ttl_seconds":60,"ttl_mode":0}"#, Code::InvalidBody),
    ] {
        let refused = parse_settings(json.as_bytes()).expect_err(json);
        assert_eq!(refused.code(), code, "{json}: {}", refused.detail());
    }
    let not_text = parse_settings(b"{\"shards\":\"\xff\"}").expect_err("no UTF-8");
    assert_eq!(not_text.code(), Code::InvalidJson);
}

#[test]
fn an_unknown_field_is_named() {
    let refused = parse_settings(br#"{"ttl":60}"#).expect_err("unknown");
    assert!(refused.detail().contains("`ttl`"), "{}", refused.detail());
}

#[test]
fn limits_of_bodies_stand() {
    let mebibyte = 1 << 20;
    let limits = (BODY_BYTES_MAX, BULK_BYTES_MAX, DRAIN_BYTES_MAX);
    assert_eq!(limits, (mebibyte, 32 * mebibyte, 64 * mebibyte));
}
