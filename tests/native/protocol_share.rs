//! Tokens of shares: nobody makes one up; and what a share may say.

use tally_api::share::{SHARE_SECONDS_MAX, SHARE_SECONDS_MIN, parse_share, share_json};
use tally_core::sketch::HashKey;
use tally_wire::problem::Code;
use tally_wire::rights::{Share, ShareId, ShareToken, share_token};

const ID: ShareId = ShareId(0x6d1f_0c9f_0b7a_4c21);

fn key(byte: u8) -> HashKey {
    HashKey::from([byte; 16])
}

fn signed(text: &str, names: &HashKey) -> Option<ShareId> {
    ShareToken::of(&format!("Bearer {text}")).and_then(|token| token.signed(names))
}

#[test]
fn a_token_is_good_for_its_own_deployment_and_id_alone() {
    let own = share_token(&key(1), ID);
    assert_eq!(
        own,
        "share_6d1f0c9f0b7a4c21_a3d77afedbd7afe0ae37e73f4b452cf7"
    );
    assert_eq!(signed(&own, &key(1)), Some(ID));
    assert_eq!(signed(&own, &key(2)), None);
    // Each character of the tag counts, and so does each of the id.
    for place in "share_".len()..own.len() {
        let mut other = own.clone().into_bytes();
        other[place] = if other[place] == b'0' { b'1' } else { b'0' };
        let other = String::from_utf8(other).expect("text");
        assert_eq!(signed(&other, &key(1)), None, "{other}");
    }
    for text in [
        &own[..own.len() - 1],
        &format!("{own}0"),
        "share_",
        "share__",
        "",
        &own.to_uppercase(),
    ] {
        assert_eq!(signed(text, &key(1)), None, "{text}");
    }
    assert_eq!(ShareToken::of(&own), None);
    assert_eq!(ShareToken::of(&format!("Basic {own}")), None);
    assert!(ShareToken::of(&format!("bearer  {own}")).is_some());
}

#[test]
fn a_share_reads_so() {
    let share = parse_share(br#"{"prefix":"blog/ \u00e4"}"#, 1_000).expect("a share");
    let json = share_json(&key(1), ID, &share);
    let share_token = share_token(&key(1), ID);
    assert_eq!(
        json,
        format!(
            r#"{{"id":"6d1f0c9f0b7a4c21","prefix":"blog/ ä","name":"","created_at":1000,"expires_at":null,"token":"{share_token}","url":"/dashboard/#/share/{share_token}?prefix=blog%2F+%C3%A4"}}"#
        )
    );
    let body = br#"{"prefix":"","name":"all","expires_in_seconds":60}"#;
    let ends = parse_share(body, 1_000).expect("a share");
    assert_eq!(
        ends,
        Share {
            prefix: String::new(),
            name: "all".to_owned(),
            created_ms: 1_000,
            expires_ms: Some(61_000),
        }
    );
    assert!(!ends.has_expired(60_999) && ends.has_expired(61_000));
}

#[test]
fn what_is_no_share_is_refused() {
    let long = |bytes: usize| "x".repeat(bytes);
    for body in [
        "[]".to_owned(),
        "{}".to_owned(),
        r#"{"prefix":1}"#.to_owned(),
        r#"{"prefix":"a\n"}"#.to_owned(),
        r#"{"prefix":"limits/login"}"#.to_owned(),
        format!(r#"{{"prefix":"{}"}}"#, long(513)),
        format!(r#"{{"prefix":"","name":"{}"}}"#, long(65)),
        format!(
            r#"{{"prefix":"","expires_in_seconds":{}}}"#,
            SHARE_SECONDS_MIN - 1
        ),
        format!(
            r#"{{"prefix":"","expires_in_seconds":{}}}"#,
            SHARE_SECONDS_MAX + 1
        ),
    ] {
        let refused = parse_share(body.as_bytes(), 0).expect_err(&body);
        assert_eq!(refused.code(), Code::InvalidBody, "{body}");
    }
    let unknown = parse_share(br#"{"prefix":"","scopes":["admin"]}"#, 0).expect_err("unknown");
    assert_eq!(unknown.code(), Code::UnknownField);
}
